"""Goals of requests for blocks: where the multiblock allocator begins to search.  ext2 binds its own (see `scmsim.jit.binding`).

Units: blocks and pages of 4096 bytes.  Source: Linux 6.1 fs/ext4/{extents.c: ext4_ext_find_goal, ext4_ext_new_meta_block; balloc.c:
ext4_inode_to_goal_block}.
"""

from scmsim.alloc import mballoc
from scmsim.fs.linux import state as e
from scmsim.jit import subroutine


@subroutine
def inode_goal(s, arena, f):
    """Return the goal for the first block of a file (ext4_inode_to_goal_block)."""
    group = (arena[f + e.INODE] - 1) // s.group_inodes
    if s.flex_shift >= mballoc.RESERVED_FLEX_SHIFT:
        # the first group of a flex group is for directories, regular files start in the second
        group = (group >> s.flex_shift << s.flex_shift) + (arena[f + e.IS_DIR] == 0)
    return group << mballoc.GROUP_SHIFT


@subroutine
def left_of(arena, f, page):
    """Return the last page before `page` that has a block, -1 if there is none."""
    at = min(page, arena[f + e.PAGE_COUNT]) - 1
    while at >= 0 and arena[arena[f + e.PAGES] + at] >> e.BLOCK_SHIFT == 0:
        at -= 1
    return at


@subroutine
def right_of(arena, f, page):
    """Return the first page from `page` on that has a block, -1 if there is none."""
    at, end = page, arena[f + e.PAGE_COUNT]
    while at < end and arena[arena[f + e.PAGES] + at] >> e.BLOCK_SHIFT == 0:
        at += 1
    return at if at < end else -1


@subroutine
def block_of(arena, f, page):
    """Return the block of a page that has one."""
    return arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT


@subroutine
def of_page(s, arena, f, page, left, right):
    """Return the block where the search for `page` starts: a neighbour's block plus the distance in pages (ext4_ext_find_goal).

    `left` and `right` are the nearest pages that have a block; -1 if there is none.
    """
    if left >= 0:
        goal = block_of(arena, f, left) + page - left
    elif right >= 0:
        goal = block_of(arena, f, right) - (right - page)
    else:
        goal = inode_goal(s, arena, f)
    return goal if 0 <= goal < s.blocks else 0


@subroutine
def of_index(s, arena, f, page, slot):
    """Return the block at which the search for an index block in a slot starts: near the blocks before `page`."""
    left = left_of(arena, f, page) if arena[f + e.LEAF_COUNT] else -1
    return of_page(s, arena, f, page, left, -1)
