"""Pointer blocks of ext2 and their places in a file.

The first 12 pages need no pointer block, 1024 more need one, 1024 * 1024 two, the rest three.  A file's table of
pointer blocks is in the order of their pages: slot 0 the single-indirect block; slot 1 the double-indirect block, slots
2 to 1025 the blocks that it points to; slot 1026 the triple-indirect block, then groups of 1025: a middle block and the
1024 blocks below it.  Source: Linux fs/ext2/inode.c: ext2_block_to_path(), ext2_alloc_blocks().
"""

from scmsim.fs.linux import metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux.groups import block_bitmap
from scmsim.jit import subroutine

DIRECT = 12
FAN_SHIFT = 10  # pointers in a block: 1024
DOUBLE, TRIPLE = 1, 1026  # slots
GROUP = 1025


@subroutine
def slot_of(page):
    """Return the slot of the last pointer block on the way to `page`, -1 if the inode itself points to the page."""
    if page < DIRECT:
        return -1
    leaf = (page - DIRECT) >> FAN_SHIFT
    if leaf == 0:
        return 0
    if leaf < GROUP:
        return leaf + 1
    # each group of 1024 leaves has its middle block in front of it
    return TRIPLE + 2 + leaf - GROUP + ((leaf - GROUP) >> FAN_SHIFT)


@subroutine
def parent_of_slot(slot):
    """Return the slot of the pointer block that points to the block in `slot`, -1 if the inode does."""
    if slot < 2 or slot == TRIPLE:
        return -1
    if slot < TRIPLE:
        return DOUBLE
    place = (slot - TRIPLE - 1) % GROUP
    return TRIPLE if place == 0 else slot - place


@subroutine
def levels(page):
    """Return the number of pointer blocks on the way to `page`."""
    slot = slot_of(page)
    return 0 if slot < 0 else (1 if slot == 0 else (2 if slot < TRIPLE else 3))


@subroutine
def end_of_block(page):
    """Return the first page after those whose pointers are in the same block (or inode) as the pointer of `page`."""
    return DIRECT if page < DIRECT else DIRECT + ((((page - DIRECT) >> FAN_SHIFT) + 1) << FAN_SHIFT)


@subroutine
def has_slot(arena, f, slot):
    """Return whether a file has the pointer block of a slot."""
    return slot < arena[f + e.LEAF_COUNT] and arena[arena[f + e.LEAVES] + slot] != 0


@subroutine
def pointers_missing(arena, f, page, last):
    """Return the number of pointer blocks that a file lacks for the pages [page, last]."""
    end = slot_of(last)
    slot = max(slot_of(page), 0)
    if end < 0:
        return 0
    missing = end - slot + 1
    for at in range(slot, min(end + 1, arena[f + e.LEAF_COUNT])):
        missing -= arena[arena[f + e.LEAVES] + at] != 0
    slot = parent_of_slot(slot)
    while slot >= 0:
        missing += not has_slot(arena, f, slot)
        slot = parent_of_slot(slot)
    return missing


@subroutine
def slots(page):
    """Return how many slots the table of pointer blocks needs so that the file can reach `page`."""
    return slot_of(page) + 1


@subroutine
def reach(s, arena, f, page, want):
    """Add the pointer blocks that are missing on the way to `page`, the highest first, before its data.

    Returns how many of `want` pages are below the same pointer block (or the inode) as `page`.
    """
    leaf = slot_of(page)
    while leaf >= 0 and not has_slot(arena, f, leaf):
        slot = leaf
        parent = parent_of_slot(slot)
        while parent >= 0 and not has_slot(arena, f, parent):
            slot = parent
            parent = parent_of_slot(slot)
        arena[arena[f + e.LEAVES] + slot] = placement.take_index_block(s, arena, f, page, slot)
        arena[f + e.LEAF_COUNT] = max(arena[f + e.LEAF_COUNT], slot + 1)
        s.meta_blocks += 1
        s.new_pointers += 1
    return min(want, end_of_block(page) - page)


@subroutine
def added(s, arena, f, page, count):
    """Record the change of the pointer block of `page`; of each new pointer block also its bitmap and its parent."""
    slot = slot_of(page)
    fresh = s.new_pointers
    while slot >= 0:
        block = arena[arena[f + e.LEAVES] + slot]
        metadata.join(s, arena, block)
        if fresh == 0:
            return
        fresh -= 1
        metadata.join(s, arena, block_bitmap(s, block // e.GROUP_BLOCKS))
        slot = parent_of_slot(slot)


@subroutine
def freed(s, arena, f, page, count):
    """Record the changes of the pointer blocks of the first and the last page of a freed run."""
    for slot in (slot_of(page), slot_of(page + count - 1)):
        if slot >= 0 and has_slot(arena, f, slot):
            metadata.join(s, arena, arena[arena[f + e.LEAVES] + slot])


@subroutine
def blocks_kept(arena, f):
    """Return the number of pointer blocks after a truncation; a block that would point only to holes is also freed."""
    while arena[f + e.PAGE_COUNT] and arena[arena[f + e.PAGES] + arena[f + e.PAGE_COUNT] - 1] == 0:
        arena[f + e.PAGE_COUNT] -= 1
    return slot_of(arena[f + e.PAGE_COUNT] - 1) + 1


HOOKS = {
    "MOST_ABOVE": 3,
    "slots": slots,
    "missing": pointers_missing,
    "reach": reach,
    "added": added,
    "freed": freed,
    "above": parent_of_slot,
    "blocks_kept": blocks_kept,
}
