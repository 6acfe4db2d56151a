"""The matrix of chapter 5 of the thesis "TLB overhead of NVM file systems": file size x unit x operation, 10 GiB each.

11 file sizes (1 MiB to 1 GiB, doubling) x 14 units (1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096 KiB) x write,
rewrite, read, reread.  The thesis does not print the program (Program 1 has no file size), so this follows sections 4.3 and 5.1
and the loops in the appendix: a cell passes over one file in units until `total` bytes are moved.  Each pass of `write` is
on a file that was removed and created again; `reread` has read the file once before.  A unit beyond the file's size is cut to
it; remainders (of the file by the unit, of the total by the file) are dropped, as in Program 1.  The preparation of a cell,
and the file's removal after it, are marked SETUP.  The program's buffer is one static array.
"""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CLOSE, CREATE, OPEN, READ, SETUP, UNLINK, WRITE
from scmsim.core.units import format_bytes
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "the thesis' matrix: file size x unit x write, rewrite, read, reread; `total` bytes in each cell"
PARAMS = {
    "op": ("all", "all|write|rewrite|read|reread", "operation of the cells"),
    "size_from": ("64MiB", "bytes", "smallest file size of the cells (the whole matrix: 1MiB)"),
    "size_to": ("0", "bytes", "largest file size of the cells; 0: size_from (the whole matrix: 1GiB)"),
    "unit_from": ("4KiB", "bytes", "smallest unit of the cells (the whole matrix: 1KiB)"),
    "unit_to": ("0", "bytes", "largest unit of the cells; 0: unit_from (the whole matrix: 4MiB)"),
    "total": ("10GiB", "bytes", "bytes moved in one cell"),
    "interval": ("1us", "time", "trace time between two calls"),
}
OPERATIONS = ("write", "rewrite", "read", "reread")
SIZES = tuple(1 << i for i in range(20, 31))
UNITS = tuple(k << 10 for k in (1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 4096))
TOTAL = 10 << 30


class Cell(NamedTuple):
    """One cell of the matrix; `source` replays it alone."""

    size: int
    unit: int
    op: str
    source: "Workload"


def cells(
    op: str = "all",
    size_from: int = SIZES[0],
    size_to: int = SIZES[-1],
    unit_from: int = UNITS[0],
    unit_to: int = UNITS[-1],
    total: int = TOTAL,
) -> Iterator[Cell]:
    """Yield the cells of a part of the matrix (by default all 616), operation fastest, then unit, then file size."""
    for size, unit, each in _chosen(op, size_from, size_to, unit_from, unit_to, total):
        yield Cell(size, unit, each, Workload(each, size, size, unit, unit, total))


class Workload(_stream.Stream):
    """Stream of one cell or several, one after the other (a records.Source); see PARAMS.

    Raises UsageError for an unknown operation, a range without a cell, or a total below a file's size.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        p.size_to, p.unit_to = p.size_to or p.size_from, p.unit_to or p.unit_from
        self.header = _stream.header("thesis", p)
        self.cells = _chosen(p.op, p.size_from, p.size_to, p.unit_from, p.unit_to, p.total)
        self.total = p.total
        self.sizes = sorted({size for size, _, _ in self.cells})
        paths = ["/thesis", *[f"/thesis/{format_bytes(size)}" for size in self.sizes]]
        self.files = _stream.table(paths, [0] + [-1] * len(self.sizes), [True] + [False] * len(self.sizes))
        self.rows = sum(self._rows(cell) for cell in self.cells)
        if len(self.cells) == 1:
            size, unit, operation = self.cells[0]
            self.header["cell"] = {"operation": operation, "file_bytes": size, "unit_bytes": unit}

    def parts(self) -> Iterator[tuple[_stream.Pieces, int]]:
        """Yield the passes of each cell, and how often each occurs."""
        for size, unit, op in self.cells:
            file, unit = self.sizes.index(size) + 1, min(unit, size)
            for segments, times in self._passes(size, unit, op):
                make = partial(self._calls, segments, file, unit)
                yield from _stream.together(make, sum(calls for _, _, calls in segments), size, times)

    def _rows(self, cell: tuple[int, int, str]) -> int:
        return sum(times * sum(calls for _, _, calls in segments) for segments, times in self._passes(*cell))

    def _passes(self, size: int, unit: int, op: str) -> list[tuple[list[tuple[int, int, int]], int]]:
        """Return ([(op code, flags, rows), ...], how often) of a cell, in order."""
        calls, passes = size // min(unit, size), self.total // size
        fresh = [(CREATE, SETUP, 1)]
        remove = [(CLOSE, SETUP, 1), (UNLINK, SETUP, 1)]
        if op == "write":
            return [([*fresh, (WRITE, APPENDS, calls), *remove], passes)]
        fill = [*fresh, (WRITE, SETUP | APPENDS, calls), (CLOSE, SETUP, 1), (OPEN, SETUP, 1)]
        before = [(READ, SETUP, calls)] if op == "reread" else []
        return [([*fill, *before], 1), ([(WRITE if op == "rewrite" else READ, 0, calls)], passes), (remove, 1)]

    def _calls(self, segments: list[tuple[int, int, int]], file: int, unit: int) -> Iterator[np.ndarray]:
        for code, flag, calls in segments:
            if code not in (READ, WRITE):
                yield ops(code, file, parent=0 if code in (CREATE, UNLINK) else -1, flag=flag)
                continue
            for first in range(0, calls, _stream.PIECE):
                index = np.arange(first, min(first + _stream.PIECE, calls))
                yield ops(code, file, index * unit, unit, flag=flag)


def _chosen(
    op: str, size_from: int, size_to: int, unit_from: int, unit_to: int, total: int
) -> list[tuple[int, int, str]]:
    _stream.choose("operation of the thesis", op, ("all", *OPERATIONS))
    sizes = [size for size in SIZES if size_from <= size <= size_to]
    units = [unit for unit in UNITS if unit_from <= unit <= unit_to]
    for what, found, low, high, known in (
        ("file size", sizes, size_from, size_to, SIZES), ("unit", units, unit_from, unit_to, UNITS),
    ):  # fmt: skip
        if not found:
            raise UsageError(
                f"no {what} of the thesis is between {format_bytes(low)} and {format_bytes(high)}; "
                f"choose from {', '.join(map(format_bytes, known))}"
            )
    if total < sizes[-1]:
        raise UsageError(
            f"total = {format_bytes(total)} is less than one pass over a file of {format_bytes(sizes[-1])}; "
            "raise total or lower size_to"
        )
    return [(size, unit, each) for size in sizes for unit in units for each in (OPERATIONS if op == "all" else (op,))]
