"""ext4's block allocator: which blocks a request gets.

Linux 6.1, fs/ext4/mballoc.c: ext4_mb_new_blocks, ext4_mb_normalize_request, ext4_mb_group_or_file.  One CPU; no quota.
"""

from dataclasses import dataclass, field
from typing import Protocol

from tests.reference.ext4_layout.groups import Groups
from tests.reference.ext4_layout.mkfs import Disk
from tests.reference.ext4_layout.preallocation import Preallocation, Preallocations
from tests.reference.ext4_layout.search import Context, Piece, Search

_STREAM_BLOCKS = 16  # MB_DEFAULT_STREAM_THRESHOLD: files of at most so many blocks share preallocations
_GROUP_BLOCKS = 512  # MB_DEFAULT_GROUP_PREALLOC
_MAX_LOGICAL = 0xFFFFFFFF  # EXT_MAX_BLOCKS
_MIB = 1 << 20


class NoSpaceLeft(Exception):
    """Error of a request that no group can serve."""


class Owner(Protocol):
    """What the allocator must know of a file."""

    size: int  # bytes
    writers: int  # descriptors open for writing
    preallocations: list[Preallocation]  # most recently used first


@dataclass
class Request:
    """A request for blocks (struct ext4_allocation_request).

    `left` and `right` are the nearest mapped blocks before and after, as (logical, physical); physical 0: none.
    """

    inode: Owner
    logical: int
    length: int
    goal: int
    data: bool = True  # of a regular file
    left: tuple[int, int] = (0, 0)
    right: tuple[int, int] = (0, 0)
    no_preallocation: bool = False
    try_goal: bool = False
    reserved: bool = False  # may use the blocks that are kept for changes of extent trees
    promised: bool = False  # the blocks were counted when pages became dirty (EXT4_MB_DELALLOC_RESERVED)


@dataclass
class Counter:
    """A per-CPU counter with one CPU: its rough value differs by less than a batch."""

    rough: int
    pending: int = field(default=0)

    def add(self, amount: int) -> None:
        """Add an amount."""
        self.pending += amount
        if abs(self.pending) >= 32:
            self.rough, self.pending = self.rough + self.pending, 0

    @property
    def exact(self) -> int:
        """Return the exact value."""
        return self.rough + self.pending


class Mballoc:
    """The allocator of a mounted file system."""

    def __init__(self, disk: Disk, optimized: bool | None = None, release: tuple[int, int] = (6, 1)) -> None:
        options = disk.options
        self.disk = disk
        if release < (5, 13):  # from then on: mb_optimize_scan
            optimized = False
        self.groups = Groups(disk, optimized)
        stripe = options.stripe_width or options.stride
        self.stripe = stripe if 1 < stripe <= disk.blocks_per_group else 0
        self.search = Search(self.groups, self.stripe, release)
        self.preallocations = Preallocations(self.groups)
        self.group_blocks = -(-_GROUP_BLOCKS // self.stripe) * self.stripe if self.stripe else _GROUP_BLOCKS
        self.free = Counter(sum(group.disk_free for group in self.groups.all))
        self.promised = Counter(
            0
        )  # blocks that requests in progress and dirty pages will get (s_dirtyclusters_counter)
        self.reserved = min(disk.blocks // 50, 4096)
        self.transaction = 1 if "has_journal" in options.features else -1

    def allocate(self, request: Request) -> tuple[int, int]:
        """Return the (first block, blocks) that a request gets, perhaps fewer than it asks for.

        Raises
        ------
        NoSpaceLeft
            If no block is free.
        """
        claimed = 0 if request.promised else self._affordable(request.length, request.reserved)
        self.promised.add(claimed)
        try:
            return self._serve(request, claimed or request.length)
        finally:
            self.promised.add(-claimed)

    def _serve(self, request: Request, length: int) -> tuple[int, int]:
        """Return the blocks of a request that the file system can afford."""
        length = min(length, self.disk.blocks_per_group)
        ac = self._context(request, length)
        if not self._use_preallocated(ac):
            self._normalize(ac, request)
            self.search.run(ac)
            while ac.status != "found" and self.preallocations.discard_for_space(length):
                ac.status = "continue"
                self.search.run(ac)
            if ac.status != "found":
                raise NoSpaceLeft
            if ac.wanted.length < ac.best.length:
                self._preallocate(ac)
        best = ac.best
        self.groups.mark_disk(best.group, best.start, best.length)
        self.free.add(-best.length)
        if ac.preallocation is not None:
            self.preallocations.used(ac.preallocation, best.length)
        self.preallocations.trim(request.inode)
        return self.disk.first_block(best.group) + best.start, best.length

    def free_blocks(self, block: int, length: int) -> None:
        """Free blocks; with a journal they stay unavailable until the transaction commits."""
        self.groups.free_later(block, length, self.transaction)
        self.free.add(length)

    def claim(self, length: int) -> int:
        """Take and return the first `length` adjacent free blocks, which may pass the ends of groups, for a file from before."""
        bitmap = b"".join(bytes(group.disk) for group in self.groups.all)
        first = at = bitmap.index(bytes(length))
        self.free.add(-length)
        while length:
            number, start = self.groups.place(at)
            here = min(length, self.disk.blocks_per_group - start)
            self.groups.load(number)
            self.groups.take(number, start, here)
            self.groups.mark_disk(number, start, here)
            at, length = at + here, length - here
        return first

    def commit(self) -> None:
        """End the running transaction."""
        if self.transaction > 0:
            self.groups.commit(self.transaction)
            self.transaction += 1

    def promise(self) -> None:
        """Promise a block to a dirty page: ext4_da_reserve_space."""
        self._affordable(1, False)
        self.promised.add(1)

    def _affordable(self, length: int, all_of_them: bool) -> int:
        """Return how many blocks the file system can promise, as root: ext4_claim_free_clusters."""
        kept = self.promised.exact + (0 if all_of_them else self.reserved)
        while length and self.free.exact < length + kept:
            length >>= 1
        if not length:
            raise NoSpaceLeft
        return length

    def _context(self, request: Request, length: int) -> Context:
        goal = request.goal
        if not self.disk.first_data_block <= goal < self.disk.blocks:
            goal = self.disk.first_data_block
        group, start = self.groups.place(goal)
        ac = Context(request.inode, Piece(request.logical, group, start, length), request.data)
        ac.no_preallocation, ac.try_goal = request.no_preallocation, request.try_goal
        if request.data:
            self._group_or_file(ac)
        return ac

    def _group_or_file(self, ac: Context) -> None:
        """Decide whether blocks are taken in advance for the file, for all small files, or not at all."""
        end, block = ac.wanted.logical_end, self.disk.options.block_bytes
        blocks = -(-ac.inode.size // block)
        for_file = not (end == blocks and ac.inode.writers == 0)
        if max(end, blocks) <= _STREAM_BLOCKS:
            ac.group_allocation = True
        elif for_file:
            ac.stream = True
        else:
            ac.no_preallocation = True

    def _use_preallocated(self, ac: Context) -> bool:
        """Take blocks from a preallocation if one covers the request: ext4_mb_use_preallocated."""
        if not ac.data:
            return False
        for each in ac.inode.preallocations:
            if each.covers(ac.wanted.logical) and each.free:
                self._use_of_file(ac, each)
                return True
        if not ac.group_allocation:
            return False
        goal = self.disk.first_block(ac.goal.group) + ac.goal.start
        found = self.preallocations.nearest(ac.wanted.length, goal)
        if found is None:
            return False
        self._use_small(ac, found)
        return True

    def _use_of_file(self, ac: Context, each: Preallocation) -> None:
        skipped = ac.wanted.logical - each.logical
        length = min(each.length - skipped, ac.wanted.length)
        group, start = self.groups.place(each.physical + skipped)
        ac.best, ac.status, ac.preallocation = Piece(ac.wanted.logical, group, start, length), "found", each
        assert each.free >= length, "a preallocation's blocks are used twice"
        each.free -= length

    def _use_small(self, ac: Context, each: Preallocation) -> None:
        group, start = self.groups.place(each.physical)
        ac.best, ac.status = Piece(ac.wanted.logical, group, start, ac.wanted.length), "found"
        ac.preallocation = each

    def _preallocate(self, ac: Context) -> None:
        """Keep what was found beyond the request: ext4_mb_new_preallocation."""
        physical = self.disk.first_block(ac.best.group) + ac.best.start
        if ac.group_allocation:
            new = Preallocation(physical, ac.best.length)
            self.preallocations.add(new)
            self._use_small(ac, new)
            return
        if ac.best.length < ac.planned:
            ac.best.logical = _shifted(ac)
        new = Preallocation(physical, ac.best.length, ac.best.logical, ac.inode)
        self.preallocations.add(new)
        self._use_of_file(ac, new)

    def _normalize(self, ac: Context, request: Request) -> None:
        """Enlarge a data request so that the file can grow in place: ext4_mb_normalize_request."""
        if not ac.data or ac.no_preallocation:
            return
        if ac.group_allocation:
            ac.goal.length = self.group_blocks
            return
        start, length = self._predicted(ac)
        start = max(start, ac.wanted.logical // self.disk.blocks_per_group * self.disk.blocks_per_group)
        length = min(length, _MAX_LOGICAL - start)
        (left, left_physical), (right, right_physical) = request.left, request.right
        if left_physical and start <= left:
            start, length = left + 1, length - (left + 1 - start)
        if right_physical and start + length - 1 >= right:
            length = right - start
        end = start + min(length, self.disk.blocks_per_group)
        for each in ac.inode.preallocations:
            each_end = each.logical + each.length
            if each.logical >= end or each_end <= start:
                continue
            if each_end <= ac.wanted.logical:
                start = each_end
            elif each.logical > ac.wanted.logical:
                end = each.logical
        length = end - start
        assert start <= ac.wanted.logical < end, "a normalized request leaves the requested block out"
        ac.goal.logical, ac.goal.length, ac.planned = start, length, length
        if right_physical and right == start + length and right_physical - length >= self.disk.first_data_block:
            self._aim(ac, right_physical - length)
        if left_physical and left + 1 == start and left_physical + 1 < self.disk.blocks:
            self._aim(ac, left_physical + 1)

    def _aim(self, ac: Context, block: int) -> None:
        ac.goal.group, ac.goal.start = self.groups.place(block)
        ac.try_goal = True

    def _predicted(self, ac: Context) -> tuple[int, int]:
        """Return the (first block, blocks) that a file of this size is given at once."""
        block = self.disk.options.block_bytes
        longest = 2 * block  # blocks of the largest chunk of a buddy
        size = max(ac.wanted.logical_end * block, ac.inode.size)
        for exponent in range(14, 21):  # 16 KiB to 1 MiB
            if size <= 1 << exponent:
                return 0, max((1 << exponent) // block, 1)
        if size <= 4 * _MIB or longest <= 2048:
            unit = 2 * _MIB // block
        elif size <= 8 * _MIB or longest <= 4096:
            unit = 4 * _MIB // block
        elif ac.wanted.length <= 8 * _MIB // block or longest <= 8192:
            unit = 8 * _MIB // block
        else:
            return ac.wanted.logical, ac.wanted.length
        return ac.wanted.logical // unit * unit, unit


def _shifted(ac: Context) -> int:
    """Return the logical start of a piece that is shorter than the goal, so that it covers the request."""
    at_end = ac.goal.logical + ac.planned - ac.best.length
    if ac.wanted.logical >= at_end:
        return at_end
    if ac.wanted.logical_end <= ac.goal.logical + ac.best.length:
        return ac.goal.logical
    return ac.wanted.logical
