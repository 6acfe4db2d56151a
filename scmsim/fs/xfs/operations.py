"""XFS's operations one by one."""

from scmsim.core import records as r
from scmsim.fs.engine import operations
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import recipes as q
from scmsim.fs.linux import state as e
from scmsim.fs.linux.files import call
from scmsim.fs.linux.operations import concerns
from scmsim.fs.linux.transfer import read_slice
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.data import fallocate, missing, truncate, write_slice
from scmsim.fs.xfs.log import checkpoint, push_all
from scmsim.fs.xfs.names import change_names, destroy, touch
from scmsim.jit import part
from scmsim.jit.binding import bind

PAGE_EVENTS = 24  # of a page that is written, at most


@part
def settle(s, arena, out):
    """What the log's workers did since the last operation: a checkpoint when the CIL is large, all metadata in place when
    the log is 3/4 full or the period of the log worker has passed; False if the buffer has no room for it yet."""
    if s.now >= s.next_tick:
        s.push |= s.cil_bytes > 0 or s.ail_items > 0
        s.next_tick = s.now - s.now % s.sync_interval + s.sync_interval
    if s.cil_bytes and (s.push or s.cil_bytes >= s.cil_limit):
        if not has_events(s, out, n.ROOM):
            return False
        checkpoint(s, arena, out)
    if s.push:
        if not has_events(s, out, 3 * s.ail_items + n.ROOM):
            return False
        push_all(s, arena, out)
    return True


@part
def force(s, arena, out):
    """Force the log: 1 done, 0 no room for the events yet."""
    if s.cil_bytes:
        checkpoint(s, arena, out)
    else:
        play(s, out, q.BARRIER)
    return 1


@part
def sync_file(s, arena, out, op, f):
    """fsync: the CIL goes to the log if the file's inode is part of it, else the device is flushed."""
    sequence = arena[f + e.DATA_TID] if op.flag & r.DATA_ONLY else arena[f + e.TID]
    play(s, out, q.FSYNC)
    if sequence == s.sequence and s.cil_bytes:
        checkpoint(s, arena, out)
    else:
        play(s, out, q.BARRIER)
    return 1


@part
def slice_fits(s, arena, f, op, out):
    """Whether the next part of a read or write surely fits; its table of pages is grown."""
    first = (op.offset + s.progress) >> 12
    is_write = op.op == r.WRITE
    last = min((op.offset + op.length - 1) >> 12, first + (n.EXTENT_PAGES if is_write else e.SLICE_PAGES) - 1)
    if not has_events(s, out, n.ROOM + (PAGE_EVENTS if is_write else 4) * (last - first + 1)):
        return False
    if is_write:
        words = words_to_hold(arena, f + e.PAGES, last + 1)
        if not has_room(s, arena, words + n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
            return False
        reserve(s, arena, f + e.PAGES, last + 1)
    return True


@part
def leaves_for(arena, f, pages):
    """Blocks that the extent tree may take for `pages` more extents."""
    extents = arena[f + e.EXTENTS] + pages
    if extents <= n.EXTENTS_INLINE:
        return 0
    return max(extents // n.EXTENTS_PER_LEAF + 1 - arena[f + e.LEAF_COUNT], 0)


@part
def transfer(s, arena, out, op, f):
    """read, write: 1 done, 0 not done yet, -1 the device is full."""
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    if op.length <= 0 or op.offset < 0:
        play(s, out, q.OTHER)
        return 1
    total = op.length
    if op.op == r.READ:
        total = min(total, arena[f + e.SIZE] - op.offset)
    elif s.progress == 0:
        first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
        if last + 1 - max(first, arena[f + e.END]) > s.free_blocks:
            return -1
        if s.free_blocks < 2 * (last + 1 - first) + n.MOST_BLOCKS and missing(arena, f, first, last) > s.free_blocks:
            return -1
    while s.progress == 0 or s.progress < total:
        if not slice_fits(s, arena, f, op, out):
            return 0
        if op.op == r.READ:
            read_slice(s, arena, f, op, out)
            if s.progress == 0:
                return 1
        else:
            write_slice(s, arena, f, op, out)
    return 1


@part
def reserve_space(s, arena, op, f):
    """Whether a fallocate may begin: 1 yes, 0 no words yet, -1 the device is full."""
    first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    if op.flag & r.PUNCH_HOLE:
        return 1
    if last + 1 - max(first, arena[f + e.END]) > s.free_blocks or missing(arena, f, first, last) > s.free_blocks:
        return -1
    words = words_to_hold(arena, f + e.PAGES, last + 1) + 4 * arena[f + e.LEAF_COUNT] + n.WORDS
    if not has_room(s, arena, words + (last + 1 - first) // 8):
        return 0
    reserve(s, arena, f + e.PAGES, last + 1)
    return 1


@part
def close(s, arena, out, row, f):
    """close: the last one of a file without a name frees it."""
    s.closes += 1
    call(s, arena, out, f, q.CLOSE)
    if arena[f + e.LINKS] <= 0 and arena[f + e.OPENS] <= 1:
        destroy(s, arena, row, f, out)
    else:
        arena[f + e.OPENS] -= 1
    return 1


@part
def change_file(s, arena, out, op, f):
    """truncate, fallocate: 1 done, 0 no room yet, -1 the device is full."""
    if arena[f + e.IS_DIR] or (op.op == r.FALLOCATE and (op.length <= 0 or op.offset < 0)):
        play(s, out, q.OTHER)
        return 1
    if not has_room(s, arena, n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
        return 0
    if op.op == r.TRUNCATE:
        truncate(s, arena, op, f, out)
        return 1
    ready = reserve_space(s, arena, op, f)
    if ready > 0:
        fallocate(s, arena, op, f, out)
    return ready


@part
def step(s, arena, out, op, row):
    """One operation: 1 done, 0 not done (no room yet), -1 the device is full."""
    code = op.op
    if r.UNLINK <= code <= r.RMDIR or (code == r.CREATE and arena[row] == 0):
        return change_names(s, arena, op, row, out)
    f = touch(s, arena, row)
    if f == 0:
        return 0
    if (code == r.WRITE or code == r.READ) and not arena[f + e.IS_DIR]:
        done = transfer(s, arena, out, op, f)
        if done < 1 or code == r.READ or op.length <= 0 or not op.flag & r.SYNCHRONOUS:
            return done
        return sync_file(s, arena, out, op, f) if has_events(s, out, n.ROOM) else 0
    if code == r.FSYNC or code == r.MSYNC:
        return sync_file(s, arena, out, op, f)
    if code == r.TRUNCATE or code == r.FALLOCATE:
        return change_file(s, arena, out, op, f)
    if code == r.CLOSE:
        return close(s, arena, out, row, f)
    recipe = q.OTHER
    if code == r.OPEN or code == r.CREATE:
        arena[f + e.OPENS] += 1
        recipe = q.OPEN
    elif code == r.STAT:
        recipe = q.STAT
    call(s, arena, out, f, recipe)
    return 1


@part
def prepare(s, arena, out, op):
    """The log's workers have their turn first; False: no room to finish that."""
    s.now = op.time_ns
    if not has_events(s, out, n.ROOM) or not (s.settled or settle(s, arena, out)):
        return False
    s.settled = 1
    return True


@part
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    if op.op == r.SYNC:
        force(s, arena, out)
        play(s, out, q.SYNC)
        return 1
    return step(s, arena, out, op, s.rows + op.file * e.ROW_WORDS)


@part
def end(s, out):
    """The next operation is a new one."""
    s.settled = s.progress = 0


_HOOKS = {"prepare": prepare, "concerns": concerns, "perform": perform, "end": end}
emit = bind("xfs", operations, {operations: _HOOKS}).emit
