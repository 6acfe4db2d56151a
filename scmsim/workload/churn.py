"""A random history of file creations, growth, truncation and removal: it tests a file system's allocator, and models no program.

The calls are appends in units of random sizes (to one file, or to several in turn), overwrites, truncations, reservations, punched
holes, removals and renames over another file.  Some files stay open between their calls, because a kernel keeps preallocated blocks
until the last writer closes.  The weights are our choice.  `scmsim lab layout` compares where a kernel and a model put the blocks.
"""

import random
from collections.abc import Generator, Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    OPEN,
    PUNCH_HOLE,
    RENAME,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
)
from scmsim.workload import _stream

SUMMARY = "a random history of files that are created, grown, shrunk and deleted, to exercise block allocation"
PARAMS = {
    "operations": ("1000", "calls", "minimum number of calls"),
    "files": ("40", "files", "maximum number of files at any time"),
    "dirs": ("4", "directories", "directories, chosen at random for each new file"),
    "unit": ("4MiB", "bytes", "largest transfer; transfer sizes are log-uniform"),
    "writers": ("3", "files", "maximum number of files that a step appends to in turn"),
    "reserve": ("1", "bool", "also fallocate and punch holes; 0 for ext2, which supports neither"),
    "device": ("2GiB", "bytes", "size of the device"),
    "fill": ("20", "percent", "largest share of the device that the files take"),
    "seed": ("1", "seed", "seed of all draws"),
    "interval": ("1us", "time", "trace time between two calls"),
}
PAGE = 4096
_STEPS: dict[str, float] = {  # kind of step -> weight
    "create": 25, "append": 30, "overwrite": 10, "truncate": 8, "unlink": 6, "rename": 3, "fsync": 6, "close": 5, "sync": 1,
}  # fmt: skip
_RESERVE: dict[str, float] = {"reserve": 5, "punch": 6}
_WHOLE = 0.5  # share of sizes that are a power of two times a page
_STAYS = 0.3  # share of files that stay open after a step
_BURSTS = (1, 1, 2, 4, 8)  # numbers of appends to each file in a step, equally likely
Row = tuple[int, int, int, int, int, int]  # op, file, offset, length, file2, flag


class Workload(_stream.Stream):
    """Stream of the history (a records.Source); see PARAMS: sizes in bytes, `fill` in percent, interval in nanoseconds.

    Raises UsageError for numbers below 1, an impossible share, or a share that holds fewer than four units.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        p.at_least(1, "operations", "files", "dirs", "writers")
        p.at_least(PAGE, "unit")
        if not 1 <= p.fill <= 100:
            raise UsageError(f"fill = {p.fill} percent; it must be from 1 to 100")
        if p.device * p.fill // 100 < 4 * p.unit:
            raise UsageError(
                f"{p.fill} percent of a device of {p.device} bytes is less than four units of {p.unit}; make the unit smaller"
            )
        self.steps = {**_STEPS, **(_RESERVE if p.reserve else {})}
        self.p = p
        made = _History(self.steps, p)
        self.rows = sum(1 for _ in made.rows())
        self.files = _stream.table(
            made.paths, [0] * (1 + p.dirs) + [-1] * (len(made.paths) - 1 - p.dirs), np.arange(len(made.paths)) <= p.dirs
        )

    def pieces(self) -> Iterator[np.ndarray]:
        """Return the calls in order."""
        return _stream.in_pieces(_History(self.steps, self.p).rows())


def _pages(length: int) -> int:
    """Return a number of bytes, rounded up to whole pages."""
    return -(-length // PAGE) * PAGE


class _History:
    """Generator of the calls."""

    def __init__(self, steps: dict[str, float], p: _stream.Params) -> None:
        self.p, self.draw, self.steps = p, random.Random(p.seed), steps
        self.most = p.device * p.fill // 100  # maximum bytes that the files may take together
        self.paths = ["/churn", *[f"/churn/{k}" for k in range(p.dirs)]]
        self.sizes: dict[int, int] = {}  # size of each file that exists
        self.taken: dict[int, int] = {}  # bytes up to the end of its last block
        self.parents: dict[int, int] = {}
        self.open: list[int] = []

    def rows(self) -> Iterator[Row]:
        """Yield the calls: steps until there are enough, then the files that are still open are closed."""
        done = 0
        while done < self.p.operations:
            for row in self._step():
                done += 1
                yield row
        for file in list(self.open):
            yield self._close(file)

    def _step(self) -> Iterator[Row]:
        kind = self.draw.choices(tuple(self.steps), tuple(self.steps.values()))[0]
        if not self.sizes or (kind == "create" and len(self.sizes) < self.p.files):
            yield from self._append([self._new()], new=True)
        elif kind == "append":
            count = self.draw.randint(1, min(self.p.writers, len(self.sizes)))
            yield from self._append(self.draw.sample(list(self.sizes), count))
        elif kind in ("unlink", "create"):  # "create", but the maximum number of files exists
            yield from self._unlink(self.draw.choice(list(self.sizes)))
        elif kind == "rename":
            yield from self._rename()
        elif kind == "sync":
            yield SYNC, -1, -1, 0, -1, 0
        elif kind == "close":
            yield from [self._close(self.draw.choice(self.open))] if self.open else []
        else:
            change = {
                "overwrite": self._overwrite, "truncate": self._truncate, "fsync": self._fsync,
                "reserve": self._reserve, "punch": self._punch,
            }[kind]  # fmt: skip
            file = self.draw.choice(list(self.sizes))
            yield from self._opened(file)
            yield from change(file)
            yield from self._left(file)

    def _new(self) -> int:
        """Return a new file's number."""
        file, parent = len(self.paths), self.draw.randrange(1, 1 + self.p.dirs)
        self.paths.append(f"{self.paths[parent]}/{file}")
        self.parents[file] = parent
        return file

    def _size(self) -> int:
        """Draw the length in bytes of a transfer or of a hole."""
        pages = self.p.unit // PAGE
        if self.draw.random() < _WHOLE:
            return PAGE << self.draw.randrange(pages.bit_length())
        return max(1, int(self.p.unit ** self.draw.random()))

    def _opened(self, file: int) -> Iterator[Row]:
        if file not in self.open:
            self.open.append(file)
            yield OPEN, file, -1, 0, -1, 0

    def _close(self, file: int) -> Row:
        self.open.remove(file)
        return CLOSE, file, -1, 0, -1, 0

    def _left(self, file: int) -> Iterator[Row]:
        """Close a file after a step, unless it stays open."""
        if self.draw.random() >= _STAYS:
            yield self._close(file)

    def _append(self, files: list[int], new: bool = False) -> Iterator[Row]:
        """Yield appends to the files in turn; each file has one size of append."""
        for file in files:
            if new:
                self.sizes[file] = self.taken[file] = 0
                self.open.append(file)
                yield CREATE, file, -1, 0, self.parents[file], 0
            else:
                yield from self._opened(file)
        units = {file: self._size() for file in files}
        for _ in range(self.draw.choice(_BURSTS)):
            for file in files:
                at = yield from self._room(file, self.sizes[file], units[file], files)
                yield WRITE, file, at, units[file], -1, 0
                self._grow(file, at + units[file])
        for file in files:
            yield from self._left(file)

    def _grow(self, file: int, end: int) -> None:
        self.sizes[file] = max(self.sizes[file], end)
        self._reach(file, end)

    def _reach(self, file: int, end: int) -> None:
        self.taken[file] = max(self.taken[file], _pages(end))

    def _room(self, file: int, at: int, length: int, busy: list[int]) -> Generator[Row, None, int]:
        """Unlink files, then truncate `busy` ones, until a write at `at` fits; return its offset (0 if `file` was truncated)."""
        while sum(self.taken.values()) - self.taken[file] + max(self.taken[file], _pages(at + length)) > self.most:
            others = [one for one in self.sizes if one not in busy]
            if others:
                yield from self._unlink(self.draw.choice(others))
                continue
            largest = max(busy, key=lambda one: self.taken[one])
            cut = largest if self.taken[largest] else file
            yield TRUNCATE, cut, 0, 0, -1, 0
            self.sizes[cut] = self.taken[cut] = 0
            at = 0 if cut == file else at
        return at

    def _unlink(self, file: int) -> Iterator[Row]:
        if file in self.open:
            yield self._close(file)
        yield UNLINK, file, -1, 0, self.parents[file], 0
        del self.sizes[file], self.taken[file]

    def _rename(self) -> Iterator[Row]:
        """Rename a file: over another file, which is removed, or to a new name in the same directory."""
        file, other = (self.draw.choice(list(self.sizes)) for _ in range(2))
        if other == file:
            yield RENAME, file, -1, 0, -1, 0
            return
        if other in self.open:
            yield self._close(other)
        yield RENAME, file, -1, 0, other, 0
        self.parents[file] = self.parents[other]
        del self.sizes[other], self.taken[other]

    def _overwrite(self, file: int) -> Iterator[Row]:
        """Yield a write that begins within the file, or after its end (the hole between has no blocks)."""
        length, whole = self._size(), self.sizes[file]
        at = self.draw.randrange(whole + 1) if self.draw.random() < 0.9 else whole + self._size()
        if self.draw.random() < _WHOLE:
            at -= at % PAGE
        at = yield from self._room(file, at, length, [file])
        yield WRITE, file, at, length, -1, 0
        self._grow(file, at + length)

    def _truncate(self, file: int) -> Iterator[Row]:
        """Yield a truncation, which makes one file in five longer."""
        whole = self.sizes[file]
        to = whole + self._size() if self.draw.random() < 0.2 else self.draw.randrange(whole + 1)
        yield TRUNCATE, file, to, 0, -1, 0
        self.sizes[file] = to
        self.taken[file] = min(self.taken[file], _pages(to)) if to < whole else self.taken[file]

    def _fsync(self, file: int) -> Iterator[Row]:
        yield FSYNC, file, -1, 0, -1, 0

    def _reserve(self, file: int) -> Iterator[Row]:
        """Yield a reservation at the file's end, with or without a change of its size."""
        length, keep = self._size(), self.draw.random() < 0.5
        at = yield from self._room(file, self.sizes[file], length, [file])
        yield FALLOCATE, file, at, length, -1, KEEP_SIZE if keep else 0
        self._reach(file, at + length)
        if not keep:
            self._grow(file, at + length)

    def _punch(self, file: int) -> Iterator[Row]:
        """Yield a hole within the file."""
        whole = self.sizes[file]
        if whole:
            at = self.draw.randrange(whole)
            yield FALLOCATE, file, at, min(self._size(), whole - at), -1, PUNCH_HOLE | KEEP_SIZE
