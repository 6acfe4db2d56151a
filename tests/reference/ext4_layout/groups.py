"""The block groups of a mounted ext4: their buddies, and 6.1's lists of groups by what they have free.

Linux 6.1, fs/ext4/mballoc.c (struct ext4_group_info, mb_set_largest_free_order, mb_update_avg_fragment_size).  A group's
buddy is made when the group is first looked at; until then only its number of free blocks is known, and it is in no list.
"""

from dataclasses import dataclass, field

from tests.reference.ext4_layout.buddy import Buddy
from tests.reference.ext4_layout.mkfs import Disk


@dataclass(eq=False)
class Freed:
    """Blocks that a transaction freed: nobody may use them before it commits."""

    group: int
    start: int
    length: int
    transaction: int


@dataclass(eq=False)
class GroupInfo:
    """A group in memory."""

    number: int
    disk: bytearray  # the bitmap on the disk, 1: used
    disk_free: int
    uninit: bool  # EXT4_BG_BLOCK_UNINIT
    buddy: Buddy | None = None
    preallocations: list = field(default_factory=list)  # newest first
    freed: list[Freed] = field(default_factory=list)
    largest_order: int = -1
    fragment_order: int = -1

    @property
    def free(self) -> int:
        """Return the number of blocks that can be allocated now (bb_free)."""
        return self.buddy.free if self.buddy else self.disk_free


class Groups:
    """All groups of a file system.

    Attributes
    ----------
    by_largest, by_fragment : list of list of int
        For each order, the groups whose largest free chunk, or mean free run, has it; in the order in which they came.
    """

    def __init__(self, disk: Disk, optimized: bool | None = None) -> None:
        self.layout = disk
        self.top_order = disk.options.block_bytes.bit_length()  # 13 for 4 KiB blocks
        self.all = [
            GroupInfo(number, group.bitmap[:], group.free_blocks, group.block_uninit)
            for number, group in enumerate(disk.groups)
        ]
        self.optimized = len(self.all) >= 16 if optimized is None else optimized
        self.by_largest: list[list[int]] = [[] for _ in range(self.top_order + 1)]
        self.by_fragment: list[list[int]] = [[] for _ in range(self.top_order + 1)]
        self.freed: list[Freed] = []  # of all groups, oldest first

    def load(self, number: int) -> GroupInfo:
        """Return a group whose buddy is known."""
        group = self.all[number]
        if group.buddy is None:
            used = group.disk[:]
            for each in group.preallocations:
                start = self.place(each.physical)[1]
                used[start : start + each.length] = b"\1" * each.length
            for freed in group.freed:
                used[freed.start : freed.start + freed.length] = b"\1" * freed.length
            group.buddy = Buddy(used, self.top_order)
            self._update(group)
        return group

    def place(self, block: int) -> tuple[int, int]:
        """Return the group of a block and its number within the group."""
        return divmod(block - self.layout.first_data_block, self.layout.blocks_per_group)

    def take(self, number: int, start: int, length: int) -> None:
        """Take blocks out of a group's buddy."""
        group = self.all[number]
        group.buddy.take(start, length)
        self._update(group)

    def give(self, number: int, start: int, length: int) -> None:
        """Give blocks back to a group's buddy."""
        group = self.load(number)
        group.buddy.give(start, length)
        self._update(group)

    def mark_disk(self, number: int, start: int, length: int) -> None:
        """Mark blocks as used in the bitmap on the disk."""
        group = self.all[number]
        assert not any(group.disk[start : start + length]), "a used block is allocated"
        group.disk[start : start + length] = b"\1" * length
        group.disk_free -= length
        group.uninit = False

    def free_later(self, block: int, length: int, transaction: int) -> None:
        """Free blocks on the disk; in memory they become free when the transaction commits (ext4_free_blocks)."""
        while length:
            number, start = self.place(block)
            here = min(length, self.layout.blocks_per_group - start)
            group = self.load(number)
            assert 0 not in group.disk[start : start + here], "a free block is freed"
            group.disk[start : start + here] = bytes(here)
            group.disk_free += here
            if transaction < 0:  # no journal
                self.give(number, start, here)
            else:
                self._add_freed(group, Freed(number, start, here, transaction))
            block, length = block + here, length - here

    def _add_freed(self, group: GroupInfo, new: Freed) -> None:
        """Join the new blocks with neighbours of the same transaction; the result counts as the newest."""
        for other in [each for each in group.freed if each.transaction == new.transaction]:
            if other.start + other.length == new.start:
                new.start, new.length = other.start, other.length + new.length
            elif new.start + new.length == other.start:
                new.length += other.length
            else:
                continue
            group.freed.remove(other)
            self.freed.remove(other)
        group.freed.append(new)
        self.freed.append(new)

    def commit(self, transaction: int) -> None:
        """Make what a transaction freed available."""
        while self.freed and self.freed[0].transaction <= transaction:
            freed = self.freed.pop(0)
            self.all[freed.group].freed.remove(freed)
            self.give(freed.group, freed.start, freed.length)

    def fragment_order(self, length: int) -> int:
        """Return which list by mean free run a length belongs to: mb_avg_fragment_size_order."""
        return min(max(length.bit_length() - 2, 0), self.top_order)

    def _update(self, group: GroupInfo) -> None:
        """Move a group to the lists that it now belongs to."""
        largest = group.buddy.largest_order()
        if largest != group.largest_order:
            if group.largest_order >= 0:
                self.by_largest[group.largest_order].remove(group.number)
            if largest >= 0:
                self.by_largest[largest].append(group.number)
            group.largest_order = largest
        mean = self.fragment_order(group.buddy.free // group.buddy.fragments) if group.buddy.fragments else -1
        if mean != group.fragment_order:
            if group.fragment_order >= 0:
                self.by_fragment[group.fragment_order].remove(group.number)
            if mean >= 0:
                self.by_fragment[mean].append(group.number)
            group.fragment_order = mean
