"""The thesis' microbenchmark: one file at a time, `total / unit` calls of `unit` bytes, one of five passes.

- append: a fresh file is written
- rewrite: an existing file is written from offset 0
- read: an existing file is read from offset 0
- reread: the same read again after a first pass
- wsync: append with an fsync after each write (write and fsync count as one call)

The preparation of a pass (create, fill, first pass) is marked SETUP and not counted.  A remainder of `total / unit` is
dropped.
Source: thesis "TLB overhead of NVM file systems", Program 1 (its loop), chapter 5 (its passes).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError, shown
from scmsim.core.records import APPENDS, CLOSE, CONTINUES, CREATE, FSYNC, OP, OPEN, READ, SETUP, WRITE, Files
from scmsim.core.units import is_whole
from scmsim.workload import _stream

SUMMARY = "the thesis' microbenchmark: append, rewrite, read, reread or wsync in units of one size"
PARAMS = {
    "op": ("append", "append|rewrite|read|reread|wsync", "the pass that is counted"),
    "unit": ("4KiB", "bytes", "bytes of one call"),
    "total": ("16MiB", "bytes", "bytes of one pass over one file"),
    "files": ("1", "files", "files, one after the other"),
    "passes": ("1", "passes", "how often the counted pass is repeated (rewrite, read, reread)"),
    "interval": ("1us", "time", "trace time between two calls"),
}
PASSES = ("append", "rewrite", "read", "reread", "wsync")


class Workload:
    """Stream of the microbenchmark's operations (a records.Source); see PARAMS: sizes in bytes, interval in nanoseconds.

    Raises UsageError for an unknown pass, or for sizes that result in no call.
    """

    header: dict[str, Any]
    interval: int

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if p.op not in PASSES:
            raise UsageError(f"no microbench pass named {p.op!r}; choose from {', '.join(PASSES)}")
        for name, value in vars(p).items():
            if name != "op" and not is_whole(value):
                raise UsageError(
                    f"{name} must be a whole number, not {shown(value)}; 'parse_bytes' reads texts such as '4KiB'"
                )
        if p.unit < 1 or p.total < p.unit:
            raise UsageError(
                f"unit {p.unit} and total {p.total} result in no call; the unit must be at least 1 and at most the total"
            )
        if p.files < 1 or p.passes < 1:
            raise UsageError("files and passes must be at least 1")
        if p.passes > 1 and p.op in ("append", "wsync"):
            raise UsageError(
                f"passes = {p.passes} needs op rewrite, read or reread; {p.op} writes each file once (use --files)"
            )
        self.op, self.unit, self.calls, self.passes = p.op, p.unit, p.total // p.unit, p.passes
        self.files = Files(
            ["/bench", *[f"/bench/file-{i}" for i in range(p.files)]],
            np.array([0] + [-1] * p.files, np.int64),
            np.array([True] + [False] * p.files),
        )
        self.rows = p.files * sum(count for *_, count in self._segments())
        self.header["cell"] = {"operation": p.op, "file_bytes": p.total, "unit_bytes": p.unit}

    def _segments(self) -> list[tuple[int, int, int]]:
        """Return (op code, flags, rows) of one file, in order."""
        fill = [(CREATE, SETUP, 1), (WRITE, SETUP | APPENDS, self.calls)]
        if self.op == "append":
            return [fill[0], (WRITE, APPENDS, self.calls)]
        if self.op == "wsync":
            return [fill[0], (FSYNC, APPENDS, 2 * self.calls)]
        passed = READ if self.op in ("read", "reread") else WRITE
        warm = [(READ, SETUP, self.calls)] if self.op == "reread" else []
        return [*fill, (CLOSE, SETUP, 1), (OPEN, SETUP, 1), *warm, *[(passed, 0, self.calls)] * self.passes]

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of at most `chunk` rows."""
        row = 0
        for file in range(1, len(self.files)):
            for code, flag, count in self._segments():
                for first in range(0, count, chunk):
                    batch = self._rows(code, flag, file, first, min(chunk, count - first))
                    batch.time_ns = self.interval * np.arange(row, row + len(batch))
                    row += len(batch)
                    yield batch

    def _rows(self, code: int, flag: int, file: int, first: int, count: int) -> np.recarray:
        batch = np.zeros(count, OP).view(np.recarray)
        index = np.arange(first, first + count, dtype=np.int64)
        batch.op, batch.flag, batch.file, batch.file2 = code, flag, file, -1
        if code == CREATE:
            batch.parent = 0
        if code == FSYNC:  # wsync: write, fsync, write, fsync, ...
            batch.op = np.where(index % 2, FSYNC, WRITE)
            batch.flag = np.where(index % 2, CONTINUES, APPENDS)
            batch.offset = np.where(index % 2, 0, index // 2 * self.unit)
            batch.length = np.where(index % 2, 0, self.unit)
        elif code in (WRITE, READ):
            batch.offset, batch.length = index * self.unit, self.unit
        return batch
