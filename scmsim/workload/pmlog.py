"""A log in mapped persistent memory: append a record, make it durable, then make the new end durable, like PMDK's libpmemlog.

An append stores the record (past the caches, or with write-backs) and a fence; then it stores the 8 bytes with the log's end,
writes them back, and fences again.  So the end moves only after the record is durable.  A full log starts over.
Source: the guarantees of libpmemlog; the library was not run, and the place of the end (here 4096) is an assumption.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    MAP_SYNC,
    MMAP,
    MUNMAP,
    NON_TEMPORAL,
    OPEN,
    UFENCE,
    UFLUSH,
    USTORE,
    WRITABLE_SHARED,
)
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "a log in mapped persistent memory: append, flush, fence, as PMDK's libpmemlog"
PARAMS = {
    "record": ("256", "bytes", "bytes of a record"),
    "count": ("100000", "records", "number of appends"),
    "file_size": ("64MiB", "bytes", "bytes of the file, header included"),
    "persist": (
        "nontemporal",
        "nontemporal|flush",
        "how a record is stored: past the caches, or through the caches with write-backs",
    ),
    "map_sync": ("1", "bool", "mapped with MAP_SYNC"),
}
HEADER = 8192  # bytes before the records
END_AT = 4096  # offset of the 8 bytes with the log's end
_WORD = 8


class Workload(_stream.Stream):
    """Stream of the appends to one log (a records.Source); see PARAMS.

    Raises UsageError for a file that does not hold a record.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("persist of pmlog", p.persist, ("nontemporal", "flush"))
        p.at_least(1, "record", "count")
        if HEADER + p.record > p.file_size:
            raise UsageError(
                f"file_size {p.file_size} does not hold the header and a record of {p.record} bytes; make it larger"
            )
        self.record, self.count, self.size, self.persist = p.record, p.count, p.file_size, p.persist
        self.flag = WRITABLE_SHARED | (MAP_SYNC if p.map_sync else 0)
        self.files = _stream.table(["/pmlog", "/pmlog/log"], [0, p.file_size], [True, False])

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the operations in order, a few thousand at a time."""
        whole = {"file": 1, "offset": 0, "length": self.size}
        yield ops(OPEN, 1)
        yield ops(MMAP, **whole, flag=self.flag)
        held = (self.size - HEADER) // self.record
        for first in range(0, self.count, _stream.PIECE // 6):
            index = np.arange(first, min(first + _stream.PIECE // 6, self.count))
            yield self._appends(index, HEADER + index % held * self.record)
        yield ops(MUNMAP, **whole)
        yield ops(CLOSE, 1)

    def _appends(self, index: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Return the appends with running numbers `index` at `offset`."""
        fence, end = ops(UFENCE, np.full(len(index), -1)), np.full(len(index), END_AT)
        past = self.persist == "nontemporal"
        parts = [ops(USTORE, 1, offset, self.record, flag=NON_TEMPORAL if past else 0)]
        parts += [] if past else [ops(UFLUSH, 1, offset, self.record)]
        parts += [fence, ops(USTORE, 1, end, _WORD), ops(UFLUSH, 1, end, _WORD), fence]
        return _stream.weave(*((index, part) for part in parts))
