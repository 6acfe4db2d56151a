"""Data caches in plain Python, written from the rules and not from the kernel: each set is a list of lines, the latest first.

A line that misses takes its place in each level from the nearest to the farthest; then what left these places leaves, from the
farthest level to the nearest.
"""

from collections import Counter
from typing import Any


class Level:
    """One level: for each set, the lines in order of use, and which lines are dirty."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.ways = table["ways"]
        self.count = table["size"] // 64 // self.ways
        self.fill = table.get("fill", "non-inclusive")
        self.sets: list[list[int]] = [[] for _ in range(self.count)]
        self.dirty: set[int] = set()

    def has(self, line: int) -> bool:
        return line in self.sets[line % self.count]

    def remove(self, line: int) -> bool:
        """Remove a line; return whether it was dirty."""
        if self.has(line):
            self.sets[line % self.count].remove(line)
        was = line in self.dirty
        self.dirty.discard(line)
        return was

    def bring(self, line: int) -> list[tuple[int, bool]]:
        """Make a line the latest of its set; return what had to go, with whether it was dirty."""
        one = self.sets[line % self.count]
        if line in one:
            one.remove(line)
        one.insert(0, line)
        return [(gone, self.remove(gone)) for gone in one[self.ways :]]


class Hierarchy:
    """The levels of a machine, and what was counted: by name, as `scmsim.cache` counts it."""

    def __init__(self, tables: list[dict[str, Any]], keeps: bool, prefetch: str = "none") -> None:
        self.levels, self.keeps, self.counts = [Level(table) for table in tables], keeps, Counter[str]()
        self.prefetch = prefetch
        self.latest: dict[int, tuple[int, int]] = {}  # page: (place, line of its latest miss)
        self.place = 0

    def access(self, line: int, side: str) -> None:
        is_miss = not self.levels[0].has(line)
        self.look_up(line, side)
        if is_miss:
            self.fetch_others(line)

    def fetch_others(self, line: int) -> None:
        page, ahead = line // 64, 0
        if self.prefetch == "next-line":
            ahead = 1
        elif self.prefetch == "stream":
            place, latest = self.latest.get(page, (self.place, None))
            if page not in self.latest:
                self.latest = {other: at for other, at in self.latest.items() if at[0] != place}
                self.place = (place + 1) % 16
            elif latest == line - 1:
                ahead = 4
            self.latest[page] = (place, line)
        for other in range(line + 1, line + ahead + 1):
            if other // 64 == page:
                if self.levels[0].has(other):
                    self.counts["prefetch_lines"] += 1
                    self.counts["prefetch_l1_hit"] += 1
                else:
                    self.look_up(other, "prefetch")

    def look_up(self, line: int, side: str) -> None:
        self.counts[f"{side}_lines"] += 1
        leaving, found = [], len(self.levels)
        for k, level in enumerate(self.levels):
            if k:
                self.counts[f"{side}_l{k + 1}_lookups"] += 1
            if level.has(line):
                found = k
                break
        if found < len(self.levels):
            self.counts[f"{side}_l{found + 1}_hit"] += 1
        else:
            self.counts[f"{side}_memory"] += 1
        for k, level in enumerate(self.levels[: found + 1]):
            if side == "prefetch" and k == 0:
                continue
            if level.fill == "exclusive":
                if k == found and level.remove(line):
                    self.levels[k - 1].dirty.add(line)
            else:
                leaving += [(k, *gone) for gone in level.bring(line)]
        if side == "store":
            self.levels[0].dirty.add(line)
        while leaving:
            k, gone, dirty = leaving.pop()
            if self.levels[k].fill == "inclusive":
                same = [(near, other, d) for near, other, d in leaving if other == gone]
                leaving = [item for item in leaving if item not in same]
                dirty |= any(d for _, _, d in same)
            self.leave(k, gone, dirty)

    def leave(self, k: int, line: int, dirty: bool) -> None:
        """Let a line leave level `k`."""
        if self.levels[k].fill == "inclusive":
            dirty |= any([near.remove(line) for near in self.levels[:k]])
        if k + 1 == len(self.levels):
            self.counts["written_back_evicted"] += dirty
            return
        level = self.levels[k + 1]
        if dirty or level.fill == "exclusive":
            gone = [] if level.has(line) else level.bring(line)
            if dirty:
                level.dirty.add(line)
            for other, other_dirty in gone:
                self.leave(k + 1, other, other_dirty)

    def store_past(self, line: int, is_whole: bool) -> None:
        self.counts["nt_lines"] += 1
        dirty = any([level.remove(line) for level in self.levels])
        self.counts["written_back_evicted"] += dirty and not is_whole

    def flush(self, line: int) -> None:
        self.counts["flushed_lines"] += 1
        dirty = any([line in level.dirty for level in self.levels])
        for level in self.levels:
            level.dirty.discard(line)
            if not self.keeps:
                level.remove(line)
        self.counts["written_back_flushed"] += dirty
