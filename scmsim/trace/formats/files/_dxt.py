"""Sort the rows of a Darshan log by time and add them: a log has its records by file and rank, not by time."""

from array import array

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading.builder import TraceBuilder

MOST = 1 << 25  # limit of rows, 56 bytes each
NOTES = (
    "Darshan's extended tracing has reads and writes only: opens, stats, closes and renames are not in it",
    "Darshan stops recording segments when its memory limit is reached, and does not say where",
)
_FIELDS = 7


class Segments:
    """Rows waiting to be sorted; transfers of no bytes become rows only if `with_empty`."""

    def __init__(self, builder: TraceBuilder, *, with_empty: bool = False) -> None:
        self.builder, self.with_empty = builder, with_empty
        self._rows = array("q")
        self._tables: list[np.ndarray] = []
        self._count = 0

    def add(self, ns: int, op: int, file: int, offset: int, length: int, thread: int) -> None:
        """Add one segment; `ns` is its start."""
        self.expect(1)
        self._rows.extend((ns, op, file, offset, length, thread, 0))

    def add_all(
        self, ns: np.ndarray, op: int, file: int, offset: np.ndarray | int, length: np.ndarray | int, thread: int,
        flag: int = 0,
    ) -> None:  # fmt: skip
        """Add rows of one operation on one file; call `expect` with their number first."""
        table = np.empty((len(ns), _FIELDS), np.int64)
        for column, values in enumerate((ns, op, file, offset, length, thread, flag)):
            table[:, column] = values
        self._tables.append(table)

    def expect(self, count: int) -> None:
        """Announce `count` more rows; raise UsageError if all rows together are too many to sort in memory."""
        self._count += count
        if self._count > MOST:
            raise UsageError(
                f"{self.builder.given.path!r} has more than {MOST} segments or counted calls; "
                "convert a part of it (--under)"
            )

    def finish(self) -> None:
        """Pass all rows to the builder, in the order of their times."""
        single = np.frombuffer(self._rows, "i8").reshape(-1, _FIELDS) if self._rows else np.empty((0, _FIELDS), "i8")
        table = np.concatenate([single, *self._tables])
        self._tables = []
        table = table[np.argsort(table[:, 0], kind="stable")]
        for start in range(0, len(table), 1 << 16):
            ns, op, file, offset, length, thread, flag = table[start : start + (1 << 16)].T
            self.builder.table(ns, op, file, offset, length, thread, flag, with_empty=self.with_empty)


OPS = {"read": READ, "write": WRITE}
