"""jbd2: metadata blocks join the running transaction, a commit writes their images to the log, a checkpoint writes
them in place.

A commit of M blocks stores 4096 (M + ceil(M / 254) descriptors + revoke blocks + 1 commit block) bytes; in place, each
distinct block is written once per checkpoint.  Source: Linux fs/jbd2/{transaction.c,commit.c,checkpoint.c,revoke.c}.
A checkpoint here takes all logged blocks at once (jbd2: the oldest transactions); so a block that each transaction
holds is written more often.
"""

import numpy as np

from scmsim.fs.engine.events import play
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.jit import part

_ONE = np.int64(1)  # a Python 1 << 63 would not fit an int64 where kernels run as plain Python


@part
def join(s, arena, block):
    """Metadata block `block` changed: it belongs to the running transaction (no such thing in memory)."""
    if s.in_memory:
        return
    at = s.joined + (block >> 6)
    bit = _ONE << (block & 63)
    if arena[at] & bit == 0:
        if s.txn_length == 0:
            s.txn_since = s.now
        arena[at] |= bit
        s.txn_blocks += 1
        s.joins += 1
        if s.indirect:
            at = s.logged + (block >> 6)
            if arena[at] & bit:  # its entry is still there
                return
            arena[at] |= bit
        arena[s.txn + s.txn_length] = block
        s.txn_length += 1


@part
def charge_joins(s, out):
    """What the blocks cost that the operation at work was the first to change in this transaction; takes an event."""
    if s.joins:
        s.reg[q.COUNT], s.joins = s.joins, 0
        play(s, out, q.JOINED)


@part
def join_orphans(s, arena):
    """The list of orphans begins in the superblock; without a journal there is none."""
    if not s.indirect:
        join(s, arena, e.SUPERBLOCK)


@part
def forget(s, arena, block):
    """Metadata block `block` was freed: no image of it may be written any more, which the log learns by a revoke
    record.  Without a journal, by the driver of ext4, the page of a dirty one keeps its mark, and write-back finds
    nothing dirty in it (ext4_forget)."""
    bit = _ONE << (block & 63)
    dirty = arena[s.joined + (block >> 6)] & bit != 0
    if dirty:
        arena[s.joined + (block >> 6)] &= ~bit
        s.txn_blocks -= 1
    if arena[s.logged + (block >> 6)] & bit and not s.indirect:
        arena[s.logged + (block >> 6)] &= ~bit
        s.held_blocks -= 1
    s.revokes += dirty * s.by_ext4 if s.indirect else 1


@part
def checkpoint(s, arena, out):
    """Write each logged block in place and empty the log.  Takes at most 2 events for each held block and 2 more."""
    for i in range(s.held_length):
        block = arena[s.held + i]
        bit = _ONE << (block & 63)
        if arena[s.logged + (block >> 6)] & bit:
            arena[s.logged + (block >> 6)] &= ~bit
            s.reg[q.FROM] = block * e.BLOCK
            play(s, out, q.IN_PLACE)
    s.reg[q.COUNT] = s.held_blocks
    play(s, out, q.CHECKPOINT)
    s.held_length, s.held_blocks, s.log_used = 0, 0, 0


@part
def log_blocks(s):
    """Blocks that a commit of the running transaction writes to the log, its commit block not counted."""
    descriptors = (s.txn_blocks + e.TAGS_PER_DESCRIPTOR - 1) // e.TAGS_PER_DESCRIPTOR
    return s.txn_blocks + descriptors + (s.revokes + e.REVOKES_PER_BLOCK - 1) // e.REVOKES_PER_BLOCK


@part
def store_dirty(s, arena, out, block):
    """No journal: store metadata block `block` in place if it is dirty; at most 3 events."""
    bit = _ONE << (block & 63)
    if arena[s.joined + (block >> 6)] & bit == 0:
        return
    arena[s.joined + (block >> 6)] &= ~bit
    s.txn_blocks -= 1
    s.reg[q.FROM] = block * e.BLOCK
    play(s, out, q.IN_PLACE)


@part
def store_all(s, arena, out):
    """No journal: store every dirty metadata block in place.  At most 3 * txn_blocks + 1 events."""
    s.reg[q.COUNT], s.reg[q.REVOKES] = s.txn_blocks, s.revokes
    play(s, out, q.COMMIT)
    s.revokes = 0
    for i in range(s.txn_length):
        block = arena[s.txn + i]
        store_dirty(s, arena, out, block)
        arena[s.logged + (block >> 6)] &= ~(_ONE << (block & 63))
    s.txn_length = 0
    s.tid += 1


@part
def commit(s, arena, out):
    """Write the running transaction to the log, which has room for it, and start the next.  At most 3 * txn_blocks + 9
    events."""
    if s.indirect:
        store_all(s, arena, out)
        return
    count = log_blocks(s)
    if s.held_blocks == 0:
        s.held_length, s.held_since = 0, s.now
    for i in range(s.txn_length):
        block = arena[s.txn + i]
        bit = _ONE << (block & 63)
        if arena[s.joined + (block >> 6)] & bit:
            arena[s.joined + (block >> 6)] &= ~bit
            s.reg[q.FROM] = block * e.BLOCK
            play(s, out, q.IMAGE)
            if arena[s.logged + (block >> 6)] & bit == 0:
                arena[s.logged + (block >> 6)] |= bit
                arena[s.held + s.held_length] = block
                s.held_length += 1
                s.held_blocks += 1
    whole = min(count, s.journal_blocks - s.log_head)
    s.reg[q.COUNT], s.reg[q.BYTES] = count + 1, (count + 1 - s.txn_blocks) * e.BLOCK
    s.reg[q.TO], s.reg[q.LOG] = (s.journal_at + s.log_head) * e.BLOCK, whole * e.BLOCK
    s.reg[q.FROM], s.reg[q.LOG_WRAPPED] = s.journal_at * e.BLOCK, (count - whole) * e.BLOCK
    s.reg[q.COMMIT_AT] = (s.journal_at + (s.log_head + count) % s.journal_blocks) * e.BLOCK
    s.reg[q.REVOKES] = s.revokes
    play(s, out, q.COMMIT)
    s.log_head = (s.log_head + count + 1) % s.journal_blocks
    s.log_used += count + 1
    s.txn_length, s.txn_blocks, s.revokes = 0, 0, 0
    s.tid += 1
    s.commits += 1
