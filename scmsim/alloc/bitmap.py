"""Bitmaps in the arena: `bits` is the arena offset of a bitmap, whose bit n is bit n % 64 of its 64-bit word n // 64."""

import numpy as np

from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64


@kernel
def lowest_bit(word):
    """Return the index of the lowest set bit of a word, by bisection."""
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word & ((1 << step) - 1) == 0:
            word >>= step
            n += step
    return n


@kernel
def is_set(arena, bits, at):
    """Return whether a bit is set."""
    return (arena[bits + (at >> 6)] >> (at & 63)) & 1 != 0


@kernel
def _highest_bit(word):
    """Return the index of the highest set bit of a word."""
    if word < 0:
        return 63
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> step:
            word >>= step
            n += step
    return n


@kernel
def next_bit(arena, bits, at, end, value):
    """Return the index of the first bit in [at, end) that is `value`; `end` if there is none."""
    if at >= end:
        return end
    inverse = np.int64(0) if value else -_ONE
    w = at >> 6
    word = (arena[bits + w] ^ inverse) & (-_ONE << (at & 63))
    while word == 0:
        w += 1
        if w << 6 >= end:
            return end
        word = arena[bits + w] ^ inverse
    return min(end, (w << 6) + lowest_bit(word))


@kernel
def last_bit(arena, bits, start, end, value):
    """Return the index of the last bit in [start, end) that is `value`; `start` - 1 if there is none."""
    if start >= end:
        return start - 1
    inverse = np.int64(0) if value else -_ONE
    w = (end - 1) >> 6
    kept = -_ONE if end & 63 == 0 else ~(-_ONE << (end & 63))
    word = (arena[bits + w] ^ inverse) & kept
    while word == 0:
        if w << 6 <= start:
            return start - 1
        w -= 1
        word = arena[bits + w] ^ inverse
    return max(start - 1, (w << 6) + _highest_bit(word))


@kernel
def set_bits(arena, bits, start, count, value):
    """Set or clear `count` bits from `start` on."""
    at, end = start, start + count
    while at < end:
        many = min(64 - (at & 63), end - at)
        mask = -_ONE if many == 64 else ~(-_ONE << many) << (at & 63)
        if value:
            arena[bits + (at >> 6)] |= mask
        else:
            arena[bits + (at >> 6)] &= ~mask
        at += many
