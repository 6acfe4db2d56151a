"""Compile the kernels that replays will need, several pieces at once, each in its own process.

Processes, because numba compiles one function at a time.  A piece is a file system, or the stages after it (STAGES).
Only the types of arguments decide what is compiled, so a few operations on one file suffice for any trace.  The
processes leave their kernels on disk, where the replay finds them.
"""

import contextlib
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from scmsim import footprint
from scmsim.core import registry
from scmsim.core.processes import processes
from scmsim.core.records import DIRECTORY, EVENT, OP, OP_COLUMNS, OPS, Files, Source
from scmsim.footprint.interleave import interleave
from scmsim.jit import compile_for, is_kept, keeps, kernels_of
from scmsim.medium import model as medium
from scmsim.medium import read
from scmsim.mmu import replay as mmu
from scmsim.pipeline.arguments import Progress, machine_table, model_params

STAGES = "the MMU"  # the only piece that is not a file system: MMU, paging and medium

# (operation, file, offset, length, other file): every operation of a model; those with which traces begin come first
_ROWS = (
    ("mkdir", 1, 0, 0, 0),
    ("create", 2, 0, 0, 1),
    ("open", 2, 0, 0, -1),
    ("write", 2, 0, 4096, -1),
    ("write", 2, 1000, 5000, -1),
    ("read", 2, 0, 4096, -1),
    ("fsync", 2, 0, 0, -1),
    ("stat", 2, 0, 0, -1),
    ("readdir", 1, 0, 0, -1),
    ("fallocate", 2, 8192, 4096, -1),
    ("truncate", 2, 4096, 0, -1),
    ("mmap", 2, 0, 4096, -1),
    ("store", 2, 0, 64, -1),
    ("load", 2, 0, 64, -1),
    ("flush", 2, 0, 64, -1),
    ("fence", -1, 0, 0, -1),
    ("msync", 2, 0, 4096, -1),
    ("madvise", 2, 0, 4096, -1),
    ("munmap", 2, 0, 4096, -1),
    ("link", 2, 0, 0, 1),
    ("rename", 2, 0, 0, -1),
    ("malloc", 3, 0, 4096, -1),
    ("mm_to_file", 3, 0, 4096, 2),
    ("file_to_mm", 2, 0, 4096, 3),
    ("free", 3, 0, 0, -1),
    ("close", 2, 0, 0, -1),
    ("unlink", 2, 0, 0, 1),
    ("rmdir", 1, 0, 0, 0),
    ("sync", -1, 0, 0, -1),
)  # fmt: skip
_DIRECTORIES = ("mkdir", "readdir", "rmdir")
_MAKES = ("create", "write")  # always included: other operations need the file that they make
_MACHINE, _MEDIUM = "i7-8700k", "nvdimm"  # any would do: all presets have the same types


def missing(names: Iterable[str], policies: Iterable[str]) -> list[str]:
    """Return the pieces (file systems, STAGES) that lack a compiled kernel on disk; [] if kernels cannot be stored."""
    if not keeps():
        return []
    placing = [registry.load("paging", policy).place for policy in policies]
    kept = {STAGES: [mmu._replay, interleave, medium.simulate, *placing]}
    for name in names:
        kept[name] = [first_kernel(name)]
    return [piece for piece, kernels in kept.items() if not all(map(is_kept, kernels))]


def compile_missing(
    names: Iterable[str],
    policies: Iterable[str],
    operations: Callable[[], Collection[str]],
    jobs: int,
    progress: Progress,
) -> None:
    """Compile the pieces that are not on disk, at most `jobs` at once, if there are two or more.

    `operations` returns the names of the operations to compile file systems for; it is called only if a piece is missing.
    """
    policies = sorted(policies)
    pieces = missing(sorted(names), policies) if jobs > 1 else []
    if len(pieces) > 1:
        compile_pieces(pieces, policies, operations(), jobs, progress)


def first_kernel(fs: str) -> Any:
    """Return the kernel that a file system's replay needs first, and that takes longest to compile."""
    return kernels_of(registry.load("fs", fs).emit)[0]


def compile_pieces(
    pieces: Sequence[str], policies: Sequence[str], operations: Collection[str], jobs: int, progress: Progress
) -> list[str]:
    """Compile pieces in at most `jobs` processes; for a file system, compile only the kernels that `operations` need.

    Return the pieces that were not compiled because a process died; the replay compiles these pieces itself.
    """
    running, total = list(pieces), len(pieces)
    with contextlib.suppress(BrokenProcessPool), processes(min(jobs, total)) as pool:
        pending = {pool.submit(build, piece, tuple(policies), tuple(operations)): piece for piece in pieces}
        progress(", ".join(running), 0, total)
        for future in as_completed(pending):
            future.result()
            running.remove(pending[future])
            progress(", ".join(running), total - len(running), total)
    return running


def build(piece: str, policies: Sequence[str], operations: Collection[str]) -> None:
    """Compile one piece in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parent process warns itself about kernels that it cannot keep
        if piece == STAGES:
            _stages(policies)
        else:
            _model(piece, operations)


def first_operations(source: Source) -> set[str]:
    """Return the names of the operations in a trace's first batch."""
    first = next(iter(source.batches()), None)
    return set() if first is None else {OPS[code] for code in np.unique(first["op"])}


def few_operations(operations: Collection[str]) -> tuple[np.recarray, Files]:
    """Return a batch with one row per named operation, plus the rows that make a file; and the files."""
    rows = [row for row in _ROWS if row[0] in operations or row[0] in _MAKES]
    batch = np.zeros(len(rows), OP).view(np.recarray)
    for i, (name, file, offset, length, other) in enumerate(rows):
        flag = DIRECTORY if name in _DIRECTORIES else 0
        batch[[*OP_COLUMNS]][i] = (1000 * i, offset, length, file, other, 0, flag, 0, OPS.index(name))
    side = Files(["/", "/d", "/d/f", "/m"], np.array([0, -1, -1, -1]), np.array([True, True, False, False]))
    return batch, side


def _model(name: str, operations: Collection[str]) -> None:
    """Compile a file system's kernels."""
    from scmsim.fs.engine.model import Model
    from scmsim.pipeline.stages import Loop

    batch, side = few_operations(operations)
    model = Model(name, model_params("fs", name, {}), side)
    Loop(model, [], side).take(batch)
    if hasattr(model.module, "collect") and len(operations) == len(OPS):  # few traces need garbage collection
        compile_for(model.module.collect, model.state.record, model.state.arena, model.out)
    model.space()


def _stages(policies: Sequence[str]) -> None:
    """Compile the stages after the file system by passing them an empty array of events."""
    from scmsim.pipeline.footprints import FootprintStage
    from scmsim.pipeline.stages import CounterIndex, Medium, Mmu, Placement

    batch, side = few_operations(())
    counting = CounterIndex(side, ["none"], "op")
    placed = [Placement(policy, model_params("paging", policy, {})) for policy in policies]
    machine, kind = machine_table(_MACHINE), read(_MEDIUM)
    alone = Mmu(machine, counting)
    none, bins = np.zeros(0, EVENT), np.zeros(0, np.int64)
    alone.take(none, bins)
    touched = footprint.load(footprint.kernels()[0], footprint.GENERAL, ["none"])
    touching = [FootprintStage(alone, touched, placed[0], side)] if placed else []
    for stage in (counting, *placed, *touching, Medium(kind, ["none"], counting)):
        stage.begin(batch)
        stage.take(none, bins)
        stage.done(batch)
