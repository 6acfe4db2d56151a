"""Drives a file-system model without the pipeline and adds up its events in plain Python.

What an event means is taken from records.py alone: STORE, NTSTORE and LOAD move `length` bytes, or, where
`negated_page_bytes` is negative, its opposite in each 4096-byte page of their run; FLUSH writes back every line of its run
max(1, flush_count) times; FENCE counts `fence_count`; WORK holds thousandths of `instructions`, `loads` and `stores`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scmsim.core.records import EVENT, FENCE, FLUSH, LOAD, NTSTORE, OP, OP_COLUMNS, OPS, PM, STORE, Files, joined
from scmsim.fs.engine import model
from scmsim.pipeline import model_params

GUARD = 1 << 12  # events behind the event buffer
# Parameters with which files grow, of models whose files do not by default: what holds of every model is tested with them.
GROWING = {
    "daxfs": {"gaps": "filled"},
    "device-dax": {"writes": "ported"},
    "famfs": {"growth": "logged"},
    "hugetlbfs": {"writes": "ported"},
}
FIELDS = ("stored", "nt", "loaded", "flushes", "fences")


def files(*first_sizes: int, dirs: Sequence[int] = (), names: Sequence[str] = ()) -> Files:
    """Side table of files with these sizes before the trace (-1: none); `dirs` are the rows that are directories."""
    path = list(names) or [f"/d/file-{i}" for i in range(len(first_sizes))]
    is_dir = np.array([i in dirs for i in range(len(first_sizes))], bool)
    return Files(path, np.array(first_sizes, np.int64), is_dir)


def ops(*rows: tuple) -> np.recarray:
    """OP records, 1 us apart, from (op name, file, offset, length, file2, flag); missing ones are 0, -1 for file2."""
    batch = np.zeros(len(rows), OP).view(np.recarray)
    for i, row in enumerate(rows):
        op, file, offset, length, file2, flag = (*row, *("", 0, 0, 0, -1, 0)[len(row) :])
        batch[[*OP_COLUMNS]][i] = (1000 * i, offset, length, file, file2, 0, flag, 0, OPS.index(op))
    return batch


def source(side: Files, batch: np.recarray) -> Any:
    """A records.Source of one array of operations."""

    class Rows:
        header: dict = {"tool": "test"}
        files = side
        rows = len(batch)

        def batches(self, chunk: int = 1 << 14) -> Any:
            for start in range(0, len(batch), chunk):
                yield batch[start : start + chunk]

    return Rows()


class Model(model.Model):
    """A file-system model by its parameters' texts, whose buffers are guarded."""

    def __init__(self, fs: str, side: Files, room: int = 1 << 12, **params: int | str) -> None:
        super().__init__(fs, model_params("fs", fs, {**GROWING.get(fs, {}), **params}), side, room)

    def buffer(self, room: int) -> np.ndarray:
        """An event buffer of `room` events with an area behind it that must stay untouched."""
        self._guarded = np.zeros(room + GUARD, EVENT)
        return self._guarded[:room]

    @property
    def record(self) -> np.record:
        return self.state.record[0]

    def events(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        for events in super().events(batch):
            beyond = np.count_nonzero(self._guarded[len(self.out) :].view(np.uint8))
            assert len(events) == self.record.emitted and not beyond, f"events beyond a buffer of {len(self.out)}"
            yield events

    def feed(self, batch: np.recarray) -> np.recarray:
        """Take all operations; returns every event, in order."""
        parts = [events.copy() for events in self.events(batch)]
        return joined([self.out[:0], *parts]).view(np.recarray)


def lines(addr: int, length: int) -> int:
    """64-byte lines that [addr, addr + length) touches."""
    return (addr + length - 1) // 64 - addr // 64 + 1


def moved(event: np.record) -> int:
    """Bytes that a LOAD, STORE or NTSTORE moves."""
    addr, length, width = int(event.addr), int(event.length), int(event.width)
    return length if width >= 0 else -width * ((addr + length - 1) // 4096 - addr // 4096 + 1)


def flushed(event: np.record) -> int:
    """Write-backs of a FLUSH run: its lines width times, or the lines of -width bytes in each page (strided)."""
    addr, length, width = int(event.addr), int(event.length), int(event.width)
    if width >= 0:
        return lines(addr, length) * max(1, width)
    return lines(addr % 4096, -width) * ((addr + length - 1) // 4096 - addr // 4096 + 1)


def persistent(events: np.recarray, sites: Sequence[str]) -> dict[str, Counter]:
    """Per field of FIELDS: site -> how much, over the events that touch persistent memory (flushes: any space)."""
    sums = {field: Counter() for field in FIELDS}
    for event in events:
        if event.length <= 0:
            continue
        site, code = sites[event.site], int(event.code)
        if code == FENCE:
            sums["fences"][site] += int(event.length)
        elif code == FLUSH:
            sums["flushes"][site] += flushed(event)
        elif event.space == PM and code == LOAD:
            sums["loaded"][site] += moved(event)
        elif event.space == PM and code in (STORE, NTSTORE):
            sums["stored"][site] += moved(event)
            sums["nt"][site] += moved(event) if code == NTSTORE else 0
    return {field: Counter({site: n for site, n in sums[field].items() if n}) for field in FIELDS}
