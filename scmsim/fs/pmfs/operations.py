"""PMFS's operations one by one, for pmfs-4k, pmfs-2m and pmfs-1g; other families bind subroutines of their own to them.

An operation begins only if the device surely has the blocks for it.  A long one stops between two of its tree leaves or copies
when the buffer is full, and goes on in the next call; the state's `stage` and `resume_at` tell where.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records as r
from scmsim.fs.engine import file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.pmfs import dirs as dirs
from scmsim.fs.pmfs import names as names
from scmsim.fs.pmfs import recipes as q
from scmsim.fs.pmfs import state as n
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.pmfs.data import read_file, replaces, write_file
from scmsim.fs.pmfs.tree import FILL_EVENTS, MOST_BLOCKS, reserve, words_for
from scmsim.jit import part
from scmsim.jit.binding import bind

ADOPTS_FIRST = 0  # 1: what a file from before the trace needs is allocated before the operation's own need is counted
WRITE_EVENTS = FILL_EVENTS  # with which a write or fallocate may begin
NAME_EVENTS = 256  # of a namespace operation, without the scans of directory blocks
NODES = 8  # blocks that a tree of few blocks, or one more block of a directory, takes for nodes beside its leaves
TOO_FAR = 1 << 40  # words: more than the arena may have, so that its growth ends the replay with an error


@part
def count_replaced(s, arena, op, row, first, stop):
    """Data blocks that a copy-on-write of [first, stop) takes."""
    return stop - first


@part
def missing(s, arena, op, row, first, stop):
    """Data blocks of [first, stop) that the operation has to allocate."""
    if s.replacing:
        return count_replaced(s, arena, op, row, first, stop)
    count = max(stop - max(first, arena[row + n.END]), 0)
    for i in range(first, min(stop, arena[row + n.END])):
        count += table.get(arena, row + n.BLOCKS, i) == 0
    return count


@part
def affordable(s, arena, data, nodes):
    """Whether the device has `data` data blocks and `nodes` single blocks: 1 yes, -1 no, 0: the bitmaps must grow first."""
    if data * s.unit + nodes > s.free_blocks:
        return -1
    if not first_fit.ready(s, arena, min(s.free_blocks, data * s.unit + nodes)):
        return 0
    if s.unit == 1 or data == 0:
        return 1
    runs = data + (nodes > 0) + (nodes >> 9)  # the single blocks may break into aligned runs
    while aligned_fit.count_runs(s, arena, s.unit, runs) < runs:
        if s.tracked == s.blocks:
            return -1
        held = s.free_blocks - (s.blocks - s.tracked)
        if not first_fit.ready(s, arena, min(s.free_blocks, held + runs * s.unit)):
            return 0
    return 1


@part
def needed(s, arena, op, row):
    """Data blocks that the operation allocates; sets `replacing`."""
    s.replacing, s.singles = 0, 0
    allocates = op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)
    if not allocates or op.length <= 0:
        return 0
    if op.op == r.WRITE:
        s.replacing = replaces(s, arena, op, row)
    first, stop = op.offset >> s.shift, ((op.offset + op.length - 1) >> s.shift) + 1
    if stop - first > s.blocks:
        return stop - first
    return missing(s, arena, op, row, first, stop)


@part
def moves(s, arena, op, row):
    """Data blocks that must move to fresh ones before the operation."""
    return 0


@part
def move(s, arena, out, row):
    """Move what `moves` counted."""


@part
def begin(s, arena, out, op, row, parent):
    """A new operation: whether the device has the blocks for it (-1: no) and its file exists; 1: it is due, 0: no room yet."""
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    adopts = not exists and not (arena[row + file_row.FIRST] == 0 and (op.op == r.CREATE or op.op == r.MKDIR))
    data, nodes, s.singles = 0, 0, 0
    if not (ADOPTS_FIRST and adopts):
        data = needed(s, arena, op, row)
        if data + s.singles > 0:
            nodes = NODES + (data >> 8) + s.singles
        data += moves(s, arena, op, row)
    if adopts and not arena[row + file_row.STATUS] & file_row.IS_DIR:
        old = (
            (arena[row + file_row.FIRST] - 1 + (1 << s.shift) - 1) >> s.shift if arena[row + file_row.FIRST] > 0 else 0
        )
        data += old
        nodes += NODES + (old >> 8)
    if adopts or (not exists and (op.op == r.CREATE or op.op == r.MKDIR)) or op.op == r.LINK or op.op == r.RENAME:
        nodes += 2 * NODES
    fits = affordable(s, arena, data, nodes) if data + nodes > 0 else 1
    if fits <= 0:
        return fits
    if not adopts:
        return 1
    return 0 + names.adopt(s, arena, out, row, parent)


@part
def words_aside(s, arena, op):
    """Words of arena that a write takes beside those of the file's tables."""
    return 0


@part
def reserve_aside(s, arena, op):
    """Grow what `words_aside` counted."""


@part
def room(s, arena, out, op, row, parent):
    """Whether the operation's first piece surely fits; the tables that it changes are grown."""
    code = op.op
    if (code == r.WRITE or (code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)) and op.length > 0:
        stop = ((op.offset + op.length - 1) >> s.shift) + 1
        words = words_for(arena, row, stop) if stop <= MOST_BLOCKS else TOO_FAR
        if not has_room(s, arena, words + words_aside(s, arena, op)) or not has_events(s, out, WRITE_EVENTS):
            return False
        reserve(s, arena, row, stop)
        reserve_aside(s, arena, op)
        return True
    if code == r.CREATE or r.UNLINK <= code <= r.RMDIR:
        blocks = 3 * arena[parent + n.DIRCOUNT] + 3 * dircount(arena, row)
        words = 2 * dirs.words_for_name(arena, parent) + 2 * dirs.words_for_name(arena, row)
        if code == r.RENAME and op.file2 >= 0:
            blocks += 3 * dircount(arena, s.files + op.file2 * n.FILE_WORDS)
        if arena[row + n.PARENT] != 0:
            words += 2 * dirs.words_for_name(arena, arena[row + n.PARENT])
        return has_room(s, arena, words) and has_events(s, out, NAME_EVENTS + 2 * blocks)
    return has_events(s, out, 2 * FILL_EVENTS if code != r.READDIR else 8 + arena[row + n.DIRCOUNT])


@part
def dircount(arena, row):
    """Blocks of the directory that a file's newest name is in."""
    return arena[arena[row + n.PARENT] + n.DIRCOUNT] if arena[row + n.PARENT] != 0 else 0


@part
def read_directory(s, arena, out, row):
    """getdents: every block of the directory is read."""
    for j in range(arena[row + n.DIRCOUNT]):
        place = table.get(arena, row + n.DIRBLOCKS, j)
        s.reg[q.NODE], s.reg[q.BYTES] = arena[place + n.DIR_BLOCK] * q.BLOCK, q.BLOCK
        play(s, out, q.SCAN_MATCH)
    s.reg[q.COUNT] = arena[row + n.DIRENTS]
    play(s, out, q.READDIR)


@part
def plain_call(s, arena, out, code, row):
    """Operations that change nothing on the device; fsync fences once."""
    if code == r.FSYNC or code == r.MSYNC:
        play(s, out, q.FSYNC)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        arena[row + file_row.OPENS] += code != r.MKDIR
        play(s, out, q.OPEN)
    elif code == r.CLOSE:
        play(s, out, q.CLOSE)
        s.closes += 1
        arena[row + file_row.OPENS] = max(arena[row + file_row.OPENS] - 1, 0)
    elif code == r.STAT:
        play(s, out, q.STAT)
    elif code == r.READDIR:
        read_directory(s, arena, out, row)
    elif code == r.MMAP or code == r.MUNMAP:
        play(s, out, q.MAP)
    else:
        play(s, out, q.OTHER)


@part
def change_names(s, arena, out, op, row, parent):
    """create, mkdir, unlink, rmdir, rename, link."""
    s.reg[q.INODE] = inode_at(s, row)
    if op.op == r.CREATE or op.op == r.MKDIR:
        names.ready_directory(s, arena, out, parent)
        names.create(s, arena, out, op, row, parent)
    elif op.op == r.RENAME:
        replaced = s.files + op.file2 * n.FILE_WORDS if op.file2 >= 0 and op.file2 != op.file else 0
        if replaced != 0 and not arena[replaced + file_row.STATUS] & file_row.EXISTS:
            replaced = 0
        names.rename(s, arena, out, row, replaced)
    elif op.op == r.LINK:
        names.ready_directory(s, arena, out, parent)
        names.link(s, arena, out, row, parent)
    else:
        names.unlink(s, arena, out, op, row)


@part
def write(s, arena, out, op, row):
    """One write(); False: no room to finish it."""
    return write_file(s, arena, out, op, row)


@part
def run_on(s, thread):
    """The operation runs on its thread's CPU, which shares all with the others."""


@part
def closed(s, arena, out, row):
    """The last descriptor of a file that has a name is closed."""


@part
def step(s, arena, out, op, row, parent):
    """Run or resume an operation; False: no room to finish it."""
    code = op.op
    if code == r.WRITE and op.length > 0:
        if not write(s, arena, out, op, row) or not has_events(s, out, 4):
            return False
        if op.flag & r.SYNCHRONOUS:
            play(s, out, q.FSYNC)
        return True
    if code == r.READ:
        return read_file(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return names.truncate(s, arena, out, row, op.offset)
    if code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE and op.length > 0:
        return names.fallocate(s, arena, out, op, row)
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    if r.UNLINK <= code <= r.RMDIR and code != r.MKDIR or (not exists and (code == r.CREATE or code == r.MKDIR)):
        change_names(s, arena, out, op, row, parent)
    else:
        plain_call(s, arena, out, code, row)
    return True


@part
def finish(s, arena, out, op, row):
    """Free what an unlink, rmdir, close or rename left without a name; False: no room to go on."""
    gone = row
    if op.op == r.RENAME:
        if op.file2 < 0:
            return True
        gone = s.files + op.file2 * n.FILE_WORDS
    if s.stage != n.EVICTING:
        if not names.due(s, arena, gone):
            if op.op == r.CLOSE and arena[row + file_row.OPENS] <= 0:
                closed(s, arena, out, row)
            return True
        s.stage, s.resume_at = n.EVICTING, 0
    return names.evict(s, arena, out, gone)


@part
def perform(s, arena, out, op):
    """One operation on a file: 1 done, 0 no room to go on yet, -1 the device is full."""
    row = s.files + op.file * n.FILE_WORDS
    parent = s.files + (s.file_count - 1) * n.FILE_WORDS
    if op.op != r.RENAME and 0 <= op.file2 < s.file_count - 1:
        parent = s.files + op.file2 * n.FILE_WORDS
    run_on(s, op.thread)
    if s.stage == n.ADOPTING:
        if not names.adopt(s, arena, out, row, parent):
            return 0
        s.stage = n.NEW if ADOPTS_FIRST else n.READY
    if s.stage == n.NEW:
        fits = begin(s, arena, out, op, row, parent)
        if ADOPTS_FIRST and fits > 0 and s.stage == n.ADOPTING:
            s.stage = n.NEW
            fits = begin(s, arena, out, op, row, parent)
        if fits <= 0:
            return fits
        s.stage = n.READY
    if s.stage == n.READY:
        s.replacing = op.op == r.WRITE and replaces(s, arena, op, row)
    if s.stage == n.READY and not room(s, arena, out, op, row, parent):
        return 0
    if s.stage == n.READY and moves(s, arena, op, row) > 0:
        move(s, arena, out, row)
    if s.stage != n.EVICTING and not step(s, arena, out, op, row, parent):
        return 0
    if op.op == r.UNLINK or op.op == r.RMDIR or op.op == r.CLOSE or op.op == r.RENAME:
        return 0 + finish(s, arena, out, op, row)
    return 1


@part
def end(s, out):
    """The next operation is a new one."""
    s.stage = n.NEW


HOOKS = {"perform": perform, "end": end}
emit = bind("pmfs", operations, {operations: HOOKS}).emit
