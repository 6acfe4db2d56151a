"""Sort the segments of Darshan's extended tracing, from its text or its binary log, by time and add them as rows.

A log has the segments by file and rank; only all of them together can be sorted by time.
"""

from array import array

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading.builder import TraceBuilder

MOST = 1 << 25  # limit of segments, 48 bytes each
NOTES = (
    "Darshan's extended tracing has reads and writes only: opens, stats, closes and renames are not in it",
    "Darshan stops recording segments when its memory limit is reached, and does not say where",
)


class Segments:
    """Reads and writes waiting to be sorted."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self._rows = array("q")

    def add(self, ns: int, op: int, file: int, offset: int, length: int, thread: int) -> None:
        """Add one segment; `ns` is its start."""
        if len(self._rows) >= 6 * MOST:
            raise UsageError(
                f"{self.builder.given.path!r} has more than {MOST} segments; convert a part of it (--under)"
            )
        self._rows.extend((ns, op, file, offset, length, thread))

    def finish(self) -> None:
        """Pass all segments to the builder, in the order of their start."""
        table = np.frombuffer(self._rows, "i8").reshape(-1, 6) if self._rows else np.empty((0, 6), "i8")
        table = table[np.argsort(table[:, 0], kind="stable")]
        for start in range(0, len(table), 1 << 16):
            ns, op, file, offset, length, thread = table[start : start + (1 << 16)].T
            self.builder.table(ns, op, file, offset, length, thread)


OPS = {"read": READ, "write": WRITE}
