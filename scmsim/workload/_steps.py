"""Runs of equal operations (STEP) and their expansion into a stream of operations.

A generator yields arrays of STEP: "read 1 MiB from offset 0 in pieces of 4 KiB" is one STEP.  `Stream` cuts STEPs into
pieces, sets the times and yields batches, so that a generator works once per transfer and not once per call.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import OP, Files

# length: bytes of the whole run; unit: bytes of a piece, of which the last may be shorter (0: the run is one operation); stride
# and buffer_stride: bytes added to the offset and to the buffer's address from piece to piece.
FIELDS = (
    "op", "file", "parent", "thread", "flag", "offset", "length", "unit", "stride", "buffer", "buffer_stride",
)  # fmt: skip
STEP = np.dtype([(name, "i8") for name in FIELDS])
_SAME = ("op", "file", "parent", "thread", "flag")

MAX_ROWS = 1 << 40  # maximum number of operations in one stream: row numbers and times stay far from 2^63


def from_rows(rows: list[int]) -> np.ndarray:
    """Return STEPs from one flat list, len(FIELDS) numbers each."""
    return np.array(rows, np.int64).view(STEP)


def calls(count: int, **fields: Any) -> np.ndarray:
    """Return `count` STEPs with the given fields; other fields are 0, but offset, file and parent are -1."""
    steps = np.zeros(count, STEP)
    steps["offset"] = steps["parent"] = steps["file"] = -1
    for name, value in fields.items():
        steps[name] = value
    return steps


def run(op: int, file: int, length: int, unit: int, **fields: Any) -> np.ndarray:
    """Return one STEP that moves `length` bytes from offset 0 upwards in pieces of `unit` bytes; `fields` override."""
    return calls(1, **{"op": op, "file": file, "offset": 0, "length": length, "unit": unit, "stride": unit, **fields})


def pieces(steps: np.ndarray) -> np.ndarray:
    """Return the number of operations of each STEP, at least one."""
    unit = steps["unit"]
    if not unit.any():
        return np.ones(len(steps), np.int64)
    return np.where(unit > 0, np.maximum(-(-steps["length"] // np.maximum(unit, 1)), 1), 1)


def expand(steps: np.ndarray, ends: np.ndarray, first: int, count: int) -> np.recarray:
    """Return operations `first` to `first + count` of `steps`; `ends` is the running sum of `pieces(steps)`."""
    rows = np.arange(first, first + count, dtype=np.int64)
    low = np.searchsorted(ends, first, "right")
    high = np.searchsorted(ends, first + count, "left") + 1
    steps, ends = steps[low:high], ends[low:high]
    # fast path: one operation per STEP, as in random transfers
    if len(steps) == count and first == ends[0] - pieces(steps[:1])[0]:
        batch = np.zeros(count, OP)
        for name in (*_SAME, "offset", "buffer"):
            batch[name] = steps[name]
        batch["length"] = np.where(steps["unit"] > 0, np.minimum(steps["length"], steps["unit"]), steps["length"])
        return batch.view(np.recarray)
    starts = np.concatenate((ends[:1] - pieces(steps[:1]), ends[:-1]))
    inside = np.minimum(ends, first + count) - np.maximum(starts, first)
    at = np.repeat(np.arange(len(steps)), inside)
    piece = rows - starts[at]
    batch = np.zeros(count, OP)
    for name in _SAME:
        batch[name] = steps[name][at]
    unit = steps["unit"][at]
    batch["offset"] = steps["offset"][at] + piece * steps["stride"][at]
    left = steps["length"][at] - piece * unit
    batch["length"] = np.where(unit > 0, np.minimum(left, unit), left)
    batch["buffer"] = steps["buffer"][at] + piece * steps["buffer_stride"][at]
    return batch.view(np.recarray)


class Stream:
    """Base of the workloads built from STEPs (a records.Source): a subclass has `header`, `files`, `interval` and `steps`."""

    header: dict[str, Any]
    files: Files
    interval = 1000  # ns between two operations

    def steps(self) -> Iterator[np.ndarray]:
        """Yield arrays of STEP; may be called several times and yields the same each time."""
        raise NotImplementedError

    @cached_property
    def rows(self) -> int:
        """Return the number of operations, SETUP included, by generating the STEPs once."""
        return sum(int(pieces(steps).sum()) for steps in self.steps())

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of `chunk` rows, the last one shorter."""
        if chunk < 1:
            raise UsageError(f"a chunk of {chunk} rows is impossible; give at least 1")
        row, have, waiting = 0, 0, []
        for steps in self.steps():
            waiting.append(steps)
            have += int(pieces(steps).sum())
            if have < chunk:
                continue
            joined = np.concatenate(waiting) if len(waiting) > 1 else steps
            ends, first = np.cumsum(pieces(joined)), 0
            while have >= chunk:
                yield self._timed(expand(joined, ends, first, chunk), row)
                first, row, have = first + chunk, row + chunk, have - chunk
            waiting = [_rest(joined, ends, first)]
        if have:
            joined = np.concatenate(waiting)
            yield self._timed(expand(joined, np.cumsum(pieces(joined)), 0, have), row)

    def _timed(self, batch: np.recarray, row: int) -> np.recarray:
        batch["time_ns"] = self.interval * np.arange(row, row + len(batch), dtype=np.int64)
        return batch


def _rest(steps: np.ndarray, ends: np.ndarray, first: int) -> np.ndarray:
    """Return the STEPs from operation `first` on; a STEP that has started is shortened."""
    at = int(np.searchsorted(ends, first, "right"))
    rest = steps[at:].copy()
    if len(rest):
        done = first - (int(ends[at]) - int(pieces(steps[at : at + 1])[0]))
        rest["offset"][0] += done * rest["stride"][0]
        rest["buffer"][0] += done * rest["buffer_stride"][0]
        rest["length"][0] -= done * rest["unit"][0]
    return rest


def check_times(rows: int, interval: int) -> None:
    """Raise UsageError if the times of a stream would exceed 62 bits."""
    if rows > MAX_ROWS or rows * interval >= 1 << 62:
        raise UsageError(
            f"{rows:,} operations {interval} ns apart overflow the trace's clock; make the interval shorter"
        )
