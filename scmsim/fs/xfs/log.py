"""Log of XFS: changed items join the committed item list (CIL), a checkpoint logs them, the log worker writes them in place.

A checkpoint logs each item once, in its current state, however often the item changed before: of a buffer, the chunks
of 128 bytes that changed since it was last written in place; of an inode, the core and the changed fork.  A checkpoint
of n bytes stores n bytes, a header of 512 bytes per log buffer and 12 bytes per region that is split, rounded up to the
log's unit.
Source: Linux 5.13 fs/xfs/{xfs_log.c: xlog_write, xlog_sync; xfs_log_cil.c: xlog_cil_push_work; xfs_buf_item.c,
xfs_inode_item.c, xfs_trans_ail.c}.  Simplified: a full log is pushed as a whole, while XFS pushes its oldest quarter; an idle
log is not covered with dummy records; a change of free space logs one record in the root of each of the two free-space trees; all
inode records of a group are in one block.
"""

from scmsim.alloc.xfs_free_space import clear_busy
from scmsim.fs.engine.arena import give, take
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs import templates as x
from scmsim.fs.xfs.inodes import chunk_row, group_of
from scmsim.jit import subroutine

ALL_CHUNKS = (1 << 32) - 1


@subroutine
def bits(mask):
    """Count the ones in 32 bits."""
    mask -= (mask >> 1) & 0x55555555
    mask = (mask & 0x33333333) + ((mask >> 2) & 0x33333333)
    return (((mask + (mask >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24) & 255


@subroutine
def add_bytes(s, count):
    """Add `count` bytes to the size of the next checkpoint."""
    if s.cil_bytes == 0:
        s.txn_since = s.now
    s.cil_bytes += count


@subroutine
def insert(s, arena, item, count):
    """Put an item on the CIL and set its size in the next checkpoint to `count` bytes (xlog_cil_insert_items)."""
    if arena[item + n.MARK] & n.IN_CIL == 0:
        arena[item + n.MARK] |= n.IN_CIL
        arena[item + n.BYTES] = 0
        arena[item + n.NEXT_IN_CIL] = s.cil
        s.cil = item
        s.cil_items += 1
    # an item in the CIL is logged once: replace its earlier size
    add_bytes(s, count - arena[item + n.BYTES])
    arena[item + n.BYTES] = count


@subroutine
def log_buffer(s, arena, item, first, last):
    """Log the change of bytes [first, last] of a metadata block (xfs_trans_log_buf)."""
    low, high = first >> n.CHUNK_SHIFT, min(last, 4095) >> n.CHUNK_SHIFT
    mask = arena[item + n.MASK] | ((1 << (high + 1)) - 1) & ~((1 << low) - 1)
    if mask != arena[item + n.MASK] or arena[item + n.MARK] & n.IN_CIL == 0:
        arena[item + n.MASK] = mask
        # each run of chunks is one region with its own header
        runs = bits(mask & ~(mask << 1) & ALL_CHUNKS)
        insert(s, arena, item, n.BUFFER_FORMAT + n.OP_HEADER * runs + (bits(mask) << n.CHUNK_SHIFT))


@subroutine
def new_buffer(s, arena, block):
    """Create the log item of a new metadata block; allocates 8 arena words."""
    item = take(s, arena, n.ITEM_ORDER)
    arena[item + n.HOME] = block
    return item


@subroutine
def drop_buffer(s, arena, item):
    """Replace the log item of a freed metadata block by a record that cancels the block (xfs_trans_binval)."""
    insert(s, arena, item, n.BUFFER_FORMAT)
    arena[item + n.MARK] |= n.IS_STALE


@subroutine
def log_inode(s, arena, out, f):
    """Log the change of a file's inode core, with its changed fork (xfs_trans_log_inode)."""
    item = arena[arena[s.inode_items] + arena[f + e.INODE]]
    fork = arena[item + n.MASK]
    insert(s, arena, item, n.INODE_FORMAT + (n.OP_HEADER + fork if fork else 0))
    arena[f + e.TID] = s.sequence
    s.reg[q.SLOT] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    emit_template(s, out, x.ITEM)


@subroutine
def most_inline(s):
    """Return how many extents fit in an inode."""
    return s.fork // n.EXTENT_BYTES


@subroutine
def fork_bytes(s, arena, f):
    """Return the size in bytes of a file's extents in its inode, or of the root of its extent tree there."""
    if arena[f + e.LEAF_COUNT]:
        return n.BTREE_ROOT + n.EXTENT_BYTES * arena[f + e.LEAF_COUNT]
    return n.EXTENT_BYTES * min(arena[f + e.EXTENTS], most_inline(s))


@subroutine
def log_fork(s, arena, out, f, count):
    """Log the change of an inode and its fork, which now has `count` bytes."""
    arena[arena[arena[s.inode_items] + arena[f + e.INODE]] + n.MASK] = count
    log_inode(s, arena, out, f)


@subroutine
def log_free_space(s, arena, block):
    """Log that free space at `block` changed: its group's header, and a record in each of the two free-space trees."""
    group = s.ag_items + (block // s.ag_blocks * n.AG_ITEMS << n.ITEM_ORDER)
    for kind in range(n.AGF, n.CNT + 1):
        log_buffer(s, arena, group + (kind << n.ITEM_ORDER), 0, n.DATA_HEADER)


@subroutine
def log_inode_use(s, arena, inode, first, last):
    """Log that an inode's use changed: bytes [first, last] of its group's inode header, and its chunk's records."""
    number = arena[chunk_row(s, arena, inode // n.CHUNK_INODES) + n.NUMBER]
    group = s.ag_items + (group_of(s, arena, inode) * n.AG_ITEMS << n.ITEM_ORDER)
    log_buffer(s, arena, group + (n.AGI << n.ITEM_ORDER), first, last)
    record = 56 + number * 16 % 4032
    log_buffer(s, arena, group + (n.INO << n.ITEM_ORDER), record, record + 15)
    log_buffer(s, arena, group + (n.FINO << n.ITEM_ORDER), 0, n.DATA_HEADER)


@subroutine
def checkpoint(s, arena, out):
    """Write the items of the CIL to the log, which has room for them; emits at most 12 events."""
    count = s.cil_bytes + n.CHECKPOINT_BYTES
    room = s.log_buffer - n.RECORD_HEADER
    buffers = (count + room - 1) // room
    # a region that is split between buffers gets another header, and these headers may need one more buffer
    count += n.OP_HEADER * (buffers - 1)
    buffers = (count + room - 1) // room
    rest = count - (buffers - 1) * room + n.RECORD_HEADER
    count = (buffers - 1) * s.log_buffer + (rest + s.log_unit - 1) // s.log_unit * s.log_unit
    capacity = s.journal_blocks * e.BLOCK
    whole = min(count, capacity - s.log_head)
    s.reg[q.COUNT], s.reg[q.BYTES], s.reg[x.FENCES] = (count + 4095) >> 12, count, x.LOG_WRITE_FENCES * buffers
    s.reg[q.TO], s.reg[q.LOG] = s.journal_at * e.BLOCK + s.log_head, whole
    s.reg[q.FROM], s.reg[q.LOG_WRAPPED] = s.journal_at * e.BLOCK, count - whole
    s.reg[x.CHECKED] = (count - buffers * (n.RECORD_HEADER - n.CHECKED_HEADER)) >> 3
    emit_template(s, out, x.LOG_WRITE)
    s.reg[q.COUNT], s.reg[q.REVOKES], s.reg[q.NEW] = s.cil_items, s.freed_extents, s.freed_inodes
    emit_template(s, out, x.LOG_DONE)
    s.log_head = (s.log_head + count) % capacity
    s.log_used += count
    settle_items(s, arena)
    clear_busy(s, arena)
    s.is_forced = 0
    s.cil, s.cil_items, s.cil_bytes, s.freed_extents, s.freed_inodes = 0, 0, 0, 0, 0
    s.sequence += 1
    s.push |= s.log_used > capacity - (capacity >> 2)  # a log that is 3/4 full is pushed


@subroutine
def settle_items(s, arena):
    """Move the items of a finished checkpoint to the AIL, from which they are written in place; free stale items."""
    item = s.cil
    while item:
        after = arena[item + n.NEXT_IN_CIL]
        mark = arena[item + n.MARK] & ~n.IN_CIL
        if mark & (n.IS_STALE | n.IN_AIL) == n.IS_STALE:
            give(s, arena, item, n.ITEM_ORDER)
        else:
            if mark & n.IN_AIL == 0:
                arena[item + n.NEXT_IN_AIL] = s.ail
                s.ail = item
                s.ail_items += 1
            arena[item + n.MARK] = mark | n.IN_AIL
        item = after


@subroutine
def push_inode(s, arena, out, item):
    """Write the inode cluster of an item in place; all inodes of the cluster leave the AIL."""
    first = arena[item + n.HOME] // n.CLUSTER_INODES * n.CLUSTER_INODES
    chunk = arena[chunk_row(s, arena, first // n.CHUNK_INODES) + n.FIRST_BLOCK]
    s.reg[q.FROM] = chunk * e.BLOCK + first % n.CHUNK_INODES * n.INODE_BYTES
    s.reg[q.BYTES] = n.CLUSTER_BLOCKS * e.BLOCK
    emit_template(s, out, x.METADATA)
    for inode in range(first, first + n.CLUSTER_INODES):
        other = arena[arena[s.inode_items] + inode]
        if other:
            arena[other + n.MARK] &= ~n.IN_AIL
            arena[other + n.MASK] = 0


@subroutine
def push_all(s, arena, out):
    """Write all logged metadata in place; the CIL must be empty.  Emits at most 3 events per item."""
    item = s.ail
    while item:
        after = arena[item + n.NEXT_IN_AIL]
        mark = arena[item + n.MARK]
        if mark & n.IS_STALE:
            give(s, arena, item, n.ITEM_ORDER)
        elif mark & n.IN_AIL and mark & n.IS_INODE:
            push_inode(s, arena, out, item)
        elif mark & n.IN_AIL:
            s.reg[q.FROM], s.reg[q.BYTES] = arena[item + n.HOME] * e.BLOCK, e.BLOCK
            emit_template(s, out, x.METADATA)
            arena[item + n.MARK] &= ~n.IN_AIL
            arena[item + n.MASK] = 0
        item = after
    s.ail, s.ail_items, s.log_used, s.push = 0, 0, 0, 0
