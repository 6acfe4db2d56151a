"""Goals for new blocks of a file: after the blocks that precede the hole, before the blocks that follow it, or near the inode.

Source: Linux 6.1 fs/xfs/libxfs/xfs_bmap.c (xfs_bmap_adjacent, xfs_bmap_btalloc, xfs_bmapi_convert_delalloc).
"""

from scmsim.fs.linux import state as e
from scmsim.fs.xfs.inodes import inode_block
from scmsim.jit import subroutine

GAPS = 4  # a neighbour farther away than this many times the request's length is ignored (XFS_ALLOC_GAP_UNITS)


@subroutine
def block_at(arena, f, page):
    """Return the block of a page of the file's table, 0 for a hole."""
    return arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT


@subroutine
def is_in_group(s, block, of):
    """Return whether a block number is in the allocation group of the block `of`."""
    return 0 <= block < s.blocks and block // s.ag_blocks == of // s.ag_blocks


@subroutine
def delayed_goal(s, arena, f, page, want):
    """Return the goal of `want` blocks for the delayed pages from `page` on, from the extent before them.

    The extent that follows is the delayed one itself, which has no block yet.
    """
    before = page - 1
    while before >= 0 and arena[arena[f + e.PAGES] + before] == 0:
        before -= 1
    last = block_at(arena, f, before) if before >= 0 else 0
    if last and is_in_group(s, last + 1, last):
        gap = page - before - 1
        if gap <= GAPS * want and is_in_group(s, last + 1 + gap, last):
            return last + 1 + gap
        return last + 1
    return inode_block(s, arena, arena[f + e.INODE])


@subroutine
def goal_of(s, arena, f, page, want):
    """Return the block at which an allocation of `want` blocks for the hole at `page` starts its search."""
    count = arena[f + e.PAGE_COUNT]
    before = min(page, count) - 1
    while before >= 0 and block_at(arena, f, before) == 0:
        before -= 1
    after = page
    while after < count and block_at(arena, f, after) == 0:
        after += 1
    if after < count:
        want = min(want, after - page)
    left, left_gap = -1, 0
    if before >= 0:
        last = block_at(arena, f, before)
        gap = page - before - 1
        if is_in_group(s, last + 1, last):
            left, left_gap = last + 1, gap
            if is_in_group(s, left + gap, last) and (after >= count or gap <= GAPS * want):
                left += gap
            else:
                left_gap += gap
    right, right_gap = -1, 0
    if after < count:
        first = block_at(arena, f, after)
        gap = after - page
        right, right_gap = first, gap
        if gap <= GAPS * want and is_in_group(s, first - gap, first):
            right -= gap
        elif is_in_group(s, first - want, first):
            right -= want
            right_gap += gap - want
        else:
            right_gap += gap
    if left >= 0 and (right < 0 or left_gap <= right_gap):
        return left
    return right if right >= 0 else inode_block(s, arena, arena[f + e.INODE])
