"""Which inode a new file or directory gets: Orlov's allocator for directories, the parent's group for files.

Linux 6.1, fs/ext4/ialloc.c.
"""

from dataclasses import dataclass

from tests.reference.ext4_layout.hashing import half_md4
from tests.reference.ext4_layout.mballoc import Counter, Mballoc
from tests.reference.ext4_layout.mkfs import Disk

_RESERVED = 11  # inodes that mke2fs takes, lost+found included


class NoInodeLeft(Exception):
    """Error of a file system whose inodes are all used."""


@dataclass
class InodeGroup:
    """A group's inodes."""

    used: bytearray
    free: int
    directories: int


class Inodes:
    """The inodes of a mounted file system."""

    def __init__(self, disk: Disk, mballoc: Mballoc, seed: tuple[int, ...]) -> None:
        self.disk, self.mballoc, self.seed = disk, mballoc, seed
        self.groups = [InodeGroup(bytearray(disk.inodes_per_group), g.free_inodes, g.directories) for g in disk.groups]
        self.groups[0].used[:_RESERVED] = b"\1" * _RESERVED
        self.free = Counter(sum(group.free for group in self.groups))
        self.directories = Counter(sum(group.directories for group in self.groups))

    def take(self, parent, name: str, directory: bool) -> tuple[int, int]:
        """Return a new inode as (number, group): __ext4_new_inode."""
        group = self._orlov(parent, name) if directory else self._near(parent)
        parent.last_group = group
        for _ in self.groups:
            found = self.groups[group]
            at = found.used.find(0) if found.free else -1
            if at >= 0:
                break
            group = group + 1 if group + 1 < len(self.groups) else 0
        else:
            raise NoInodeLeft
        found.used[at] = 1
        found.free -= 1
        found.directories += directory
        self.free.add(-1)
        self.directories.add(int(directory))
        self.mballoc.groups.all[group].uninit = False
        return group * self.disk.inodes_per_group + at + 1, group

    def give(self, number: int, directory: bool) -> None:
        """Free an inode."""
        group, at = divmod(number - 1, self.disk.inodes_per_group)
        found = self.groups[group]
        found.used[at] = 0
        found.free += 1
        found.directories -= directory
        self.free.add(1)
        self.directories.add(-int(directory))

    def _near(self, parent) -> int:
        """Return a group for a file: find_group_other."""
        flex, count = self.disk.flex_size, len(self.groups)
        if flex > 1:
            for origin in (parent.group, parent.last_group):
                if origin is None:
                    continue
                first = origin // flex * flex
                for group in range(first, min(first + flex, count)):
                    if self.groups[group].free:
                        return group
            return self._orlov(parent, None)
        if self._usable(parent.group):
            return parent.group
        group, step = (parent.group + parent.number) % count, 1
        while step < count:
            group = (group + step) % count
            if self._usable(group):
                return group
            step <<= 1
        for i in range(1, count + 1):
            if self.groups[(parent.group + i) % count].free:
                return (parent.group + i) % count
        raise NoInodeLeft

    def _usable(self, group: int) -> bool:
        return bool(self.groups[group].free and self.mballoc.groups.all[group].disk_free)

    def _orlov(self, parent, name: str | None) -> int:
        """Return a group for a directory: find_group_orlov.  No name: for a file whose flex group is full."""
        flex, count = self.disk.flex_size, len(self.groups)
        units = -(-count // flex)
        mean_inodes, mean_blocks = self.free.rough // units, self.mballoc.free.rough // units
        home = parent.group // flex
        chosen = -1
        if name is not None and parent.is_root:
            chosen = self._emptiest(half_md4(name.encode(), self.seed)[0] % units, units, mean_inodes, mean_blocks)
        else:
            per_unit = self.disk.inodes_per_group * flex
            most_directories = self.directories.rough // units + per_unit // 16
            fewest_inodes = max(mean_inodes - per_unit // 4, 1)
            fewest_blocks = max(mean_blocks - self.disk.blocks_per_group * flex // 4, 0)
            if parent.last_group is not None:
                home = parent.last_group // flex
            for i in range(units):
                unit = (home + i) % units
                directories, inodes, blocks = self._totals(unit)
                if directories < most_directories and inodes >= fewest_inodes and blocks >= fewest_blocks:
                    chosen = unit
                    break
        if chosen >= 0:
            for group in range(chosen * flex, min(chosen * flex + flex, count)):
                if flex == 1 or self.groups[group].free:
                    return group
        return self._fallback(parent)

    def _emptiest(self, start: int, units: int, mean_inodes: int, mean_blocks: int) -> int:
        """Return the unit with the fewest directories among those not worse than the mean; -1: none."""
        fewest, chosen = self.disk.inodes_per_group, -1
        for i in range(units):
            unit = (start + i) % units
            directories, inodes, blocks = self._totals(unit)
            if inodes and directories < fewest and inodes >= mean_inodes and blocks >= mean_blocks:
                fewest, chosen = directories, unit
        return chosen

    def _totals(self, unit: int) -> tuple[int, int, int]:
        """Return (directories, free inodes, free blocks) of a flex group."""
        flex = self.disk.flex_size
        found = range(unit * flex, min(unit * flex + flex, len(self.groups)))
        blocks = sum(self.mballoc.groups.all[group].disk_free for group in found)
        return sum(self.groups[g].directories for g in found), sum(self.groups[g].free for g in found), blocks

    def _fallback(self, parent) -> int:
        count = len(self.groups)
        for least in (max(self.free.rough // count, 1), 1):
            for i in range(count):
                group = (parent.group + i) % count
                if self.groups[group].free >= least:
                    return group
        raise NoInodeLeft
