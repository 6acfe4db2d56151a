"""Free blocks of XFS's allocation groups: a bitmap, a long free run of each group, and its busy extents.

Unit: blocks of 4096 bytes.  A bit of `bits` is 1 if a block is free.  A block that was freed since the last checkpoint is busy too.
"""

import numpy as np

from scmsim.alloc import bitmap, xfs_busy
from scmsim.jit import kernel

FIELDS = [
    ("ag_blocks", "i8"),  # blocks of an allocation group; the last one may have fewer
    ("ag_count", "i8"),
    ("is_busy", "i8"),  # 1: a block is busy
    ("met_busy", "i8"),  # 1: the newest search met a busy block
    ("is_forced", "i8"),  # 1: a search found only busy blocks, so that the log must be forced
    ("compared", "i8"),  # free runs that searches compared, since the file system last set this to 0
    ("group_rows", "i8"),  # arena offset of the table of groups
    *xfs_busy.FIELDS,
]

# A row of the table of groups, one word each:
RUN_AT = 0  # start of a long free run
RUN = 1  # lower bound of that run's length, blocks
IS_LONGEST = 2  # 1: no free run of the group is longer
BUSY = 3  # root of the tree of busy extents; 0 if no block is busy
RUNS = 4  # number of free runs of each length from 1 block to LONG - 1, then of all longer ones
LONG = 64
GROUP_WORDS = RUNS + LONG

LEAF_RUNS = 505  # free runs in a block of the tree by length


def attach(state, used, blocks: int, groups: int) -> None:
    """Lay out bitmaps and table at the arena's top; all blocks but the ranges `used` (start, count) are free."""
    record, arena = state.record[0], state.arena
    words = -(-blocks // 64) + 1
    record.blocks = record.tracked = blocks
    record.ag_count, record.ag_blocks = groups, -(-blocks // groups)
    record.bits, record.group_rows = record.arena_top, record.arena_top + words
    record.arena_top = record.group_rows + groups * GROUP_WORDS
    bitmap.set_bits(arena, record.bits, 0, blocks, True)
    record.free_blocks = blocks
    for group in range(groups):
        count_run(arena, group_row(record, group), end_of(record, group) - group * record.ag_blocks, 1)
    for start, count in used:
        claim(record, arena, start, count)


@kernel
def group_row(s, group):
    """Return the arena offset of a group's row."""
    return s.group_rows + group * GROUP_WORDS


@kernel
def end_of(s, group):
    """Return the block after a group's last one."""
    return min((group + 1) * s.ag_blocks, s.blocks)


@kernel
def count_run(arena, row, length, change):
    """Add `change` to the number of a group's free runs of `length` blocks; nothing if that is 0."""
    if length > 0:
        arena[row + RUNS + min(length, LONG) - 1] += change


@kernel
def around(s, arena, start, count):
    """Return how many blocks right before and right after [start, start + count) are free in the group, up to LONG each."""
    group = start // s.ag_blocks
    first, end = max(group * s.ag_blocks, start - LONG), min(end_of(s, group), start + count + LONG)
    left = start - 1 - bitmap.last_bit(arena, s.bits, first, start, False)
    return left, bitmap.next_bit(arena, s.bits, start + count, end, False) - start - count


@kernel
def runs_from(arena, row, length):
    """Return how many free runs a group has of `length` blocks or more, or of LONG or more if `length` is more."""
    found = np.int64(0)
    for i in range(row + RUNS + min(length, LONG) - 1, row + RUNS + LONG):
        found += arena[i]
    return found


@kernel
def claim(s, arena, start, count):
    """Allocate the run [start, start + count), which is free."""
    row = group_row(s, start // s.ag_blocks)
    before, after = around(s, arena, start, count)
    count_run(arena, row, before + count + after, -1)
    count_run(arena, row, before, 1)
    count_run(arena, row, after, 1)
    bitmap.set_bits(arena, s.bits, start, count, False)
    s.free_blocks -= count
    at, length = arena[row + RUN_AT], arena[row + RUN]
    if start < at + length and start + count > at:  # keep the larger of the parts that remain of the long run
        left, right = start - at, at + length - start - count
        arena[row + RUN] = max(left, right, 0)
        if right > left:
            arena[row + RUN_AT] = start + count
        arena[row + IS_LONGEST] = 0


@kernel
def release(s, arena, start, count):
    """Free the run [start, start + count), which is busy until the next checkpoint."""
    row = group_row(s, start // s.ag_blocks)
    before, after = around(s, arena, start, count)
    count_run(arena, row, before, -1)
    count_run(arena, row, after, -1)
    count_run(arena, row, before + count + after, 1)
    bitmap.set_bits(arena, s.bits, start, count, True)
    xfs_busy.insert(s, arena, row + BUSY, start, count)
    s.free_blocks += count
    s.is_busy = 1
    arena[row + IS_LONGEST] = 0


@kernel
def clear_busy(s, arena):
    """Make all busy blocks available, as a checkpoint does."""
    if s.is_busy:
        s.is_busy = 0
        for group in range(s.ag_count):
            xfs_busy.clear(s, arena, group_row(s, group) + BUSY)


@kernel
def force(s, arena):
    """Make all blocks available, as the checkpoint that follows does (xfs_extent_busy_flush)."""
    s.is_forced |= s.is_busy
    clear_busy(s, arena)
