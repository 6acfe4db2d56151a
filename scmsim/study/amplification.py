"""Compute the write amplification of pure update schemes for a trace: bytes stored for the same writes, at four levels.

Units: bytes.  A scheme is a formula over one write [offset, offset + length) of a file that had `size` bytes.  It stores runs,
each of which is written back and fenced on its own; unlike in the file-system models, nothing is combined across runs or calls.
Levels and definitions: docs/guide/write-amplification.md.  Source of copy-on-write and MCoW (multi-grained copy-on-write): VSM
paper (2020), II.A and III.B; of the other schemes: their textbook definition, with headers as in the constants below.
"""

import pathlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import SETUP, TRUNCATE, UNLINK, WRITE, Source
from scmsim.core.units import format_bytes

PAGE, LINE, GRANULES = 4096, 64, (64, 256, 4096)
POINTER = 8  # bytes of a pointer of an index, of a log's tail, of a log's state
HEADER = 64  # bytes of the header of a log record: address, length, transaction, commit
ENTRY = 64  # bytes of the entry that a log-structured file system logs for one write
REPLACEMENT = 16  # bytes of an entry of MCoW's log: <destination, source>
GRAINS = (4 << 10, 2 << 20, 1 << 30)


class Writes(NamedTuple):
    """All writes of a trace as arrays: offset, length, and size of the file before the write."""

    offset: np.ndarray
    length: np.ndarray
    before: np.ndarray


@dataclass
class Run:
    """Runs that a scheme stores for each write: `count` runs of `length` bytes that begin `at` bytes into a granule."""

    kind: str  # "data" or "metadata"
    length: np.ndarray | int
    count: np.ndarray | int = 1
    at: np.ndarray | int = 0


Scheme = Callable[[Writes], list[Run]]


def in_place(w: Writes) -> list[Run]:
    """Store just the written bytes."""
    return [Run("data", w.length, 1, w.offset)]


def cow(grain: int) -> Scheme:
    """Return copy-on-write: copy each `grain`-byte page with old bytes to a fresh page, then store its pointer.

    Pages without old bytes are written in place.
    """

    def scheme(w: Writes) -> list[Run]:
        pages, fresh, at = _replaced(w, grain)
        return [Run("data", grain, pages), Run("data", fresh, 1, at), _pointers(pages)]

    return scheme


def wal(w: Writes) -> list[Run]:
    """Write the bytes with a header to a redo log, then in place."""
    return [Run("metadata", HEADER, _each(w)), Run("log", w.length), Run("data", w.length, 1, w.offset)]


def undo(w: Writes) -> list[Run]:
    """Write the old bytes with a header to an undo journal, the new bytes in place, then the commit record."""
    old, each = np.clip(w.before - w.offset, 0, w.length), _each(w)
    return [
        Run("metadata", HEADER, (old > 0) * 1),
        Run("log", old),
        Run("data", w.length, 1, w.offset),
        Run("metadata", HEADER, each),
    ]


def log_structured(w: Writes) -> list[Run]:
    """Write whole pages of 4 KiB to fresh places, an entry to the log, and the log's tail; cleaning is not counted."""
    pages = (w.offset + w.length - 1) // PAGE - w.offset // PAGE + 1
    return [Run("data", PAGE, pages), Run("metadata", ENTRY, _each(w)), Run("metadata", POINTER, _each(w))]


def mcow(grain: int) -> Scheme:
    """Return MCoW: replace superpages that the write covers whole in the index, other touched 4 KiB pages in the page table."""

    def scheme(w: Writes) -> list[Run]:
        end = w.offset + w.length
        old_end = -(-w.before // PAGE) * PAGE
        first, stop = -(-w.offset // grain), np.minimum(end // grain, -(-w.before // grain))
        whole = np.maximum(stop - first, 0)
        fine_stop = np.minimum(end, old_end)
        touched = np.where(fine_stop > w.offset, -(-fine_stop // PAGE) - w.offset // PAGE, 0)
        covered = np.where(whole > 0, np.minimum(stop * grain, old_end) - first * grain, 0) // PAGE
        fine = np.maximum(touched - covered, 0)
        fresh_at = np.maximum(np.where(whole > 0, np.maximum(stop * grain, old_end), old_end), w.offset)
        fresh = np.maximum(end - fresh_at, 0)
        log = HEADER + REPLACEMENT * (whole + fine)
        used = ((whole + fine) > 0) * 1
        swapped = Run("metadata", POINTER * fine, 2)
        return [
            Run("data", grain, whole), Run("data", PAGE, fine), Run("data", fresh, 1, fresh_at),
            Run("metadata", log, used), Run("metadata", POINTER, 2 * used), swapped, _pointers(whole),
        ]  # fmt: skip

    return scheme


def schemes(grains: Iterable[int] = GRAINS) -> dict[str, Scheme]:
    """Return the schemes by name, with copy-on-write for each grain and MCoW for each grain above 4 KiB."""
    grains = sorted(set(grains))
    bad = [grain for grain in grains if grain < PAGE or grain & (grain - 1)]
    if bad:
        raise UsageError(
            f"a grain of {format_bytes(bad[0])} is not possible; give powers of two of at least 4KiB, e.g. 4KiB,2MiB"
        )
    return {
        "in-place": in_place,
        **{f"cow-{format_bytes(grain)}": cow(grain) for grain in grains},
        "wal": wal,
        "undo": undo,
        "log-structured": log_structured,
        **{f"mcow-{format_bytes(grain)}": mcow(grain) for grain in grains if grain > PAGE},
    }


def writes(trace: "str | pathlib.Path | Source") -> Writes:
    """Return the writes of a trace without its setup; the file sizes follow from writes, truncates and unlinks."""
    if isinstance(trace, str | pathlib.Path):
        from scmsim.trace import open_trace

        trace = open_trace(trace)
    sizes = np.maximum(trace.files.first_size, 0).tolist()
    rows: list[tuple[int, int, int]] = []
    for batch in trace.batches():
        chosen = batch[np.isin(batch.op, (WRITE, TRUNCATE, UNLINK)) & (batch.file >= 0)]
        columns = (chosen[name].tolist() for name in ("op", "file", "offset", "length", "new_size", "flag"))
        for op, file, offset, length, new_size, flag in zip(*columns, strict=True):
            if op == UNLINK:
                sizes[file] = 0
            elif op == TRUNCATE:
                sizes[file] = new_size
            elif length > 0:
                if not flag & SETUP:
                    rows.append((offset, length, sizes[file]))
                sizes[file] = max(sizes[file], offset + length)
    table = np.array(rows, np.int64).reshape(-1, 3)
    return Writes(table[:, 0], table[:, 1], table[:, 2])


def amplify(trace: "str | pathlib.Path | Source | Writes", grains: Iterable[int] = GRAINS) -> dict[str, dict[str, Any]]:
    """Return the bytes and ratios of each scheme for the writes of a trace.

    Returns
    -------
    dict
        Scheme -> `payload`, `data`, `stored` (data and metadata), `lines` (bytes of the cache lines written back), `media_64`,
        `media_256`, `media_4096`, all in bytes; and the ratios `write_amplification` (stored / payload) and `cow_extra_ratio`
        (data bytes beyond the request per requested byte), which are None if the trace has no writes.

    Raises
    ------
    UsageError
        For a bad grain or a trace that cannot be read.
    """
    chosen = schemes(grains)
    given = trace if isinstance(trace, Writes) else writes(trace)
    payload = int(given.length.sum())
    return {name: _levels(scheme(given), payload) for name, scheme in chosen.items()}


def _levels(runs: list[Run], payload: int) -> dict[str, Any]:
    stored = {run.kind: 0 for run in runs} | {"data": 0}
    for run in runs:
        stored[run.kind] += _sum(run.length, run.count)
    data, total = stored["data"], sum(stored.values())
    levels: dict[str, Any] = {"payload": payload, "data": data, "stored": total}
    levels["lines"] = sum(_touched(run, LINE) for run in runs)
    levels |= {f"media_{granule}": sum(_touched(run, granule) for run in runs) for granule in GRANULES}
    levels["write_amplification"] = total / payload if payload else None
    levels["cow_extra_ratio"] = (data - payload) / payload if payload else None
    return levels


def _touched(run: Run, granule: int) -> int:
    """Return the bytes of all `granule`-byte blocks that the runs touch."""
    length, at = np.asarray(run.length), np.asarray(run.at)
    blocks = np.where(length > 0, (at + length - 1) // granule - at // granule + 1, 0)
    return _sum(blocks, run.count) * granule


def _sum(values: np.ndarray | int, count: np.ndarray | int) -> int:
    """Return the sum over all writes; at least one argument is an array."""
    return int(np.sum(np.asarray(values, np.int64) * np.asarray(count, np.int64)))


def _replaced(w: Writes, grain: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each write: touched pages with old bytes; the write's bytes after those pages; where those bytes begin."""
    old_pages = -(-w.before // grain)
    last = (w.offset + w.length - 1) // grain
    pages = np.maximum(np.minimum(last, old_pages - 1) - w.offset // grain + 1, 0)
    at = np.maximum(old_pages * grain, w.offset)
    return pages, np.maximum(w.offset + w.length - at, 0), at


def _each(w: Writes) -> np.ndarray:
    """Return 1 for each write."""
    return np.ones_like(w.length)


def _pointers(count: np.ndarray) -> Run:
    return Run("metadata", POINTER * count)
