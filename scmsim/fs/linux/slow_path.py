"""The slow path: rare operations and background work.

The rare operations are those on names (except most calls of create), truncate, fallocate and sync, and the first operation on each
file.  The background work is timed write-back and checkpoints.

Source: Linux fs/ext4/{inode.c,extents.c}, fs/jbd2/checkpoint.c, fs/fs-writeback.c.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import delayed, lookups, metadata, placement, writeback
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.files import call
from scmsim.fs.linux.names import change_names, destroy, touch
from scmsim.fs.linux.pages import fallocate, truncate
from scmsim.jit import subroutine

MOST_LEARNED = 2  # maximum number of pages that a truncation or a punched hole looks up: a partial page at each end


@subroutine
def make_room(s, arena, out):
    """Commit the running transaction; if the log is full, checkpoint first.  Return False if `out` must grow."""
    if metadata.commit(s, arena, out):
        return True
    if s.want_checkpoint and reserve_events(s, out, 2 * s.checkpoint_blocks + 2):
        metadata.checkpoint(s, arena, out)
        s.want_checkpoint = 0
        return metadata.commit(s, arena, out)
    return False


@subroutine
def store(s, arena, out, f, first, end):
    """Store a file's dirty pages of [first, end); return False if `out` or the arena must grow before this is finished."""
    while writeback.is_dirty_in(arena, f, first, end):
        if s.txn_length > s.txn_limit and not make_room(s, arena, out):
            return False
        if not writeback.ready(s, arena, out, f):
            return False
        writeback.flush_pages(s, arena, out, f, first, end)
    return True


@subroutine
def store_first(s, arena, out, op, row):
    """Store the dirty pages that must be stored before a rename over another file or before a hole is punched.

    Returns False if `out` or the arena must grow before this is finished.  Linux 6.12.118 drops the pages of a hole unstored
    (ext4_truncate_page_cache_block_range).

    Source: Linux fs/ext4/{namei.c: ext4_rename; inode.c: ext4_punch_hole}.
    """
    f = arena[row]
    if s.dax or f == 0 or arena[f + e.DIRTY] == 0:
        return True
    if op.op == r.RENAME:
        other = s.rows + op.replaced * e.ROW_WORDS
        replaces = op.replaced >= 0 and other != row and (arena[other] or arena[other + e.ROW_SIZE] >= 0)
        return not (replaces and delayed.is_promised(arena, f)) or store(s, arena, out, f, 0, writeback.END)
    if not s.exact_holes and op.flag & r.PUNCH_HOLE and op.length > 0 and op.offset >= 0:
        return store(s, arena, out, f, op.offset >> 12, ((op.offset + op.length - 1) >> 12) + 1)
    return True


@subroutine
def close(s, arena, out, row, f):
    """Run the last close of a file without a name, or a close that must first store the file's pages; return the outcome."""
    if arena[f + e.LINKS] > 0:
        if not store(s, arena, out, f, 0, writeback.END) or not reserve_events(s, out, e.ROOM):
            return NO_ROOM
        arena[f + e.OPENS] -= 1
        delayed.closed(arena, f)
        placement.discard_preallocations(s, arena, f)
    s.closes += 1
    call(s, arena, out, f, q.CLOSE)
    if arena[f + e.LINKS] <= 0:
        emit_template(s, out, q.ORPHAN)
        destroy(s, arena, out, row, f)
    return DONE


@subroutine
def write_back(s, arena, out, limit):
    """Write back the files that became dirty at time `limit` (ns) or earlier.

    Returns False if `out` or the arena must grow before this is finished.
    """
    while s.oldest >= 0 and arena[arena[s.oldest] + e.DIRTY_SINCE_NS] <= limit:
        f = arena[s.oldest]
        if not store(s, arena, out, f, 0, writeback.END):
            return False
        delayed.stored(s, arena, f)
    return True


@subroutine
def run_background_work(s, arena, out):
    """Run the timed write-back, checkpoints and commits that became due since the last operation.

    Returns False if `out` or the arena must grow before this is finished.
    """
    while s.now >= s.next_tick:
        # no data waits for write-back or a checkpoint: skip all ticks up to now
        if s.oldest < 0 and s.checkpoint_blocks == 0:
            s.next_tick = s.now
        if not write_back(s, arena, out, s.next_tick - s.dirty_expire):  # wb_check_old_data_flush
            return False
        if s.checkpoint_blocks and s.checkpoint_since <= s.next_tick - s.dirty_expire:
            if not reserve_events(s, out, 2 * s.checkpoint_blocks + 2):
                return False
            metadata.checkpoint(s, arena, out)
        s.next_tick += e.FLUSHER_PERIOD
    if s.txn_length and (s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit):
        return make_room(s, arena, out)
    return True


@subroutine
def sync_all(s, arena, out):
    """Run sync or syncfs: write back all files, commit, then write the logged metadata in place; return the outcome."""
    if not write_back(s, arena, out, s.now):
        return NO_ROOM
    if s.txn_length and not make_room(s, arena, out):
        return NO_ROOM
    if not reserve_events(s, out, 2 * s.checkpoint_blocks + 8):
        return NO_ROOM
    metadata.checkpoint(s, arena, out)
    emit_template(s, out, q.SYNC)
    return DONE


@subroutine
def step(s, arena, out, op, row):
    """Run or resume a rare operation; return its outcome."""
    if op.op == r.SYNC:
        return sync_all(s, arena, out)
    if delayed.HURRIES and (op.op == r.RENAME or op.op == r.FALLOCATE):
        if not store_first(s, arena, out, op, row) or not reserve_events(s, out, e.ROOM):
            return NO_ROOM
    if op.op == r.TRUNCATE or op.op == r.FALLOCATE or op.op == r.CLOSE:
        f = touch(s, arena, row)
        if f == 0:
            return NO_ROOM
        # one more look-up with `exact_holes`, which also remember the punched hole
        if not lookups.ready(s, arena, f, MOST_LEARNED + s.exact_holes):
            return NO_ROOM
        if arena[f + e.IS_DIR] and op.op != r.CLOSE:
            call(s, arena, out, f, q.OTHER)
        elif op.op == r.FALLOCATE:
            return fallocate(s, arena, out, op, row, f)
        elif op.op == r.TRUNCATE:
            truncate(s, arena, out, op, row, f)
        else:
            return close(s, arena, out, row, f)
        return DONE
    return change_names(s, arena, out, op, row)


@subroutine
def closes_here(arena, f):
    """Return whether `close` runs a file's close: the last one of a file without a name, or one that must store its pages."""
    return (arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1) or (
        arena[f + e.LINKS] > 0 and delayed.closes_late(arena, f)
    )


@subroutine
def handled_here(s, arena, op):
    """Return whether an operation belongs to the slow path; if not, create its file's record, which the fast path needs.

    Sets `s.slow_path_blocked` if the arena must grow for the record.
    """
    code, row = op.op, s.rows + op.file * e.ROW_WORDS
    if r.UNLINK <= code <= r.RMDIR or code == r.TRUNCATE or code == r.FALLOCATE or code == r.SYNC:
        return True
    if op.file < 0 or code > r.SYNC or code == r.ULOAD or code == r.USTORE:
        s.slow_path_blocked = 0
        return False
    f = arena[row + e.ROW_RECORD]
    if f and code == r.CLOSE and closes_here(arena, f):
        return True
    if f == 0 and code == r.CREATE and arena[row + e.ROW_SIZE] < 0:
        return True
    s.slow_path_blocked = touch(s, arena, row) == 0
    return False


HOOKS = {"run_background_work": run_background_work, "handled_here": handled_here, "step": step}
