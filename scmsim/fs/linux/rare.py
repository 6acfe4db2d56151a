"""The kernel of ext4's rarer operations: names other than create, truncate, fallocate, sync, timed write-back,
checkpoints, extent leaves and first touches.

Source: Linux fs/ext4/{inode.c,extents.c}, fs/jbd2/checkpoint.c, fs/fs-writeback.c.
"""

from scmsim.core import records as r
from scmsim.fs.engine import operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import play
from scmsim.fs.ext4.jbd2 import checkpoint, join
from scmsim.fs.linux import operations as ext4_emit
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import change_group, take_blocks
from scmsim.fs.linux.files import call
from scmsim.fs.linux.names import change_names, destroy, touch
from scmsim.fs.linux.operations import end, extents_fit, has_events, settled, try_commit
from scmsim.fs.linux.pages import fallocate, truncate
from scmsim.fs.linux.writeback import flush_pages
from scmsim.jit import kernel, part
from scmsim.jit.binding import bind


@part
def grow_leaves(s, arena):
    """Give the file `s.grow_file` the extent leaves that it needs, as long as there are blocks for them; False: no
    words."""
    f = s.grow_file
    while f and not extents_fit(s, arena, f) and s.free_blocks + s.windowed > s.reserved:
        leaves = arena[f + e.LEAF_COUNT]
        if not has_room(s, arena, 4 * leaves + e.ROOM):
            return False
        table.reserve(s, arena, f + e.LEAVES, leaves + 1)
        arena[arena[f + e.LEAVES] + leaves] = take_blocks(s, arena, f, arena[f + e.END], 1)
        arena[f + e.LEAF_COUNT] += 1
        s.meta_blocks += 1
        join(s, arena, arena[arena[f + e.LEAVES] + leaves])
        change_group(s, arena, arena[arena[f + e.LEAVES] + leaves])
    s.grow_file = 0
    return True


@part
def make_room(s, arena, out):
    """Commit the running transaction, with a checkpoint before if the log has no room for it; False if that does
    not fit."""
    if try_commit(s, arena, out):
        return True
    if s.want_checkpoint and has_events(s, out, 2 * s.held_blocks + 2):
        checkpoint(s, arena, out)
        s.want_checkpoint = 0
        return try_commit(s, arena, out)
    return False


@part
def write_back(s, arena, out, limit):
    """Write back the files that became dirty at `limit` or before; False if that is not done yet."""
    while s.oldest >= 0 and arena[arena[s.oldest] + e.SINCE] <= limit:
        f = arena[s.oldest]
        if s.txn_length > s.txn_limit and not make_room(s, arena, out):
            return False
        if not has_events(s, out, 64 + 2 * min(arena[f + e.DIRTY], e.FLUSH_PAGES)):
            return False
        flush_pages(s, arena, f, out)
        s.grow_file = f
        if not grow_leaves(s, arena):
            return False
    return True


@part
def settle(s, arena, out):
    """What the kernel's threads did since the last operation: timed write-back and commits; False if that is not
    done yet."""
    while s.now >= s.next_tick:
        if s.oldest < 0 and s.held_blocks == 0:
            s.next_tick = s.now
        if not write_back(s, arena, out, s.next_tick - s.dirty_expire):
            return False
        if s.held_blocks and s.held_since <= s.next_tick - s.dirty_expire:
            if not has_events(s, out, 2 * s.held_blocks + 2):
                return False
            checkpoint(s, arena, out)
        s.next_tick += e.FLUSHER_PERIOD
    if s.txn_length and (s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit):
        return make_room(s, arena, out)
    return True


@part
def sync_all(s, arena, out):
    """sync, syncfs: write back all files, commit, then write the logged metadata in place; 0 = not done yet."""
    if not write_back(s, arena, out, s.now):
        return 0
    if s.txn_length and not make_room(s, arena, out):
        return 0
    if not has_events(s, out, 2 * s.held_blocks + 8):
        return 0
    checkpoint(s, arena, out)
    play(s, out, q.SYNC)
    return 1


@part
def step(s, arena, out, op, row):
    """One rare operation: 1 done, 0 no room yet, -1 the device is full."""
    if op.op == r.SYNC:
        return sync_all(s, arena, out)
    if op.file < 0:
        s.ignored += 1
        return 1
    if op.op == r.TRUNCATE or op.op == r.FALLOCATE or op.op == r.CLOSE:
        f = touch(s, arena, row)
        if f == 0:
            return 0
        if arena[f + e.IS_DIR] and op.op != r.CLOSE:
            call(s, arena, out, f, q.OTHER)
        elif op.op == r.FALLOCATE:
            return fallocate(s, arena, op, f, out)
        elif op.op == r.TRUNCATE:
            truncate(s, arena, op, f, out)
        else:  # the last close of a file without a name
            s.closes += 1
            call(s, arena, out, f, q.CLOSE)
            play(s, out, q.ORPHAN)
            destroy(s, arena, row, f, out)
        return 1
    return change_names(s, arena, op, row, out)


@part
def is_rare(s, arena, op, row):
    """Whether this kernel is the one for an operation."""
    code = op.op
    if r.UNLINK <= code <= r.RMDIR or code == r.TRUNCATE or code == r.FALLOCATE or code == r.SYNC:
        return True
    if op.file < 0 or arena[row] == 0:
        return code == r.CREATE and op.file >= 0 and arena[row + e.ROW_SIZE] < 0
    return code == r.CLOSE and arena[arena[row] + e.LINKS] <= 0 and arena[arena[row] + e.OPENS] <= 1


@part
def prepare(s, arena, out, op):
    """The turn of the kernel's threads; False: it is not over yet, or the operation, whose file is known now, is not a rare one."""
    if not settled(s, arena, out, op):
        return False
    row = s.rows + op.file * e.ROW_WORDS
    if is_rare(s, arena, op, row):
        return True
    ignored = op.file < 0 or op.op > r.SYNC or op.op == r.ULOAD or op.op == r.USTORE
    s.stuck = not ignored and touch(s, arena, row) == 0
    return False


@part
def concerns(s, op):
    """Every rare operation enters the file system."""
    return True


@part
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    return step(s, arena, out, op, s.rows + op.file * e.ROW_WORDS)


_HOOKS = {"prepare": prepare, "concerns": concerns, "perform": perform, "end": end}
loop = bind("ext4_rare", operations, {operations: _HOOKS, ext4_emit: {"settle": settle}}).loop


@kernel
def rare(state, arena, ops, i, out):
    """What `frequent` left: leaves, checkpoints, write-back, then operations from `ops[i]` on as long as they are
    rare."""
    s = state[0]
    s.rare, s.stuck = 0, 1
    if s.grow_file and not grow_leaves(s, arena):
        return i
    if s.want_checkpoint:
        if not has_events(s, out, 2 * s.held_blocks + 2):
            return i
        checkpoint(s, arena, out)
        s.want_checkpoint = 0
    i = loop(s, arena, ops, i, out)
    s.stuck = s.stuck and i < ops.size
    return i
