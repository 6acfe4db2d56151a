"""Random histories of file operations for layout_cases.py, of six kinds.

`mixed`: what programs do with some files; `full`: a small device that gets full; `gaps`: many small files, some removed, then
larger ones; `names`: directories with many entries; `options`: the first three with other options of mke2fs; `sparse`: one file
with many extents and holes.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

PAGE, MIB = 4096, 1 << 20
_UNITS = [PAGE, 4 * PAGE, 16 * PAGE, 32 * PAGE, MIB, 4 * MIB, 5000, 100000]
_MOST_WRITTEN = 300 * MIB
_NAME = 200  # longest random name


@dataclass
class History:
    """A history: the device's size, words for mke2fs, lines, the paths that are there at the end, and whether without DAX."""

    mib: int
    lines: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    cached: bool = False

    def add(self, *words: object) -> None:
        """Add a line."""
        self.lines.append(" ".join(map(str, words)))


def make(kind: str, seed: int) -> History:
    """Return the history of a kind and a seed; the same at every call."""
    return KINDS[kind](random.Random(f"{kind} {seed}"))


class _Mixed:
    """Random calls on up to 60 files in up to 8 directories."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.history = History(draw.choice([256, 256, 512, 1024, 1536, 2048, 2048, 3072, 4096]))
        self.folders = [""]
        self.paths: dict[str, int] = {}  # path -> descriptor's number
        self.open: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.unit = draw.choice(_UNITS)
        self.names, self.budget = 0, _MOST_WRITTEN

    def run(self) -> History:
        weights = {
            self._create: 12, self._append: 38, self._interleave: 8, self._write_anywhere: 8, self._truncate: 5,
            self._fallocate: 6, self._punch: 6, self._close: 4, self._reopen: 3, self._unlink: 4, self._mkdir: 2,
            self._rename: 1.5, self._sync: 1.5, self._fsync: 1,
        }  # fmt: skip
        for _ in range(self.draw.randrange(20, 160)):
            act = self.draw.choices(list(weights), list(weights.values()))[0]
            (act if self.open else self._create)()
            if self.draw.random() < 0.02:
                self.unit = self.draw.choice(_UNITS)
        if self.draw.random() < 0.5:
            for descriptor in sorted(self.open):
                self.history.add("close", descriptor)
        self.history.paths = [*self.paths, *(folder or "/" for folder in self.folders)]
        return self.history

    def _new_path(self) -> str:
        self.names += 1
        return f"{self.draw.choice(self.folders)}/f{self.names}"

    def _one(self) -> int:
        return self.draw.choice(sorted(self.open))

    def _create(self) -> None:
        if len(self.sizes) < 60:
            path, descriptor = self._new_path(), len(self.sizes)
            self.history.add("create", descriptor, path)
            self.paths[path], self.sizes[descriptor] = descriptor, 0
            self.open.add(descriptor)

    def _write(self, descriptor: int, offset: int, length: int) -> None:
        if self.budget >= length:
            self.budget -= length
            self.history.add("write", descriptor, offset, length)
            self.sizes[descriptor] = max(self.sizes[descriptor], offset + length)

    def _append(self) -> None:
        descriptor = self._one()
        for _ in range(self.draw.randrange(1, 12)):
            other = self.draw.randrange(1, 1 << self.draw.randrange(1, 23))
            length = self.draw.choice([self.unit, self.unit, self.unit, PAGE, other])
            self._write(descriptor, self.sizes[descriptor], length)

    def _interleave(self) -> None:
        pair = self._one(), self._one()
        for _ in range(self.draw.randrange(1, 10)):
            for descriptor in pair:
                self._write(descriptor, self.sizes[descriptor], self.unit)

    def _write_anywhere(self) -> None:
        descriptor = self._one()
        offset = self.draw.randrange(0, self.sizes[descriptor] * 2 + MIB)
        if self.draw.random() < 0.6:
            offset = offset // PAGE * PAGE
        self._write(descriptor, offset, self.draw.randrange(1, 1 << self.draw.randrange(2, 22)))

    def _truncate(self) -> None:
        descriptor = self._one()
        size = self.sizes[descriptor]
        longer = size + self.draw.randrange(8 * MIB)
        self.sizes[descriptor] = self.draw.choice([0, size // 2, self.draw.randrange(size + 1), longer, size])
        self.history.add("truncate", descriptor, self.sizes[descriptor])

    def _fallocate(self) -> None:
        descriptor, keep = self._one(), self.draw.randrange(2)
        size = self.sizes[descriptor]
        offset = self.draw.choice([0, size, self.draw.randrange(size + 4 * MIB)])
        length = self.draw.choice([PAGE, 16 * PAGE, MIB, self.draw.randrange(1, 32 * MIB)])
        self.history.add("fallocate", descriptor, offset, length, keep)
        if not keep:
            self.sizes[descriptor] = max(size, offset + length)

    def _punch(self) -> None:
        descriptor = self._one()
        size = self.sizes[descriptor]
        if size:
            offset = self.draw.randrange(size)
            length = self.draw.randrange(1, max(2, size) if self.draw.random() < 0.5 else MIB)
            if self.draw.random() < 0.6:
                offset, length = offset // PAGE * PAGE, -(-length // PAGE) * PAGE
            self.history.add("punch", descriptor, offset, length)

    def _close(self) -> None:
        descriptor = self._one()
        self.history.add("close", descriptor)
        self.open.remove(descriptor)

    def _reopen(self) -> None:
        closed = [path for path, descriptor in self.paths.items() if descriptor not in self.open]
        if closed:
            path = self.draw.choice(closed)
            self.history.add("open", self.paths[path], path)
            self.open.add(self.paths[path])

    def _unlink(self) -> None:
        if self.paths:
            path = self.draw.choice(list(self.paths))
            descriptor = self.paths.pop(path)
            self.history.add("unlink", path)
            if descriptor in self.open and self.draw.random() < 0.7:
                self.history.add("close", descriptor)
                self.open.remove(descriptor)

    def _mkdir(self) -> None:
        if len(self.folders) < 8:
            path = f"{self.draw.choice(self.folders)}/d{len(self.folders)}"
            self.history.add("mkdir", path)
            self.folders.append(path)

    def _rename(self) -> None:
        if self.paths:
            path = self.draw.choice(list(self.paths))
            others = [other for other in self.paths if other != path]
            new = self.draw.choice(others) if others and self.draw.random() < 0.5 else self._new_path()
            self.history.add("rename", path, new)
            self.paths[new] = self.paths.pop(path)

    def _sync(self) -> None:
        self.history.add("sync")

    def _fsync(self) -> None:
        self.history.add("fsync", self._one())


def _full(draw: random.Random) -> History:
    history, sizes = History(draw.choice([64, 64, 96, 128, 200, 256])), {}
    for number in range(draw.randrange(40, 200)):
        chance = draw.random()
        if chance < 0.3 or not sizes:
            history.add("create", number, f"/f{number}")
            sizes[number] = 0
        one = draw.choice(list(sizes))
        if chance < 0.75:
            unit = draw.choice([PAGE, 16 * PAGE, MIB, 4 * MIB, draw.randrange(1, 8 * MIB)])
            for _ in range(draw.randrange(1, 8)):
                history.add("write", one, sizes[one], unit)
                sizes[one] += unit
        elif chance < 0.82:
            history.add("fallocate", one, draw.choice([0, sizes[one]]), draw.randrange(1, 40 * MIB), draw.randrange(2))
        elif chance < 0.88:
            sizes[one] = draw.randrange(sizes[one] + 1)
            history.add("truncate", one, sizes[one])
        elif chance < 0.92:
            history.add("punch", one, draw.randrange(sizes[one] + 1), draw.randrange(1, 4 * MIB))
        elif chance < 0.97:
            history.add("unlink", f"/f{one}")
            history.add("close", one)
            del sizes[one]
        elif chance < 0.98:
            history.add("sync")
    history.paths = [*(f"/f{number}" for number in sizes), "/"]
    return history


def _gaps(draw: random.Random) -> History:
    history, live, names = History(draw.choice([128, 256, 512, 1024, 2048, 3072])), [], iter(range(10**6))

    def create() -> None:
        live.append(f"/f{next(names)}")
        history.add("create", 0, live[-1])

    for _ in range(draw.randrange(1, 4)):
        small = draw.choice([PAGE, 2 * PAGE, 20000, 16 * PAGE, 70000, 200000])
        for _ in range(draw.randrange(20, 250)):
            create()
            history.add("write", 0, 0, draw.choice([small, small, draw.randrange(1, 300000)]))
            history.add("close", 0)
        if draw.random() < 0.3:
            history.add("sync")
        draw.shuffle(live)
        for path in live[: len(live) // 2]:
            history.add("unlink", path)
        del live[: len(live) // 2]
        if draw.random() < 0.8:
            history.add("sync")
        for _ in range(draw.randrange(1, 4)):
            create()
            unit, count = draw.choice([PAGE, 16 * PAGE, MIB, 3 * MIB]), draw.randrange(1, 20)
            for number in range(count):
                history.add("write", 0, number * unit, unit)
            if draw.random() < 0.3:
                history.add("fallocate", 0, count * unit, draw.randrange(1, 200 * MIB), 0)
            history.add("close", 0)
    history.paths = [*live, "/"]
    return history


def _names(draw: random.Random) -> History:
    history, folders, files = History(draw.choice([256, 1024, 2048, 4096])), [""], []
    for _ in range(draw.randrange(2, 8)):
        for _ in range(draw.randrange(6)):
            name = draw.choice(["d", "directory", "x" * draw.randrange(1, 40)])
            folders.append(f"{draw.choice(folders)}/{name}{len(folders)}")
            history.add("mkdir", folders[-1])
        folder = draw.choice(folders)
        for _ in range(draw.randrange(1, 400)):
            name = draw.choice(["f", "file_", "a_longer_name_of_a_file_", "z" * draw.randrange(1, _NAME)])
            files.append(f"{folder}/{name}{len(history.lines)}")
            history.add("create", 0, files[-1])
            if draw.random() < 0.3:
                history.add("write", 0, 0, draw.choice([1, PAGE, 30000, 200000]))
            history.add("close", 0)
            if draw.random() < 0.1:
                history.add("unlink", files.pop(draw.randrange(len(files))))
        if draw.random() < 0.2:
            history.add("sync")
    history.paths = [*files[::5], *(folder or "/" for folder in folders)]
    return history


def _options(draw: random.Random) -> History:
    history = draw.choice([_mixed, _gaps, _full])(draw)
    off = ["has_journal"] if draw.random() < 0.2 else []
    if draw.random() < 0.4:
        history.words += ["-G", str(draw.choice([2, 4, 8, 32]))]
    elif draw.random() < 0.5:
        off.append("flex_bg")
    if draw.random() < 0.4:
        history.words += ["-g", str(draw.choice([4096, 8192, 16384]))]
    if draw.random() < 0.3:
        history.words += ["-E", f"stride=16,stripe_width={draw.choice([16, 64, 128, 512])}"]
    if draw.random() < 0.3:
        history.words += ["-i", str(draw.choice([PAGE, 16 * PAGE, MIB]))]
    if draw.random() < 0.2:
        off.append("resize_inode")
    if off:
        history.words += ["-O", ",".join(f"^{name}" for name in off)]
    return history


def _sparse(draw: random.Random) -> History:
    history, span = History(draw.choice([256, 1024, 2048])), draw.choice([4 * MIB, 64 * MIB, 1 << 30, 1 << 33])
    history.add("create", 0, "/a")
    history.add("create", 1, "/b")
    for _ in range(draw.randrange(100, 900)):
        one, chance = int(draw.random() >= 0.9), draw.random()
        offset = draw.randrange(span) // PAGE * PAGE
        if chance < 0.6:
            history.add("write", one, offset, PAGE * draw.choice([1, 1, 1, 2, 5, 16, draw.randrange(1, 100)]))
        elif chance < 0.75:
            history.add("fallocate", one, offset, PAGE * draw.randrange(1, 200), draw.randrange(2))
        elif chance < 0.97:
            history.add("punch", one, offset, PAGE * draw.randrange(1, 300))
        elif chance < 0.98:
            history.add("truncate", one, draw.randrange(span))
        elif chance < 0.985:
            history.add("sync")
        elif chance < 0.99:
            history.add("read", one, offset, MIB)
    history.paths = ["/a", "/b", "/"]
    return history


def _mixed(draw: random.Random) -> History:
    return _Mixed(draw).run()


KINDS: dict[str, Callable[[random.Random], History]] = {
    "mixed": _mixed, "full": _full, "gaps": _gaps, "names": _names, "options": _options, "sparse": _sparse,
}  # fmt: skip
