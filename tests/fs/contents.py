"""Follows the bytes: what a read brings into the program's memory is what was last written there, for any file system.

Every byte of a write has a number of its own.  The runs of a model's copies move these numbers between addresses, and the runs
that zero memory put zeros there.  No table of a model is looked at, so a wrong address anywhere on the way of the data shows.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from scmsim.core.records import KEEP_SIZE, LOAD, NTSTORE, PUNCH_HOLE, REMAP, STORE, USER
from tests.fs import drive

PAGE, SECOND = 4096, 10**9
UNTOUCHED, ANY = -1, -2  # of the program's memory; of a file's bytes: nothing is known of them


class Memory:
    """What is where, in numbers of bytes; 0 is a zero, and what memory holds at first."""

    def __init__(self) -> None:
        self.pages: dict[tuple[int, int], np.ndarray] = {}

    def put(self, space: int, addr: int, held: np.ndarray) -> None:
        """Store bytes."""
        for at in range(addr // PAGE, -(-(addr + len(held)) // PAGE)):
            page = self.pages.setdefault((space, at), np.zeros(PAGE, np.int64))
            first, stop = max(addr, at * PAGE), min(addr + len(held), (at + 1) * PAGE)
            page[first - at * PAGE : stop - at * PAGE] = held[first - addr : stop - addr]

    def zero(self, space: int, addr: int, length: int) -> None:
        """Store zeros, which may be many."""
        for key in [key for key in self.pages if key[0] == space and addr - PAGE < key[1] * PAGE < addr + length]:
            first, stop = max(addr - key[1] * PAGE, 0), min(addr + length - key[1] * PAGE, PAGE)
            self.pages[key][first:stop] = 0

    def get(self, space: int, addr: int, length: int) -> np.ndarray:
        """Load bytes."""
        pages = range(addr // PAGE, -(-(addr + length) // PAGE))
        held = [self.pages.get((space, at), np.zeros(PAGE, np.int64)) for at in pages]
        return np.concatenate([np.zeros(0, np.int64), *held])[addr % PAGE :][:length]


class Contents:
    """A model, the memory that its events change, and what its files should hold."""

    def __init__(self, model: drive.Model, sizes: Sequence[int], zeroed: bool) -> None:
        self.model, self.memory, self.zeroed, self.numbers, self.now = model, Memory(), zeroed, 1, 0
        sites = list(model.module.SITES.items())
        self.copies = {
            i
            for i, (name, kind) in enumerate(sites)
            if kind == "data" or "copy" in name or name in ("page cache", "read-in")
        }
        self.zeroing = {i for i, (_, kind) in enumerate(sites) if kind == "zeroing"}
        self.swaps = "mcow swap" in model.module.SITES
        self.files = {i: np.full(size, ANY) for i, size in enumerate(sizes) if size >= 0}

    def do(
        self, op: str, file: int, offset: int = 0, length: int = 0, file2: int = -1, flag: int = 0, buffer: int = 0
    ) -> bool:
        """One operation of the model and of what should be; a read's bytes are compared.  Returns whether it had room.

        What has no room does nothing; of a write it may do a part.
        """
        batch = drive.ops((op, file, offset, length, file2, flag))
        self.now += SECOND // 3  # so that timers end, too
        batch.buffer, batch.time_ns = buffer, self.now
        fresh = np.arange(self.numbers, self.numbers + length)
        self.numbers += length
        self.memory.put(USER, buffer, fresh if op == "write" else np.full(length + 1, UNTOUCHED))
        failed = int(self.model.record.failed)
        events = self.model.feed(batch)
        self._move(events)
        if int(self.model.record.failed) > failed:
            assert not (events.space == USER).any(), "a call that fails copied something"
            return False
        length = self.model.short.get(0, length)
        fresh = fresh[:length]
        held = self.files.get(file, np.zeros(0, np.int64))
        if op == "read":
            self._compare(held[offset : offset + length], self.memory.get(USER, buffer, length + 1))
        elif op == "write" and length:
            self.files[file] = np.concatenate([resized(held, offset), fresh, held[offset + length :]])
        elif op == "truncate":
            self.files[file] = resized(held, offset)
        elif op == "fallocate" and flag & PUNCH_HOLE:
            end = min(offset + length, len(held))
            self.files[file] = np.concatenate(
                [held[:offset], np.zeros(max(end - offset, 0), np.int64), held[max(end, offset) :]]
            )
        elif op == "fallocate" and not flag & KEEP_SIZE:
            self.files[file] = resized(held, max(len(held), offset + length))
            # Its strict mode replaces blocks that follow a hole (tests/fs/winefs/test_operations.py).
            if self.model.fs == "winefs":
                self.files[file][offset & -PAGE : -(-(offset + length) // PAGE) * PAGE] = ANY
        elif op == "unlink":
            self.files.pop(file, None)
        elif op == "rename" and file2 != file:
            self.files.pop(file2, None)
        return True

    def _compare(self, expected: np.ndarray, got: np.ndarray) -> None:
        """What a read should bring, and what is in the program's memory, with a byte more."""
        expected = np.append(expected, np.full(len(got) - len(expected), UNTOUCHED))
        known = (expected != ANY) & (self.zeroed | (expected != 0))
        wrong = np.flatnonzero(np.where(known, got != expected, got == UNTOUCHED))
        assert not len(wrong), f"byte {wrong[0]} of the read is {got[wrong[0]]}, not {expected[wrong[0]]}"

    def _move(self, events: Iterable[np.record]) -> None:
        """Each store takes the bytes that its mechanism loaded last."""
        loaded: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(0, np.int64))
        swapped = None
        for event in events:
            code, site, space = int(event.code), int(event.site), int(event.space)
            addr, length = int(event.addr), int(event.length)
            if site in self.copies and code == LOAD:
                loaded[site] = self.memory.get(space, addr, length)
            elif site in self.copies and code in (STORE, NTSTORE) and len(loaded[site]):
                self.memory.put(space, addr, loaded[site][:length])
                loaded[site] = loaded[site][length:]
            elif site in self.zeroing | self.copies and code in (STORE, NTSTORE):
                self.memory.zero(space, addr, length)
            elif code == REMAP and self.swaps:  # two in a row: what is at the one is then at the other
                if swapped is not None:
                    held = self.memory.get(space, swapped, length), self.memory.get(space, addr, length)
                    self.memory.put(space, addr, held[0])
                    self.memory.put(space, swapped, held[1])
                swapped = addr if swapped is None else None


def resized(held: np.ndarray, size: int) -> np.ndarray:
    """Cut, or longer by zeros."""
    return np.append(held[:size], np.zeros(max(size - len(held), 0), np.int64))
