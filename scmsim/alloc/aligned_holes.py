"""Alignment-aware allocator: a request of 2 MiB gets an aligned free extent, every other request the lowest hole.

A hole is a free run without a whole aligned extent of 2 MiB; an aligned extent is broken only if the CPU's range has no hole left.
Each CPU has a range of the device; a request that does not fit its own range goes to the range with most free blocks in holes, or
with most free blocks.
Source: WineFS fs/winefs/balloc.c (pmfs_new_blocks, pmfs_alloc_blocks_in_free_list, pmfs_free_blocks).  Unit: blocks of 4096 bytes.
Works on the bitmaps of `first_fit`, which track the whole device.  Simplified: ranges are multiples of an extent, unlike in WineFS.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64
EXTENT, WORDS = 512, 8  # blocks of an aligned extent, and its bitmap words
MOST_CPUS = 64

FIELDS = [
    ("cpus", "i8"),
    ("cpu", "i8"),  # CPU of the current operation
    ("range_blocks", "i8"),  # blocks of a CPU's range; the last range also has the remainder
    ("free_of", "i8", (MOST_CPUS,)),  # free blocks of each CPU's range
    ("extents_of", "i8", (MOST_CPUS,)),  # aligned free extents
    ("hole_low", "i8", (MOST_CPUS,)),  # no hole is below this word of the bitmap
    ("extent_low", "i8", (MOST_CPUS,)),  # no aligned free extent is below this word
]


def attach(state, reserved: int, blocks: int, cpus: int) -> None:
    """Lay out the bitmaps with blocks [reserved, blocks) free, and divide the device among the CPUs."""
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
    """Return whether every block of the aligned extent at `word` of the bitmap is free."""
    if (word + WORDS) << 6 > s.blocks:
        return False
    for w in range(word, word + WORDS):
        if arena[s.bits + w] != -1:
            return False
    return True


@kernel
def pick(s, want):
    """Return the CPU whose range serves a request."""
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
    """Return the first block of the lowest aligned free extent of a CPU, which must have one."""
    word = s.extent_low[cpu]
    while not is_extent(s, arena, word):
        word += WORDS
    s.extent_low[cpu] = word
    return word << 6


@kernel
def lowest_hole(s, arena, cpu):
    """Return the first block of the lowest hole of a CPU, which must have one."""
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
    """Mark one block as allocated."""
    word = block >> 6
    arena[s.bits + word] &= ~(_ONE << (block & 63))
    if arena[s.bits + word] == 0:
        arena[s.summary + (word >> 6)] &= ~(_ONE << (word & 63))


@kernel
def allocate(s, arena, want):
    """Allocate a run of up to `want` blocks (at most 512); return its first block, -1 if nothing is free.

    `s.got` is the length of the run.
    """
    s.got = 0
    if s.free_blocks == 0:
        return -1
    cpu = pick(s, want)
    stop = s.blocks if cpu == s.cpus - 1 else (cpu + 1) * s.range_blocks
    breaks = s.free_of[cpu] == EXTENT * s.extents_of[cpu]  # no hole left: the request breaks an extent
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
            break  # the hole ends where an aligned free extent begins
        take(s, arena, block)
        block += 1
    s.got = block - start
    s.free_blocks -= s.got
    s.free_of[cpu] -= s.got
    return start


@kernel
def release(s, arena, start, count):
    """Free the blocks [start, start + count), and count the aligned extents that became free as a whole."""
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
