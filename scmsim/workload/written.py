"""One file written from its beginning in units of one size, made durable, mapped, and loaded from once per page.

The blocks that the file system allocates decide which 2 MiB ranges of the mapping can have one page-table entry (see `scmsim lab
layout` and `scmsim map`).
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.records import CLOSE, CREATE, FALLOCATE, FSYNC, MMAP, MUNMAP, TRUNCATE, ULOAD, WRITE
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "one file written in units of one size, then mapped and loaded from once per page"
PARAMS = {
    "unit": ("64KiB", "bytes", "bytes of a write"),
    "file_size": ("16MiB", "bytes", "bytes of the file"),
    "first": ("nothing", "nothing|truncate|fallocate", "how the file gets its size before the writes"),
    "before": ("0", "bytes", "bytes of another file in the root directory, written first in units of 4 KiB"),
    "map": ("1", "bool", "map the file after an fsync, and load 8 bytes of each page of 4 KiB"),
    "interval": ("1us", "time", "trace time between two calls"),
}
FIRST = {"nothing": (), "truncate": (TRUNCATE,), "fallocate": (FALLOCATE,)}
_PAGE, _WORD = 4096, 8


class Workload(_stream.Stream):
    """Stream of the writes and loads of one file (a records.Source); see PARAMS: sizes in bytes, interval in nanoseconds.

    Raises UsageError for an unknown way to begin, or sizes below 1.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("first of written", p.first, FIRST)
        p.at_least(1, "unit", "file_size")
        p.at_least(0, "before")
        self.unit, self.size, self.first, self.before = p.unit, p.file_size, p.first, p.before
        self.map = p.map
        paths = ["/written", "/written/file", *(["/before"] if p.before else [])]
        self.files = _stream.table(paths, [0, *[-1] * (len(paths) - 1)], [True, *[False] * (len(paths) - 1)])

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the calls and loads in order."""
        if self.before:
            yield ops(CREATE, 2)
            yield from self._writes(2, self.before, _PAGE)
            yield ops(CLOSE, 2)
        yield ops(CREATE, 1, file2=0)
        for code in FIRST[self.first]:
            yield ops(code, 1, self.size if code == TRUNCATE else 0, 0 if code == TRUNCATE else self.size)
        yield from self._writes(1, self.size, self.unit)
        yield ops(FSYNC, 1)
        if self.map:
            yield ops(MMAP, 1, 0, self.size)
            pages = -(-self.size // _PAGE)
            for begin in range(0, pages, _stream.PIECE):
                offset = np.arange(begin, min(begin + _stream.PIECE, pages)) * _PAGE
                yield ops(ULOAD, 1, offset, np.minimum(_WORD, self.size - offset))
            yield ops(MUNMAP, 1, 0, self.size)
        yield ops(CLOSE, 1)

    @staticmethod
    def _writes(file: int, size: int, unit: int) -> Iterator[np.ndarray]:
        """Yield the writes of a whole file."""
        calls = -(-size // unit)
        for begin in range(0, calls, _stream.PIECE):
            offset = np.arange(begin, min(begin + _stream.PIECE, calls)) * unit
            yield ops(WRITE, file, offset, np.minimum(unit, size - offset))
