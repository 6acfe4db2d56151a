"""Operations of XFS with DAX, and the hooks that XFS with the page cache replaces."""

from scmsim.alloc import xfs_busy
from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.engine.arena import has_room, take
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import calls, names, pages, transfer
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import holes, page_run
from scmsim.fs.linux.calls import data_call, plain_call
from scmsim.fs.linux.files import call
from scmsim.fs.linux.names import change_names
from scmsim.fs.linux.pages import fallocate
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.data import PAGES, request_end, truncate, write_slice
from scmsim.fs.xfs.log import checkpoint, push_all
from scmsim.fs.xfs.names import HOOKS as NAMES
from scmsim.fs.xfs.names import destroy, touch
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

PAGE_EVENTS = 24  # maximum number of events that the write of one page emits


@subroutine
def run_background_work(s, arena, out):
    """Run the log's background workers that are due; return False if `out` must grow first.

    They write a checkpoint when the committed item list (CIL) is large, or when a search for blocks found only busy
    ones.  They write all metadata in place when the log is 3/4 full, or when the period of the log worker has passed.
    """
    if s.now >= s.next_tick:  # xfs_log_worker
        s.push |= s.cil_bytes > 0 or s.ail_items > 0
        s.next_tick = s.now - s.now % s.sync_interval + s.sync_interval
    if s.cil_bytes and (s.push or s.is_forced or s.cil_bytes >= s.cil_limit):
        if not reserve_events(s, out, n.ROOM):
            return False
        checkpoint(s, arena, out)
    if s.push:
        if not reserve_events(s, out, 3 * s.ail_items + n.ROOM):
            return False
        push_all(s, arena, out)
    return True


@subroutine
def store_all(s, arena, out):
    """Store all dirty pages for a sync; return False if this must be resumed.  With DAX there are none."""
    return True


@subroutine
def sync_all(s, arena, out):
    """Run sync: store dirty pages, then force the log; return the outcome."""
    if not store_all(s, arena, out):
        return NO_ROOM
    if s.cil_bytes:
        checkpoint(s, arena, out)
    else:
        emit_template(s, out, q.BARRIER)
    emit_template(s, out, q.SYNC)
    return DONE


@subroutine
def sync_file(s, arena, out, op, f):
    """Run fsync: write the CIL to the log if the file's inode is part of it, else flush the device.

    For a directory, fdatasync is fsync, and the device is not flushed (xfs_dir_fsync).
    """
    if not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    is_dir = arena[f + e.IS_DIR]
    sequence = arena[f + e.DATA_TID] if op.flag & r.DATA_ONLY and not is_dir else arena[f + e.TID]
    emit_template(s, out, q.FSYNC)
    if sequence == s.sequence and s.cil_bytes:
        checkpoint(s, arena, out)
    elif not is_dir:
        emit_template(s, out, q.BARRIER)
    return DONE


@subroutine
def has_blocks(s, arena, op, f):
    """Return whether the device has the blocks that a write needs; count the needed blocks only if few are left."""
    first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    return s.free_blocks >= 2 * (last + 1 - first) + n.MOST_BLOCKS or holes(arena, f, first, last) <= s.free_blocks


@subroutine
def longest_fitting_prefix(s, arena, op):
    """Return how many leading bytes of a write fit on the device.

    The transaction of each run reserves all blocks of the run, so a run fits whole or not at all.
    """
    f = arena[s.rows + op.file * e.ROW_WORDS + e.ROW_RECORD]
    page, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    left = s.free_blocks
    while page <= last:
        stop = request_end(max(op.offset, page << 12))
        count = page_run(s, arena, f, page, min(last, stop - 1))
        if page >= arena[f + e.PAGE_COUNT] or arena[arena[f + e.PAGES] + page] == 0:
            left -= count
            if left < 0:
                break
        page += count
    return max((page << 12) - op.offset, 0)


@subroutine
def slice_fits(s, arena, out, op, f):
    """Return whether `out` and the arena have enough space for the next part of a read or write; grow the page table."""
    at = op.offset + s.progress
    is_write, first = op.op == r.WRITE, at >> 12
    last = min((op.offset + op.length - 1) >> 12, (request_end(at) if is_write else first + e.SLICE_PAGES) - 1)
    if not reserve_events(s, out, n.ROOM + (PAGE_EVENTS if is_write else 4) * (last - first + 1)):
        return False
    if is_write:
        words = words_to_hold(arena, f + e.PAGES, last + 1)
        if not has_room(s, arena, words + n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
            return False
        reserve(s, arena, f + e.PAGES, last + 1)
    return True


@subroutine
def release(s, arena, out, f):
    """Run what precedes a close with the page cache (xfs_release); return False if it must be resumed."""
    return True


@subroutine
def close(s, arena, out, row, f):
    """Run close; the last close of a file without a name frees the file."""
    if not release(s, arena, out, f):
        return NO_ROOM
    s.closes += 1
    call(s, arena, out, f, q.CLOSE)
    if arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1:
        destroy(s, arena, out, row, f)
    else:
        arena[f + e.OPENS] -= 1
    return DONE


@subroutine
def change_file(s, arena, out, op, row, f):
    """Run truncate or fallocate; return the outcome."""
    if arena[f + e.IS_DIR] or (op.op == r.FALLOCATE and (op.length <= 0 or op.offset < 0)):
        emit_template(s, out, q.OTHER)
        return DONE
    if not has_room(s, arena, n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
        return NO_ROOM
    if op.op == r.FALLOCATE:
        return fallocate(s, arena, out, op, row, f)
    truncate(s, arena, out, op, f)
    return DONE


@subroutine
def extents_of(arena, f):
    """Return how many extents the removal of file `f` frees, including leaves and directory blocks; 0 if `f` is 0."""
    if f == 0:
        return 0
    return arena[f + e.EXTENTS] + arena[f + e.LEAF_COUNT] + (arena[f + e.PAGE_COUNT] if arena[f + e.IS_DIR] else 0)


@subroutine
def can_free(s, arena, op, row):
    """Allocate a list node for each extent that a call may free and make busy; return False if the arena must grow.

    An operation allocates its nodes once, even if it is resumed, so the arena's contents do not depend on the buffer's size.
    """
    code, f = op.op, arena[row + e.ROW_RECORD]
    # a write may merge extents, which frees the file's leaves
    if s.is_stocked or not (
        r.UNLINK <= code <= r.RMDIR
        or code == r.TRUNCATE
        or code == r.FALLOCATE
        or code == r.CLOSE
        or (code == r.WRITE and f and arena[f + e.LEAF_COUNT])
    ):
        return True
    count = extents_of(arena, f) + n.MOST_FREED
    if code == r.RENAME and op.replaced >= 0:
        count += extents_of(arena, arena[s.rows + op.replaced * e.ROW_WORDS + e.ROW_RECORD])
    missing = count - s.spare_count
    if missing > 0:
        if not has_room(s, arena, missing << xfs_busy.NODE_ORDER):
            return False
        for _ in range(missing):
            xfs_busy.keep(s, arena, take(s, arena, xfs_busy.NODE_ORDER))
    s.is_stocked = 1
    return True


@subroutine
def end(s, out):
    """Reset the per-operation state for the next operation."""
    s.is_stocked = 0
    calls.end(s, out)


@subroutine
def step(s, arena, out, op, row):
    """Run or resume an operation; return its outcome."""
    code = op.op
    if code == r.SYNC:
        return sync_all(s, arena, out)
    if not can_free(s, arena, op, row):
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


_CALLS = {"run_background_work": run_background_work, "step": step, "sync_file": sync_file}
_TRANSFER = {"has_blocks": has_blocks, "slice_fits": slice_fits, "write_slice": write_slice}
emit = bind(
    "xfs",
    operations,
    {
        operations: {**calls.HOOKS, "longest_fitting_prefix": longest_fitting_prefix, "end": end},
        calls: _CALLS,
        names: NAMES,
        pages: PAGES,
        transfer: _TRANSFER,
    },
).emit
