"""One access pattern: append, overwrite or read `unit` bytes every `stride` bytes, in order or at random, over files in turn.

Files that are overwritten or read exist before the trace; files that are appended to are created first (marked SETUP).  With a
stride larger than the unit, appends leave holes.  Random offsets are drawn from `seed`; every offset is equally likely.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CONTINUES, CREATE, FSYNC, READ, SETUP, WRITE
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "one access pattern: append, overwrite or read in units, by stride or at random, with an fsync every n calls"
PARAMS = {
    "op": ("append", "append|overwrite|read", "operation of a call"),
    "unit": ("4KiB", "bytes", "bytes of one call"),
    "stride": ("0", "bytes", "distance from the start of one call to the start of the next; 0: the unit"),
    "order": ("sequential", "sequential|random", "order of the offsets in a file (overwrite, read)"),
    "shift": ("0", "bytes", "offset of the first call"),
    "sync": ("0", "calls", "number of calls to a file after which an fsync of the file follows; 0: no fsync"),
    "files": ("1", "files", "files that take turns"),
    "file_size": ("16MiB", "bytes", "bytes of each file (overwrite, read)"),
    "calls": ("4096", "calls", "total number of calls, not counting fsyncs"),
    "seed": ("1", "seed", "seed of the random offsets"),
}


class Workload(_stream.Stream):
    """Stream of one pattern (a records.Source); see PARAMS.

    Raises UsageError for an unknown operation or order, or a file that does not hold one call.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("operation of a pattern", p.op, ("append", "overwrite", "read"))
        _stream.choose("order of a pattern", p.order, ("sequential", "random"))
        p.at_least(1, "unit", "files", "calls")
        p.at_least(0, "stride", "shift", "sync")
        if p.op != "append" and p.shift + p.unit > p.file_size:
            raise UsageError(
                f"file_size {p.file_size} does not hold a call of {p.unit} bytes at {p.shift}; make the file larger"
            )
        self.op, self.unit, self.stride, self.order, self.shift = p.op, p.unit, p.stride or p.unit, p.order, p.shift
        self.sync, self.count, self.calls, self.seed = p.sync, p.files, p.calls, p.seed
        self.places = 0 if p.op == "append" else (p.file_size - p.shift - p.unit) // self.stride + 1
        sizes = [0] + [-1 if p.op == "append" else p.file_size] * p.files
        paths = ["/pattern", *(f"/pattern/{i}" for i in range(p.files))]
        self.files = _stream.table(paths, sizes, [True] + [False] * p.files)

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the calls in order, a few thousand at a time."""
        if self.op == "append":
            yield ops(CREATE, np.arange(1, self.count + 1), parent=0, flag=SETUP)
        draw = np.random.default_rng(self.seed)
        for first in range(0, self.calls, _stream.PIECE):
            index = np.arange(first, min(first + _stream.PIECE, self.calls))
            yield self._calls(index, index // self.count, draw)

    def _calls(self, index: np.ndarray, turn: np.ndarray, draw: np.random.Generator) -> np.ndarray:
        """Return the calls numbered `index`; `turn` is, for each call, the number of calls on the same file before it."""
        place = turn
        if self.places:
            place = draw.integers(0, self.places, len(turn)) if self.order == "random" else turn % self.places
        code = READ if self.op == "read" else WRITE
        appends = APPENDS if self.op == "append" and self.stride == self.unit and not self.shift else 0
        file = 1 + index % self.count
        calls = ops(code, file, self.shift + place * self.stride, self.unit, flag=appends)
        if not self.sync:
            return calls
        due = turn % self.sync == self.sync - 1
        return _stream.weave((index, calls), (index[due], ops(FSYNC, file[due], flag=CONTINUES)))
