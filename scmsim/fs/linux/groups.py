"""Find the metadata blocks of a block group: its bitmaps and its inode table.

Units: blocks of 4096 bytes.  Source: e2fsprogs lib/ext2fs/alloc_tables.c; `mke2fs` lays the metadata out.
"""

from scmsim.alloc.mballoc import GROUP_SHIFT
from scmsim.fs.linux import state as e
from scmsim.fs.linux.mke2fs import bitmap_stride, has_backup
from scmsim.jit import kernel, subroutine


@subroutine
def metadata_of(s, group):
    """Return (first metadata block, first group, blocks from block to inode bitmaps) of a group's flex group."""
    first = group >> s.flex_shift << s.flex_shift
    at = (first << GROUP_SHIFT) + (s.backup_blocks if has_backup(first) else 0)
    return at, first, bitmap_stride(s.flex_shift, s.group_count, first)


@subroutine
def block_bitmap(s, group):
    """Return the block that holds a group's block bitmap."""
    at, first, _ = metadata_of(s, group)
    return at + group - first


@subroutine
def inode_bitmap(s, group):
    """Return the block that holds a group's inode bitmap."""
    at, first, stride = metadata_of(s, group)
    return at + stride + group - first


@kernel
def inode_block(s, number):
    """Return the block that holds an inode."""
    group, index = 0, number - 1
    if index >= s.group_inodes:  # most files are in the first group, and a division is slow
        group = index // s.group_inodes
        index -= group * s.group_inodes
    at, first, stride = metadata_of(s, group)
    return at + 2 * stride + (group - first) * s.inode_blocks + index // e.INODES_PER_BLOCK
