"""Alignment-aware allocator: requests of 2 MiB take an aligned free extent, all others the lowest hole.

A hole is a free run that contains no whole aligned 2 MiB; such an extent is broken only where its CPU has no hole left.  Each CPU
has a range of the device; a request that its own cannot hold goes to the range with most holes, or with most free blocks.
Source: WineFS fs/winefs/balloc.c (pmfs_new_blocks, pmfs_alloc_blocks_in_free_list, pmfs_free_blocks).  Unit: blocks of 4096 bytes.
Works on the bitmaps of `first_fit`, all of which are tracked.  Ranges are whole extents here, which they need not be in WineFS.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.jit import kernel

_ONE = np.int64(1)  # a Python 1 << 63 would not fit an int64 where kernels run as plain Python
EXTENT, WORDS = 512, 8  # blocks of an aligned extent, and words of the bitmap
MOST_CPUS = 64

FIELDS = [
    ("cpus", "i8"),
    ("cpu", "i8"),  # on which the operation at work runs
    ("range_blocks", "i8"),  # of a CPU; the last one has the rest, too
    ("free_of", "i8", (MOST_CPUS,)),  # free blocks
    ("extents_of", "i8", (MOST_CPUS,)),  # aligned free extents
    ("hole_low", "i8", (MOST_CPUS,)),  # no hole lies below this word of the bitmap
    ("extent_low", "i8", (MOST_CPUS,)),  # no aligned free extent lies below this word
]


def attach(state, reserved: int, blocks: int, cpus: int) -> None:
    """Lay bitmaps whose blocks [reserved, blocks) are free, shared out among the CPUs."""
    first_fit.attach(state, reserved, blocks)
    record = state.record[0]
    record.cpus, record.range_blocks = cpus, blocks // cpus // EXTENT * EXTENT
    for cpu in range(cpus):
        first = cpu * int(record.range_blocks)
        stop = blocks if cpu == cpus - 1 else first + int(record.range_blocks)
        low = max(first, reserved)
        record.free_of[cpu] = max(stop - low, 0)
        record.extents_of[cpu] = max(stop // EXTENT - -(-low // EXTENT), 0)
        record.hole_low[cpu] = record.extent_low[cpu] = first >> 6


@kernel
def is_extent(s, arena, word):
    """Whether the aligned extent at `word` of the bitmap is wholly free."""
    if (word + WORDS) << 6 > s.blocks:
        return False
    for w in range(word, word + WORDS):
        if arena[s.bits + w] != -1:
            return False
    return True


@kernel
def pick(s, want):
    """CPU whose range serves a request."""
    if s.free_of[s.cpu] >= want:
        return s.cpu
    best, most, with_holes, holes = s.cpu, s.free_of[s.cpu], -1, 0
    for cpu in range(s.cpus):
        if s.free_of[cpu] > most:
            best, most = cpu, s.free_of[cpu]
        here = s.free_of[cpu] - EXTENT * s.extents_of[cpu]
        if want != EXTENT and here >= want and here > holes:
            with_holes, holes = cpu, here
    return with_holes if with_holes >= 0 else best


@kernel
def lowest_extent(s, arena, cpu):
    """First block of the lowest aligned free extent of a CPU, which has one."""
    word = s.extent_low[cpu]
    while not is_extent(s, arena, word):
        word += WORDS
    s.extent_low[cpu] = word
    return word << 6


@kernel
def lowest_hole(s, arena, cpu):
    """First block of the lowest hole of a CPU, which has one."""
    word = s.hole_low[cpu]
    while True:
        if word & WORDS - 1 == 0 and is_extent(s, arena, word):
            word += WORDS
        elif arena[s.bits + word] == 0:
            word += 1
        else:
            break
    s.hole_low[cpu] = word
    block = word << 6
    while arena[s.bits + word] >> (block & 63) & 1 == 0:
        block += 1
    return block


@kernel
def take(s, arena, block):
    word = block >> 6
    arena[s.bits + word] &= ~(_ONE << (block & 63))
    if arena[s.bits + word] == 0:
        arena[s.summary + (word >> 6)] &= ~(_ONE << (word & 63))


@kernel
def allocate(s, arena, want):
    """First block of what serves a request; `s.got` says how many of `want` blocks (at most 512) it holds.  -1: nothing free."""
    s.got = 0
    if s.free_blocks == 0:
        return -1
    cpu = pick(s, want)
    stop = s.blocks if cpu == s.cpus - 1 else (cpu + 1) * s.range_blocks
    breaks = s.free_of[cpu] == EXTENT * s.extents_of[cpu]
    if breaks or (want == EXTENT and s.extents_of[cpu] > 0):
        start = lowest_extent(s, arena, cpu)
        s.extents_of[cpu] -= 1
        s.hole_low[cpu] = min(s.hole_low[cpu], start >> 6)
        stop = min(stop, start + EXTENT)
    else:
        start = lowest_hole(s, arena, cpu)
    block = start
    while block < min(stop, start + want) and arena[s.bits + (block >> 6)] >> (block & 63) & 1:
        if block > start and block & EXTENT - 1 == 0 and is_extent(s, arena, block >> 6):
            break
        take(s, arena, block)
        block += 1
    s.got = block - start
    s.free_blocks -= s.got
    s.free_of[cpu] -= s.got
    return start


@kernel
def release(s, arena, start, count):
    """Free the run [start, start + count); extents that are whole again are no holes."""
    first_fit.release(s, arena, start, count)
    block = start
    while block < start + count:
        stop = min((block | EXTENT - 1) + 1, start + count)
        cpu = min(block // s.range_blocks, s.cpus - 1)
        word = block // EXTENT * WORDS
        s.free_of[cpu] += stop - block
        if is_extent(s, arena, word):
            s.extents_of[cpu] += 1
        s.extent_low[cpu] = min(s.extent_low[cpu], word)
        s.hole_low[cpu] = min(s.hole_low[cpu], word)
        block = stop
