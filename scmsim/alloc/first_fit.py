"""First-fit block allocator: it allocates from the lowest free run, up to the requested length.

Models a free list that always serves from its first range (as each list of `cpu_lists` does): if the first free run is
shorter than the request, all of it is allocated and the caller calls again.  Unit: blocks of 4096 bytes.  Two levels of
bitmap (one bit per block, 1 = free; one bit per non-zero word of the first level) keep a search short.  The bitmaps cover only
blocks below `tracked`: blocks above were never allocated, so the state of a device of many TiB grows with its used part.
"""

import numpy as np

from scmsim.alloc.bitmap import lowest_bit, set_bits
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64

FIELDS = [
    ("bits", "i8"),  # arena offset of the block bitmap, 1 = free
    ("summary", "i8"),  # arena offset of the bitmap of non-zero words
    ("tracked", "i8"),  # blocks that the bitmaps cover; all blocks after them are free
    ("blocks", "i8"),
    ("free_blocks", "i8"),
    ("low", "i8"),  # summary word; all summary words before it are 0
    ("got", "i8"),  # length of the run that `allocate` returned
]


AT_ONCE = 1 << 24  # blocks that the bitmaps cover from the start: 64 GiB


def arena_words(blocks: int) -> int:
    """Return the number of arena words in the bitmaps of `blocks` blocks."""
    words = -(-blocks // 64)
    return words + -(-words // 64)


def attach(state, reserved: int, blocks: int, at_once: int | None = None) -> None:
    """Lay out the bitmaps at the arena's top and free the blocks [reserved, blocks); track `at_once` of them (default: all).

    A caller that tracks fewer than all must call `ready` before it allocates.
    """
    record = state.record[0]
    record.blocks, record.free_blocks = blocks, blocks - reserved
    record.bits = record.summary = record.arena_top
    record.tracked = reserved
    _track(record, state.arena, min(blocks, reserved + at_once) if at_once else blocks)


@kernel
def _track(s, arena, target):
    """Move the bitmaps to the arena's top, with the blocks from `tracked` to `target` added as free."""
    words, old = (target + 63) >> 6, (s.tracked + 63) >> 6
    bits, summary = s.arena_top, s.arena_top + words
    s.arena_top = summary + ((words + 63) >> 6)
    if s.bits != bits:
        for w in range(old):
            arena[bits + w] = arena[s.bits + w]
    for w in range(s.tracked >> 6, words):
        arena[bits + w] = -1 if w > s.tracked >> 6 else arena[bits + w] | -_ONE << (s.tracked & 63)
    if target & 63:
        arena[bits + words - 1] &= ~(-_ONE << (target & 63))
    for w in range(words):
        if arena[bits + w] != 0:
            arena[summary + (w >> 6)] |= _ONE << (w & 63)
    s.bits, s.summary, s.tracked = bits, summary, target


@kernel
def ready(s, arena, blocks):
    """Grow the bitmaps, if needed, to track `blocks` free blocks.

    Return False, with `need_words` set, if the arena is too small.
    """
    if s.tracked == s.blocks or s.free_blocks - (s.blocks - s.tracked) >= blocks:
        return True
    target = min(s.blocks, max(2 * s.tracked, s.tracked + blocks))
    words = (target + 63) // 64 + (target + 4095) // 4096
    if s.arena_top + words > arena.size:
        s.need_words = words
        return False
    _track(s, arena, target)
    return True


@kernel
def runs(s, arena, want):
    """Return the number of free runs that contain the lowest `want` free blocks (or all, if there are fewer)."""
    count, found, before = 0, 0, 0
    for w in range(s.low * 64, (s.tracked + 63) >> 6):
        word = arena[s.bits + w]
        if word == -1:
            count += 1 - before
            found += 64
            before = 1
        elif word == 0:
            before = 0
        else:
            for bit in range(64):
                free = (word >> bit) & 1
                count += free > before
                found += free
                before = free
        if found >= want:
            break
    return count


@kernel
def _first_free(s, arena):
    """Return the lowest free block, which must exist."""
    i = s.low
    while arena[s.summary + i] == 0:
        i += 1
    s.low = i
    w = i * 64 + lowest_bit(arena[s.summary + i])
    return w * 64 + lowest_bit(arena[s.bits + w])


@kernel
def allocate(s, arena, want):
    """Allocate up to `want` blocks of the lowest free run; return the first block, -1 if nothing is free.  Sets `s.got`."""
    if s.free_blocks == 0:
        s.got = 0
        return -1
    return take_run(s, arena, _first_free(s, arena), want)


@kernel
def take_run(s, arena, start, want):
    """Allocate up to `want` blocks of the free run from `start` on; return `start`.  Sets `s.got`."""
    block = start
    while block < s.tracked and block - start < want:
        w, bit = block >> 6, block & 63
        word = arena[s.bits + w]
        if (word >> bit) & 1 == 0:
            break
        if bit == 0 and word == -1 and want - (block - start) >= 64:  # 64 free blocks at once
            arena[s.bits + w] = 0
            block += 64
        else:
            arena[s.bits + w] = word & ~(_ONE << bit)
            block += 1
        if arena[s.bits + w] == 0:
            arena[s.summary + (w >> 6)] &= ~(_ONE << (w & 63))
    s.got = block - start
    s.free_blocks -= s.got
    return start


@kernel
def allocate_whole(s, arena, count):
    """Allocate the lowest free run of `count` blocks; return its first block, -1 if there is none.  Sets `s.got`.

    The bitmaps must cover the whole device.
    """
    block, run = s.low << 12, 0
    while block < s.tracked and run < count:
        word = arena[s.bits + (block >> 6)]
        if word == 0:
            block, run = (block | 63) + 1, 0
        else:
            run = run + 1 if (word >> (block & 63)) & 1 else 0
            block += 1
    s.got = count if run == count else 0
    if s.got == 0:
        return -1
    claim(s, arena, block - count, count)
    return block - count


@kernel
def claim(s, arena, start, count):
    """Allocate the run [start, start + count), which is free; the bitmaps must cover it."""
    set_bits(arena, s.bits, start, count, False)
    for w in range(start >> 6, (start + count + 63) >> 6):
        if arena[s.bits + w] == 0:
            arena[s.summary + (w >> 6)] &= ~(_ONE << (w & 63))
    s.free_blocks -= count


@kernel
def release(s, arena, start, count):
    """Free the run [start, start + count)."""
    for block in range(start, start + count):
        w = block >> 6
        arena[s.bits + w] |= _ONE << (block & 63)
        arena[s.summary + (w >> 6)] |= _ONE << (w & 63)
    s.free_blocks += count
    if (start >> 12) < s.low:
        s.low = start >> 12
