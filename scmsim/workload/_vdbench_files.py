"""vdbench's file systems: a tree below each anchor, and the threads of the workloads that use it.

Source: vdbench 5.04.06 (FileAnchor.getFile, Directory.compareTo, OpFormat, OpRead, OpWrite, ActiveFile).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    DIRECTORY,
    FSYNC,
    MKDIR,
    OPEN,
    READ,
    RMDIR,
    SETUP,
    STAT,
    SYNCHRONOUS,
    UNLINK,
    WRITE,
    Files,
)
from scmsim.workload._vdbench import Entry, Parameters, Turns, drawn

MAX_FILES = 1 << 22
Row = tuple[int, ...]  # op, file, offset, length, file2, flag, thread
_SYNCHRONOUS = ("o_sync", "o_dsync", "o_rsync")


@dataclass
class Anchor:
    """A tree of directories and files: object ids, sizes, existing files, busy files, and the next file in order."""

    entry: Entry
    root: int
    dirs: list[tuple[int, int]] = field(default_factory=list)  # (object id, parent's id), in order of creation
    files: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)  # bytes in each file; -1: the file does not exist
    busy: set[int] = field(default_factory=set)
    next: int = 0
    selected: set[int] = field(default_factory=set)
    has_dirs: bool = False


class Tree:
    """All anchors of a parameter file."""

    def __init__(self, parameters: Parameters, runs: list[tuple[Entry, bool, list[Entry]]], seed: int) -> None:
        self.parameters = parameters
        random = np.random.default_rng([seed, 2])
        self.names: list[str] = []
        self.is_dir: list[bool] = []
        self.anchors: dict[str, Anchor] = {}
        self.counted = False  # whether a run has begun; a format before the first run is preparation
        for fsd in parameters.entries["fsd"]:
            anchor = Anchor(fsd, self._add(fsd["anchor"], True))
            self._populate(anchor, random)
            self.anchors[fsd.name] = anchor
        for anchor in self.anchors.values():
            first = next((one for one in runs if anchor in self.used(one[2])), None)
            formats = bool(first and first[1])
            creates = bool(first) and first[2][0]["operation"] == "create"  # type: ignore[index]
            anchor.has_dirs = not formats
            anchor.held = [-1 if formats or creates else size for size in anchor.sizes]

    def _add(self, name: str, is_dir: bool) -> int:
        self.names.append(name)
        self.is_dir.append(is_dir)
        return len(self.names) - 1

    def _populate(self, anchor: Anchor, random: np.random.Generator) -> None:
        """Add the directories in order of creation, then the files, sorted by depth and position of their directories."""
        fsd, levels = anchor.entry, list[tuple[int, int, int]]()  # depth, place, object id
        depth, width, count = fsd["depth"], fsd["width"], fsd["files"]
        total = sum(width**level for level in range(1, min(depth, 64) + 1))
        if not 0 < depth <= 64 or total * (1 + count) > MAX_FILES or not width or not count:
            raise UsageError(
                f"{fsd.at}: {total:,} directories with {count:,} files each; give 1 to {MAX_FILES:,} in all"
            )
        waiting = [(1, place, anchor.root) for place in range(width)][::-1]
        while waiting:
            level, place, parent = waiting.pop()
            here = self._add(f"{self.names[parent]}/vdb.{level}_{place + 1}.dir", True)
            anchor.dirs.append((here, parent))
            levels.append((level, place, here))
            if level < depth:
                waiting += [(level + 1, below, here) for below in range(width)][::-1]
        holding = [
            each for each in sorted(levels, key=lambda one: one[:2]) if fsd["distribution"] == "all" or each[0] == depth
        ]
        sizes, shares = zip(*fsd["sizes"], strict=True)
        drawn = random.choice(sizes, len(holding) * count, p=np.array(shares) / 100)
        for number, (_, _, parent) in enumerate(holding):
            for place in range(count):
                anchor.files.append(self._add(f"{self.names[parent]}/vdb_f{place + 1:04}.file", False))
                anchor.parents.append(parent)
                anchor.sizes.append(int(drawn[number * count + place]))

    def used(self, workloads: list[Entry]) -> list[Anchor]:
        """Return the anchors that workloads use."""
        return [self.anchors[fsd.name] for each in workloads for fsd in self.parameters.named("fsd", each["fsd"])]

    def table(self) -> Files:
        """Return the side table of the files and directories that exist before the first run."""
        first = np.full(len(self.names), -1, np.int64)
        for anchor in self.anchors.values():
            first[anchor.root] = 0
            if anchor.has_dirs:
                first[[here for here, _ in anchor.dirs]] = 0
            first[anchor.files] = anchor.held
        return Files([f"/{name.strip('/')}" for name in self.names], first, np.array(self.is_dir))

    def formatted(self, run: Entry, given: Entry, workloads: list[Entry]) -> Iterator[Row]:
        """Yield the calls of a format: remove what exists, then let the threads create directories and full files in turn.

        `clean` removes only, `directories` makes no files, `restart` keeps existing files.
        """
        flag = 0 if self.counted else SETUP
        unit, threads, how = int(given["xfersizes"][0][0]), int(given["threads"]), run["format"]
        keeps, makes_files = "restart" in how, not any("directories".startswith(word) for word in how)
        for anchor in {id(one): one for one in self.used(workloads)}.values():
            for index, file in enumerate(anchor.files):
                if anchor.held[index] >= 0 and not keeps:
                    yield UNLINK, file, -1, 0, anchor.parents[index], flag, 0
                    anchor.held[index] = -1
            if anchor.has_dirs and not keeps:
                for here, parent in reversed(anchor.dirs):
                    yield RMDIR, here, -1, 0, parent, flag | DIRECTORY, 0
                anchor.has_dirs = False
            if "clean" in how:
                continue
            for here, parent in () if anchor.has_dirs else anchor.dirs:
                yield MKDIR, here, -1, 0, parent, flag | DIRECTORY, 0
            written = flag | (SYNCHRONOUS if any(map(given.has, _SYNCHRONOUS)) else 0)
            for index, file in enumerate(anchor.files):
                thread, size = index % threads, anchor.sizes[index]
                if not makes_files or anchor.held[index] == size:
                    continue
                new = anchor.held[index] < 0
                yield CREATE if new else OPEN, file, -1, 0, anchor.parents[index] if new else -1, flag, thread
                for offset in range(0, size, unit):
                    yield WRITE, file, offset, min(unit, size - offset), -1, written, thread
                yield CLOSE, file, -1, 0, -1, flag, thread
                anchor.held[index] = size
            anchor.has_dirs = True


@dataclass
class Thread:
    """One thread of a workload: its open file (-1: none), and its progress in it."""

    number: int
    workload: Entry
    anchor: Anchor
    file: int = -1
    offset: int = 0
    last: int = 0
    blocks: int = 0
    moved: int = 0


class Run:
    """One run: the threads of its workloads, which take turns, and the workloads by their skew."""

    def __init__(
        self, tree: Tree, run: Entry, workloads: list[Entry], operations: int, random: np.random.Generator
    ) -> None:
        self.tree, self.random = tree, random
        self.left, self.bytes_left = operations or 1 << 62, run["maxdata"] or 1 << 62
        self.groups: list[list[Thread]] = []
        number = 0
        for each in workloads:
            for anchor in tree.used([each]):
                group = [Thread(number + place, each, anchor) for place in range(each["threads"])]
                self.groups.append(group)
                number += len(group)
        skews = [group[0].workload["skew"] for group in self.groups]
        rest = max(0, 100 - sum(skews)) / max(1, skews.count(0))
        self.shares = [
            skew or (rest if any(skews) else len(group)) for skew, group in zip(skews, self.groups, strict=True)
        ]
        for anchor in tree.anchors.values():
            anchor.selected, anchor.busy, anchor.next = set(), set(), 0

    def rows(self) -> Iterator[Row]:
        """Yield the calls of the run until its operations or its bytes are done, or no thread has more to do."""
        self.tree.counted = True
        order, turns = Turns(self.shares), [0] * len(self.groups)
        while self.left > 0 and self.bytes_left > 0 and any(self.groups):
            chosen = order.next([i for i, group in enumerate(self.groups) if group])
            group = self.groups[chosen]
            thread = group[turns[chosen] % len(group)]
            done = self._operation(thread)
            if done is None:
                group.remove(thread)
                yield from self._closed(thread)
                continue
            turns[chosen] = group.index(thread) + 1
            self.left -= 1
            yield from done
        for group in self.groups:
            for thread in group:
                yield from self._closed(thread)

    def _operation(self, t: Thread) -> list[Row] | None:
        """Return the calls of a thread's next operation, None if it has no more to do."""
        kind = t.workload["operation"]
        if kind in ("read", "write"):
            return self._transfer(t, kind)
        index = self._file(t, exists=kind != "create")
        if index < 0:
            return None
        a = t.anchor
        a.busy.discard(index)
        file, parent = a.files[index], a.parents[index]
        close = (CLOSE, file, -1, 0, -1, 0, t.number)
        if kind == "create":
            a.held[index] = 0
            return [(CREATE, file, -1, 0, parent, 0, t.number), close]
        if kind == "delete":
            a.held[index] = -1
            return [(UNLINK, file, -1, 0, parent, 0, t.number)]
        if kind in ("open", "close"):
            return [(OPEN, file, -1, 0, -1, 0, t.number), close]
        return [(STAT, file, -1, 0, -1, 0, t.number)]

    def _transfer(self, t: Thread, kind: str) -> list[Row] | None:
        """Return the calls of one block, after the calls that change to another file if needed."""
        w, rows = t.workload, list[Row]()
        is_random = "random".startswith(w["fileio"][0])
        unit = drawn(w["xfersizes"], self.random)
        if t.file >= 0 and (self._is_enough(t) or (not is_random and t.offset >= self._end(t, kind))):
            rows += self._closed(t)
        if t.file < 0:
            writes = kind == "write" or w["rdpct"] >= 0
            index = self._file(t, exists=kind == "read" or is_random or w["rdpct"] >= 0 or None, full=kind == "read")
            if index < 0:
                return rows or None
            rows += self._opened(t, index, writes)
        end = self._end(t, kind)
        is_read = kind == "read" if w["rdpct"] < 0 else self.random.random() * 100 < w["rdpct"]
        if is_random:
            t.offset = int(end // unit * self.random.random()) * unit
        length = min(unit, end - t.offset)
        a, flag = t.anchor, 0 if is_read or not self._is_synchronous(t) else SYNCHRONOUS
        rows.append((READ if is_read else WRITE, a.files[t.file], t.offset, length, -1, flag, t.number))
        if not is_read:
            a.held[t.file] = max(a.held[t.file], t.offset + length)
        t.offset += 0 if is_random else length
        t.blocks, t.moved, self.bytes_left = t.blocks + 1, t.moved + length, self.bytes_left - length
        return rows

    def _is_synchronous(self, t: Thread) -> bool:
        return any(t.workload.has(word) or t.anchor.entry.has(word) for word in _SYNCHRONOUS)

    def _end(self, t: Thread, kind: str) -> int:
        a = t.anchor
        return a.held[t.file] if kind == "read" and t.workload["rdpct"] < 0 else a.sizes[t.file]

    def _is_enough(self, t: Thread) -> bool:
        """Return whether a thread has moved `stopafter` blocks, or without stopafter as many bytes as the file has."""
        if t.workload["stopafter"]:
            return bool(t.blocks >= t.workload["stopafter"])
        return t.moved >= t.anchor.sizes[t.file]

    def _opened(self, t: Thread, index: int, writes: bool) -> list[Row]:
        a, rows = t.anchor, list[Row]()
        file, parent = a.files[index], a.parents[index]
        if writes and "delete" in t.workload["fileio"] and a.held[index] >= 0:
            rows.append((UNLINK, file, -1, 0, parent, 0, t.number))
            a.held[index] = -1
        is_new = a.held[index] < 0
        a.held[index] = max(a.held[index], 0)
        t.file, t.offset, t.blocks, t.moved = index, 0, 0, 0
        return [*rows, (CREATE if is_new else OPEN, file, -1, 0, parent if is_new else -1, 0, t.number)]

    def _closed(self, t: Thread) -> list[Row]:
        if t.file < 0:
            return []
        file, a = t.anchor.files[t.file], t.anchor
        a.busy.discard(t.file)
        t.file = -1
        syncs = t.workload.has("fsync") or a.entry.has("fsync")
        return [*[(FSYNC, file, -1, 0, -1, 0, t.number)] * syncs, (CLOSE, file, -1, 0, -1, 0, t.number)]

    def _file(self, t: Thread, exists: bool | None, full: bool = False) -> int:
        """Choose a file for a thread, in turn or at random, mark it busy and return its index; -1 if no file fits.

        `exists` says whether the file must exist (None: either), `full` that it must not be empty.  A busy file fits only if
        the workload shares files (fileio); with fileselect=once each file is chosen once.
        """
        a, w = t.anchor, t.workload
        count, once = len(a.files), "once" in w["fileselect"]
        is_random, shared = any("random".startswith(word) for word in w["fileselect"]), "shared" in w["fileio"]

        def fits(index: int) -> bool:
            if (index in a.busy and not shared) or (once and index in a.selected):
                return False
            return (exists is None or (a.held[index] >= 0) == exists) and (not full or a.held[index] > 0)

        index = -1
        if is_random:
            index = next((one for one in self.random.integers(0, count, 64).tolist() if fits(one)), -1)
            if index < 0:
                fitting = [one for one in range(count) if fits(one)]
                index = fitting[int(self.random.integers(len(fitting)))] if fitting else -1
        else:
            for step in range(count):
                if a.next + step >= count and once:
                    break
                if fits((a.next + step) % count):
                    index = (a.next + step) % count
                    a.next = index + 1
                    break
        if index >= 0:
            a.busy.add(index)
            a.selected.add(index)
        return index
