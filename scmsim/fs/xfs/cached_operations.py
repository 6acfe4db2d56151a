"""Operations of XFS with the page cache."""

from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import calls, names, pages, transfer
from scmsim.fs.linux import state as e
from scmsim.fs.linux.calls import data_call, plain_call
from scmsim.fs.linux.names import change_names
from scmsim.fs.xfs import operations as plain
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.cached import TRANSFER, longest_fitting_prefix
from scmsim.fs.xfs.cached_pages import change_file, free_pages, release_file
from scmsim.fs.xfs.names import HOOKS as NAMES
from scmsim.fs.xfs.names import touch
from scmsim.fs.xfs.writeback import TO_THE_END, store_old, store_range
from scmsim.jit import subroutine
from scmsim.jit.binding import bind


@subroutine
def run_background_work(s, arena, out):
    """Run the flusher thread and the log's workers as far as due since the last operation; return False if not finished."""
    while s.now >= s.next_flush:
        if s.oldest < 0:  # nothing waits to be stored: skip all periods up to now
            s.next_flush = s.now
        if not store_old(s, arena, out, s.next_flush - s.dirty_expire):  # wb_check_old_data_flush
            return False
        s.next_flush += e.FLUSHER_PERIOD
    return plain.run_background_work(s, arena, out)


@subroutine
def sync_file(s, arena, out, op, f):
    """Run fsync: store the file's dirty pages, then force the log if the inode is part of it, else flush the device."""
    if not store_range(s, arena, out, f, 0, TO_THE_END):
        return NO_ROOM
    return plain.sync_file(s, arena, out, op, f)


@subroutine
def sync_all(s, arena, out):
    """Run sync: store all dirty pages, then force the log."""
    if not store_old(s, arena, out, s.now) or not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    return plain.sync_all(s, arena, out)


@subroutine
def close(s, arena, out, row, f):
    """Run close, which may store a truncated file and frees blocks past the file's end (xfs_release)."""
    if arena[f + e.LINKS] > 0 and not release_file(s, arena, out, f):
        return NO_ROOM
    if not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    return plain.close(s, arena, out, row, f)


@subroutine
def step(s, arena, out, op, row):
    """Run or resume an operation; return its outcome."""
    code = op.op
    if code == r.SYNC:
        return sync_all(s, arena, out)
    if not plain.can_free(s, arena, op, row):
        return NO_ROOM
    if r.UNLINK <= code <= r.RMDIR or (code == r.CREATE and arena[row] == 0):
        return change_names(s, arena, out, op, row)
    f = touch(s, arena, row)
    if f == 0:
        return NO_ROOM
    is_transfer = (code == r.WRITE or code == r.READ) and not arena[f + e.IS_DIR]
    if is_transfer or code == r.FSYNC or code == r.MSYNC:
        return data_call(s, arena, out, op, row)
    if code == r.TRUNCATE or code == r.FALLOCATE:
        return change_file(s, arena, out, op, row, f)
    if code == r.CLOSE:
        return close(s, arena, out, row, f)
    plain_call(s, arena, out, op, f)
    return DONE


HOOKS = {
    operations: {**calls.HOOKS, "longest_fitting_prefix": longest_fitting_prefix, "end": plain.end},
    calls: {"run_background_work": run_background_work, "step": step, "sync_file": sync_file},
    names: NAMES,
    pages: {"free_pages": free_pages},
    transfer: TRANSFER,
}
emit = bind("xfs_cached", operations, HOOKS).emit
