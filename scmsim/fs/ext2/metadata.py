"""Metadata of ext2: changed blocks wait in a list, and a write-back or an fsync stores each in place once.

The list is the field `txn`, which ext4 uses for the running transaction.  A block that an fsync stored keeps its entry in the list;
the bitmap `logged` has the blocks with an entry.
Source: Linux fs/ext2/inode.c, fs/buffer.c; ext4's driver: fs/ext4/{fsync.c,ext4_jbd2.c}.
"""

import numpy as np

from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import groups
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64


@subroutine
def join(s, arena, block):
    """Mark the changed metadata block `block` as dirty."""
    at = s.joined + (block >> 6)
    bit = _ONE << (block & 63)
    if arena[at] & bit == 0:
        if s.txn_length == 0:
            s.txn_since = s.now
        arena[at] |= bit
        s.txn_blocks += 1
        at = s.logged + (block >> 6)
        if arena[at] & bit == 0:  # unless the list still has an earlier entry of the block
            arena[at] |= bit
            arena[s.txn + s.txn_length] = block
            s.txn_length += 1


@subroutine
def forget(s, arena, block):
    """Mark the freed metadata block `block` as clean, so that it is not stored; return 1 if it was dirty, else 0."""
    bit = _ONE << (block & 63)
    if arena[s.joined + (block >> 6)] & bit == 0:
        return 0
    arena[s.joined + (block >> 6)] &= ~bit
    s.txn_blocks -= 1
    return 1


@subroutine
def store_dirty(s, arena, out, block):
    """Store metadata block `block` in place if it is dirty; emits at most 3 events."""
    if forget(s, arena, block):
        s.reg[q.FROM] = block * e.BLOCK
        emit_template(s, out, q.IN_PLACE)


@subroutine
def commit(s, arena, out):
    """Store every dirty metadata block in place; return False if `out` must grow first."""
    if not reserve_events(s, out, 3 * s.txn_blocks + 16):
        return False
    s.reg[q.COUNT], s.reg[q.REVOKES] = s.txn_blocks, s.revokes
    emit_template(s, out, q.COMMIT)
    s.revokes = 0
    for i in range(s.txn_length):
        block = arena[s.txn + i]
        store_dirty(s, arena, out, block)
        arena[s.logged + (block >> 6)] &= ~(_ONE << (block & 63))
    s.txn_length = 0
    s.tid += 1
    return True


@subroutine
def checkpoint(s, arena, out):
    """Flush the device at the end of sync()."""
    emit_template(s, out, q.CHECKPOINT)


@subroutine
def store_index(s, arena, out, f, more):
    """Store a file's dirty pointer blocks in place at fsync; return False if `out` must grow for them and `more` blocks."""
    if not reserve_events(s, out, 3 * min(s.txn_blocks, arena[f + e.LEAF_COUNT] + more) + 16):
        return False
    for i in range(arena[f + e.LEAVES], arena[f + e.LEAVES] + arena[f + e.LEAF_COUNT]):
        if arena[i]:
            store_dirty(s, arena, out, arena[i])
    return True


@subroutine
def inode_block(s, arena, f):
    """Return the block that contains a file's inode."""
    return groups.inode_block(s, arena[f + e.INODE])


@subroutine
def sync(s, arena, out, op, f):
    """Run fsync: store pointer blocks, and the inode if it changed, then flush the device; return the outcome.

    The inode is copied to its block of the inode table only now.
    """
    if not store_index(s, arena, out, f, 1):
        return NO_ROOM
    if arena[f + e.TID] == s.tid:
        arena[f + e.TID] = 0
        join(s, arena, inode_block(s, arena, f))
        store_dirty(s, arena, out, inode_block(s, arena, f))
    emit_template(s, out, q.FSYNC)
    emit_template(s, out, q.BARRIER)
    return DONE


HOOKS = {"join": join, "forget": forget, "commit": commit, "checkpoint": checkpoint, "sync": sync}
