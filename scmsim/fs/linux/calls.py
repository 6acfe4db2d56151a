"""One call to a file system of Linux: first the kernel's threads run, then the call itself.  Its outcome is DONE, FULL or NO_ROOM.

A family replaces `run_background_work`, `step` and other functions of this module by its own (see `scmsim.jit.binding`), and binds
HOOKS to the loop over operations (engine/operations.py).
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import charge_map, reserve_events
from scmsim.fs.engine.operations import DONE, FULL
from scmsim.fs.linux import metadata
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import blocks_left, blocks_needed
from scmsim.fs.linux.files import call
from scmsim.fs.linux.transfer import transfer
from scmsim.jit import subroutine


@subroutine
def run_background_work(s, arena, out):
    """Run the work of the kernel's threads that is due; return False if it must be resumed later."""
    return True


@subroutine
def handled_here(s, arena, op):
    """Return whether the current kernel (fast or slow path) handles an operation."""
    return True


@subroutine
def step(s, arena, out, op, row):
    """Run or resume an operation on the file of table row `row`; return its outcome."""
    return DONE


@subroutine
def sync_file(s, arena, out, op, f):
    """Run fsync on a file; return its outcome."""
    return DONE


@subroutine
def data_call(s, arena, out, op, row):
    """Run read, write, fsync or msync; return the outcome."""
    if op.op == r.READ or op.op == r.WRITE:
        outcome = transfer(s, arena, out, op, row)
        if outcome != DONE or op.op == r.READ or op.length <= 0 or not op.flag & r.SYNCHRONOUS:
            return outcome
    return sync_file(s, arena, out, op, arena[row + e.ROW_RECORD])


@subroutine
def plain_call(s, arena, out, op, f):
    """Run open, stat, readdir, or a call whose only cost is the entry into the kernel."""
    template, code = q.OTHER, op.op
    if code == r.OPEN or code == r.CREATE:
        arena[f + e.OPENS] += 1
        template = q.OPEN
    elif code == r.STAT:
        template = q.STAT
    elif code == r.READDIR:
        template, s.reg[q.COUNT] = q.LIST, max(op.entry_bytes + 2 * r.ENTRY_BYTES - r.DOTS_BYTES, 0) // r.ENTRY_BYTES
    call(s, arena, out, f, template)
    if code == r.MMAP or code == r.MUNMAP:
        charge_map(s, out, code)


@subroutine
def prepare(s, arena, out, op):
    """Run the kernel's threads; return False if they must be resumed, or if the other kernel handles the operation."""
    s.now = op.time_ns
    # the threads run once per operation, even if it is resumed
    if not reserve_events(s, out, e.ROOM) or not (s.settled or run_background_work(s, arena, out)):
        return False
    s.settled = 1
    return handled_here(s, arena, op)


@subroutine
def filter_operation(s, op):
    """Return whether an operation enters the file system; count it as ignored if not."""
    ignored = op.op > r.SYNC or op.op == r.ULOAD or op.op == r.USTORE or (op.file < 0 and op.op != r.SYNC)
    s.ignored += ignored
    return not ignored


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return its outcome."""
    return step(s, arena, out, op, s.rows + op.file * e.ROW_WORDS)


@subroutine
def check_prefix(s, arena, op, last):
    """Return DONE if the device has enough free blocks for a write that ends with page `last`, else FULL.

    Linux's loops over pages and extents write what fits, so a write may be shortened.
    """
    s.uncut_page = (op.offset + op.length - 1) >> 12
    f = arena[s.rows + op.file * e.ROW_WORDS + e.ROW_RECORD]
    return DONE if blocks_needed(arena, f, op.offset >> 12, last) <= blocks_left(s) else FULL


@subroutine
def end(s, out):
    """Reset the per-operation state for the next operation."""
    metadata.charge_joins(s, out)
    s.settled = s.progress = 0
    s.uncut_page, s.last_page = -1, 0


HOOKS = {
    "prepare": prepare,
    "filter_operation": filter_operation,
    "perform": perform,
    "check_prefix": check_prefix,
    "end": end,
}
