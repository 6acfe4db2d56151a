"""Where ext2's pointer blocks stand in a file: 12 pages need none, 1024 one, 1024 * 1024 two levels, the rest three.

A file's pointer blocks lie in one table in logical order: slot 0 the single-indirect block; slot 1 the double-indirect block,
slots 2 to 1025 those that it points to; slot 1026 the triple-indirect block, then groups of 1025, a middle block and its 1024.
Source: Linux fs/ext2/inode.c, ext2_block_to_path().
"""

from scmsim.fs.linux import state as e
from scmsim.jit import part

DIRECT = 12
FAN_SHIFT = 10  # pointers in a block: 1024
DOUBLE, TRIPLE = 1, 1026  # slots
GROUP = 1025


@part
def slot_of(page):
    """Slot of the last pointer block on the way to `page`, -1 if the inode itself points to it."""
    if page < DIRECT:
        return -1
    leaf = (page - DIRECT) >> FAN_SHIFT
    if leaf == 0:
        return 0
    if leaf < GROUP:
        return leaf + 1
    return TRIPLE + 2 + leaf - GROUP + ((leaf - GROUP) >> FAN_SHIFT)


@part
def parent_of_slot(slot):
    """Slot of the pointer block that points to another, -1 if the inode does."""
    if slot < 2 or slot == TRIPLE:
        return -1
    if slot < TRIPLE:
        return DOUBLE
    place = (slot - TRIPLE - 1) % GROUP
    return TRIPLE if place == 0 else slot - place


@part
def levels(page):
    """Pointer blocks on the way to `page`."""
    slot = slot_of(page)
    return 0 if slot < 0 else (1 if slot == 0 else (2 if slot < TRIPLE else 3))


@part
def end_of_block(page):
    """First page behind those whose pointers lie in the same block (or inode) as that of `page`."""
    return DIRECT if page < DIRECT else DIRECT + ((((page - DIRECT) >> FAN_SHIFT) + 1) << FAN_SHIFT)


@part
def has_slot(arena, f, slot):
    """Whether a file has the pointer block of a slot."""
    return slot < arena[f + e.LEAF_COUNT] and arena[arena[f + e.LEAVES] + slot] != 0


@part
def pointers_missing(arena, f, page, last):
    """Pointer blocks that a file does not have yet and needs for the pages [page, last]."""
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
