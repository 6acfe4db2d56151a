"""First fit over a sorted list of free ranges: the obvious reference implementation of scmsim.alloc.first_fit.

Source: NOVA fs/nova/balloc.c, nova_alloc_blocks_in_free_list: the first range serves; one shorter than the request is
taken whole.
"""


class Ranges:
    """Free ranges [start, stop) of a device, sorted, never empty and never touching each other."""

    def __init__(self, reserved: int, blocks: int) -> None:
        self.blocks = blocks
        self.ranges = [[reserved, blocks]] if reserved < blocks else []

    @property
    def free(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def take(self, want: int) -> tuple[int, int]:
        """(first block, length) of what the lowest range gives for a request of `want`; (-1, 0) if nothing is free."""
        if not self.ranges:
            return -1, 0
        start, stop = self.ranges[0]
        got = min(want, stop - start)
        if got == stop - start:
            del self.ranges[0]
        else:
            self.ranges[0][0] += got
        return start, got

    def take_whole(self, count: int) -> int:
        """First block of `count` in the lowest range that has so many, -1 if none has."""
        for k, (start, stop) in enumerate(self.ranges):
            if stop - start >= count:
                self.ranges[k : k + 1] = [[start + count, stop]] if stop - start > count else []
                return start
        return -1

    def give(self, start: int, count: int) -> None:
        """Free the blocks [start, start + count), none of which may be free."""
        stop = start + count
        for low, high in self.ranges:
            assert stop <= low or high <= start, f"blocks {start} to {stop - 1} freed twice"
        self.ranges = sorted([*self.ranges, [start, stop]])
        merged: list[list[int]] = []
        for low, high in self.ranges:
            if merged and merged[-1][1] == low:
                merged[-1][1] = high
            else:
                merged.append([low, high])
        self.ranges = merged

    def bitmap(self) -> list[int]:
        """One number per block, 1 = free."""
        bits = [0] * self.blocks
        for start, stop in self.ranges:
            bits[start:stop] = [1] * (stop - start)
        return bits
