"""Walk over the crash points of a recording, and track which stores may have arrived and which file states are allowed.

Crash points are before each fence that makes a store durable and after each call, as in the check of a model.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np

from scmsim.core.errors import unknown
from scmsim.core.records import FSYNC, MSYNC, OPS, RENAME, SETUP, SYNC, SYNCHRONOUS, WRITE
from scmsim.crash._cache import Cache, Extent
from scmsim.crash._history import History
from scmsim.crash.kernel._files import FIRST, Words
from scmsim.fs.recovery.expected import Files, FileState
from scmsim.fs.recovery.image import PAGE, Image, Label, label_of
from scmsim.fs.recovery.image import Write as ModelWrite
from scmsim.fs.recovery.model import Guarantee
from scmsim.lab import persistence
from scmsim.lab.persistence import Entry, Recording, StateWriter

_FENCES = {persistence.FENCED: "the fence", persistence.LOCKED_FENCE: "the locked instruction"}


class Store(NamedTuple):
    """A run of stores of one kind, which `_cache.Cache` handles like a model's write."""

    addr: int
    length: int
    entry: Entry
    operation: int


class Point(NamedTuple):
    """A crash point: its operation, the event before which power fails, and the extents that may be lost."""

    operation: int
    before: str
    extents: list[Extent]


class _Arrived:
    """Stand-in for the image `Cache.durable`, which passes arrived stores to a writer of states."""

    def __init__(self, writer: StateWriter | None) -> None:
        self.writer = writer

    def apply(self, write: Store, low: int, high: int) -> None:
        if self.writer:
            self.writer.arrived(*clipped(write, low, high))


class Walk(History):
    """One pass over a recording.

    Parameters
    ----------
    locked : bool
        Whether a locked instruction orders write-backs, as on x86; otherwise only fences do.
    dropped : str
        Function whose write-backs, including those of its callees, are ignored; "" for none.
    writer : StateWriter, optional
        Receives the stores that have certainly arrived.
    """

    def __init__(
        self,
        recording: Recording,
        guarantee: Guarantee,
        locked: bool,
        dropped: str = "",
        writer: StateWriter | None = None,
    ) -> None:
        super().__init__(guarantee, FIRST)
        self.recording, self.locked, self.dropped = recording, locked, dropped
        self.cache = Cache()
        self.cache.durable = cast(Image, _Arrived(writer))
        self.operations = recording.operations.copy().view(np.recarray)
        done = (self.operations.op == WRITE) & (np.array(recording.results) > 0)
        self.operations.length[done] = np.array(recording.results)[done]  # short writes: the bytes written
        self.now = -1  # the operation that began last
        self.words = Words(len(recording.results) + FIRST)
        self.stamp: dict[int, int] = {}  # file -> a number that changes with its allowed states
        self.not_followed: set[int] = set()  # files whose states are not tracked
        self.before = Files()  # the files before the operation `now`
        self._stores = 0
        self._moved = False  # whether a store was executed since the last point
        for file, row in enumerate(recording.files):
            if row["first_size"] >= 0:
                size = 0 if row["directory"] else int(row["first_size"])
                pages: dict[int, Label] = {page: label_of(FIRST, page * PAGE) for page in range(-(-size // PAGE))}
                self.files.now[file] = FileState(frozenset({FIRST}), size, pages)

    def points(self) -> Iterator[Point]:
        """Yield the crash points in order; until the next is requested, the walk's state is the state at the point."""
        for entry in self.recording.entries:
            if entry.kind == persistence.BEGUN:
                self._begin()
            elif entry.kind == persistence.ENDED:
                point = self._end()
                if point:
                    yield point
            elif entry.kind in _FENCES and (entry.kind == persistence.FENCED or self.locked):
                if self._checked() and any(entry.cpu in extent.flushed for extent in self.cache.extents()):
                    yield self._point(f"{_FENCES[entry.kind]} of {self.recording.function(entry.code)}")
                self.cache.fence(entry.cpu)
            elif entry.kind in (persistence.STORED, persistence.NT_STORED):
                self._store(entry)
            elif entry.kind == persistence.WRITTEN_BACK and not self._drops(entry):
                self.cache.flush(entry.at, entry.at + persistence.LINE * entry.length, entry.cpu)

    def _drops(self, entry: Entry) -> bool:
        return bool(self.dropped) and self.dropped in self.recording.chain(entry)

    def _store(self, entry: Entry) -> None:
        self._stores += 1
        self._moved = True
        store = Store(entry.at, entry.length, entry, self.now)
        past_cache = entry.kind == persistence.NT_STORED and not self._drops(entry)
        self.cache.store(self._stores, cast(ModelWrite, store), past_cache, entry.cpu)

    def _begin(self) -> None:
        self.now += 1
        op, succeeded = self.operations[self.now], self.recording.results[self.now] >= 0
        self.before.now = before = dict(self.files.now)
        self.files.changed = {}
        if not succeeded:
            if op.op == WRITE:
                self.not_followed.add(int(op.file))  # a failed write may have written part of its data
            return
        if op.op == RENAME and len(self.files.of(int(op.file)).names) > 1:
            self.not_followed.add(int(op.file))  # the trace does not record which of several names was renamed
        self.words.take(op, self.now + FIRST + 1, self.files.of(int(op.file)))
        self.files.apply(op, self.now + FIRST + 1)
        self.remember(op, before, self.files.changed)
        for file in self.files.changed:
            self.stamp[file] = self.stamp.get(file, 0) + 1

    def _end(self) -> Point | None:
        op = self.operations[self.now]
        held = set(self.history)
        if self.recording.results[self.now] >= 0:
            self.synced(op, True)
        for file in held - set(self.history):
            self.stamp[file] = self.stamp.get(file, 0) + 1
        syncs = op.op in (FSYNC, MSYNC, SYNC) or (op.op == WRITE and op.flag & SYNCHRONOUS) or self.guarantee.at_return
        return self._point("the next call") if (self._moved or syncs) and self._checked() else None

    def _checked(self) -> bool:
        return self.now >= 0 and not self.operations[self.now].flag & SETUP

    def _point(self, before: str) -> Point:
        self._moved = False
        return Point(self.now, before, self.cache.extents())


def clipped(write: Store, low: int, high: int) -> tuple[int, bytes]:
    """Return the part of a store in [low, high): (address, bytes)."""
    low, high = max(low, write.addr), min(high, write.addr + write.length)
    return low, write.entry.data[low - write.addr : high - write.addr]


def left(extents: list[Extent], counts: tuple[int, ...]) -> list[tuple[int, bytes]]:
    """Return the stores (address, bytes) of a crash in which extent i persisted its first `counts[i]` stores."""
    chosen: list[tuple[int, Any, Extent]] = [
        (number, write, extent)
        for extent, count in zip(extents, counts, strict=True)
        for number, write in extent.writes[:count]
    ]
    chosen.sort(key=lambda one: one[0])
    return [clipped(write, extent.low, extent.high) for _, write, extent in chosen]


def lost(recording: Recording, extents: list[Extent], counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return a dict for each lost extent: address, number of lines, functions and operation of the first lost store."""
    found = []
    for extent, count in zip(extents, counts, strict=True):
        if count == len(extent.writes):
            continue
        store = cast(Store, extent.writes[count][1])
        kind = OPS[recording.operations["op"][store.operation]] if store.operation >= 0 else ""
        found.append(
            {
                "line": hex(extent.low),
                "lines": (extent.high - extent.low) // persistence.LINE,
                "functions": list(recording.chain(store.entry)),
                "operation": store.operation,
                "call": kind,
            }
        )
    return found


def check_dropped(recording: Recording, function: str) -> None:
    """Raise UnknownName unless the function or one of its callees writes something back."""
    names = {
        name
        for entry in recording.entries
        if entry.kind in (persistence.NT_STORED, persistence.WRITTEN_BACK)
        for name in recording.chain(entry)
    }
    if function not in names:
        raise unknown("function that writes back", function, sorted(names))
