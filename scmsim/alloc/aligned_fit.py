"""First fit of aligned huge blocks (2 MiB, 1 GiB) in the bitmaps of `first_fit`: the lowest aligned free run.

Source: PMFS fs/pmfs/balloc.c (pmfs_new_block: first gap of the list of used ranges, its start rounded up to the block's size).
Unit: blocks of 4096 bytes; a huge block of `unit` blocks (a multiple of 512) is a whole number of bitmap words.
"""

import numpy as np

from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64

FIELDS = [("huge_low", "i8")]  # no aligned free run begins below this bitmap word


@kernel
def next_run(s, arena, word, step):
    """Return the first bitmap word, from `word` on, where an aligned run of `step` free words begins; -1 if there is none."""
    last = s.tracked >> 6
    while word + step <= last:
        free = arena[s.summary + (word >> 6)] != 0
        if free:
            for w in range(word, word + step):
                if arena[s.bits + w] != -1:
                    free = False
                    break
        if free:
            return word
        word += step
    return -1


@kernel
def count_runs(s, arena, unit, want):
    """Count the aligned free runs of `unit` blocks, up to `want`."""
    step = unit >> 6
    found = 0
    word = next_run(s, arena, s.huge_low // step * step, step)
    while word >= 0 and found < want:
        found += 1
        word = next_run(s, arena, word + step, step)
    return found


@kernel
def take(s, arena, word, step):
    """Allocate the blocks of the `step` bitmap words from `word` on, which must all be free."""
    for w in range(word, word + step):
        arena[s.bits + w] = 0
        arena[s.summary + (w >> 6)] &= ~(_ONE << (w & 63))
    s.free_blocks -= step << 6


@kernel
def allocate(s, arena, unit):
    """Allocate the lowest aligned free run of `unit` blocks; return its first block, -1 if there is none."""
    step = unit >> 6
    word = next_run(s, arena, s.huge_low // step * step, step)
    if word < 0:
        return -1
    take(s, arena, word, step)
    s.huge_low = word + step
    return word << 6


@kernel
def freed(s, block):
    """Lower `huge_low` after a run of blocks that begins at `block` was freed."""
    # The run may now belong to a free 1 GiB block (1 << 18 blocks, 1 << 12 words), which begins before `block`.
    s.huge_low = min(s.huge_low, (block >> 18) << 12)
