"""Run SplitFS's operations: in the library, or in the kernel's ext4-DAX.

Reads and overwrites use the mapped file. An append goes to a staging file (here: the window of blocks that the file
preallocates), with an entry in the append log. fsync and close relink whole blocks into the file; the relink joins
jbd2's running transaction but commits nothing. Strict mode stages overwrites too.
Source: utsaslab/SplitFS splitfs/fileops_nvp.c. Simplified: the relink copies the bytes of partly
written pages from the scratch area; the model does not track which block of an exchanged pair a file has afterwards; logs wrap
without a clean-up.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.ext4.extents import add_leaves, change_leaf
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import change_groups, page_run
from scmsim.fs.linux.calls import data_call
from scmsim.fs.linux.fast_path import run_background_work
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.groups import inode_block
from scmsim.fs.splitfs import mappings
from scmsim.fs.splitfs import state as n
from scmsim.fs.splitfs import templates as x
from scmsim.fs.splitfs.data import log_entry
from scmsim.jit import subroutine


@subroutine
def relink(s, arena, out, f):
    """Move staged blocks to the file (ext4_dynamic_remap): one handle, whose metadata joins the running transaction."""
    page, end = arena[f + n.STAGED], min(arena[f + n.STAGED_END], arena[f + e.PAGE_COUNT])
    s.reg[q.COUNT] = 0
    while page < end:
        count = page_run(s, arena, f, page, end - 1)
        if arena[arena[f + e.PAGES] + page]:
            block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
            s.reg[q.FROM] = block << 12
            change_groups(s, arena, block, count)
            change_leaf(s, arena, f, page, count)
            s.reg[q.COUNT] += 1
        page += count
    s.reg[q.TO], s.reg[q.FROM] = s.reg[q.FROM], s.scratch_at
    emit_template(s, out, x.RELINK)
    while arena[f + n.TO_COPY] > 0:
        s.reg[q.BYTES] = min(arena[f + n.TO_COPY], e.BLOCK)
        arena[f + n.TO_COPY] -= s.reg[q.BYTES]
        first = s.emitted
        emit_template(s, out, x.COPY_BACK)
        out[first].vaddr, out[first].order = out[first].addr + mappings.AREA, mappings.ORDER
    arena[f + n.STAGED], arena[f + n.STAGED_END] = 0, 0
    join(s, arena, inode_block(s, e.ROOT_INODE))  # the staging file's inode
    dirty_inode(s, arena, out, f)
    arena[f + e.DATA_TID] = s.tid
    s.relinks += 1


@subroutine
def flush(s, arena, out, op, f):
    """Model fsync: relink the staged blocks; return the outcome."""
    if not reserve_events(s, out, e.ROOM + 3 * (arena[f + n.TO_COPY] // e.BLOCK + 1)):
        return NO_ROOM
    emit_template(s, out, x.USER_CALL)
    if arena[f + n.STAGED_END]:
        relink(s, arena, out, f)
        add_leaves(s, arena, f, arena[f + e.EXTENTS])
    return DONE


@subroutine
def unmap(s, arena, out, op, f):
    """Remove the library's mappings that a call ends, of its file or of the replaced file; return False if work is left."""
    code, replaced = op.op, 0
    if code == r.RENAME and op.replaced >= 0 and op.replaced != op.file:
        replaced = arena[s.rows + op.replaced * e.ROW_WORDS + e.ROW_RECORD]
    if replaced and arena[replaced + n.MAPS] and arena[replaced + e.LINKS] <= 1:
        return mappings.forget(s, arena, out, replaced)
    if f == 0 or arena[f + n.MAPS] == 0:
        return True
    is_last = code == r.CLOSE and arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1
    if code == r.UNLINK or code == r.RMDIR or is_last:
        return mappings.forget(s, arena, out, f)
    is_hole = code == r.FALLOCATE and op.flag & r.PUNCH_HOLE and op.offset >= 0 and op.length > 0
    if code == r.TRUNCATE or is_hole:
        return mappings.shrink(s, arena, out, op, f)
    return True


@subroutine
def prepare(s, arena, out, op, f):
    """Run the library's part of a call that the kernel runs: relink staged blocks, then add an operation-log entry."""
    code = op.op
    changes = code == r.CREATE or r.UNLINK <= code <= r.RMDIR
    staged = f != 0 and arena[f + e.IS_DIR] == 0 and arena[f + n.STAGED_END] != 0
    if staged and (code == r.CLOSE or code == r.TRUNCATE or code == r.FALLOCATE):
        if flush(s, arena, out, op, f) == NO_ROOM:
            return NO_ROOM
    if not unmap(s, arena, out, op, f) or not reserve_events(s, out, e.ROOM):
        return NO_ROOM
    if changes and s.mode >= n.SYNC:
        log_entry(s, out)
    s.prepared, s.passed, s.unmapping = 1, 1, 0
    return NO_ROOM


@subroutine
def step(s, arena, out, op, row):
    """Run or resume an operation of the library, or set `s.passed` if the kernel must run it; return the outcome."""
    f = arena[row + e.ROW_RECORD]
    code = op.op
    mine = code == r.WRITE or code == r.READ or code == r.FSYNC or code == r.MSYNC
    if not mine or (f != 0 and arena[f + e.IS_DIR]):
        if s.prepared:
            s.passed = 1
            return NO_ROOM
        return prepare(s, arena, out, op, f)
    if f == 0:
        s.needs_slow_path = 1
        return NO_ROOM
    return data_call(s, arena, out, op, row)


@subroutine
def handled_here(s, arena, op):
    """Return whether the library takes part in an operation."""
    s.passed = op.op == r.SYNC
    return not s.passed


@subroutine
def end(s, out):
    """Reset the per-operation state for the next operation."""
    s.settled = s.progress = s.prepared = s.called = 0


CALLS = {"run_background_work": run_background_work, "handled_here": handled_here, "step": step, "sync_file": flush}
