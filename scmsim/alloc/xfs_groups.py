"""Allocate blocks as XFS does: near a goal in its allocation group, else in the next group with a long enough free run.

Source: Linux 6.1 fs/xfs/libxfs/{xfs_alloc.c: xfs_alloc_vextent, xfs_alloc_ag_vextent_near, xfs_alloc_ag_vextent_size;
xfs_bmap.c: xfs_bmap_btalloc, xfs_bmap_select_minlen}, fs/xfs/xfs_extent_busy.c.  Unit: blocks of 4096 bytes; group g has the
blocks from g * ag_blocks on.  The kernel keeps two trees of free runs per group; here bitmaps give the same runs.

Simplified: each tree is searched as if it were one block, which is exact up to 505 free runs: the nearest of all long enough
runs is taken.  If all runs are busy (freed since the last checkpoint), the kernel forces its log within the call; here the file
system does so after the call (`is_forced`).  No blocks are reserved for the growth of trees.
"""

import numpy as np

from scmsim.alloc import xfs_busy
from scmsim.alloc import xfs_free_space as space
from scmsim.alloc.bitmap import is_set, last_bit, next_bit
from scmsim.alloc.xfs_free_space import (
    BUSY,
    GROUP_WORDS,
    IS_LONGEST,
    RUN,
    RUN_AT,
    end_of,
    group_row,
)
from scmsim.jit import kernel

FIELDS = space.FIELDS
FAR = 1 << 40  # farther than any block


@kernel
def fits(s, arena, goal, want):
    """Return whether the `want` blocks from `goal` on are free and not busy, as is usual for an append."""
    group = goal // s.ag_blocks
    end, row = end_of(s, group), group_row(s, group)
    if goal + want > end or (goal > group * s.ag_blocks and is_set(arena, s.bits, goal - 1)):
        return False
    if next_bit(arena, s.bits, goal, goal + want, False) < goal + want:
        return False
    return not xfs_busy.overlaps(arena, row + BUSY, goal, goal + want)


@kernel
def _best_start(goal, need, align, for_data, start, end):
    """Return the best start, a multiple of `align`, for `need` blocks in [start, end); -1 if none (xfs_alloc_compute_diff)."""
    if start >= goal or (for_data and end < goal + need):
        return start
    if align == 1:
        return min(goal, end - need)
    if end < goal + need:
        at = (end - need + align - 1) // align * align
        return at - align if at > end - need and at - align >= start else at if at < end else -1
    after = (goal + align - 1) // align * align
    before = after - align
    if before < start:
        return after if after < end else -1
    if after >= end:
        return before
    room, room_before = min(need, end - after), min(need, end - before)
    is_before = room < room_before or (room == room_before and after - goal > goal - before)
    return before if is_before else after


@kernel
def _place(s, arena, group, goal, need, align, for_data, start, end):
    """Return the first block that a request for `need` blocks gets in the free run [start, end); -1 if it does not fit."""
    if end - start < need:
        return -1
    whole = end - start
    start, end = xfs_busy.trim(arena, group_row(s, group) + BUSY, start, end, need)
    s.met_busy |= end - start < whole
    first = group * s.ag_blocks  # alignment counts from the group's start
    start, end, goal = start - first, end - first, goal - first
    start = (start + align - 1) // align * align
    if end - start < need:
        return -1
    at = _best_start(goal, need, align, for_data, start, end)
    return at + first if at >= 0 and at + need <= end else -1


@kernel
def _length(s, arena, group, block):
    """Return the length and the start of the free run that contains `block`."""
    first = group * s.ag_blocks
    start = last_bit(arena, s.bits, first, block, False) + 1
    return next_bit(arena, s.bits, block, end_of(s, group), False) - start, start


@kernel
def _is_later(s, arena, group, block, other):
    """Return whether the free run of `block` follows that of `other` in the tree by length."""
    length, start = _length(s, arena, group, block)
    other_length, other_start = _length(s, arena, group, other)
    return length > other_length or (length == other_length and start > other_start)


@kernel
def near(s, arena, group, goal, need, align, for_data):
    """Return the start of `need` free blocks of a group as near to `goal` as possible, -1 if there are none."""
    first, end = group * s.ag_blocks, end_of(s, group)
    is_busy = arena[group_row(s, group) + BUSY] != 0
    s.met_busy = 0
    best, best_far = np.int64(-1), FAR
    start = goal
    if is_set(arena, s.bits, goal):
        start = last_bit(arena, s.bits, first, goal, False) + 1
    at = next_bit(arena, s.bits, start, end, True)
    while at < end and at - goal <= best_far:  # from the run that has the goal on to the right
        reach = end if is_busy else min(end, max(at, goal) + need + align)
        stop = next_bit(arena, s.bits, at, reach, False)
        found = _place(s, arena, group, goal, need, align, for_data, at, stop)
        if found >= 0 and abs(found - goal) < best_far:
            best, best_far = found, abs(found - goal)
            if at >= goal or best_far == 0:
                break
        elif found >= 0:
            if abs(found - goal) == best_far and _is_later(s, arena, group, found, best):
                best = found
            break
        stop = next_bit(arena, s.bits, stop, end, False)
        at = next_bit(arena, s.bits, stop, end, True)
    if best_far == 0:
        return best
    at = last_bit(arena, s.bits, first, start, True)
    while at >= first and goal - at - 1 <= best_far:  # to the left
        begin = last_bit(arena, s.bits, first, at, False) + 1
        found = _place(s, arena, group, goal, need, align, for_data, begin, at + 1)
        if found >= 0:
            far = abs(found - goal)
            if far < best_far or (far == best_far and _is_later(s, arena, group, found, best)):
                best = found
            break
        at = last_bit(arena, s.bits, first, begin, True)
    return best


@kernel
def by_size(s, arena, group, want, need):
    """Return the start of the group's shortest run of at least `want` blocks, else of its longest run of at least `need`."""
    row = group_row(s, group)
    best, best_length = np.int64(-1), FAR if need == want else 0
    end = end_of(s, group)
    at = next_bit(arena, s.bits, group * s.ag_blocks, end, True)
    while at < end:
        stop = next_bit(arena, s.bits, at, end, False)
        length = stop - at
        if need < want:
            is_better = length >= best_length
        else:
            is_better = want <= length < best_length
        if is_better:
            start, last = xfs_busy.trim(arena, row + BUSY, at, stop, need)
            if last - start >= need:
                best, best_length = start, length
        at = next_bit(arena, s.bits, stop, end, True)
    return best


@kernel
def compare(s, arena, goal, want, block):
    """Count the free runs that a search for `want` blocks near `goal` compares with the first, before it takes `block`.

    If one leaf of the tree by length has all long enough runs, XFS compares them from the shortest on
    (xfs_alloc_ag_vextent_lastblock), up to the run with the goal if the goal is taken (xfs_alloc_cur_check).  With more runs XFS
    searches by place, and the count is the number of runs of one leaf.
    """
    row, length = group_row(s, goal // s.ag_blocks), np.int64(space.LONG)
    if block == goal:
        before, after = space.around(s, arena, goal, want)
        length = before + want + after
    runs = space.runs_from(arena, row, want)
    s.compared += min(runs - (space.runs_from(arena, row, length) if length < space.LONG else 1), space.LEAF_RUNS - 1)


@kernel
def longest(s, arena, group, want):
    """Return the length of a group's longest free run, or of some run of at least `want` blocks."""
    row = group_row(s, group)
    if arena[row + RUN] >= want or arena[row + IS_LONGEST]:
        return arena[row + RUN]
    end = end_of(s, group)
    at = next_bit(arena, s.bits, group * s.ag_blocks, end, True)
    arena[row + RUN], arena[row + IS_LONGEST] = 0, 1
    while at < end:
        stop = next_bit(arena, s.bits, at, end, False)
        if stop - at > arena[row + RUN]:
            arena[row + RUN_AT], arena[row + RUN] = at, stop - at
        at = next_bit(arena, s.bits, stop, end, True)
    return arena[row + RUN]


@kernel
def allocate(s, arena, goal, want, for_data):
    """Allocate up to `want` adjacent blocks near `goal`; return the first, -1 if nothing is free.  Sets `s.got`."""
    s.got = 0
    if s.free_blocks == 0:
        return np.int64(-1)
    want = min(want, s.ag_blocks)
    if fits(s, arena, goal, want):
        compare(s, arena, goal, want, goal)
        space.claim(s, arena, goal, want)
        s.got = want
        return goal
    group, need = goal // s.ag_blocks, np.int64(0)
    for i in range(s.ag_count):
        need = max(need, min(longest(s, arena, (group + i) % s.ag_count, want), want))
        if need == want:
            break
    other = group
    while longest(s, arena, other, need) < need:
        other = (other + 1) % s.ag_count
    block = np.int64(-1)
    for _ in range(2):
        if block < 0:
            if other == group:
                block = near(s, arena, group, goal, need, 1, for_data)
            else:
                block = by_size(s, arena, other, want, need)
        if block < 0:
            space.force(s, arena)
    if other == group:
        compare(s, arena, goal, need, block)
    space.claim(s, arena, block, need)
    s.got = need
    return block


@kernel
def allocate_aligned(s, arena, goal, count, after):
    """Allocate `count` blocks of the goal's group at a multiple of `count`; return the first block, -1 if there are none.

    The block `after` is tried first (-1: no such block), then blocks near `goal`.  Sets `s.got`.
    """
    group = goal // s.ag_blocks
    s.got = 0
    if after >= 0 and after // s.ag_blocks == group and _starts(s, arena, after, count):
        space.claim(s, arena, after, count)
        s.got = count
        return after
    block = np.int64(-1)
    if longest(s, arena, group, count) >= count:
        block = near(s, arena, group, goal, count, count, False)
        if block < 0 and s.met_busy:
            space.force(s, arena)
            block = near(s, arena, group, goal, count, count, False)
    if block >= 0:
        compare(s, arena, goal, count, block)
        space.claim(s, arena, block, count)
        s.got = count
    return block


@kernel
def _starts(s, arena, at, count):
    """Return whether `count` blocks from `at` on are free and in the not busy part of their run (xfs_alloc_ag_vextent_exact)."""
    if at + count > end_of(s, at // s.ag_blocks) or not is_set(arena, s.bits, at):
        return False
    group = at // s.ag_blocks
    length, start = _length(s, arena, group, at)
    start, end = xfs_busy.trim(arena, group_row(s, group) + BUSY, start, start + length, count)
    return start <= at and at + count <= end


def arena_words(blocks: int, groups: int) -> int:
    """Return the number of arena words that the bitmap and the table of groups occupy."""
    return -(-blocks // 64) + 1 + groups * GROUP_WORDS
