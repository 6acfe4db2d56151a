"""Goals of block requests in files with pointer blocks: the block that the preceding pointer points to.

A file without blocks starts in one of 16 parts of its group, selected by the id of the writing process: here 1, as in
the guests of `scmsim lab`.  Source: Linux 6.1 fs/ext4/{indirect.c: ext4_find_near, balloc.c: ext4_inode_to_goal_block}.
"""

from scmsim.alloc import mballoc
from scmsim.fs.ext2 import map
from scmsim.fs.linux import state as e
from scmsim.fs.linux.goals import block_of, left_of
from scmsim.jit import subroutine

PROCESS, COLOURS = 1, 16


@subroutine
def inode_goal(s, arena, f):
    """Return the goal for the first block of a file."""
    start = (arena[f + e.INODE] - 1) // s.group_inodes << mballoc.GROUP_SHIFT
    last = s.blocks - 1
    blocks = mballoc.GROUP if start + mballoc.GROUP <= last else last - start
    return start + PROCESS % COLOURS * (blocks // COLOURS)


@subroutine
def block_in(arena, f, slot):
    """Return the pointer block in a slot, 0 if the file has none."""
    return arena[arena[f + e.LEAVES] + slot] if map.has_slot(arena, f, slot) else 0


@subroutine
def direct_before(s, arena, f, page):
    """Return the block of the last direct page before `page`, or the inode's goal."""
    at = left_of(arena, f, page)
    return block_of(arena, f, at) if at >= 0 else inode_goal(s, arena, f)


@subroutine
def of_page(s, arena, f, page, left, right):
    """Return the block at which the search for `page` starts."""
    slot = map.slot_of(page)
    if slot < 0:
        return direct_before(s, arena, f, page)
    first = map.DIRECT + ((page - map.DIRECT) >> map.FAN_SHIFT << map.FAN_SHIFT)
    if left >= first:
        return block_of(arena, f, left)
    return block_in(arena, f, slot)


@subroutine
def of_index(s, arena, f, page, slot):
    """Return the block at which the search for the pointer block of a slot starts."""
    above = map.parent_of_slot(slot)
    if above < 0:
        for before in (map.DOUBLE, 0):
            if slot > before and block_in(arena, f, before):
                return block_in(arena, f, before)
        return direct_before(s, arena, f, map.DIRECT)
    step = map.GROUP if above == map.TRIPLE else 1
    before = slot - step
    while before > above:
        if block_in(arena, f, before):
            return block_in(arena, f, before)
        before -= step
    return block_in(arena, f, above)


HOOKS = {"inode_goal": inode_goal, "of_page": of_page, "of_index": of_index}
