"""Find the points of a sweep that cannot be run, by building each distinct set of models once, without a replay."""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import ScmsimError
from scmsim.core.records import Source
from scmsim.pipeline import open_source
from scmsim.sweep import point
from scmsim.sweep.point import Settings


class WithoutOperations:
    """A trace without its operations, whose replay only builds the models and checks their parameters."""

    def __init__(self, source: Source) -> None:
        self.header, self.files, self.rows = source.header, source.files, 0

    def batches(self, chunk: int = 0) -> Iterator[np.recarray]:
        """Return an empty iterator."""
        return iter(())


def failures(points: list[Settings]) -> list[tuple[Settings, str]]:
    """Return the points that cannot be run, each with the reason."""
    sources: dict[str, WithoutOperations | str] = {}
    broken: dict[str, str | None] = {}
    found = []
    for settings in points:
        replayed = {key: value for key, value in settings.items() if key.split(".")[0] in ("trace", "workload")}
        trace, models = repr(replayed), repr({key: value for key, value in settings.items() if key not in replayed})
        if trace not in sources:
            sources[trace] = _source(replayed)
        source = sources[trace]
        if not isinstance(source, str) and models not in broken:
            broken[models] = _broken(settings, source)
        reason = source if isinstance(source, str) else broken[models]
        if reason:
            found.append((settings, reason))
    return found


def _source(settings: Settings) -> WithoutOperations | str:
    try:
        return WithoutOperations(open_source(point.source(settings))[0])
    except ScmsimError as error:
        return str(error)


def _broken(settings: Settings, source: Source) -> str | None:
    try:
        point.evaluate(settings, source)
    except ScmsimError as error:
        return str(error)
    return None
