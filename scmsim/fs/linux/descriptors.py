"""Group descriptors: how many blocks, inodes and directories each group has, and the counters of the whole file system.

A descriptor's free blocks include those that are preallocated, and those that the running transaction freed.  The counters are per
processor: with one processor, the shared value differs from the true one by less than a batch.  Units: blocks of 4096 bytes.
Source: Linux 6.1 fs/ext4/{mballoc.c: ext4_mb_mark_diskspace_used, ialloc.c}, lib/percpu_counter.c.
"""

import numpy as np

from scmsim.alloc.mballoc import GROUP_SHIFT
from scmsim.jit import kernel

BATCH = 32  # percpu_counter_batch
RESERVED = 11  # inodes that mke2fs reserves in the first group
MADE = 2  # directories that mke2fs creates in the first group

FIELDS = [
    ("descriptors", "i8"),  # arena offset of the table of descriptors
    ("homes", "i8"),  # arena offset of the table of files' directories
    ("inode_bits", "i8"),  # arena offset of a bitmap of inodes: 1 = was used and is free
    # Free blocks, free inodes and directories as per-CPU counters: the shared value, and the local delta not yet added
    # to it
    ("free_shown", "i8"),
    ("free_pending", "i8"),
    ("inodes_shown", "i8"),
    ("inodes_pending", "i8"),
    ("folders_shown", "i8"),
    ("folders_pending", "i8"),
    ("fresh_inodes", "i8"),  # inodes that were never used
    ("begun_group", "i8"),  # group whose block bitmap must be stored, as it just got its first inode; -1 if none
]

# Fields of a descriptor, one arena word each:
FREE_BLOCKS = 0
FREE_INODES = 1
FOLDERS = 2  # directories
FRESH = 3  # index of the first inode that was never used
GIVEN = 4  # free inodes before FRESH: used in the past and freed
FIRST_WORD = 5  # word of the bitmap; no word before it has a free inode
WORDS = 6

# Fields of an entry of the table of files' directories, one arena word each:
FOLDER = 0  # table row of the directory that held the file before the trace
HASH = 1  # hash of the name, for a directory in the root (`hashing`)
HOME_WORDS = 2


def arena_words(groups: int, group_inodes: int) -> int:
    """Return the number of arena words that the descriptors and the bitmap of inodes occupy."""
    return groups * (WORDS + bitmap_words(group_inodes))


@kernel
def bitmap_words(group_inodes):
    """Return the number of arena words in a group's bitmap of inodes."""
    return (group_inodes + 63) >> 6


def attach(record: np.record, arena: np.ndarray, free: np.ndarray) -> None:
    """Lay out the descriptors at the arena's top, for a file system without files whose groups have `free` free blocks."""
    groups, inodes = len(free), int(record.group_inodes)
    record.descriptors, record.inode_bits = record.arena_top, record.arena_top + groups * WORDS
    record.arena_top += arena_words(groups, inodes)
    table = arena[record.descriptors : record.inode_bits].reshape(-1, WORDS)
    table[:, FREE_BLOCKS], table[:, FREE_INODES] = free, inodes
    table[0, FREE_INODES], table[0, FOLDERS], table[0, FRESH] = inodes - RESERVED, MADE, RESERVED
    record.free_shown, record.inodes_shown, record.folders_shown = free.sum(), table[:, FREE_INODES].sum(), MADE
    record.fresh_inodes, record.begun_group = record.inodes_shown, -1


@kernel
def of_group(s, group):
    """Return the arena offset of a group's descriptor."""
    return s.descriptors + group * WORDS


@kernel
def in_batches(shown, pending):
    """Return (shared value, local delta) of a counter; a delta of BATCH or more is added (percpu_counter_add_batch)."""
    return (shown + pending, 0) if abs(pending) >= BATCH else (shown, pending)


@kernel
def count_blocks(s, arena, block, count, change):
    """Count `count` blocks from `block` on as free (`change` 1) or as used (-1)."""
    at, end = block, block + count
    while at < end:
        group = at >> GROUP_SHIFT
        stop = min(end, (group + 1) << GROUP_SHIFT)
        arena[of_group(s, group) + FREE_BLOCKS] += change * (stop - at)
        s.free_shown, s.free_pending = in_batches(s.free_shown, s.free_pending + change * (stop - at))
        at = stop


@kernel
def count_inode(s, arena, group, is_dir, change):
    """Count an inode of a group as free (`change` 1) or as used (-1)."""
    row = of_group(s, group)
    arena[row + FREE_INODES] += change
    s.inodes_shown, s.inodes_pending = in_batches(s.inodes_shown, s.inodes_pending + change)
    if is_dir:
        arena[row + FOLDERS] -= change
        s.folders_shown, s.folders_pending = in_batches(s.folders_shown, s.folders_pending - change)
