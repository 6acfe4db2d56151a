"""Free blocks of one group as the largest aligned chunks of 2^n blocks: the buddy of ext4's mballoc.

Chunks are a function of the bitmap alone, whatever the order of allocations and frees (Linux 6.1, fs/ext4/mballoc.c:
ext4_mb_generate_buddy, mb_mark_used, mb_free_blocks).  Units: blocks within the group.
"""


class Buddy:
    """The buddy of a group: a map of used blocks and, for each order, a map of the free chunks."""

    def __init__(self, used: bytearray, top_order: int) -> None:
        self.used, self.top_order = used, top_order
        self.chunks = [bytearray((len(used) >> order) + 1) for order in range(top_order + 1)]  # 1: free
        self.counts = [0] * (top_order + 1)
        self.free, self.fragments = 0, 0
        start = used.find(0)
        while start >= 0:
            end = used.find(1, start)
            end = len(used) if end < 0 else end
            self._add(start, end)
            self.free, self.fragments = self.free + end - start, self.fragments + 1
            start = used.find(0, end)

    def order_of(self, block: int) -> int:
        """Return the order of the free chunk that a free block is in."""
        for order in range(1, self.top_order + 1):
            if self.chunks[order][block >> order]:
                return order
        return 0

    def largest_order(self) -> int:
        """Return the order of the largest free chunk; -1 if the group is full."""
        return next((order for order in range(self.top_order, -1, -1) if self.counts[order]), -1)

    def find_extent(self, block: int, needed: int) -> int:
        """Return the length of the free run at a block, in whole chunks and until at least `needed`; 0 if it is used."""
        if self.used[block]:
            return 0
        order = self.order_of(block)
        end = (block >> order) + 1 << order
        while needed > end - block and end < len(self.used) and not self.used[end]:
            end += 1 << self.order_of(end)
        return end - block

    def take(self, start: int, length: int) -> None:
        """Mark free blocks as used."""
        self._count_fragments(start, length, taken=True)
        at, end = start, start + length
        while at < end:
            order = self.order_of(at)
            first = at >> order << order
            last = first + (1 << order)
            self._flag(order, first, 0)
            self._add(first, min(start, last))
            self._add(max(end, first), last)
            at = last
        self.used[start:end] = b"\1" * length
        self.free -= length

    def give(self, start: int, length: int) -> None:
        """Mark used blocks as free, and join chunks with their free neighbours."""
        assert 0 not in self.used[start : start + length], "a free block is freed"
        self._count_fragments(start, length, taken=False)
        self.used[start : start + length] = bytes(length)
        self.free += length
        at, end = start, start + length
        while at < end:
            order = self._fitting(at, end)
            at += 1 << order
            self._join(order, at - 1 >> order)

    def _join(self, order: int, index: int) -> None:
        while order < self.top_order and self.chunks[order][index ^ 1]:
            self._flag(order, (index ^ 1) << order, 0)
            order, index = order + 1, index >> 1
        self._flag(order, index << order, 1)

    def _count_fragments(self, start: int, length: int, taken: bool) -> None:
        left = start > 0 and not self.used[start - 1]
        right = start + length < len(self.used) and not self.used[start + length]
        change = left + right - 1
        self.fragments += change if taken else -change

    def _add(self, start: int, end: int) -> None:
        """Add free chunks that cover [start, end); none of them can join a neighbour."""
        while start < end:
            order = self._fitting(start, end)
            self._flag(order, start, 1)
            start += 1 << order

    def _fitting(self, start: int, end: int) -> int:
        """Return the largest order of a chunk that may start at a block and ends within `end`."""
        order = self.top_order if start == 0 else min(self.top_order, (start & -start).bit_length() - 1)
        return min(order, (end - start).bit_length() - 1)

    def _flag(self, order: int, start: int, free: int) -> None:
        self.chunks[order][start >> order] = free
        self.counts[order] += 1 if free else -1
