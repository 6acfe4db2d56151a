"""Model PMFS's data path: writes inside one block go in place, others through a transaction; reads go page by page.

With data_path = "cow" a write over existing bytes allocates fresh blocks, copies the bytes that it does not cover, swaps
the pointers in the transaction and frees the old blocks (the VSM paper, section IV.A: its authors added this to PMFS,
whose code does not have it).
Source: PMFS fs/pmfs/xip.c (pmfs_xip_file_write, pmfs_file_write_fast, __pmfs_xip_file_write, pmfs_clear_edge_blk).
"""

from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.pmfs import state, templates, tree
from scmsim.fs.pmfs.copy import clear, device, set_copy, set_copy_within, set_find, stretch
from scmsim.fs.pmfs.journal import begin, commit, log
from scmsim.fs.pmfs.tree import FILL_EVENTS, fill, grow
from scmsim.jit import subroutine

COPY_EVENTS = 24  # maximum number of events of the copy of one run of blocks


@subroutine
def open_fast(s, arena, out, op, row):
    """Prepare a write within one existing block; PMFS does nothing."""


@subroutine
def fast(s, arena, out, op, row):
    """Write in place within one existing block, without a transaction (pmfs_file_write_fast)."""
    end = op.offset + op.length
    open_fast(s, arena, out, op, row)
    set_copy(s, op, device(s, arena, row, op.offset), op.offset, end)
    s.reg[templates.PAGES] = 0
    emit_template(s, out, templates.COPY)
    grows = end > arena[row + file_row.SIZE]
    s.reg[templates.GROWN], s.reg[templates.UPDATED] = grows, 16 if grows else 8
    emit_template(s, out, templates.FAST_END)
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)


@subroutine
def edge(s, arena, out, row, i, low, high):
    """Fill bytes [low, high) of data block `i`, which the write does not cover: from the old block or with zeroes."""
    block, old = table.get(arena, row + state.BLOCKS, i), table.get(arena, row + state.OLD, i)
    if s.replacing and old != 0:
        set_copy_within(s, old * templates.BLOCK + low, block * templates.BLOCK + low, high - low)
        emit_template(s, out, templates.COW_EDGE)
    elif s.whole_edge:
        clear(s, out, block, 0, 1 << s.shift)
    elif low == 0:
        clear(s, out, block, low, (high + 7) & ~7)
    else:
        clear(s, out, block, low & ~7, high)


@subroutine
def edges(s, arena, out, op, row):
    """Fill both ends of a write that begins or ends inside a new or replaced block."""
    mask, end = (1 << s.shift) - 1, op.offset + op.length
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    # The original PMFS does not clear the end of the block after a write within one block.
    inside = s.whole_edge and not s.replacing and first == last
    if op.offset & mask and s.edges & 1:
        edge(s, arena, out, row, first, 0, op.offset & mask)
    if end & mask and s.edges & 2 and not inside:
        edge(s, arena, out, row, last, end & mask, mask + 1)


@subroutine
def replaces(s, arena, op, row):
    """Return whether a write needs copy-on-write, because it covers bytes of the file that have a block."""
    if not s.cow or op.length <= 0 or op.offset >= arena[row + file_row.SIZE]:
        return False
    for i in range(
        op.offset >> s.shift, min(((op.offset + op.length - 1) >> s.shift) + 1, arena[row + state.BLOCK_COUNT])
    ):
        if table.get(arena, row + state.BLOCKS, i) != 0:
            return True
    return False


@subroutine
def open_write(s, arena, out, op, row):
    """Open a write's transaction: log the inode, find new edge blocks and raise the tree, before blocks are allocated."""
    end, mask = op.offset + op.length, (1 << s.shift) - 1
    first, last = op.offset >> s.shift, (end - 1) >> s.shift
    begin(s, out)
    log(s, out, s.reg[templates.INODE], templates.LOG_DATA)
    emit_template(s, out, templates.TIMES)
    # Find new edge blocks now: after the allocation every block of the write exists.
    s.edges = (s.replacing or table.get(arena, row + state.BLOCKS, first) == 0) + 2 * (
        s.replacing or table.get(arena, row + state.BLOCKS, last) == 0
    )
    if op.offset & mask:
        set_find(s, arena, row, op.offset >> 12, 1)
        emit_template(s, out, templates.FIND)
    if end & mask:
        set_find(s, arena, row, (end - 1) >> 12, 1)
        emit_template(s, out, templates.FIND)
    grow(s, arena, out, row, last)


@subroutine
def lengthen(s, arena, out, row, end):
    """Store the file's new size `end` if it exceeds the current size."""
    if end > arena[row + file_row.SIZE]:
        arena[row + file_row.SIZE] = end
        emit_template(s, out, templates.RESIZED)


@subroutine
def allocate(s, arena, out, row, last):
    """Allocate a write's data blocks from `resume_at` to `last`; return False if the event buffer is full."""
    while s.resume_at <= last:
        if not reserve_events(s, out, FILL_EVENTS):
            return False
        fill(s, arena, out, row, last, 0)
    return reserve_events(s, out, FILL_EVENTS)


@subroutine
def copy_runs(s, arena, out, op, row, template):
    """Copy from `resume_at` to the end of the write, one run of blocks at a time; return False if the event buffer is full."""
    end = op.offset + op.length
    while s.resume_at < end:
        if not reserve_events(s, out, COPY_EVENTS):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        set_find(s, arena, row, at >> 12, ((stop - 1) >> 12) - (at >> 12) + 1)
        emit_template(s, out, templates.FIND)
        set_copy(s, op, device(s, arena, row, at), at, stop)
        emit_template(s, out, template)
        s.resume_at = stop
    return reserve_events(s, out, FILL_EVENTS)


@subroutine
def close_write(s, arena, out, op, row):
    """Store the size, commit, and free the blocks that a copy-on-write replaced."""
    end = op.offset + op.length
    lengthen(s, arena, out, row, end)
    commit(s, out)
    # Free the old blocks only after the commit: until then an undo restores the pointers to them.
    if s.replacing:
        count, runs = tree.free_slots(s, arena, row, state.OLD, op.offset >> s.shift, ((end - 1) >> s.shift) + 1)
        s.reg[templates.COUNT], s.reg[templates.PAGES] = count, runs
        emit_template(s, out, templates.OLD_FREED)


@subroutine
def write_file(s, arena, out, op, row):
    """Model write(); return False if the event buffer is full."""
    first, last = op.offset >> s.shift, (op.offset + op.length - 1) >> s.shift
    if s.stage == state.READY:
        set_find(s, arena, row, op.offset >> 12, 1)
        emit_template(s, out, templates.WRITE)
        # pmfs_file_write_fast: a write inside one existing block needs no allocation and no transaction.
        if first == last and not s.replacing and table.get(arena, row + state.BLOCKS, first) != 0:
            fast(s, arena, out, op, row)
            return True
        open_write(s, arena, out, op, row)
        s.stage, s.resume_at = state.ALLOCATING, first
    if s.stage == state.ALLOCATING:
        if not allocate(s, arena, out, row, last):
            return False
        edges(s, arena, out, op, row)
        s.stage, s.resume_at = state.COPYING, op.offset
    if not copy_runs(s, arena, out, op, row, templates.COPY):
        return False
    close_write(s, arena, out, op, row)
    return True


@subroutine
def read_file(s, arena, out, op, row):
    """Model read(), which clears the buffer for a hole; return False if the event buffer is full."""
    if s.stage == state.READY:
        emit_template(s, out, templates.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    while s.resume_at < end:
        if not reserve_events(s, out, 8):
            return False
        at, stop = s.resume_at, stretch(s, arena, row, s.resume_at, end)
        set_find(s, arena, row, at >> 12, ((stop - 1) >> 12) - (at >> 12) + 1)
        s.reg[templates.FROM], s.reg[templates.BYTES] = device(s, arena, row, at), stop - at
        s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        emit_template(s, out, templates.READ_DATA if s.reg[templates.FROM] >= 0 else templates.READ_HOLE)
        s.resume_at = stop
    return True
