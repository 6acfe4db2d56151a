"""Operations one by one, shared by scm-manager, fat-scm, ext2-scm and fat-nand.

An operation begins only if the device surely has the units for it.  A long one stops between two of its runs when the buffer is
full, and goes on in the next call; the state's `stage` and `resume_at` tell where.
"""

from scmsim.alloc import buddy
from scmsim.core import records as r
from scmsim.fs.engine import file_row, operations
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.scm_manager import names as names
from scmsim.fs.scm_manager import recipes as q
from scmsim.fs.scm_manager import state as n
from scmsim.fs.scm_manager.cache import STEP, expire, synchronize
from scmsim.fs.scm_manager.data import fallocate, read_file, truncate, write_file
from scmsim.fs.scm_manager.objects import object_call, units_of
from scmsim.fs.scm_manager.units import DATA_ORDER, place, ready, reserve, words_for
from scmsim.jit import part
from scmsim.jit.binding import bind

NAME_EVENTS = 4 * STEP  # of a namespace operation
MOST_UNITS = 1 << 33  # of a file: below, its tables fit the largest arena
TOO_FAR = 1 << 40  # words: more than the arena may have, so that its growth ends the replay with an error


@part
def of_directory(arena, op, row):
    """Whether it transfers, cuts or allocates data of a directory: EISDIR, or EBADF."""
    code = op.op
    return arena[row + file_row.STATUS] & file_row.IS_DIR and (
        r.READ <= code <= r.WRITE or r.TRUNCATE <= code <= r.FALLOCATE
    )


@part
def reach(s, arena, op, row):
    """(first unit that may be allocated, end of the file then) in units; the end is 0 where nothing is allocated."""
    first, end = op.offset, op.offset + op.length
    if (
        op.op == r.TRUNCATE
        and not of_directory(arena, op, row)
        and s.kind != q.EXT2
        and op.offset > arena[row + file_row.SIZE]
    ):
        first, end = arena[row + file_row.SIZE], op.offset
    elif (
        op.length <= 0
        or of_directory(arena, op, row)
        or not (op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE))
    ):
        return q.ZERO + 0, q.ZERO + 0
    return first >> s.shift, (end + (1 << s.shift) - 1) >> s.shift


@part
def missing(s, arena, row, first, stop):
    """Units that are allocated to make the file reach from `first` to `stop`, indirect blocks included."""
    if s.kind != q.EXT2:
        count = max(stop - arena[row + n.END], 0)
        return count + (arena[row + n.SHORT] > 0)
    count = max(stop - max(first, arena[row + n.END]), 0)
    for i in range(first, min(stop, arena[row + n.END])):
        count += place(arena, row, i) == 0
    return count + (4 + (count >> 7)) * (count > 0)


@part
def available(s):
    """Units that can be allocated."""
    if s.kind == q.MANAGER:
        s.free_blocks = buddy.room(s, q.ZERO + DATA_ORDER)
    return s.free_blocks


@part
def adopts(arena, op, row):
    """Whether the operation is the first on a file that is taken to have existed before: any but the making of a new one."""
    if arena[row + file_row.STATUS] & (file_row.EXISTS | n.MEMORY):
        return False
    born = arena[row + file_row.FIRST] == 0 and (op.op == r.CREATE or op.op == r.MKDIR)
    return not born and (op.op <= r.CLOSE and op.op != r.ULOAD and op.op != r.USTORE or op.op == r.FILE_TO_MM)


@part
def needed(s, arena, op, row):
    """Units that the operation takes at the most, of names and objects too."""
    code, exists = op.op, arena[row + file_row.STATUS] & file_row.EXISTS
    units = q.ZERO + 0
    if adopts(arena, op, row):
        units += names.NAME_UNITS
        if not arena[row + file_row.STATUS] & file_row.IS_DIR:
            length = max(arena[row + file_row.FIRST] - 1, 0)
            units += missing(s, arena, row, q.ZERO, (length + (1 << s.shift) - 1) >> s.shift)
    if (code == r.CREATE or code == r.MKDIR) and not exists or r.RENAME <= code <= r.LINK or code >= r.MM_TO_FILE:
        units += names.NAME_UNITS
    return units


@part
def begin(s, arena, op, row):
    """1: the device has what the operation may take, 0: its tables must grow first, -1: it has not."""
    first, stop = reach(s, arena, op, row)
    if stop > 0 and op.op != r.TRUNCATE and op.length > s.capacity:
        return -1
    if stop > MOST_UNITS:
        s.need_words = TOO_FAR
        return 0
    units = needed(s, arena, op, row)
    if stop > 0:
        units += missing(s, arena, row, first, stop)
    if units > 0 and units > available(s):
        return -1
    if op.op == r.MALLOC and (op.length > 1 << buddy.LARGEST_SHIFT or buddy.room(s, buddy.order_for(op.length)) == 0):
        return -1
    return 0 + ready(s, arena, units + 4)


@part
def room(s, arena, out, op, row, parent):
    """Whether the operation's first piece surely fits; the tables that it changes are grown."""
    _, stop = reach(s, arena, op, row)
    stop = max(stop, s.first_objects, 1)
    words = words_for(arena, row, stop) + names.words_for_name(s, arena, parent)
    if arena[row + n.PARENT] != 0:
        words += names.words_for_name(s, arena, arena[row + n.PARENT])
    if op.op == r.MALLOC:
        words += words_for(arena, row, units_of(op.length))
    if not has_room(s, arena, words) or not has_events(s, out, NAME_EVENTS if op.op != r.WRITE else STEP):
        return False
    if op.op != r.READ:
        reserve(s, arena, row, stop)
    return True


@part
def plain_call(s, arena, out, op, row):
    """Operations that change nothing on the device."""
    code = op.op
    if code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        arena[row + file_row.OPENS] += code != r.MKDIR
        play(s, out, q.OPEN)
    elif code == r.CLOSE:
        play(s, out, q.CLOSE)
        s.closes += 1
        arena[row + file_row.OPENS] = max(arena[row + file_row.OPENS] - 1, 0)
    elif code == r.STAT:
        play(s, out, q.STAT)
    elif code == r.READDIR:
        names.scan(s, arena, out, row, arena[row + n.TOP])
        s.reg[q.COUNT] = arena[row + n.NAMES]
        play(s, out, q.LISTED)
    elif code == r.FSYNC or code == r.MSYNC:
        play(s, out, q.FSYNC)
    else:
        play(s, out, q.OTHER)


@part
def change_names(s, arena, out, op, row, parent):
    """create, mkdir, unlink, rmdir, rename, link."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        names.create(s, arena, out, op, row, parent)
    elif op.op == r.RENAME:
        replaced = s.files + op.file2 * n.FILE_WORDS if op.file2 >= 0 and op.file2 != op.file else q.ZERO + 0
        if replaced != 0 and not arena[replaced + file_row.STATUS] & file_row.EXISTS:
            replaced = q.ZERO + 0
        names.rename(s, arena, out, row, replaced)
    elif op.op == r.LINK:
        names.link(s, arena, out, row, parent)
    else:
        names.unlink(s, arena, out, row, parent)


@part
def nameless(arena, op, row):
    """Whether it is a file operation on a memory object that is no file: an error of the program."""
    is_file = op.op <= r.CLOSE and op.op != r.ULOAD and op.op != r.USTORE or op.op == r.FILE_TO_MM
    return is_file and arena[row + file_row.STATUS] & (file_row.EXISTS | n.MEMORY) == n.MEMORY


@part
def step(s, arena, out, op, row, parent):
    """Run or resume an operation; False: no room to finish it."""
    code = op.op
    if nameless(arena, op, row) or of_directory(arena, op, row):
        play(s, out, q.OTHER)
        return True
    if code == r.WRITE and op.length > 0:
        return write_file(s, arena, out, op, row)
    if code == r.READ:
        return read_file(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return truncate(s, arena, out, row, op.offset)
    if code == r.FALLOCATE and not op.flag & r.PUNCH_HOLE and op.length > 0:
        return fallocate(s, arena, out, op, row)
    if code >= r.MALLOC or code == r.ULOAD or code == r.USTORE:
        return object_call(s, arena, out, op, row, parent)
    exists = arena[row + file_row.STATUS] & file_row.EXISTS
    if r.UNLINK <= code <= r.RMDIR and code != r.MKDIR or (not exists and (code == r.CREATE or code == r.MKDIR)):
        change_names(s, arena, out, op, row, parent)
    else:
        plain_call(s, arena, out, op, row)
    return True


@part
def finish(s, arena, out, op, row):
    """Free what an unlink, rmdir, close or rename left without a name; False: no room to go on."""
    gone = row
    if op.op == r.RENAME:
        gone = s.files + op.file2 * n.FILE_WORDS if op.file2 >= 0 else q.ZERO + 0
    elif op.op != r.UNLINK and op.op != r.RMDIR and op.op != r.CLOSE:
        gone = q.ZERO + 0
    if s.stage != n.EVICTING:
        if gone == 0 or not names.due(s, arena, gone):
            return True
        s.stage, s.resume_at = n.EVICTING, 0
    return names.evict(s, arena, out, gone)


@part
def ordered(s, op):
    """Whether the operation ends with a write-back of what it changed."""
    if s.kind == q.MANAGER:
        return False
    if op.op == r.FSYNC or op.op == r.MSYNC or (op.op == r.WRITE and op.flag & r.SYNCHRONOUS):
        return True
    changes = op.op == r.CREATE or op.op == r.WRITE or r.TRUNCATE <= op.op <= r.RMDIR
    return s.synchronous and changes


@part
def perform(s, arena, out, op):
    """One operation on a file: 1 done, 0 no room to go on yet, -1 the device is full."""
    row, parent = s.files + op.file * n.FILE_WORDS, s.nobody
    if op.op != r.RENAME and 0 <= op.file2 < s.file_count - n.SYSTEM_ROWS:
        parent = names.as_directory(s, arena, s.files + op.file2 * n.FILE_WORDS)
    if s.stage == n.NEW:
        fits = begin(s, arena, op, row)
        if fits <= 0:
            return fits
        if adopts(arena, op, row):
            if not has_events(s, out, NAME_EVENTS) or not names.adopt(s, arena, out, row, parent):
                return 0
        if not room(s, arena, out, op, row, parent):
            return 0
        s.stage = n.READY
    if s.stage < n.EVICTING and not step(s, arena, out, op, row, parent):
        return 0
    if s.stage != n.FLUSHING:
        if s.stage != n.EVICTING:
            s.directory = arena[row + n.PARENT]
        if not ready(s, arena, 1) or not finish(s, arena, out, op, row):
            return 0
        s.stage, s.flushed = n.FLUSHING, 0
    if ordered(s, op) and not synchronize(s, arena, out, row):
        return 0
    return 1


@part
def known(s, op):
    """Whether the operation is one of the model's."""
    if op.file < 0:
        return False
    is_object = op.op >= r.MALLOC or op.op == r.ULOAD or op.op == r.USTORE
    return s.kind == q.MANAGER if is_object else op.op <= r.CLOSE


@part
def prepare(s, arena, out, op):
    """Dirty blocks that are older than the period are written back first; False: no room to finish that."""
    s.now = op.time_ns
    return s.stage != n.NEW or s.head == 0 or expire(s, arena, out, op.time_ns, op.op == r.SYNC)


@part
def end(s, out):
    """The next operation is a new one."""
    s.stage = n.NEW


@part
def leave(s, out):
    """What the space report reads."""
    if s.kind == q.MANAGER:
        s.free_blocks = buddy.room(s, q.ZERO + DATA_ORDER)


_HOOKS = {"prepare": prepare, "concerns": known, "perform": perform, "end": end, "leave": leave}
emit = bind("scm", operations, {operations: _HOOKS}).emit
