"""Make the rows of a rough trace from the counters of whole files.

Numbers of calls and of bytes equal the counters.  Sizes follow the histogram and the common sizes
(`_rough_sizes`), offsets the numbers of ascending and of consecutive calls (`_rough_offsets`).  The order of calls, the bytes
that a call touches and the time of a call are assumptions: calls are spread evenly between the first and the last.
"""

from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

import numpy as np

from scmsim.core.records import CLOSE, CREATE, DATA_ONLY, FSYNC, OPEN, READ, STAT, WRITE
from scmsim.trace.formats.files._dxt import Segments
from scmsim.trace.formats.files._rough_offsets import Order, offsets
from scmsim.trace.formats.files._rough_sizes import Known, Total, sizes
from scmsim.trace.reading.builder import FAR

ROUGH = "made from counters of whole files: order, offsets and times of single calls are assumptions"


class Span(NamedTuple):
    """Times of the first and the last call of a kind, ns."""

    first: int = 0
    last: int = 0

    def spread(self, count: int) -> np.ndarray:
        """Return the times of evenly spread calls, the first one at the start of the span."""
        return self.first + np.arange(count) * self._step(count)

    def after(self, count: int) -> np.ndarray:
        """Return the times of evenly spread calls, the last one at the end of the span."""
        return self.first + np.arange(1, count + 1) * self._step(count)

    def _step(self, count: int) -> int:
        return max(self.last - self.first, 0) // max(count, 1)


@dataclass
class Moved:
    """The reads, or the writes, of a file."""

    total: Total = Total(0, 0)
    order: Order = Order()
    span: Span = Span()


@dataclass
class FileCounters:
    """Counters of one file in a log."""

    path: str
    thread: int
    reads: Moved = field(default_factory=Moved)
    writes: Moved = field(default_factory=Moved)
    known: list[Known] = field(default_factory=list)
    opens: int = 0
    closes: bool = False  # whether a close was seen
    stats: int = 0
    syncs: int = 0
    data_syncs: int = 0
    may_create: bool = False  # whether an open had O_CREAT
    opened: Span = Span()
    closed: Span = Span()

    @property
    def calls(self) -> int:
        """Return the number of rows."""
        opens = self.opens * (1 + self.closes)
        return opens + self.stats + self.syncs + self.data_syncs + self.reads.total.calls + self.writes.total.calls

    def problem(self) -> str:
        """Return why no real file can have these counters; "" if the counters are possible."""
        for name, moved in (("read", self.reads), ("written", self.writes)):
            if moved.total.bytes and not moved.total.calls:
                return f"{moved.total.bytes} bytes {name}, but no call that moved them"
            if max(moved.total.bytes, moved.order.end) >= FAR:
                return f"{max(moved.total.bytes, moved.order.end)} bytes {name} end beyond 2^60"
        return ""

    def creates(self) -> bool:
        """Return whether to treat the first open as the creation of the file: no byte is read before it is written."""
        reads, writes = self.reads, self.writes
        late = reads.span.first >= writes.span.last and reads.order.end <= writes.order.end
        return self.may_create and self.opens > 0 and writes.total.bytes > 0 and (not reads.total.bytes or late)


def add_rows(segments: Segments, counters: FileCounters, file: int, *, creates: bool) -> None:
    """Add the rows of one file and rank; `creates` makes the first open a creation."""
    one = counters
    segments.expect(one.calls)
    none = np.empty(0, np.int64)

    def add(op: int, times: np.ndarray, flag: int = 0) -> None:
        segments.add_all(times, op, file, -1, 0, one.thread, flag)

    opens = one.opened.spread(one.opens)
    add(CREATE, opens[:1] if creates else none)
    add(OPEN, opens[1:] if creates else opens)
    add(STAT, one.opened.spread(one.stats))
    seed = crc32(one.path.encode("utf-8", "replace"))
    for op, moved, lengths in zip(
        (WRITE, READ), (one.writes, one.reads), sizes(one.reads.total, one.writes.total, one.known)[::-1], strict=True
    ):
        times = moved.span.spread(len(lengths))
        segments.add_all(times, op, file, offsets(lengths, moved.order, seed + op), lengths, one.thread)
    synced = one.writes.span if one.writes.total.calls else one.opened
    add(FSYNC, synced.after(one.syncs))
    add(FSYNC, synced.after(one.data_syncs), DATA_ONLY)
    add(CLOSE, one.closed.after(one.opens if one.closes else 0))
