"""Make the `convert` of an importer: open the input and hand over what every import has."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scmsim.trace.reading.builder import TraceBuilder
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter


@dataclass(frozen=True)
class Import:
    """What every importer is given.

    Attributes
    ----------
    given : Input
        The opened input, read once, in blocks.
    writer : TraceWriter
        Receives the rows, and in its header the provenance that the input has.
    strict : bool
        Raise an error at the first line that cannot be understood, instead of counting such lines.
    progress : callable, optional
        Called with (bytes read, bytes in all).
    under : str, optional
        Absolute path: keep only files at or below this directory.
    """

    given: Input
    writer: TraceWriter
    strict: bool = False
    progress: Progress | None = None
    under: str | None = None

    def builder(self, granularity: str = "file", *, from_zero: bool = False) -> TraceBuilder:
        """Return a builder of the rows of this import."""
        return TraceBuilder(self, granularity, from_zero=from_zero)


def importer(convert: Callable[..., Report]) -> Callable[..., Report]:
    """Return `convert(path, writer, *, strict, progress, under, **params)`, which opens the input and calls the function given."""

    @functools.wraps(convert)
    def opened(
        path: str | os.PathLike[str] | Input,
        writer: TraceWriter,
        *,
        strict: bool = False,
        progress: Progress | None = None,
        under: str | None = None,
        **params: Any,
    ) -> Report:
        with Input.of(path) as given:
            return convert(Import(given, writer, strict, progress, under), **params)

    return opened
