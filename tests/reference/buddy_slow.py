"""The buddy system over a set of free blocks: the obvious reference implementation of scmsim.alloc.buddy.

Source: SCM manager paper, section 4.2 (32 bytes to 128 KiB); the smallest, then lowest, block that is large enough serves.
"""

SMALLEST, LARGEST = 32, 128 << 10


class Buddies:
    """Free blocks of a device as (bytes, offset)."""

    def __init__(self, origin: int, length: int) -> None:
        self.origin = origin
        self.free = {(LARGEST, at) for at in range(origin, origin + length, LARGEST)}

    def take(self, size: int) -> int:
        """Offset of a block of `size` bytes, a power of two; -1 if there is none."""
        fitting = sorted(block for block in self.free if block[0] >= size)
        if not fitting:
            return -1
        block, at = fitting[0]
        self.free.remove((block, at))
        while block > size:
            block //= 2
            self.free.add((block, at + block))
        return at

    def give(self, at: int, size: int) -> None:
        """Free a block and join it with its buddy as often as that is free."""
        while size < LARGEST and (size, self.buddy(at, size)) in self.free:
            self.free.remove((size, self.buddy(at, size)))
            at = min(at, self.buddy(at, size))
            size *= 2
        self.free.add((size, at))

    def buddy(self, at: int, size: int) -> int:
        """Offset of the other half of the block that a block is a half of."""
        return self.origin + ((at - self.origin) ^ size)
