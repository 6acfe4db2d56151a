"""The frequent operations: read, write, fsync, open, close, stat, create in a known directory.

Other operations are left to the slow path by setting `s.needs_slow_path`: compile time grows with the amount of code, so code
that few traces need is compiled when a trace first needs it.
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import delayed, entries, inodes, metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.calls import data_call, plain_call
from scmsim.fs.linux.files import call, enter, make
from scmsim.fs.linux.writeback import END, flush_pages, ready
from scmsim.jit import subroutine


@subroutine
def run_background_work(s, arena, out):
    """Commit the running transaction if a commit is due; return False if it is unfinished or write-back is due."""
    if s.now >= s.next_tick:
        if s.oldest >= 0 or s.checkpoint_blocks:
            s.needs_slow_path = 1
            return False
        s.next_tick = s.now + e.FLUSHER_PERIOD
    if s.txn_length and (s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit):
        return metadata.commit(s, arena, out)
    return True


@subroutine
def handled_here(s, arena, op):
    """Return whether an operation is a frequent one."""
    s.needs_slow_path = r.UNLINK <= op.op <= r.RMDIR or op.op == r.TRUNCATE or op.op == r.FALLOCATE or op.op == r.SYNC
    return not s.needs_slow_path


@subroutine
def sync_file(s, arena, out, op, f):
    """Run fsync: write back a file's dirty pages, then store its metadata; return the outcome."""
    while arena[f + e.DIRTY]:
        # the transaction must not outgrow the log while pages are written back
        if s.txn_length > s.txn_limit and not metadata.commit(s, arena, out):
            return NO_ROOM
        if not ready(s, arena, out, f):
            return NO_ROOM
        flush_pages(s, arena, out, f, 0, END)
    return metadata.sync(s, arena, out, op, f)


@subroutine
def create_known(s, arena, out, op, row):
    """Run create if the directory is known and has room for the entry; else leave it to the slow path."""
    d = arena[s.rows + (op.parent if op.parent >= 0 else s.row_count - 1) * e.ROW_WORDS]
    if d == 0 or arena[d + e.IS_DIR] == 0 or arena[row + e.ROW_SIZE] >= 0 or entries.growth(s, arena, row, d):
        s.needs_slow_path = 1
        return NO_ROOM
    inodes.age(s, arena)
    if inodes.all_used(s):
        return FULL
    if not has_room(s, arena, e.ROOM):
        return NO_ROOM
    f = make(s, arena, op, row, d)
    enter(s, arena, out, row, d, f)
    call(s, arena, out, f, q.CREATE)
    return DONE


@subroutine
def close(s, arena, out, f):
    """Run close if the file stays; else leave it to the slow path."""
    gone = arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1
    if gone or (arena[f + e.LINKS] > 0 and delayed.closes_late(arena, f)):
        s.needs_slow_path = 1
        return NO_ROOM
    s.closes += 1
    arena[f + e.OPENS] -= 1
    delayed.closed(arena, f)
    if not delayed.is_promised(arena, f):
        placement.discard_preallocations(s, arena, f)
    call(s, arena, out, f, q.CLOSE)
    return DONE


@subroutine
def step(s, arena, out, op, row):
    """Run or resume a frequent operation; leave an operation on an unknown file to the slow path."""
    f, code = arena[row + e.ROW_RECORD], op.op
    if f == 0:
        if code == r.CREATE:
            return create_known(s, arena, out, op, row)
        s.needs_slow_path = 1
        return NO_ROOM
    is_transfer = (code == r.WRITE or code == r.READ) and not arena[f + e.IS_DIR]
    if is_transfer or code == r.FSYNC or code == r.MSYNC:
        return data_call(s, arena, out, op, row)
    if code == r.CLOSE:
        return close(s, arena, out, f)
    plain_call(s, arena, out, op, f)
    return DONE


HOOKS = {"run_background_work": run_background_work, "handled_here": handled_here, "step": step, "sync_file": sync_file}
