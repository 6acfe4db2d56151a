"""Operations of XFS with the page cache."""

from scmsim.fs.engine import operations
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.engine.operations import NO_ROOM
from scmsim.fs.linux import calls, names, pages, transfer
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import operations as plain
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.cached import TRANSFER, longest_fitting_prefix
from scmsim.fs.xfs.cached_pages import change_file, free_pages, release_file
from scmsim.fs.xfs.names import HOOKS as NAMES
from scmsim.fs.xfs.writeback import TO_THE_END, store_old, store_range
from scmsim.jit import subroutine
from scmsim.jit.binding import bind


@subroutine
def run_background_work(s, arena, out):
    """Run the flusher thread and the log's workers if they are due; return False if they must be resumed."""
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
def store_all(s, arena, out):
    """Store all dirty pages for a sync; return False if this must be resumed."""
    return store_old(s, arena, out, s.now) and reserve_events(s, out, n.ROOM)


@subroutine
def release(s, arena, out, f):
    """Store a truncated file and free blocks past a file's end before a close; return False if this must be resumed."""
    return (arena[f + e.LINKS] <= 0 or release_file(s, arena, out, f)) and reserve_events(s, out, n.ROOM)


HOOKS = {
    operations: {**calls.HOOKS, "longest_fitting_prefix": longest_fitting_prefix, "end": plain.end},
    calls: {"run_background_work": run_background_work, "step": plain.step, "sync_file": sync_file},
    plain: {"store_all": store_all, "release": release, "change_file": change_file},
    names: NAMES,
    pages: {"free_pages": free_pages},
    transfer: TRANSFER,
}
emit = bind("xfs_cached", operations, HOOKS).emit
