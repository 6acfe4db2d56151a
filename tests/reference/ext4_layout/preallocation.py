"""Blocks that mballoc takes in advance: for a file, or for all small files of a CPU (a locality group).

Linux 6.1, fs/ext4/mballoc.c: struct ext4_prealloc_space, ext4_mb_new_inode_pa, ext4_mb_add_n_trim and the discarding.
"""

from dataclasses import dataclass

from tests.reference.ext4_layout.groups import Groups

_LISTS = 10  # PREALLOC_TB_SIZE
_MOST_IN_LIST, _KEPT_IN_LIST = 8, 5
_MOST_OF_FILE = 512  # MB_DEFAULT_MAX_INODE_PREALLOC


@dataclass(eq=False)
class Preallocation:
    """Blocks [physical, physical + length) of which `free` are unused.

    `owner` is the file that they are for, from its block `logical` on; None: any small file.
    """

    physical: int
    length: int
    logical: int = 0
    owner: object = None
    free: int = 0

    def __post_init__(self) -> None:
        """Start unused."""
        self.free = self.length

    def covers(self, logical: int) -> bool:
        """Return whether a file's block has its place here."""
        return self.logical <= logical < self.logical + self.length


class Preallocations:
    """All preallocations of a file system with one CPU."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        # by fls(free) - 1; within a list by rising number of free blocks
        self.small: list[list[Preallocation]] = [[] for _ in range(_LISTS)]

    def unused(self) -> int:
        """Return the unused blocks of all preallocations."""
        return sum(each.free for group in self.groups.all for each in group.preallocations)

    def add(self, new: Preallocation) -> None:
        """Register a new preallocation."""
        self._group_list(new).insert(0, new)
        if new.owner is not None:
            new.owner.preallocations.insert(0, new)

    def nearest(self, length: int, goal: int) -> Preallocation | None:
        """Return the small files' preallocation with enough free blocks that is nearest to a block."""
        found = None
        for order in range(_order(length), _LISTS):
            for each in self.small[order]:
                if each.free >= length and (found is None or abs(goal - found.physical) > abs(goal - each.physical)):
                    found = each
        return found

    def used(self, each: Preallocation, length: int) -> None:
        """Update a preallocation after blocks of it were used: ext4_mb_release_context."""
        if each.owner is None:
            group_list = self._group_list(each)
            self._take_from_small(each)
            each.physical, each.length, each.free = each.physical + length, each.length - length, each.free - length
            if each.free:
                self._sort_in(each)
        else:
            group_list = self._group_list(each)
            each.owner.preallocations.remove(each)
            each.owner.preallocations.insert(0, each)
        if not each.free:
            group_list.remove(each)
            if each.owner is not None:
                each.owner.preallocations.remove(each)

    def trim(self, owner: object) -> None:
        """Discard a file's least recently used preallocations if it has far too many."""
        count = len(owner.preallocations)
        if count > _MOST_OF_FILE + _MOST_OF_FILE // 4 + 1:
            self.discard(owner, count - _MOST_OF_FILE)

    def discard(self, owner: object, needed: int = 0) -> None:
        """Give back what is unused of a file's preallocations, oldest last: ext4_discard_preallocations."""
        count = min(needed or len(owner.preallocations), len(owner.preallocations))
        kept = len(owner.preallocations) - count
        for each in owner.preallocations[kept:]:
            self.groups.load(self.groups.place(each.physical)[0])
            self._group_list(each).remove(each)
            self._give_back(each)
        del owner.preallocations[kept:]

    def discard_for_space(self, needed: int) -> int:
        """Discard preallocations of all kinds, group by group, until enough blocks are free; return how many became free."""
        total = 0
        for group in self.groups.all:
            if total >= needed:
                break
            total += self._discard_group(group.number)
        return total

    def _discard_group(self, number: int) -> int:
        group = self.groups.all[number]
        if not group.preallocations:
            return 0
        self.groups.load(number)
        chosen, group.preallocations = group.preallocations[::-1], []
        total = sum(each.free for each in chosen)
        for each in chosen:
            if each.owner is None:
                self._take_from_small(each)
            else:
                each.owner.preallocations.remove(each)
            self._give_back(each)
        return total

    def _give_back(self, each: Preallocation) -> None:
        """Free what the bitmap on the disk does not show as used: ext4_mb_release_inode_pa, ext4_mb_release_group_pa."""
        number, start = self.groups.place(each.physical)
        if each.owner is None:
            self.groups.give(number, start, each.length)
            return
        disk, end = self.groups.all[number].disk, start + each.length
        at = disk.find(0, start, end)
        while at >= 0:
            last = disk.find(1, at, end)
            last = end if last < 0 else last
            self.groups.give(number, at, last - at)
            at = disk.find(0, last, end)

    def _sort_in(self, each: Preallocation) -> None:
        """Put a small files' preallocation in its list, and shorten a list that is too long: ext4_mb_add_n_trim."""
        found = self.small[_order(each.free)]
        at = next((i for i, other in enumerate(found) if each.free < other.free), len(found))
        found.insert(at, each)
        remaining = len(found)
        if remaining <= _MOST_IN_LIST:
            return
        chosen = []
        for other in [other for other in found if other is not each]:
            chosen.insert(0, other)
            remaining -= 1
            if remaining <= _KEPT_IN_LIST:
                break
        for other in chosen:
            found.remove(other)
            self.groups.load(self.groups.place(other.physical)[0])
            self._group_list(other).remove(other)
            self._give_back(other)

    def _take_from_small(self, each: Preallocation) -> None:
        for found in self.small:
            if each in found:
                found.remove(each)

    def _group_list(self, each: Preallocation) -> list[Preallocation]:
        return self.groups.all[self.groups.place(each.physical)[0]].preallocations


def _order(length: int) -> int:
    return min(length.bit_length() - 1, _LISTS - 1)
