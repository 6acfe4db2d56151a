"""The page sizes that a trace's files would be mapped with on a model, at the end of the trace."""

import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import MMAP, Source
from scmsim.fs.engine.model import Model
from scmsim.pipeline import model_params, open_source
from scmsim.pipeline.arguments import Progress
from scmsim.pipeline.stages import Loop
from scmsim.study.page_size import rules


class Mapped(NamedTuple):
    """A file and its mapping as a whole: `found` has the class of each 2 MiB (`rules.CLASSES`)."""

    path: str
    length: int  # bytes
    found: np.ndarray
    around: int  # pages that a fault for a load maps, where it maps small ones
    extents: int = 0
    # faults for loads more: one fills the holes of the last 2 MiB, where it stands behind mapped pages
    filling: int = 0
    whole_blocks: bool = False  # whether a fault for a store gives a hole 2 MiB at once


def page_sizes(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, Any], progress: Progress | None = None
) -> list[Mapped] | str:
    """The files that a trace maps, or all if it maps none; or why the model cannot tell.

    Parameters
    ----------
    trace : path or Source
    fs : str
        A file system of `scmsim list fs`.
    params : mapping
        Its parameters.

    Raises
    ------
    UsageError
        As `scmsim.replay`.
    """
    source, _ = open_source(trace)
    model = Model(fs, model_params("fs", fs, params), source.files)
    if model.mapped is None:
        return str(getattr(model.module, "MAPPINGS", "the model has no mapped files"))
    loop, asked = Loop(model, [], source.files), np.zeros(len(source.files), bool)
    done = 0
    for batch in source.batches():
        loop.take(batch)
        asked[batch.file[(batch.op == MMAP) & (batch.file >= 0)]] = True
        done += len(batch)
        if progress:
            progress(fs, done, source.rows)
    wanted = np.flatnonzero(asked if asked.any() else ~source.files.is_dir)
    found = (_of_file(model, int(file), source.files.path[file]) for file in wanted)
    return [one for one in found if one is not None]


def _of_file(model: Model, file: int, path: str) -> Mapped | None:
    """A file's mapping; None for a file that is gone or empty."""
    state, kernels = model.state, model.mapped.attached()
    length = int(kernels.size(state.record, state.arena, file))
    if length <= 0:
        return None
    dax, large, whole_blocks, around = kernels.rules(state.record, state.arena)
    regions, pages = -(-length // rules.HUGE), -(-length // rules.PAGE)
    if not large:
        return Mapped(path, length, np.full(regions, rules.NEVER, np.uint8), around)
    places = np.zeros(pages, np.int64)
    kernels.places(state.record, state.arena, file, places)
    if not dax:  # the page cache has large folios, which hold what lies in the mapping
        folio = np.zeros(pages, np.int64)
        kernels.folios(state.record, state.arena, file, folio)
        last = places[pages // rules.FAN * rules.FAN :]
        holes = np.flatnonzero((last == 0) | (last & 1 == 1))
        filling = int(bool((folio == rules.FAN).all()) and len(holes) > 0 and holes[0] % around > 0)
        return Mapped(path, length, rules.cached_classes(0, length, folio), around, filling=filling)
    extents = rules.extents_of_pages(places)
    return Mapped(path, length, rules.classes(extents, length), around, len(extents.first), whole_blocks=whole_blocks)
