"""A large file that is mapped and read from end to end: a model's weights, by one process or by many at once.

Each process maps the whole file for itself and loads it in units, in order, `passes` times (a pass is a token of a language
model: every weight is needed once).  Processes take turns unit by unit.  The pattern was not measured from a program.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, MMAP, MUNMAP, OPEN, OWN_PROCESS, POPULATE, READ, ULOAD
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "a large mapped file read once or more from end to end, by one process or many: a model's weights"
PARAMS = {
    "file_size": ("4GiB", "bytes", "bytes of the file"),
    "unit": ("2MiB", "bytes", "bytes of one load or read: a tensor, or a part of one"),
    "processes": ("1", "processes", "processes that read the file at once, each through its own mapping"),
    "passes": ("1", "passes", "how often each process reads the file"),
    "by": ("map", "map|calls", "through a mapping, or by read calls of the same bytes"),
    "populate": ("0", "bool", "mapped with MAP_POPULATE"),
}
_MOST = 1 << 12


class Workload(_stream.Stream):
    """Stream of the loads of one file (a records.Source); see PARAMS.

    Raises UsageError for a unit larger than the file, or too many processes.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("by of weights", p.by, ("map", "calls"))
        p.at_least(1, "file_size", "unit", "processes", "passes")
        if p.unit > p.file_size or p.processes > _MOST:
            raise UsageError(f"unit is at most file_size, and processes at most {_MOST}; make one of them smaller")
        self.size, self.unit, self.processes, self.passes, self.by = p.file_size, p.unit, p.processes, p.passes, p.by
        self.flag = OWN_PROCESS | (POPULATE if p.populate else 0)
        self.files = _stream.table(["/weights", "/weights/model"], [0, p.file_size], [True, False])

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the operations in order, a few thousand at a time."""
        everyone = np.arange(self.processes)
        yield ops(OPEN, 1, thread=everyone)
        if self.by == "map":
            yield ops(MMAP, 1, 0, self.size, thread=everyone, flag=self.flag)
        units = -(-self.size // self.unit)
        step = max(_stream.PIECE // self.processes, 1)
        for _ in range(self.passes):
            for first in range(0, units, step):
                offset = np.repeat(np.arange(first, min(first + step, units)) * self.unit, self.processes)
                thread = np.tile(everyone, len(offset) // self.processes)
                length = np.minimum(self.unit, self.size - offset)
                yield ops(ULOAD if self.by == "map" else READ, 1, offset, length, thread=thread)
        if self.by == "map":
            yield ops(MUNMAP, 1, 0, self.size, thread=everyone)
        yield ops(CLOSE, 1, thread=everyone)
