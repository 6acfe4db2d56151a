"""First-fit block allocator: the lowest free run, cut to what is asked for.

Models a free list that always serves from its first range (NOVA's per-CPU list, source: fs/nova/balloc.c): if the first free
run is shorter than the request, all of it is taken and the caller asks again.  Unit: blocks of 4096 bytes.  Two levels of
bitmap (one bit per block, 1 = free; one bit per word of that) keep a search short on a device of many TiB.
"""

import numpy as np

from scmsim._jit import kernel

_ONE = np.int64(1)  # a Python 1 << 63 would not fit an int64 where kernels run as plain Python

FIELDS = [
    ("bits", "i8"),  # arena offset of the block bitmap, 1 = free
    ("summary", "i8"),  # arena offset of the bitmap of non-zero words
    ("words", "i8"),
    ("blocks", "i8"),
    ("free_blocks", "i8"),
    ("low", "i8"),  # no free block lies below this summary word
    ("got", "i8"),  # length of the run that `allocate` returned
]


def arena_words(blocks: int) -> int:
    """Words of arena that the bitmaps of a device of `blocks` blocks take."""
    words = -(-blocks // 64)
    return words + -(-words // 64)


def attach(state, reserved: int, blocks: int) -> None:
    """Lay the bitmaps at the arena's top and free the blocks [reserved, blocks)."""
    record = state.record[0]
    words = -(-blocks // 64)
    record.bits = record.arena_top
    record.summary = record.bits + words
    record.words, record.blocks = words, blocks
    record.arena_top = record.summary + -(-words // 64)
    record.free_blocks = blocks - reserved
    free = np.zeros(words * 64, np.uint8)
    free[reserved:blocks] = 1
    state.arena[record.bits : record.bits + words] = np.packbits(free, bitorder="little").view(np.int64)
    any_free = np.zeros(-(-words // 64) * 64, np.uint8)
    any_free[:words] = state.arena[record.bits : record.bits + words] != 0
    state.arena[record.summary : record.arena_top] = np.packbits(any_free, bitorder="little").view(np.int64)


@kernel
def _lowest_bit(word):
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word & ((1 << step) - 1) == 0:
            word >>= step
            n += step
    return n


@kernel
def _first_free(s, arena):
    """Lowest free block; the caller knows that there is one."""
    i = s.low
    while arena[s.summary + i] == 0:
        i += 1
    s.low = i
    w = i * 64 + _lowest_bit(arena[s.summary + i])
    return w * 64 + _lowest_bit(arena[s.bits + w])


@kernel
def allocate(s, arena, want):
    """First block of the lowest free run; `s.got` says how many of `want` blocks it holds.  -1 if nothing is free."""
    if s.free_blocks == 0:
        s.got = 0
        return -1
    start = _first_free(s, arena)
    block = start
    while block < s.blocks and block - start < want:
        w, bit = block >> 6, block & 63
        word = arena[s.bits + w]
        if (word >> bit) & 1 == 0:
            break
        if bit == 0 and word == -1 and want - (block - start) >= 64:
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
def release(s, arena, start, count):
    """Free the run [start, start + count)."""
    for block in range(start, start + count):
        w = block >> 6
        arena[s.bits + w] |= _ONE << (block & 63)
        arena[s.summary + (w >> 6)] |= _ONE << (w & 63)
    s.free_blocks += count
    if (start >> 12) < s.low:
        s.low = start >> 12
