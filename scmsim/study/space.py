"""Report the use of a device's space: the pages that a page-size policy or a file-system model allocates to each file.

A policy is replayed without file system, page table or MMU, so a trace of millions of operations takes a second.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scmsim.alloc import contiguity, frames, pages
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import OP, TRUNCATE, Files, Source
from scmsim.core.units import format_bytes
from scmsim.pipeline import Progress, model_params, open_source, place, reported
from scmsim.study.page_size.from_model import laid_out, not_modelled, touched_files
from scmsim.study.page_size.rules import HUGE, WHOLE

INODE_BYTES = 128  # bytes of an inode of PMFS and NOVA
EXTENT_BYTES = 16  # estimated bytes of an extent in an index: start and length of a run
TABLE_BYTES = 4096
_ENTRY_BYTES = 8  # bytes of a page-table entry
_NODES = 1 << 12
_FAN = 512  # number of entries of a page table
MIB = 1 << 20
GIANT = 1 << 30
LARGEST = 1 << 44  # bytes of the largest device; its bitmap takes 512 MiB


@dataclass
class Space:
    """A space report at the end of a trace."""

    name: str  # policy or file system
    total: dict[str, int]  # bytes and counts by name; docs/guide/space.md explains each
    # number of free runs by length, rounded down to a power of two bytes
    free_runs: dict[int, int] = field(default_factory=dict)
    # columns with one row per existing file: `file` (object id), `file_bytes`, `allocated_bytes`, `waste_bytes`; `pages` for a
    # policy; `extents` for a model that reports where blocks are; `mappable_2m_bytes` if the trace touches mapped files. Empty
    # if a model does not report files.  Files of an ageing run are left out
    files: dict[str, np.ndarray] = field(default_factory=dict)
    # extents of a model's files and of its free space (`scmsim.fs.engine.extents.EXTENT`); None if the model reports none
    extents: np.ndarray | None = field(default=None, repr=False)

    @property
    def file_runs(self) -> dict[int, int]:
        """Return the number of extents of files by length, rounded down to a power of two bytes."""
        return {} if self.extents is None else contiguity.histogram(_of_files(self.extents)["length"], 1)


def of_policy(
    trace: "str | pathlib.Path | Source",
    policy: str,
    params: Mapping[str, str | int] | None = None,
    *,
    aged: Source | None = None,
    progress: Progress | None = None,
) -> Space:
    """Replay a trace on a page-size policy (`scmsim list policy`) and report its space.

    `params` are the policy's, e.g. {"threshold": "1MiB"}.  `aged` is an ageing workload, which is replayed first on the same
    device with files of its own.
    Raises UsageError for an unknown name or parameter, or a trace that cannot be read; `NoRoom` if its initial files do not fit.
    """
    source, _ = open_source(trace)
    device = _Device(policy, params or {}, [s.files for s in (aged, source) if s])
    if aged:
        device.replay(aged, 0, None)
        device.forget()
    first = len(aged.files) if aged else 0
    device.adopt(source.files, first)
    device.replay(source, first, progress)
    return device.report(first, touched_files(source))


def of_fs(
    trace: "str | pathlib.Path | Source",
    fs: str,
    params: Mapping[str, str | int] | None = None,
    *,
    progress: Progress | None = None,
) -> Space:
    """Replay a trace on a file-system model alone and report its space; parameters and errors as for `of_policy`."""
    source, _ = open_source(trace)
    total, model = place(source, fs, params or {}, progress)
    free = contiguity.of_model(model.state.record[0], model.state.arena)
    histogram = contiguity.histogram(*free[1:]) if free else {}
    by_file = getattr(model.module, "by_file", None)
    files = by_file(model.state) if by_file else {}
    extents = model.extents()
    if extents is not None:
        total |= _contiguity(_of_files(extents))
        counts = np.bincount(_of_files(extents)["file"], minlength=len(source.files))
        files |= {"extents": counts[files["file"]]} if files else {}
    asked = touched_files(source)
    if asked.any() and not not_modelled(fs):
        found = laid_out(model, np.flatnonzero(asked), source.files)
        large = np.zeros(len(asked), np.int64)
        large[[one.file for one in found]] = [HUGE * int((one.found == WHOLE).sum()) for one in found]
        small = sum(int((one.found != WHOLE).sum()) for one in found)
        above = sum(-(-len(one.found) // _FAN) for one in found)
        total |= _mappings([one.length for one in found], large, (small + above) * TABLE_BYTES)
        files |= {"mappable_2m_bytes": large[files["file"]]} if files else {}
    return Space(fs, total, histogram, files, extents)


def _of_files(extents: np.ndarray) -> np.ndarray:
    """Return the extents of files, without the extents of free space."""
    return extents[extents["file"] >= 0]


def _contiguity(extents: np.ndarray) -> dict[str, int]:
    """Return the number of extents, and how many 2 MiB and 1 GiB pages can map written extents."""
    written = extents[~extents["unwritten"]]
    runs = written["logical"], written["physical"], written["length"]
    return {
        "extents": len(extents),
        "mappable_2m_pages": contiguity.mappable(*runs, HUGE),
        "mappable_1g_pages": contiguity.mappable(*runs, GIANT),
    }


def _mappings(lengths: Sequence[int], large: np.ndarray, tables: int) -> dict[str, int]:
    """Return the bytes of mapped files, of their parts on 2 MiB pages, and of page tables that map each file as a whole."""
    return {
        "mapped_files": len(lengths),
        "mapped_file_bytes": int(sum(lengths)),
        "mappable_2m_bytes": int(large.sum()),
        "mapping_table_bytes": tables,
    }


class NoRoom(UsageError):
    """Error for files that exist before a trace and do not fit on the device."""


class _Device:
    """A device under one policy."""

    def __init__(self, policy: str, given: Mapping[str, str | int], tables: list[Files]) -> None:
        self.name = policy
        params = model_params("policy", policy, given)
        rules = dict(registry.load("policy", policy).rules(params))
        unit = 1 << max(frames.HUGE, int(rules.get("order", 0)))
        count = int(params["capacity"]) // frames.FRAME // unit * unit
        if not unit <= count <= LARGEST // frames.FRAME:
            raise UsageError(
                f"{policy}.capacity = {format_bytes(int(params['capacity']))}; "
                f"use {format_bytes(unit * frames.FRAME)} to {format_bytes(LARGEST)}"
            )
        self.record = np.zeros(1, pages.STATE).view(np.recarray)
        state = self.record[0]
        state.super_order = pages.NO_SUPER
        boundary = min(int(rules.pop("boundary", 0)), count - (1 << frames.HUGE))
        for name, value in rules.items():
            state[name] = value
        self.bits = np.zeros(count // 64, np.int64)
        frames.attach(state, self.bits, boundary)
        self.files = np.zeros((sum(map(len, tables)), pages.FILE_WORDS), np.int64)
        self.files[:, pages.SIZE] = self.files[:, pages.TOP] = -1
        self.nodes = np.zeros((0, 4), np.int64)
        state.free_node = pages.NONE
        self._more_nodes(_NODES)
        self.forget()

    def _more_nodes(self, more: int) -> None:
        state, old = self.record[0], len(self.nodes)
        self.nodes = np.concatenate([self.nodes, np.zeros((max(more, old), 4), np.int64)])
        self.nodes[old:, pages.BELOW] = np.arange(old + 1, len(self.nodes) + 1)
        self.nodes[-1, pages.BELOW] = state.free_node
        state.free_node = old
        state.free_nodes += len(self.nodes) - old

    def forget(self) -> None:
        """Reset all counts to 0."""
        for name, _ in pages.COUNTS:
            self.record[0][name] = 0
        self.record[0].first_failed = -1

    def adopt(self, files: Files, first: int) -> None:
        """Create the files that exist before the trace, whose rows begin at `first`."""
        there = np.flatnonzero((np.asarray(files.first_size) >= 0) & ~np.asarray(files.is_dir))
        rows = np.zeros(len(there), OP)
        rows["op"], rows["file"], rows["new_size"] = TRUNCATE, there + first, np.asarray(files.first_size)[there]
        self.files[there + first, pages.NAMES] = 1
        self._feed(rows)
        if self.record[0].failed:
            raise NoRoom(self._no_room(rows, aged=first > 0))
        self.forget()

    def _no_room(self, rows: np.ndarray, aged: bool) -> str:
        """Return the error text: space that the files need, space left on the device, and the parameter to change."""
        state, page = self.record[0], frames.FRAME << int(self.record[0].order)
        wanted = int((-(-rows["new_size"] // page) * page).sum())
        left, whole = int(state.free.sum()) * frames.FRAME, len(self.bits) * 64 * frames.FRAME
        held = int(self.files[rows["file"], pages.HELD].sum()) * frames.FRAME
        return (
            f"the {len(rows):,} files that exist before the trace take {wanted / MIB:,.1f} MiB in pages of "
            f"{format_bytes(page)}, and {self.name} has {(left + held) / MIB:,.1f} of {whole / MIB:,.0f} MiB free for them; "
            f"{'age the device less (--aged), or ' if aged else ''}raise --set {self.name}.capacity=..."
        )

    def replay(self, source: Source, first: int, progress: Progress | None) -> None:
        """Replay all operations of a trace, whose files' rows begin at `first`."""
        for batch in reported(source, self.name, progress):
            rows = batch.view(np.ndarray)
            if first:
                rows = rows.copy()
                for name in ("file", "file2"):
                    rows[name] += np.where(rows[name] >= 0, first, 0)
            self._feed(rows)

    def _feed(self, rows: np.ndarray) -> None:
        i = 0
        while i < len(rows):
            i = pages.replay(self.record[0], (self.bits, self.files, self.nodes), rows, i)
            if i < len(rows):
                self._more_nodes(min(self._largest(rows[i]), int(self.record.free.sum())) + 8)

    def _largest(self, row: np.void) -> int:
        size = max(int(self.files[row["file"], pages.SIZE]), int(row["offset"]) + int(row["length"]))
        return max(-(-size // frames.FRAME), int(self.files[row["file"], pages.KEPT]))

    def report(self, first: int, asked: np.ndarray) -> Space:
        """Return the report: totals, and one row per file from row `first` on; `asked`: whether the trace maps each file."""
        state = self.record[0]
        held = np.zeros((len(self.files), frames.ORDERS), np.int64)
        runs = pages.totals(state, self.files, self.nodes, held)
        there = np.flatnonzero(self.files[:, pages.SIZE] >= 0)
        size, allocated = self.files[there, pages.SIZE], self.files[there, pages.HELD] * frames.FRAME
        by_order, kept = held.sum(0), self.files[there, pages.KEPT] * frames.FRAME
        kept = np.maximum(kept - size, 0) // frames.FRAME * frames.FRAME
        waste = (allocated - size - kept).clip(0)
        free = contiguity.runs(self.bits)
        entries = held.sum(1)[there] if not state.pieces else self.files[there, pages.HELD]
        total = {
            "capacity_bytes": len(self.bits) * 64 * frames.FRAME,
            "files": len(there),
            "live_bytes": int(size.sum()),
            "allocated_bytes": int(allocated.sum()),
            "waste_bytes": int(waste.sum()),
            "preallocated_bytes": int(kept.sum()),
            "metadata_bytes": len(there) * INODE_BYTES + runs * EXTENT_BYTES,
            "page_table_bytes": self._tables(self.files[:, pages.HELD], by_order),
            "tlb_entries": int(entries.sum()),
            "pages_4k": int(by_order[0]),
            "pages_2m": int(by_order[frames.HUGE]),
            "pages_1g": int(by_order[frames.GIANT]),
            "pages_other": int(by_order.sum() - by_order[[0, frames.HUGE, frames.GIANT]].sum()),
            **contiguity.of_runs(*free),
            "failed_operations": int(state.failed),
            "refused_although_free": int(state.refused_although_free),
            "missing_superpages": int(state.missing_pages),
            "missing_although_free": int(state.missing_although_free),
            "migrations": int(state.migrations),
            "migrated_bytes": int(state.migrated_frames) * frames.FRAME,
            "spilled_files": int(state.spilled),
        }
        shown = there >= first
        columns = {"file_bytes": size, "allocated_bytes": allocated, "waste_bytes": waste, "pages": entries}
        if asked.any():
            ours = np.append(np.zeros(first, bool), asked)[there]
            columns["mappable_2m_bytes"] = np.zeros(len(there), np.int64)
            more, columns["mappable_2m_bytes"][ours] = self._mapped(there[ours], held)
            total |= more
        by_file = {"file": there[shown] - first, **{name: column[shown] for name, column in columns.items()}}
        return Space(self.name, total, contiguity.histogram(free[1]), by_file)

    def _mapped(self, files: np.ndarray, held: np.ndarray) -> tuple[dict[str, int], np.ndarray]:
        """Return (totals of the mapped files, bytes of each that entries of 2 MiB or more map); `files` are rows."""
        large = (held[files, frames.HUGE :] << np.arange(frames.HUGE, frames.ORDERS)).sum(1) * frames.FRAME
        if self.record[0].pieces:  # a virtual superpage has an entry for each frame
            large[:] = 0
        large, sizes = np.minimum(large, self.files[files, pages.SIZE]), self.files[files, pages.SIZE].tolist()
        return _mappings(sizes, large, self._tables(self.files[files, pages.HELD], held[files].sum(0))), large

    def _tables(self, held: np.ndarray, by_order: np.ndarray) -> int:
        """Return the bytes of page tables: whole tables of leaf entries, shared by files, and a level above for each 512 tables.

        `held` has the frames of each file, `by_order` the number of pages of all files by order.  A page between two hardware
        sizes has as many entries as it has pages of the smaller size (alias entries of TPS); a virtual superpage has its own table.
        """
        if self.record[0].pieces:
            tables = int((-(-held // (1 << frames.HUGE))).sum())
        else:
            entries = by_order << np.arange(frames.ORDERS) % 9
            levels = [int(entries[first : first + 9].sum()) * _ENTRY_BYTES for first in (0, 9, 18)]
            tables = sum(-(-level // TABLE_BYTES) for level in levels)
        return (tables + -(-tables // _FAN)) * TABLE_BYTES


def rows_by_file(space: Space, files: Files) -> Iterator[dict[str, Any]]:
    """Yield a dict per file with its path and its columns of the report, files with the most waste first."""
    if not space.files:
        return
    for i in np.argsort(-space.files["waste_bytes"], kind="stable"):
        row = {name: int(column[i]) for name, column in space.files.items()}
        yield {"path": files.path[row["file"]], **row}
