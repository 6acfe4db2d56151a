"""Inode numbers of XFS: chunks of 64 inodes in the allocation groups, and which inode a new file gets.

A directory goes to the next group in turn, a file to its directory's group; there it gets the first free inode of the chunk
that is closest to the directory's inode.  A group without a free inode gets a chunk, after its newest one if that is possible.
Source: Linux 6.1 fs/xfs/libxfs/xfs_ialloc.c (xfs_dialloc, xfs_dialloc_ag_finobt_near, xfs_ialloc_ag_alloc).  An inode's number
here is 64 times its chunk's number plus its place in the chunk.  Simplified: chunks are kept (mount option ikeep); no chunk is
sparse.
"""

import numpy as np

from scmsim.alloc.bitmap import lowest_bit
from scmsim.alloc.xfs_groups import allocate_aligned
from scmsim.fs.engine import table
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import state as n
from scmsim.jit import kernel

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64


@kernel
def chunk_row(s, arena, chunk):
    """Return the arena offset of a chunk's row."""
    return arena[s.chunks + table.ENTRIES] + chunk * n.CHUNK_WORDS


@kernel
def inode_block(s, arena, inode):
    """Return the block that contains an inode."""
    row = chunk_row(s, arena, inode // n.CHUNK_INODES)
    return arena[row + n.FIRST_BLOCK] + inode % n.CHUNK_INODES * n.INODE_BYTES // e.BLOCK


@kernel
def group_of(s, arena, inode):
    """Return the allocation group of an inode."""
    return arena[chunk_row(s, arena, inode // n.CHUNK_INODES) + n.FIRST_BLOCK] // s.ag_blocks


@kernel
def know_chunk(s, arena, block):
    """Record the chunk of 64 free inodes that starts at `block`; the caller must have reserved arena words."""
    chunk = s.inode_count // n.CHUNK_INODES
    table.reserve(s, arena, s.chunks, (chunk + 1) * n.CHUNK_WORDS)
    s.inode_count += n.CHUNK_INODES
    table.reserve(s, arena, s.inode_items, s.inode_count)
    row, group = chunk_row(s, arena, chunk), s.inode_groups + block // s.ag_blocks * n.INODE_GROUP_WORDS
    arena[row + n.FIRST_BLOCK], arena[row + n.FREE] = block, -1
    arena[row + n.NUMBER] = arena[group + n.CHUNKS]
    arena[row + n.NEXT], arena[group + n.WITH_FREE] = arena[group + n.WITH_FREE], chunk + 1
    arena[group + n.CHUNKS] += 1
    arena[group + n.FREE_INODES] += n.CHUNK_INODES
    arena[group + n.NEWEST] = chunk + 1


@kernel
def _add_chunk(s, arena, group):
    """Allocate a chunk in a group; return whether the group had space for it."""
    if s.free_blocks - s.reserved < n.CHUNK_BLOCKS:
        return False
    newest = arena[s.inode_groups + group * n.INODE_GROUP_WORDS + n.NEWEST]
    after = arena[chunk_row(s, arena, newest - 1) + n.FIRST_BLOCK] + n.CHUNK_BLOCKS if newest else np.int64(-1)
    block = allocate_aligned(s, arena, group * s.ag_blocks + n.INODE_ROOT, n.CHUNK_BLOCKS, after)
    if block < 0:
        return False
    know_chunk(s, arena, block)
    s.meta_blocks += n.CHUNK_BLOCKS
    s.new_chunk = 1
    return True


@kernel
def _closest(s, arena, group, parent):
    """Return the chunk of a group from which a child of the inode `parent` gets its inode; unlist full chunks."""
    place = s.inode_groups + group * n.INODE_GROUP_WORDS
    is_near, newest = group_of(s, arena, parent) == group, arena[place + n.NEWEST] - 1
    if not is_near and newest >= 0 and arena[chunk_row(s, arena, newest) + n.FREE]:
        return newest
    own = chunk_row(s, arena, parent // n.CHUNK_INODES)
    if is_near and arena[own + n.FREE]:
        return parent // n.CHUNK_INODES
    at = arena[own + n.FIRST_BLOCK] * n.INODES_PER_BLOCK + parent % n.CHUNK_INODES if is_near else np.int64(0)
    left, right = np.int64(-1), np.int64(-1)
    left_at, right_at = np.int64(-1), np.int64(1) << 60
    link = place + n.WITH_FREE
    while arena[link]:
        chunk = arena[link] - 1
        row = chunk_row(s, arena, chunk)
        if arena[row + n.FREE] == 0:
            arena[link], arena[row + n.NEXT] = arena[row + n.NEXT], n.NOT_LISTED
            continue
        first = arena[row + n.FIRST_BLOCK] * n.INODES_PER_BLOCK
        if first < at and first > left_at:
            left, left_at = chunk, first
        if first >= at and first < right_at:
            right, right_at = chunk, first
        link = row + n.NEXT
    if left < 0 or right < 0:
        return max(left, right)
    return right if at - left_at + n.CHUNK_INODES - 1 > right_at - at else left


@kernel
def take_inode(s, arena, parent, is_dir):
    """Take and return a free inode for a child of the inode `parent`, -1 if there is none.

    Sets `new_chunk` to 1 if the inode is in a new chunk, else to 0.  The caller must have checked that the arena has
    room for one more chunk.
    """
    first = group_of(s, arena, parent)
    if is_dir:
        first = s.next_group
        s.next_group = (first + 1) % s.ag_count
    s.new_chunk = 0
    for i in range(s.ag_count):
        group = (first + i) % s.ag_count
        place = s.inode_groups + group * n.INODE_GROUP_WORDS
        if arena[place + n.FREE_INODES] or _add_chunk(s, arena, group):
            chunk = _closest(s, arena, group, parent)
            row = chunk_row(s, arena, chunk)
            number = lowest_bit(arena[row + n.FREE])
            arena[row + n.FREE] &= ~(_ONE << number)
            arena[place + n.FREE_INODES] -= 1
            return chunk * n.CHUNK_INODES + number
    return np.int64(-1)


@kernel
def give_inode(s, arena, inode):
    """Free an inode."""
    chunk = inode // n.CHUNK_INODES
    row, place = chunk_row(s, arena, chunk), s.inode_groups + group_of(s, arena, inode) * n.INODE_GROUP_WORDS
    arena[row + n.FREE] |= _ONE << (inode % n.CHUNK_INODES)
    arena[place + n.FREE_INODES] += 1
    if arena[row + n.NEXT] == n.NOT_LISTED:
        arena[row + n.NEXT], arena[place + n.WITH_FREE] = arena[place + n.WITH_FREE], chunk + 1
