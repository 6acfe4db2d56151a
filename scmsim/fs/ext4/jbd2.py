"""jbd2: metadata blocks join the running transaction, a commit logs their images, a checkpoint writes them in place.

A commit of M blocks stores 4096 (M + ceil(M / 254) descriptors + revoke blocks + 1 commit block) bytes; in place, each
distinct block is written once per checkpoint.  Source: Linux fs/jbd2/{transaction.c,commit.c,checkpoint.c,revoke.c}.
Simplified: a checkpoint writes all logged blocks at once, while jbd2 writes only those of the oldest transactions.  So a block that
every transaction changes is written in place more often than by jbd2.
"""

import numpy as np

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

TAGS_PER_DESCRIPTOR = 254
REVOKES_PER_BLOCK = 510  # (4096 - 16) / 8
_ONE = np.int64(1)  # not int: in kernels run as plain Python, the int 1 << 63 does not fit an int64


@subroutine
def join(s, arena, block):
    """Add the changed metadata block `block` to the running transaction."""
    at = s.joined + (block >> 6)
    bit = _ONE << (block & 63)
    if arena[at] & bit == 0:
        if s.txn_length == 0:
            s.txn_since = s.now
        arena[at] |= bit
        s.txn_blocks += 1
        s.blocks_joined += 1
        arena[s.txn + s.txn_length] = block
        s.txn_length += 1


@subroutine
def charge_joins(s, out):
    """Charge the blocks that the current operation added to the running transaction; emits at most 1 event."""
    if s.blocks_joined:
        s.reg[q.COUNT], s.blocks_joined = s.blocks_joined, 0
        emit_template(s, out, q.JOINED)


@subroutine
def join_orphans(s, arena):
    """Add the superblock, which holds the head of the orphan list, to the running transaction."""
    join(s, arena, e.SUPERBLOCK)


@subroutine
def forget(s, arena, block):
    """Drop the freed block `block` from the transaction and the log; a revoke record keeps recovery from replaying it."""
    bit = _ONE << (block & 63)
    if arena[s.joined + (block >> 6)] & bit:
        arena[s.joined + (block >> 6)] &= ~bit
        s.txn_blocks -= 1
    if arena[s.logged + (block >> 6)] & bit:
        arena[s.logged + (block >> 6)] &= ~bit
        s.checkpoint_blocks -= 1
    s.revokes += 1


@subroutine
def checkpoint(s, arena, out):
    """Write each logged block in place and empty the log; emits at most 2 events per block and 2 more."""
    for i in range(s.checkpoint_length):
        block = arena[s.checkpoint_list + i]
        bit = _ONE << (block & 63)
        if arena[s.logged + (block >> 6)] & bit:  # skip a block that forget() dropped after it was logged
            arena[s.logged + (block >> 6)] &= ~bit
            s.reg[q.FROM] = block * e.BLOCK
            emit_template(s, out, q.IN_PLACE)
    s.reg[q.COUNT] = s.checkpoint_blocks
    emit_template(s, out, q.CHECKPOINT)
    s.checkpoint_length, s.checkpoint_blocks, s.log_used = 0, 0, 0


@subroutine
def log_blocks(s):
    """Return the number of blocks that a commit writes to the log, without its commit block."""
    descriptors = (s.txn_blocks + TAGS_PER_DESCRIPTOR - 1) // TAGS_PER_DESCRIPTOR
    return s.txn_blocks + descriptors + (s.revokes + REVOKES_PER_BLOCK - 1) // REVOKES_PER_BLOCK


@subroutine
def commit(s, arena, out):
    """Commit the running transaction and start the next; return False if `out` must grow or the log is full."""
    # the log is full: a checkpoint must free it first (__jbd2_log_wait_for_space)
    if s.log_used and s.log_used + log_blocks(s) + 1 > s.journal_blocks:
        s.want_checkpoint = s.needs_slow_path = 1
        return False
    if not reserve_events(s, out, 3 * s.txn_blocks + 16):
        return False
    write_log(s, arena, out)
    return True


@subroutine
def sync(s, arena, out, op, f):
    """Run fsync: commit the running transaction if the file is part of it, else only flush the device.

    Since fast commits (Linux 5.10), which do not cover directories, an fsync of a directory commits any running transaction, and
    without one it does not even flush the device (ext4_fsync_journal).
    """
    # fdatasync ignores transactions that changed only times (i_datasync_tid)
    tid = arena[f + e.DATA_TID] if op.flag & r.DATA_ONLY else arena[f + e.TID]
    if not reserve_events(s, out, s.txn_blocks + 16):
        return NO_ROOM
    whole = arena[f + e.IS_DIR] and not s.folder_barriers
    if s.txn_length and (whole or tid == s.tid):
        if not commit(s, arena, out):
            return NO_ROOM
    elif not whole:
        emit_template(s, out, q.BARRIER)
    emit_template(s, out, q.FSYNC)
    return DONE


@subroutine
def write_log(s, arena, out):
    """Write the running transaction to the log, which has room for it; emits at most 3 * txn_blocks + 9 events."""
    count = log_blocks(s)
    if s.checkpoint_blocks == 0:
        s.checkpoint_length, s.checkpoint_since = 0, s.now
    for i in range(s.txn_length):
        block = arena[s.txn + i]
        bit = _ONE << (block & 63)
        if arena[s.joined + (block >> 6)] & bit:
            arena[s.joined + (block >> 6)] &= ~bit
            s.reg[q.FROM] = block * e.BLOCK
            emit_template(s, out, q.IMAGE)
            if arena[s.logged + (block >> 6)] & bit == 0:  # listed once until the next checkpoint
                arena[s.logged + (block >> 6)] |= bit
                arena[s.checkpoint_list + s.checkpoint_length] = block
                s.checkpoint_length += 1
                s.checkpoint_blocks += 1
    # a run of log blocks that passes the log's end continues at its start
    whole = min(count, s.journal_blocks - s.log_head)
    s.reg[q.COUNT], s.reg[q.BYTES] = count + 1, (count + 1 - s.txn_blocks) * e.BLOCK
    s.reg[q.TO], s.reg[q.LOG] = (s.journal_at + s.log_head) * e.BLOCK, whole * e.BLOCK
    s.reg[q.FROM], s.reg[q.LOG_WRAPPED] = s.journal_at * e.BLOCK, (count - whole) * e.BLOCK
    s.reg[q.COMMIT_AT] = (s.journal_at + (s.log_head + count) % s.journal_blocks) * e.BLOCK
    s.reg[q.REVOKES] = s.revokes
    emit_template(s, out, q.COMMIT)
    s.log_head = (s.log_head + count + 1) % s.journal_blocks
    s.log_used += count + 1
    s.txn_length, s.txn_blocks, s.revokes = 0, 0, 0
    placement.committed(s, arena)
    s.tid += 1
    s.commits += 1


HOOKS = {
    "join": join,
    "join_orphans": join_orphans,
    "forget": forget,
    "charge_joins": charge_joins,
    "commit": commit,
    "checkpoint": checkpoint,
    "sync": sync,
}
