"""Find the page sizes with which a model would map a trace's files, at the end of the trace."""

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
    """A file, and how a mapping of the whole file looks: `found` has the class of each 2 MiB range (`rules.CLASSES`)."""

    file: int  # row of the trace's table of files
    path: str
    length: int  # bytes
    found: np.ndarray
    around: int  # number of small pages that one fault for a load maps
    extents: int = 0
    filling: int = 0  # load faults that map a missing page alone although an earlier fault mapped its neighbours
    whole_blocks: bool = False  # whether a fault for a store fills a hole of 2 MiB at once


def page_sizes(
    trace: "str | pathlib.Path | Source", fs: str, params: Mapping[str, Any], progress: Progress | None = None
) -> list[Mapped] | str:
    """Return how a model maps the files that a trace maps (all files if it maps none), or why the model has no mappings.

    Raises UsageError as `scmsim.replay` does.
    """
    if why := not_modelled(fs):
        return why
    source, _ = open_source(trace)
    asked = mapped_files(source)
    _, model = place(source, fs, params, progress)
    return laid_out(model, np.flatnonzero(asked if asked.any() else ~source.files.is_dir), source.files)


def not_modelled(fs: str) -> str:
    """Return why a file system's model has no mapped files; "" if the model has them."""
    module = registry.load("fs", fs)
    return "" if hasattr(module, "mapped") else str(getattr(module, "MAPPINGS", "the model has no mapped files"))


def mapped_files(source: Source) -> np.ndarray:
    """Return an array with a boolean for each file: whether the trace maps the file."""
    asked = np.zeros(len(source.files), bool)
    for batch in source.batches():
        asked[batch.file[(batch.op == MMAP) & (batch.file >= 0)]] = True
    return asked


def touched_files(source: Source) -> np.ndarray:
    """Return an array with a boolean for each file: whether the trace maps the file and touches the mapping.

    Most programs also map files (libraries) whose touches no trace records.
    """
    asked, touched = np.zeros(len(source.files), bool), np.zeros(len(source.files), bool)
    for batch in source.batches():
        known, maps = batch.file >= 0, batch.op == MMAP
        asked[batch.file[known & maps]] = True
        touched[batch.file[known & (np.isin(batch.op, (ULOAD, USTORE)) | (maps & (batch.flag & POPULATE > 0)))]] = True
    return asked & touched


def laid_out(model: Model, wanted: Iterable[int], files: Files) -> list[Mapped]:
    """Return some files as a model would map them now; leave out files that are gone or empty."""
    found = (_of_file(model, int(file), files.path[file]) for file in wanted)
    return [one for one in found if one is not None]


def _of_file(model: Model, file: int, path: str) -> Mapped | None:
    """Return a file's mapping; None for a file that is gone or empty."""
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
    if not dax:  # without DAX, the page cache's folios decide which 2 MiB one entry maps
        folio = np.zeros(pages, np.int64)
        kernels.folios(state.record, state.arena, file, folio)
        filling = _filling((places == 0) | (places & 1 == 1), folio, around) if in_memory else 0
        return Mapped(file, path, length, rules.cached_classes(0, length, folio), around, filling=filling)
    extents = rules.extents_of_pages(places)
    return Mapped(
        file, path, length, rules.classes(extents, length), around, len(extents.first), whole_blocks=whole_blocks
    )


def _filling(missing: np.ndarray, folio: np.ndarray, around: int) -> int:
    """Return how many faults of in-order loads map a missing page alone although an earlier fault mapped its neighbours.

    A huge page that is mapped by small entries is allocated at the fault on its first page, which that fault maps alone.
    """
    alone = missing & (folio != rules.FAN) & (np.arange(len(missing)) % around > 0)
    last = len(missing) // rules.FAN * rules.FAN
    comes = len(missing) > last + 1 and folio[last] == rules.FAN and missing[last]
    return int(alone.sum()) + int(comes)
