"""The page sizes that a trace's files would be mapped with on a model, at the end of the trace."""

import pathlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import registry
from scmsim.core.records import MMAP, POPULATE, ULOAD, USTORE, Files, Source
from scmsim.fs.engine.model import Model
from scmsim.pipeline import open_source, place
from scmsim.pipeline.arguments import Progress
from scmsim.study.page_size import rules


class Mapped(NamedTuple):
    """A file and its mapping as a whole: `found` has the class of each 2 MiB (`rules.CLASSES`)."""

    file: int  # row of the side table
    path: str
    length: int  # bytes
    found: np.ndarray
    around: int  # pages that a fault for a load maps, where it maps small ones
    extents: int = 0
    filling: int = 0  # faults for loads more, of pages that are missing behind mapped ones
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
    if why := not_modelled(fs):
        return why
    source, _ = open_source(trace)
    asked = mapped_files(source)
    _, model = place(source, fs, params, progress)
    return laid_out(model, np.flatnonzero(asked if asked.any() else ~source.files.is_dir), source.files)


def not_modelled(fs: str) -> str:
    """Why a file system's model has no mapped files; empty if it has."""
    module = registry.load("fs", fs)
    return "" if hasattr(module, "mapped") else str(getattr(module, "MAPPINGS", "the model has no mapped files"))


def mapped_files(source: Source) -> np.ndarray:
    """Whether a trace maps each file of its side table."""
    asked = np.zeros(len(source.files), bool)
    for batch in source.batches():
        asked[batch.file[(batch.op == MMAP) & (batch.file >= 0)]] = True
    return asked


def touched_files(source: Source) -> np.ndarray:
    """Whether a trace maps each file and touches what it mapped; most programs map files (libraries) whose touches no trace has."""
    asked, touched = np.zeros(len(source.files), bool), np.zeros(len(source.files), bool)
    for batch in source.batches():
        known, maps = batch.file >= 0, batch.op == MMAP
        asked[batch.file[known & maps]] = True
        touched[batch.file[known & (np.isin(batch.op, (ULOAD, USTORE)) | (maps & (batch.flag & POPULATE > 0)))]] = True
    return asked & touched


def laid_out(model: Model, wanted: Iterable[int], files: Files) -> list[Mapped]:
    """Some files as they lie on a model now; those that are gone or empty are left out."""
    found = (_of_file(model, int(file), files.path[file]) for file in wanted)
    return [one for one in found if one is not None]


def _of_file(model: Model, file: int, path: str) -> Mapped | None:
    """A file's mapping; None for a file that is gone or empty."""
    state, kernels = model.state, model.mapped.attached()
    length = int(kernels.size(state.record, state.arena, file))
    if length <= 0:
        return None
    dax, large, whole_blocks, around, in_memory = kernels.rules(state.record, state.arena)
    regions, pages = -(-length // rules.HUGE), -(-length // rules.PAGE)
    if not large:
        return Mapped(file, path, length, np.full(regions, rules.NEVER, np.uint8), around)
    places = np.zeros(pages, np.int64)
    kernels.places(state.record, state.arena, file, places)
    if not dax:  # the page cache has large folios, which hold what lies in the mapping
        folio = np.zeros(pages, np.int64)
        kernels.folios(state.record, state.arena, file, folio)
        filling = _filling((places == 0) | (places & 1 == 1), folio, around) if in_memory else 0
        return Mapped(file, path, length, rules.cached_classes(0, length, folio), around, filling=filling)
    extents = rules.extents_of_pages(places)
    return Mapped(
        file, path, length, rules.classes(extents, length), around, len(extents.first), whole_blocks=whole_blocks
    )


def _filling(missing: np.ndarray, folio: np.ndarray, around: int) -> int:
    """Faults for loads, one after the other, that find a page missing and map it alone, although one before mapped its neighbours.

    A huge page that a mapping takes by small entries comes with its first page, which is mapped alone.
    """
    alone = missing & (folio != rules.FAN) & (np.arange(len(missing)) % around > 0)
    last = len(missing) // rules.FAN * rules.FAN
    comes = len(missing) > last + 1 and folio[last] == rules.FAN and missing[last]
    return int(alone.sum()) + int(comes)
