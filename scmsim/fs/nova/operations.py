"""NOVA's operations one by one, shared by nova-cow, nova-inplace and nova-fast16.

An operation begins only if the device surely has the blocks for it.  A long one (write, read, truncate, fallocate, the building
of a file from before the trace) stops between two of its extents when the buffer or the arena is full, and goes on in the next
call; the state's `stage` and `resume_at` tell where.
"""

from scmsim.alloc import first_fit
from scmsim.core import records as r
from scmsim.fs.engine import file_row, operations, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.nova import names as names
from scmsim.fs.nova import recipes as q
from scmsim.fs.nova import state as n
from scmsim.fs.nova.data import read_file, write_file
from scmsim.fs.nova.log import log_growth
from scmsim.jit import part
from scmsim.jit.binding import bind

NAME_EVENTS = 192  # of a namespace operation or the begin of a truncate, without extensions of logs
OWN_BYTES, DENTRY_BYTES = 3 * 56, 312  # most that it appends to a file's own log, to a directory's
PARENT_PAGES = 4  # log pages kept for a directory when the device is nearly full
SPARE = 2000  # log pages that the extensions of three logs may add


@part
def holes(s, arena, row, first, stop):
    """Pages of [first, stop) without a block, and the runs that they make up, as runs << 40 | pages."""
    count, before = 0, 1
    for page in range(first, stop):
        mapped = table.get(arena, row + n.PAGES, page) != 0
        if not mapped:
            count += 1 + (before << 40)
        before = mapped
    return count


@part
def log_blocks(s, arena, row, entries):
    """Log pages that appending `entries` write entries may take at the most."""
    if entries <= 40:
        return log_growth(s, arena, row, entries * s.entry_bytes)
    return 4 * (entries // 40) + min(2 * arena[row + n.LOG_SIZE], 512) + 4  # extensions double a short log


@part
def affordable(s, arena, op, places, pages, adopted):
    """Whether the device has the blocks that the operation may need (`pages` of its own, `adopted` of a file from before).

    `places`: rows of the file, its parent, and the file that it replaces.  The bound on log pages follows the free runs that
    data can come from, as each makes a write entry of its own.
    """
    row, parent, other = places
    spans = 1
    if pages > 0 and (s.inplace or op.op == r.FALLOCATE):
        found = holes(s, arena, row, op.offset >> 12, (op.offset + op.length + 4095) >> 12)
        pages, spans = found & ((1 << 40) - 1), found >> 40
    need, entries = pages + adopted, 3
    if need > 0:
        entries = min(need, first_fit.runs(s, arena, need + need // 8 + SPARE) + spans + (need >> 8))
    if need > 0 or op.op == r.CREATE or r.TRUNCATE <= op.op <= r.RMDIR:
        need += log_blocks(s, arena, row, entries)
    if op.op == r.CREATE or r.RENAME <= op.op <= r.MKDIR:
        need += log_growth(s, arena, parent, DENTRY_BYTES)
    if op.op == r.RENAME and other != parent:
        need += log_growth(s, arena, other, OWN_BYTES)
    return need <= s.free_blocks


@part
def begin(s, arena, out, op, places):
    """A new operation: whether the device has the blocks for it (-1: no), the bitmaps cover them, and its file exists.

    1: the operation itself is due; 0: no room yet.
    """
    row = places[0]
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    pages, adopted = 0, 0
    if (op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)) and op.length > 0:
        pages = ((op.offset & 4095) + op.length + 4095) >> 12
        if pages > s.blocks:
            return -1
    if not exists and not arena[row + file_row.STATUS] & file_row.IS_DIR:
        adopted = (arena[row + file_row.FIRST] + 4094) >> 12
    most = pages + adopted + (pages + adopted) // 8 + SPARE
    if s.free_blocks < most:
        if not affordable(s, arena, op, places, pages, adopted):
            return -1
        most = s.free_blocks
    if not first_fit.ready(s, arena, most):
        return 0
    if exists or (arena[row + file_row.FIRST] == 0 and (op.op == r.CREATE or op.op == r.MKDIR)):
        s.stage = n.READY
        return 1
    return 0 + names.adopt(s, arena, out, row)


@part
def room(s, arena, out, op, places):
    """Whether the operation's first piece surely fits; its table of pages is grown."""
    code = op.op
    row, parent, other = places
    if code == r.WRITE or (code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE):
        return has_events(s, out, 8) and pages_fit(s, arena, op, row)
    if code != r.CREATE and code != r.TRUNCATE and not r.UNLINK <= code <= r.RMDIR:
        return has_events(s, out, 16)
    added = log_growth(s, arena, row, OWN_BYTES) + log_growth(s, arena, parent, DENTRY_BYTES)
    added += log_growth(s, arena, other, OWN_BYTES)
    if added == 0:
        return has_events(s, out, NAME_EVENTS)
    logs = added + arena[row + n.LOG_COUNT] + arena[parent + n.LOG_COUNT] + arena[other + n.LOG_COUNT]
    return has_events(s, out, NAME_EVENTS + 8 * logs) and has_room(s, arena, (added << s.page_order) + 8 * logs)


@part
def pages_fit(s, arena, op, row):
    """Make the file's table of pages reach to the operation's end; False: no room in the arena."""
    stop = (op.offset + op.length + 4095) >> 12
    if op.length <= 0:
        return True
    words = table.words_to_hold(arena, row + n.PAGES, stop)
    if words > 0:
        if not has_room(s, arena, words):
            return False
        table.reserve(s, arena, row + n.PAGES, stop)
    return True


@part
def plain_call(s, out, code):
    """Operations whose cost does not depend on the file; fsync fences once."""
    if code == r.FSYNC or code == r.MSYNC:
        play(s, out, q.FSYNC)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        play(s, out, q.OPEN)
    elif code == r.STAT:
        play(s, out, q.STAT)
    elif code == r.READDIR:
        play(s, out, q.READDIR)
    elif code == r.MMAP or code == r.MUNMAP:
        play(s, out, q.MAP)
    else:
        play(s, out, q.OTHER)


@part
def fallocate(s, arena, out, op, row):
    """fallocate: holes get zeroed blocks; False: no room to go on."""
    if s.stage == n.READY:
        s.reg[q.INODE] = s.inode_table + op.file * n.INODE_BYTES
        play(s, out, q.WRITE)
        s.stage, s.resume_at = n.AT_WORK, op.offset >> 12
    if not names.fill_holes(s, arena, out, row, (op.offset + op.length + 4095) >> 12, 1):
        return False
    if not op.flag & r.KEEP_SIZE:
        arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], op.offset + op.length)
    return True


@part
def step(s, arena, out, op, places):
    """Run or resume an operation; False: no room to finish it."""
    if s.stage == n.READY and not room(s, arena, out, op, places):
        return False
    code, row = op.op, places[0]
    if code == r.WRITE and op.length > 0:
        if not write_file(s, arena, out, op, row) or not has_events(s, out, 4):
            return False
        if op.flag & r.SYNCHRONOUS:
            play(s, out, q.FSYNC)
        return True
    if code == r.READ:
        return read_file(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return names.truncate(s, arena, out, row, op.offset)
    if code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE and op.length > 0:  # without a length it fails: EINVAL
        return fallocate(s, arena, out, op, row)
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    if r.UNLINK <= code <= r.RMDIR and code != r.MKDIR or (not exists and (code == r.CREATE or code == r.MKDIR)):
        names.change_names(s, arena, out, op, row, places[1])
    elif code == r.CLOSE:
        names.close(s, arena, out, row)
    else:
        arena[row + file_row.OPENS] += code == r.OPEN or code == r.CREATE
        plain_call(s, out, code)
    return True


@part
def perform(s, arena, out, op):
    """One operation on a file: 1 done, 0 no room to go on yet, -1 the device is full."""
    row = s.files + op.file * n.FILE_WORDS
    parent = s.files + (s.file_count - 1) * n.FILE_WORDS
    if op.op == r.RENAME and arena[row + n.DIRECTORY] != 0:
        parent = 0 + arena[row + n.DIRECTORY]
    elif op.op != r.RENAME and 0 <= op.file2 < s.file_count - 1:
        parent = s.files + op.file2 * n.FILE_WORDS
    other = s.files + op.file2 * n.FILE_WORDS if op.op == r.RENAME and op.file2 >= 0 else parent
    places = (row, parent, other)
    if s.stage == n.NEW:
        fits = begin(s, arena, out, op, places)
        if fits <= 0:
            return fits
        s.stage = n.READY
    elif s.stage == n.ADOPTING:
        if not names.adopt(s, arena, out, row):
            return 0
        s.stage = n.READY
    return 0 + step(s, arena, out, op, places)


@part
def end(s, out):
    """The next operation is a new one; a log that became long is collected before it."""
    s.need_collect = s.gc_row
    s.gc_row = 0
    s.stage = n.NEW


emit = bind("nova", operations, {operations: {"perform": perform, "end": end}}).emit
