"""Model WineFS's write: in strict mode an overwrite goes to fresh blocks, and in an aligned file also in place.

In place, the file stays aligned. In relaxed mode every overwrite goes in place; one that is not inside a block still
allocates blocks and frees them again. An append inside a block needs no transaction in either mode.

Source: WineFS fs/winefs/xip.c (pmfs_xip_file_write, pmfs_xip_cow_file_write, pmfs_copy_to_edge_blk,
pmfs_clear_edge_blk).
"""

from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.pmfs import data as pmfs_data
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.pmfs.copy import clear, inode_at, set_copy_within, set_find
from scmsim.fs.pmfs.data import allocate, close_write, copy_runs, fast, lengthen, open_write
from scmsim.fs.pmfs.journal import begin, commit, log
from scmsim.fs.pmfs.tree import FILL_EVENTS, fill, node
from scmsim.fs.winefs import templates
from scmsim.jit import subroutine

NEW_START, NEW_END, OVER_START, OVER_END = 1, 2, 4, 8  # edges of a write: in a new block, in one with old bytes
WAS_READ = 4  # STATUS bit: read since the last change
REFILLING = 9  # a `stage` in addition to those of PMFS


@subroutine
def touch(s, arena, out, row):
    """Set the access time at the first read after a change (relatime; pmfs_dirty_inode)."""
    if arena[row + file_row.STATUS] & WAS_READ:
        return
    arena[row + file_row.STATUS] |= WAS_READ
    s.reg[tpl.INODE] = inode_at(s, row)
    emit_template(s, out, templates.ATIME)


@subroutine
def read_file(s, arena, out, op, row):
    """Model read(); return False if `out` or the arena must grow."""
    if s.stage == pmfs_state.READY:
        touch(s, arena, out, row)
    return pmfs_data.read_file(s, arena, out, op, row)


@subroutine
def find_edges(s, arena, op, row):
    """Set `edges` to the ends of the write that leave a part of their block uncovered."""
    end, size = op.offset + op.length, arena[row + file_row.SIZE]
    s.edges = 0
    if op.offset & 4095:
        there = table.get(arena, row + pmfs_state.BLOCKS, op.offset >> 12) != 0
        s.edges |= (not there) * NEW_START | (s.strict and there and op.offset < size) * OVER_START
    if end & 4095:
        there = table.get(arena, row + pmfs_state.BLOCKS, (end - 1) >> 12) != 0
        s.edges |= (not there) * NEW_END | (s.strict and there and end < size and op.offset < size) * OVER_END


@subroutine
def start_bytes(at):
    """Return how many bytes precede a write in its first block, rounded up to the next larger multiple of 8."""
    return (at & 4095) + 8 - (at & 7)


@subroutine
def copy_edge(s, arena, out, row, at, length):
    """Copy `length` bytes of the file from `at` on, from the replaced block to its successor (or to itself)."""
    i = at >> 12
    block, old = table.get(arena, row + pmfs_state.BLOCKS, i), table.get(arena, row + pmfs_state.OLD, i)
    from_block = old if s.replacing and old != 0 else block
    set_copy_within(s, from_block * tpl.BLOCK + (at & 4095), block * tpl.BLOCK + (at & 4095), length)
    emit_template(s, out, tpl.COW_EDGE)


@subroutine
def fill_edges(s, arena, out, op, row):
    """Clear or copy the bytes of edge blocks that the write does not cover."""
    end = op.offset + op.length
    first, last = op.offset & ~4095, end & ~7
    if s.edges & NEW_START:
        clear(s, out, table.get(arena, row + pmfs_state.BLOCKS, op.offset >> 12), 0, start_bytes(op.offset))
    if s.edges & NEW_END:
        clear(s, out, table.get(arena, row + pmfs_state.BLOCKS, (end - 1) >> 12), last & 4095, tpl.BLOCK)
    if s.edges & OVER_START:
        copy_edge(s, arena, out, row, first, start_bytes(op.offset))
    if s.edges & OVER_END:
        copy_edge(s, arena, out, row, last, tpl.BLOCK - (last & 4095))


@subroutine
def is_new(arena, row, first, last):
    """Return whether the write created the leaf of data blocks [first, last]: the leaf had no block before."""
    for i in range(first & ~511, (first | 511) + 1):
        inside = first <= i and i <= last
        if table.get(arena, row + (pmfs_state.OLD if inside else pmfs_state.BLOCKS), i) != 0:
            return False
    return True


@subroutine
def next_old(s, arena, row, stop):
    """Return the next block of the list of replaced blocks; 0 after its end."""
    while s.old_at <= stop:
        s.old_at += 1
        block = table.get(arena, row + pmfs_state.OLD, s.old_at - 1)
        if block != 0:
            return block
    return 0


@subroutine
def restore_leaf(s, arena, out, op, row):
    """Put the former blocks back into the slots of one leaf; record the fresh ones as replaced.

    WineFS's code takes the next former block of its list for each slot, even if the slot was a hole.  So the blocks after
    a hole get into other slots, and the last slots get what follows the list, which the code does not set (here 0: a
    hole).  The write's list of slots ends before the first leaf that the write created.
    """
    stop = (op.offset + op.length - 1) >> 12
    first, last = s.resume_at, min(s.resume_at | 511, stop)
    s.resume_at = last + 1
    if s.unlisted or is_new(arena, row, first, last):
        s.unlisted = 1
        for i in range(first, last + 1):
            if table.get(arena, row + pmfs_state.OLD, i) != 0:
                table.put(arena, row + pmfs_state.OLD, i, 0)
                s.lost_blocks += 1
                s.data_blocks -= 1
        return
    slots = node(arena, row, 1, first >> 9) * tpl.BLOCK + ((first & 511) << 3)
    log(s, out, slots, (last - first + 1) << 3)
    count = 0
    for i in range(first, last + 1):
        old = next_old(s, arena, row, stop)
        table.put(arena, row + pmfs_state.OLD, i, table.get(arena, row + pmfs_state.BLOCKS, i))
        table.put(arena, row + pmfs_state.BLOCKS, i, old)
        arena[row + file_row.MAPPED] -= old == 0
        count += 1
    s.reg[tpl.LEAF_AT], s.reg[tpl.SLOTS] = slots, (last - first + 1) << 3
    s.reg[tpl.UPPER] = count << 3
    emit_template(s, out, templates.RESTORE)


@subroutine
def write_file(s, arena, out, op, row):
    """Model write(); return False if `out` or the arena must grow."""
    first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    if s.stage == pmfs_state.READY:
        arena[row + file_row.STATUS] &= ~WAS_READ
        set_find(s, arena, row, first, 1)
        emit_template(s, out, tpl.WRITE)
        copied = s.strict and op.offset < arena[row + file_row.SIZE]  # a strict overwrite goes to fresh blocks
        s.doubled = copied and arena[row + pmfs_state.ALIGNED] != 0
        inside = first == last and table.get(arena, row + pmfs_state.BLOCKS, first) != 0
        if inside and (s.doubled or not copied):
            fast(s, arena, out, op, row)
            if s.barrier:
                emit_template(s, out, templates.BARRIER)
            return True
        find_edges(s, arena, op, row)
        edges = s.edges
        # the only block, to which the inode itself points, is never replaced
        if arena[row + pmfs_state.HEIGHT] == 0 and last == 0:
            s.replacing = 0
        open_write(s, arena, out, op, row)
        s.edges, s.stage, s.resume_at = edges, pmfs_state.ALLOCATING, first
    if s.stage == pmfs_state.ALLOCATING:
        if not allocate(s, arena, out, row, last):
            return False
        fill_edges(s, arena, out, op, row)
        s.stage, s.resume_at = pmfs_state.COPYING, op.offset
    if s.stage == pmfs_state.COPYING:
        if not copy_runs(s, arena, out, op, row, tpl.COPY):
            return False
        if not (s.doubled and s.replacing):
            close_write(s, arena, out, op, row)
            return True
        # the fresh blocks are committed, and the second transaction begins
        lengthen(s, arena, out, row, op.offset + op.length)
        commit(s, out)
        begin(s, out)
        s.stage, s.resume_at = pmfs_state.SWAPPING, first
        s.old_at, s.unlisted = first, 0
    return write_again(s, arena, out, op, row)


@subroutine
def write_again(s, arena, out, op, row):
    """Run the second transaction: restore the former blocks, copy the data again, free the fresh blocks.

    Return False if `out` or the arena must grow.
    """
    last = (op.offset + op.length - 1) >> 12
    while s.stage == pmfs_state.SWAPPING and s.resume_at <= last:
        if not reserve_events(s, out, FILL_EVENTS):
            return False
        restore_leaf(s, arena, out, op, row)
    if s.stage == pmfs_state.SWAPPING:
        s.stage, s.resume_at = REFILLING, op.offset >> 12
        while s.resume_at <= last and table.get(arena, row + pmfs_state.BLOCKS, s.resume_at) != 0:
            s.resume_at += 1
    if s.stage == REFILLING:
        # The copy allocates the rest of the write again where it meets a hole (winefs_find_and_alloc_blocks).
        s.replacing = 0
        while s.resume_at <= last:
            if not reserve_events(s, out, FILL_EVENTS + 3 * 512):
                return False
            fill(s, arena, out, row, last, 1)
        s.replacing = 1
        s.stage, s.resume_at = pmfs_state.DOUBLING, op.offset
    if not copy_runs(s, arena, out, op, row, templates.SECOND_COPY):
        return False
    close_write(s, arena, out, op, row)
    return True
