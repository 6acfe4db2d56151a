"""Choose the block group of a new inode of ext4: by Orlov's algorithm for a directory, near its directory for a file.

The lowest free inode number of the chosen group is taken.

Source: Linux 6.1 fs/ext4/ialloc.c (__ext4_new_inode, find_group_orlov, find_group_other).  The choice is among flex groups, or
among single groups if the layout has no flex groups.
"""

import numpy as np

from scmsim.alloc import mballoc
from scmsim.alloc.bitmap import lowest_bit
from scmsim.fs.linux import descriptors as g
from scmsim.fs.linux import metadata
from scmsim.fs.linux import state as e
from scmsim.fs.linux.groups import block_bitmap
from scmsim.jit import kernel, subroutine

NO_NAME = -1  # in place of a hash: the choice for a file whose flex group is full
_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64


@kernel
def units(s):
    """Return the number of flex groups."""
    return ((s.group_count - 1) >> s.flex_shift) + 1


@kernel
def end_of(s, unit):
    """Return the end of a flex group: the number after its last group."""
    return min((unit + 1) << s.flex_shift, s.group_count)


@kernel
def total(s, arena, unit, field):
    """Return the sum of a field of the descriptors of a flex group."""
    found = 0
    for group in range(unit << s.flex_shift, end_of(s, unit)):
        found += arena[g.of_group(s, group) + field]
    return found


@kernel
def group_of(s, arena, d):
    """Return the block group of a directory's inode."""
    return (arena[d + e.INODE] - 1) // s.group_inodes


@kernel
def with_inode(s, arena, unit):
    """Return the first group with a free inode in a flex group; -1 if none.  Without flex groups, return the group itself."""
    for group in range(unit << s.flex_shift, end_of(s, unit)):
        if s.flex_shift == 0 or arena[g.of_group(s, group) + g.FREE_INODES] > 0:
            return group
    return -1


@kernel
def emptiest(s, arena, start):
    """Return the flex group with the fewest directories among those with average free space or more; -1 if none.

    Free space means free inodes and free blocks.  The search begins at flex group `start`; of flex groups with
    equally few directories, the first one found is returned.
    """
    count = units(s)
    inodes, blocks = max(s.inodes_shown, 0) // count, max(s.free_shown, 0) // count
    fewest, found = s.group_inodes, -1
    for i in range(count):
        unit = (start + i) % count
        folders, free = total(s, arena, unit, g.FOLDERS), total(s, arena, unit, g.FREE_INODES)
        if 0 < free and folders < fewest and free >= inodes and total(s, arena, unit, g.FREE_BLOCKS) >= blocks:
            fewest, found = folders, unit
    return found


@kernel
def nearest(s, arena, d):
    """Return the first flex group with enough free inodes and blocks and few enough directories; -1 if none.

    The search begins where directory `d` got its newest inode, or at the group of `d` itself if it got none yet.
    """
    count, unit_inodes = units(s), s.group_inodes << s.flex_shift
    most = max(s.folders_shown, 0) // count + unit_inodes // 16
    inodes = max(max(s.inodes_shown, 0) // count - unit_inodes // 4, 1)
    blocks = max(max(s.free_shown, 0) // count - ((mballoc.GROUP << s.flex_shift) >> 2), 0)
    last = arena[d + e.LAST_GROUP]
    start = (last - 1 if last else group_of(s, arena, d)) >> s.flex_shift
    for i in range(count):
        unit = (start + i) % count
        is_free = total(s, arena, unit, g.FREE_INODES) >= inodes and total(s, arena, unit, g.FREE_BLOCKS) >= blocks
        if is_free and total(s, arena, unit, g.FOLDERS) < most:
            return unit
    return -1


@kernel
def for_folder(s, arena, d, name_hash):
    """Return the group for a new directory in directory `d` (find_group_orlov); -1 if no group has a free inode."""
    is_root = d == arena[s.rows + (s.row_count - 1) * e.ROW_WORDS]
    spreads = is_root and name_hash != NO_NAME
    unit = emptiest(s, arena, name_hash % units(s)) if spreads else nearest(s, arena, d)
    group = with_inode(s, arena, unit) if unit >= 0 else -1
    if group >= 0:
        return group
    start, least = group_of(s, arena, d), max(s.inodes_shown, 0) // s.group_count
    for enough in (max(least, 1), 1):
        for i in range(s.group_count):
            group = (start + i) % s.group_count
            if arena[g.of_group(s, group) + g.FREE_INODES] >= enough:
                return group
    return -1


@kernel
def for_file(s, arena, d):
    """Return the group for a new file in directory `d` (find_group_other); -1 if no group has a free inode."""
    own = group_of(s, arena, d)
    if s.flex_shift:
        group = with_inode(s, arena, own >> s.flex_shift)
        if group < 0 and arena[d + e.LAST_GROUP]:
            group = with_inode(s, arena, (arena[d + e.LAST_GROUP] - 1) >> s.flex_shift)
        return group if group >= 0 else for_folder(s, arena, d, NO_NAME)
    if has_both(s, arena, own):
        return own
    group, step = (own + arena[d + e.INODE]) % s.group_count, 1
    while step < s.group_count:
        group = (group + step) % s.group_count
        if has_both(s, arena, group):
            return group
        step <<= 1
    for i in range(1, s.group_count + 1):
        group = (own + i) % s.group_count
        if arena[g.of_group(s, group) + g.FREE_INODES] > 0:
            return group
    return -1


@kernel
def has_both(s, arena, group):
    """Return whether a group has a free inode and a free block."""
    row = g.of_group(s, group)
    return arena[row + g.FREE_INODES] > 0 and arena[row + g.FREE_BLOCKS] > 0


@kernel
def lowest_free(s, arena, group):
    """Take and return the index of the lowest free inode of a group; -1 if it has none."""
    row = g.of_group(s, group)
    if arena[row + g.GIVEN]:
        words = g.bitmap_words(s.group_inodes)
        at, end = s.inode_bits + group * words, s.inode_bits + (group + 1) * words
        word = at + arena[row + g.FIRST_WORD]
        while word < end and arena[word] == 0:
            word += 1
        bit = lowest_bit(arena[word])
        arena[word] &= ~(_ONE << bit)
        arena[row + g.FIRST_WORD] = word - at
        arena[row + g.GIVEN] -= 1
        s.free_inode_count -= 1
        return ((word - at) << 6) + bit
    if arena[row + g.FRESH] < s.group_inodes:
        arena[row + g.FRESH] += 1
        s.fresh_inodes -= 1
        return arena[row + g.FRESH] - 1
    return -1


@kernel
def take(s, arena, d, is_dir, name_hash):
    """Take an inode for a new file or directory in directory `d` and return its number (__ext4_new_inode)."""
    group = for_folder(s, arena, d, name_hash) if is_dir else for_file(s, arena, d)
    arena[d + e.LAST_GROUP] = group + 1
    index = np.int64(-1)
    while index < 0:  # ends: the caller has checked that an inode is free
        index = lowest_free(s, arena, group)
        group = group if index >= 0 else (group + 1) % s.group_count
    g.count_inode(s, arena, group, is_dir, -1)
    row = s.group_table + group * mballoc.GROUP_WORDS
    s.begun_group = -1 if arena[row + mballoc.IS_STORED] else group
    arena[row + mballoc.IS_STORED] = 1
    return group * s.group_inodes + index + 1


@kernel
def home_of(s, row):
    """Return the arena offset of the entry (FOLDER, HASH) of file-table row `row` in the table of files' directories."""
    return s.homes + (row - s.rows) // e.ROW_WORDS * g.HOME_WORDS


@subroutine
def take_number(s, arena, row, d, is_dir):
    """Take an inode number for the new file of table row `row` in directory `d`."""
    return take(s, arena, d, is_dir, arena[home_of(s, row) + g.HASH])


@subroutine
def folder_of(s, arena, row):
    """Return the record of the directory that held the file of table row `row` before the trace."""
    return arena[arena[home_of(s, row) + g.FOLDER]]


@subroutine
def all_used(s):
    """Return whether no inode number is left for a new file."""
    return s.free_inode_count == 0 and s.fresh_inodes == 0


@subroutine
def begin_group(s, arena):
    """Add a group's block bitmap to the running transaction if the newest inode is the group's first use."""
    if s.begun_group >= 0:
        metadata.join(s, arena, block_bitmap(s, s.begun_group))
        s.begun_group = -1


@subroutine
def make_available(s, arena, number):
    """Make a free inode's number available for a new file."""
    group, index = (number - 1) // s.group_inodes, (number - 1) % s.group_inodes
    row = g.of_group(s, group)
    arena[s.inode_bits + group * g.bitmap_words(s.group_inodes) + (index >> 6)] |= _ONE << (index & 63)
    arena[row + g.FIRST_WORD] = min(arena[row + g.FIRST_WORD], index >> 6)
    arena[row + g.GIVEN] += 1
    s.free_inode_count += 1


@subroutine
def give_number(s, arena, f):
    """Free the inode number of a deleted file."""
    g.count_inode(s, arena, group_of(s, arena, f), arena[f + e.IS_DIR], 1)
    make_available(s, arena, arena[f + e.INODE])


HOOKS = {
    "take_number": take_number,
    "folder_of": folder_of,
    "all_used": all_used,
    "begin_group": begin_group,
    "give_number": give_number,
}
