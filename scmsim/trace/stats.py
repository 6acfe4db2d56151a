"""Compute a trace's statistics in one pass: operations, sizes, order, working set, overwrites, appends and buffers.

Memory grows with the number of files and of separate page ranges (bounded, see `_pages.py`), not of rows.
"""

from typing import Any

import numpy as np

from scmsim.core.records import CONTINUES, CREATE, OPS, READ, SETUP, ULOAD, UNLINK, USTORE, WRITE, Source
from scmsim.trace._pages import PAGE, Pages
from scmsim.trace._sizes import Sizes

CHUNK = 1 << 16
TOP = 10  # files in the list of files with the most data
_BUFFERS = 1 << 20  # entries of the table of buffers with their last file
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Fibonacci hashing)


def stats(trace: Source, *, setup: bool = False) -> dict[str, Any]:
    """Return the statistics of a trace as a JSON-able dict.

    Sizes are in bytes, shares are from 0 to 1 and None if nothing was transferred.

    Parameters
    ----------
    trace : Source
        A stored trace or a workload.
    setup : bool
        Count rows marked SETUP too.  Counted or not, they change the file sizes with which other rows are compared.

    Raises UsageError at a row that cannot be replayed.
    """
    state = _State(trace)
    for batch in trace.batches(CHUNK):
        state.add(batch.view(np.ndarray), setup)
    return state.result()


class _Way:
    """The sizes and the order of all reads, or of all writes."""

    def __init__(self, files: int) -> None:
        self.end = np.full(files, -1, np.int64)  # where the last transfer of each file ended
        self.sizes = np.zeros(65, np.int64)  # number of calls, by bit length of the size
        self.bytes = self.sequential = self.first = self.calls = 0

    def add(self, rows: np.ndarray) -> None:
        self.calls += len(rows)
        self.bytes += _sum(rows["length"])
        self.sizes += np.bincount(_bits(rows["length"]), minlength=65)
        order = np.argsort(rows["file"], kind="stable")
        file, offset, end = rows["file"][order], rows["offset"][order], (rows["offset"] + rows["length"])[order]
        before = np.concatenate([[0], end])[:-1]
        starts = np.flatnonzero(np.diff(file, prepend=-1))
        before[starts] = self.end[file[starts]]
        self.sequential += int(np.count_nonzero(offset == before))
        self.first += int(np.count_nonzero(before == -1))
        self.end[file] = end  # NumPy assigns in order, so the last transfer of each file wins

    def result(self) -> dict[str, Any]:
        follow = self.calls - self.first
        histogram = {str(1 << i - 1 if i else 0): int(n) for i, n in enumerate(self.sizes) if n}
        return {
            "calls": self.calls,
            "bytes": self.bytes,
            "mean_size": self.bytes / self.calls if self.calls else None,
            "sizes": histogram,
            "sequential": self.sequential / follow if follow else None,
        }


class _Buffers:
    """The memory that transfers use, and how often a buffer's previous transfer was with another file.

    The last file of a buffer is in a hash table of fixed size; a buffer whose slot another buffer took counts as new.
    """

    def __init__(self) -> None:
        self.pages = Pages()
        self.key, self.file = np.full(_BUFFERS, -1), np.zeros(_BUFFERS, np.int64)
        self.transfers = self.other = self.bytes = 0

    def add(self, rows: np.ndarray) -> None:
        if not len(rows):
            return
        self.pages.add(rows["thread"], rows["buffer"], rows["length"])
        self.bytes += _sum(rows["length"])
        self.transfers += len(rows)
        key = rows["thread"] << 36 | rows["buffer"]  # a buffer's address is below 2^36
        order = np.argsort(key, kind="stable")
        key, file = key[order], rows["file"][order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        changed = np.diff(file, prepend=-1) != 0
        changed[starts] = False
        key, first, last = key[starts], file[starts], file[np.append(starts[1:], len(rows)) - 1]
        place = (key.astype(np.uint64) * _GOLDEN >> np.uint64(64 - _BUFFERS.bit_length() + 1)).astype(np.int64)
        self.other += int(changed.sum() + np.count_nonzero((self.key[place] == key) & (self.file[place] != first)))
        self.key[place], self.file[place] = key, last

    def result(self) -> dict[str, Any]:
        touched = self.pages.count() * PAGE
        return {
            "bytes": touched,
            "complete": self.pages.complete,
            "reuse": self.bytes / touched if touched else None,
            "shared": self.other / self.transfers if self.transfers else None,
        }


class _State:
    """The statistics of the batches so far."""

    def __init__(self, trace: Source) -> None:
        self.trace, files = trace, len(trace.files)
        self.sizes = Sizes(trace.files)
        self.counts, self.moved = np.zeros(len(OPS), np.int64), np.zeros(len(OPS))
        self.ways = {READ: _Way(files), WRITE: _Way(files)}
        self.touched, self.written, self.buffers = Pages(), Pages(), _Buffers()
        self.by_file = np.zeros(files)  # bytes; floats cannot overflow
        self.used = np.zeros(files, bool)
        self.threads: set[int] = set()
        self.times = [0, 0]
        self.rows = self.calls = self.setup = self.overwritten = self.appends = 0

    def add(self, batch: np.ndarray, with_setup: bool) -> None:
        before = self.sizes.follow(batch)
        keep = np.ones(len(batch), bool) if with_setup else (batch["flag"] & SETUP) == 0
        self.setup += int(np.count_nonzero(batch["flag"] & SETUP))
        rows, before = batch[keep], before[keep]
        if not len(rows):
            return
        self.times = [int(rows["time_ns"][0]) if not self.rows else self.times[0], int(rows["time_ns"].max())]
        self.rows += len(rows)
        self.calls += int(np.count_nonzero((rows["flag"] & CONTINUES) == 0))
        self.counts += np.bincount(rows["op"], minlength=len(OPS))
        np.add.at(self.moved, rows["op"], rows["length"].astype(np.float64))
        self.threads |= set(np.unique(rows["thread"]).tolist())
        self.used[rows["file"][rows["file"] >= 0]] = True
        for code, way in self.ways.items():
            way.add(rows[rows["op"] == code])
        self._writes(rows, before)
        data = rows[np.isin(rows["op"], (READ, WRITE, ULOAD, USTORE)) & (rows["file"] >= 0)]
        self.touched.add(data["file"], data["offset"], data["length"])
        np.add.at(self.by_file, data["file"], data["length"].astype(np.float64))
        self.buffers.add(rows[np.isin(rows["op"], (READ, WRITE))])

    def _writes(self, rows: np.ndarray, before: np.ndarray) -> None:
        chosen = rows["op"] == WRITE
        writes, size = rows[chosen], before[chosen].clip(0)
        self.written.add(writes["file"], writes["offset"], writes["length"])
        self.overwritten += _sum((size - writes["offset"]).clip(0, writes["length"]))
        self.appends += int(np.count_nonzero((writes["offset"] == size) & (writes["length"] > 0)))

    def result(self) -> dict[str, Any]:
        written, calls = self.ways[WRITE].bytes, self.ways[WRITE].calls
        ops = {OPS[i]: {"calls": int(self.counts[i]), "bytes": int(self.moved[i])} for i in np.flatnonzero(self.counts)}
        top = [i for i in np.argsort(-self.by_file, kind="stable")[:TOP].tolist() if self.by_file[i]]
        return {
            "rows": self.rows,
            "calls": self.calls,
            "setup_rows": self.setup,
            "duration_ns": self.times[1] - self.times[0],
            "threads": len(self.threads),
            "ops": ops,
            "read": self.ways[READ].result(),
            "write": self.ways[WRITE].result(),
            "overwritten": self.overwritten / written if written else None,
            "appends": self.appends / calls if calls else None,
            "working_set": {
                "bytes": self.touched.count() * PAGE,
                "written_bytes": self.written.count() * PAGE,
                "complete": self.touched.complete and self.written.complete,
            },
            "files": {
                "known": len(self.used),
                "touched": int(self.used.sum()),
                "with_data": int(np.count_nonzero(self.by_file)),
                "created": int(self.counts[CREATE]),
                "removed": int(self.counts[UNLINK]),
            },
            "buffers": self.buffers.result(),
            "top": [{"path": self.trace.files.path[i], "bytes": int(self.by_file[i])} for i in top],
        }


def _bits(length: np.ndarray) -> np.ndarray:
    """Return the bit length of each length: 0 for 0, 1 for 1, 13 for 4096 to 8191."""
    return np.frexp(length.astype(np.float64))[1]


def _sum(length: np.ndarray) -> int:
    """Return the sum without overflow: many rows of a trace may have lengths up to 2^62 bytes."""
    return int(length.sum()) if not len(length) or length.max() < 1 << 46 else sum(length.tolist())
