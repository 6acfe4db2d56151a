"""A random mix of every kind of call on many small files: it measures what each kind does, and represents no program.

The mix has four parts, in this order:

- random calls; an fsync among them commits what several calls on several files changed, and never a folder
- commits of one file or folder
- loads and stores through mappings, after the calls, so that the pages that calls touch do not depend on them
- calls without an fsync or sync, mostly on names, whose changes a journal holds until the next sync

Weights and sizes are our choice.  The mix trains the footprints of calls (`scmsim lab footprints`), so it must not test them.
"""

import random
from collections.abc import Iterator

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CREATE,
    DATA_ONLY,
    DIRECTORY,
    DOTS_BYTES,
    ENTRY_BYTES,
    FALLOCATE,
    FSYNC,
    LINK,
    MKDIR,
    MMAP,
    MSYNC,
    MUNMAP,
    OPEN,
    READ,
    READDIR,
    RENAME,
    RMDIR,
    SETUP,
    STAT,
    SYNC,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
)
from scmsim.workload import _stream

SUMMARY = "a random mix of every kind of call on many small files"
PARAMS = {
    "calls": ("6000", "calls", "minimum number of counted calls"),
    "files": ("300", "files", "files that exist at the start"),
    "seed": ("1", "seed", "seed of all draws"),
    "commits": ("0", "rounds", "rounds that make one file or its folder durable, after the calls"),
    "mapped": ("250", "mappings", "mappings with loads and stores, after the calls"),
    "unsynced": ("6000", "calls", "minimum number of calls other than fsync and sync, made after all other calls"),
    "interval": ("1us", "time", "trace time between two calls"),
}
SIZES = (512, 1024, 4096, 6000, 16384, 40000, 65536, 262144)  # bytes of a transfer and of a file at the start
SMALL = (512, 1024, 4096)  # bytes of a write that is made durable at once
TOUCHES = (1, 4, 8, 16)  # touches per mapping
TOUCHED = (8, 64, 4096, 16384)  # bytes of a touch
WHOLE = 65536  # bytes of each read of a whole file
# bytes of some files that are mapped: their faults need pages of the page table and nodes of the kernel's trees
LARGE = 4 << 20
LARGE_FILES = 6
DIRS = 8
_STEPS: dict[str, float] = {  # kind of step -> weight
    "create": 8, "name": 11, "stat": 6, "mkdir": 2, "readdir": 3, "sync": 0.2, "map": 5, "whole": 5, "transfer": 60,
    "durable": 6,
}  # fmt: skip
_UNSYNCED: dict[str, float] = {
    "create": 30, "name": 40, "stat": 6, "mkdir": 2, "readdir": 3, "whole": 5, "transfer": 15,
}  # fmt: skip


class Workload(_stream.Stream):
    """Stream of the mix (a records.Source); for the parameters see PARAMS. The interval is in nanoseconds.

    Raises UsageError if there are fewer than 1 call or file, or a negative number of commits, mappings or calls without a sync.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        p.at_least(1, "calls", "files")
        p.at_least(0, "commits", "mapped", "unsynced")
        self.asked, self.seed = (p.calls, p.files, p.commits, p.mapped, p.unsynced), p.seed
        made = _Mix(p.seed)
        self.rows = sum(1 for _ in made.rows(*self.asked))
        self.files = _stream.table(made.paths, [0] * (1 + DIRS) + [-1] * (len(made.paths) - 1 - DIRS), made.folders)

    def pieces(self) -> Iterator[np.ndarray]:
        """Return the calls in order."""
        return _stream.in_pieces(_Mix(self.seed).rows(*self.asked))


class _Mix:
    """Generator of calls; a row is (op, file, offset, length, file2, flag)."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.paths = ["/mix", *[f"/mix/{i}" for i in range(DIRS)]]
        self.folders = [True] * (1 + DIRS)
        self.sizes: dict[int, int] = {}  # bytes of each live file
        self.parents: dict[int, int] = {}
        self.names: dict[int, int] = {}  # number of names of each file that has more than one

    def rows(self, calls: int, files: int, commits: int, mapped: int, unsynced: int) -> Iterator[tuple[int, ...]]:
        """Yield the calls that make the first files, uncounted; then calls, commits, mappings, and calls without a sync."""
        for _ in range(files):
            yield from self._prepared(self.draw.choice(SIZES))
        yield from self._calls(calls, _STEPS)
        for _ in range(commits):
            yield from self._commit()
        for _ in range(LARGE_FILES if mapped else 0):
            yield from self._prepared(LARGE)
        for _ in range(mapped):
            yield from self._touched(self.draw.choice([file for file, length in self.sizes.items() if length]))
        yield from self._calls(unsynced, _UNSYNCED, FSYNC)

    def _calls(self, count: int, weights: dict[str, float], but: int = -1) -> Iterator[tuple[int, ...]]:
        """Yield steps of at least `count` calls, leaving out the kind `but`."""
        done = 0
        while done < count:
            for row in self._step(weights):
                if row[0] != but:
                    done += 1
                    yield row

    def _prepared(self, length: int) -> Iterator[tuple[int, ...]]:
        """Yield the calls that make a file for the start, uncounted."""
        file, row = self._create(SETUP)
        yield row
        yield WRITE, file, 0, length, -1, SETUP
        yield CLOSE, file, -1, 0, -1, SETUP
        self.sizes[file] = length

    def _create(self, flag: int = 0) -> tuple[int, tuple[int, ...]]:
        parent, file = self.draw.randrange(1, 1 + DIRS), self._named(False)
        self.sizes[file], self.parents[file] = 0, parent
        self.paths[file] = f"{self.paths[parent]}/{file}"
        return file, (CREATE, file, -1, 0, parent, flag)

    def _named(self, folder: bool) -> int:
        self.paths.append(f"/mix/{len(self.paths)}")
        self.folders.append(folder)
        return len(self.paths) - 1

    def _step(self, weights: dict[str, float]) -> Iterator[tuple[int, ...]]:
        """Yield the calls of one random step, such as a new file, a change of a name, or some transfers."""
        kind = self.draw.choices(tuple(weights), tuple(weights.values()))[0]
        file = self.draw.choice(list(self.sizes)) if self.sizes else -1
        if kind == "create" or file < 0:
            yield from self._new_file()
        elif kind == "name":
            yield self._name(file)
        elif kind == "mkdir":
            folder = self._named(True)
            yield MKDIR, folder, -1, 0, 0, 0
            if self.draw.random() < 0.7:
                yield RMDIR, folder, -1, 0, 0, 0
        elif kind == "readdir":
            folder = self.draw.randrange(1, 1 + DIRS)
            names = sum(self.parents[one] == folder for one in self.sizes)
            calls = ((OPEN, 0), (READDIR, DOTS_BYTES + names * ENTRY_BYTES), (READDIR, 0), (CLOSE, 0))
            yield from ((op, folder, -1, length, -1, 0) for op, length in calls)
        elif kind == "sync":
            yield SYNC, -1, -1, 0, -1, 0
        elif kind == "stat":
            yield STAT, file, -1, 0, -1, 0
        else:
            yield OPEN, file, -1, 0, -1, 0
            steps = {"map": self._map, "whole": self._whole, "transfer": self._transfers, "durable": self._durable}
            yield from steps[kind](file)

    def _name(self, file: int) -> tuple[int, ...]:
        """Return a call that adds, changes or removes a name."""
        kind = self.draw.choices(("link", "rename", "unlink"), (2, 3, 6))[0]
        if kind == "link":
            self.names[file] = self.names.get(file, 1) + 1
            return LINK, file, -1, 0, self.parents[file], 0
        if kind == "unlink":
            self._unnamed(file)
            return UNLINK, file, -1, 0, self.parents[file], 0
        other = self.draw.choice(list(self.sizes))
        replaced = other if other != file and other not in self.names and self.draw.random() < 0.3 else -1
        if replaced >= 0:
            self._unnamed(replaced)
        return RENAME, file, -1, 0, replaced, 0

    def _unnamed(self, file: int) -> None:
        """Record that a file has lost a name."""
        left = self.names.pop(file, 1) - 1
        if left > 1:
            self.names[file] = left
        if not left:
            del self.sizes[file]

    def _map(self, file: int) -> Iterator[tuple[int, ...]]:
        """Yield a mapping that is undone before or after the file is closed."""
        ends = [(op, file, 0, self.sizes[file], -1, 0) for op in (CLOSE, MUNMAP)]
        if self.sizes[file]:
            yield MMAP, file, 0, self.sizes[file], -1, 0
            yield from ends if self.draw.random() < 0.5 else ends[::-1]
        else:
            yield CLOSE, file, -1, 0, -1, 0

    def _touched(self, file: int) -> Iterator[tuple[int, ...]]:
        """Yield a mapping with loads, stores and msync, undone before or after the file is closed."""
        whole, writable = self.sizes[file], self.draw.random() < 0.7
        yield OPEN, file, -1, 0, -1, 0
        yield MMAP, file, 0, whole, -1, WRITABLE_SHARED if writable else 0
        for _ in range(self.draw.choice(TOUCHES) * (8 if whole == LARGE else 1)):
            kind = self.draw.choices(("load", "store", "sync"), (6, 4, 1) if writable else (1, 0, 0))[0]
            at = self.draw.randrange(whole)
            if kind == "sync":
                yield MSYNC, file, 0, whole, -1, 0
            else:
                length = min(self.draw.choice(TOUCHED), whole - at)
                yield ULOAD if kind == "load" else USTORE, file, at, length, -1, 0
        ends = [(op, file, 0, whole, -1, 0) for op in (CLOSE, MUNMAP)]
        yield from ends if self.draw.random() < 0.5 else ends[::-1]

    def _whole(self, file: int) -> Iterator[tuple[int, ...]]:
        """Yield the reads of a whole file, with the last read that returns nothing."""
        for at in range(0, self.sizes[file], WHOLE):
            yield READ, file, at, min(WHOLE, self.sizes[file] - at), -1, 0
        yield READ, file, self.sizes[file], 0, -1, 0
        yield CLOSE, file, -1, 0, -1, 0

    def _durable(self, file: int) -> Iterator[tuple[int, ...]]:
        """Yield a few small writes and an fsync, repeatedly: elsewhere in the mix an fsync has more to write back."""
        for _ in range(self.draw.choice((2, 4, 8))):
            for _ in range(self.draw.choice((1, 2, 4))):
                whole, length = self.sizes[file], self.draw.choice(SMALL)
                at = self.draw.choice((self.draw.randrange(whole), whole)) if whole else 0
                self.sizes[file] = max(whole, at + length)
                yield WRITE, file, at, length, -1, 0
            yield self._sync(file)
        yield CLOSE, file, -1, 0, -1, 0

    def _commit(self) -> Iterator[tuple[int, ...]]:
        """Yield a new file and its removal, or changes of an old file; the file or its folder is made durable after each."""
        if self.draw.random() < 0.5:
            file, row = self._create()
            folder = self.parents[file]
            yield row
            if self.draw.random() < 0.5:
                yield from self._synced_folder(folder)
            yield from self._durable(file)
            if self.draw.random() < 0.5:
                yield from self._synced_folder(folder)
            self._unnamed(file)
            yield UNLINK, file, -1, 0, folder, 0
        else:
            file = self.draw.choice(list(self.sizes))
            yield OPEN, file, -1, 0, -1, 0
            yield from self._durable(file)
            if self.draw.random() < 0.5:
                yield from self._synced_folder(self.parents[file])

    def _synced_folder(self, folder: int) -> Iterator[tuple[int, ...]]:
        """Yield an fsync of a folder."""
        yield OPEN, folder, -1, 0, -1, DIRECTORY
        yield FSYNC, folder, -1, 0, -1, DIRECTORY | self.draw.choice((0, DATA_ONLY))
        yield CLOSE, folder, -1, 0, -1, DIRECTORY

    def _transfers(self, file: int) -> Iterator[tuple[int, ...]]:
        for _ in range(self.draw.choice((1, 1, 2, 3, 6))):
            yield self._transfer(file)
        yield CLOSE, file, -1, 0, -1, 0

    def _new_file(self) -> Iterator[tuple[int, ...]]:
        file, row = self._create()
        yield row
        for _ in range(self.draw.randrange(3)):
            yield self._append(file, WRITE)
        if self.draw.random() < 0.3:
            yield self._sync(file)
        yield CLOSE, file, -1, 0, -1, 0

    def _transfer(self, file: int) -> tuple[int, ...]:
        kind = self.draw.choices(
            ("read", "append", "rewrite", "sync", "truncate", "reserve", "stat"), (35, 25, 20, 10, 4, 3, 3)
        )[0]
        whole = self.sizes[file]
        if kind == "append" or (kind in ("read", "rewrite", "truncate") and not whole):
            return self._append(file, WRITE)
        if kind == "sync":
            return self._sync(file)
        if kind == "reserve":
            return self._append(file, FALLOCATE)
        if kind == "stat":
            return STAT, file, -1, 0, -1, 0
        at, length = self.draw.randrange(whole), self.draw.choice(SIZES)
        if kind == "truncate":
            self.sizes[file] = at
            return TRUNCATE, file, at, 0, -1, 0
        if kind == "read":
            return READ, file, at, length, -1, 0
        self.sizes[file] = max(whole, at + length)
        return WRITE, file, at, length, -1, 0

    def _append(self, file: int, op: int) -> tuple[int, ...]:
        at, length = self.sizes[file], self.draw.choice(SIZES)
        self.sizes[file] += length
        return op, file, at, length, -1, 0

    def _sync(self, file: int) -> tuple[int, ...]:
        return FSYNC, file, -1, 0, -1, self.draw.choice((0, DATA_ONLY))
