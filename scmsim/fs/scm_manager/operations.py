"""Operations one by one, shared by scm-manager, fat-scm, ext2-scm and fat-nand.

An operation begins only if the device surely has the units for it.  A long one stops between two of its runs when the buffer is
full, and goes on in the next call; the state's `stage` and `resume_at` tell where.
"""

from scmsim.alloc import buddy
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_recipe, has_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.scm_manager import names as names
from scmsim.fs.scm_manager import recipes, state
from scmsim.fs.scm_manager.cache import STEP, expire, synchronize
from scmsim.fs.scm_manager.data import fallocate, read_file, truncate, write_file
from scmsim.fs.scm_manager.objects import object_call, units_of
from scmsim.fs.scm_manager.units import DATA_ORDER, place, ready, reserve, words_for
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

NAME_EVENTS = 4 * STEP  # of a namespace operation
MOST_UNITS = 1 << 33  # of a file: below, its tables fit the largest arena
TOO_FAR = 1 << 40  # words: more than the arena may have, so that its growth ends the replay with an error


@subroutine
def of_directory(arena, op, row):
    """Whether it transfers, cuts or allocates data of a directory: EISDIR, or EBADF."""
    code = op.op
    return arena[row + file_row.STATUS] & file_row.IS_DIR and (
        records.READ <= code <= records.WRITE or records.TRUNCATE <= code <= records.FALLOCATE
    )


@subroutine
def reach(s, arena, op, row):
    """(first unit that may be allocated, end of the file then) in units; the end is 0 where nothing is allocated."""
    first, end = op.offset, op.offset + op.length
    if (
        op.op == records.TRUNCATE
        and not of_directory(arena, op, row)
        and s.kind != recipes.EXT2
        and op.offset > arena[row + file_row.SIZE]
    ):
        first, end = arena[row + file_row.SIZE], op.offset
    elif (
        op.length <= 0
        or of_directory(arena, op, row)
        or not (op.op == records.WRITE or (op.op == records.FALLOCATE and not op.flag & records.PUNCH_HOLE))
    ):
        return recipes.ZERO + 0, recipes.ZERO + 0
    return first >> s.shift, (end + (1 << s.shift) - 1) >> s.shift


@subroutine
def missing(s, arena, row, first, stop):
    """Units that are allocated to make the file reach from `first` to `stop`, indirect blocks included."""
    if s.kind != recipes.EXT2:
        count = max(stop - arena[row + state.END], 0)
        return count + (arena[row + state.SHORT] > 0)
    count = max(stop - max(first, arena[row + state.END]), 0)
    for i in range(first, min(stop, arena[row + state.END])):
        count += place(arena, row, i) == 0
    return count + (4 + (count >> 7)) * (count > 0)


@subroutine
def available(s):
    """Units that can be allocated."""
    if s.kind == recipes.MANAGER:
        s.free_blocks = buddy.room(s, recipes.ZERO + DATA_ORDER)
    return s.free_blocks


@subroutine
def adopts(arena, op, row):
    """Whether the operation is the first on a file that is taken to have existed before; one on a memory object is not."""
    of_file = (
        op.op <= records.CLOSE and op.op != records.ULOAD and op.op != records.USTORE or op.op == records.FILE_TO_MM
    )
    return of_file and not arena[row + file_row.STATUS] & state.MEMORY and calls.adopts(arena, op, row)


@subroutine
def needed(s, arena, op, row):
    """Units that the operation takes at the most, of names and objects too."""
    code, exists = op.op, arena[row + file_row.STATUS] & file_row.EXISTS
    units = recipes.ZERO + 0
    if adopts(arena, op, row):
        units += names.NAME_UNITS
        if not arena[row + file_row.STATUS] & file_row.IS_DIR:
            length = max(arena[row + file_row.FIRST] - 1, 0)
            units += missing(s, arena, row, recipes.ZERO, (length + (1 << s.shift) - 1) >> s.shift)
    if (
        (code == records.CREATE or code == records.MKDIR)
        and not exists
        or records.RENAME <= code <= records.LINK
        or code >= records.MM_TO_FILE
    ):
        units += names.NAME_UNITS
    return units


@subroutine
def begin(s, arena, op, row):
    """A new operation: whether the device has what it may take; DONE: it is due."""
    first, stop = reach(s, arena, op, row)
    if stop > 0 and op.op != records.TRUNCATE and op.length > s.capacity:
        return FULL
    if stop > MOST_UNITS:
        s.need_words = TOO_FAR
        return NO_ROOM
    units = needed(s, arena, op, row)
    if stop > 0:
        units += missing(s, arena, row, first, stop)
    if units > 0 and units > available(s):
        return FULL
    if op.op == records.MALLOC and (
        op.length > 1 << buddy.LARGEST_SHIFT or buddy.room(s, buddy.order_for(op.length)) == 0
    ):
        return FULL
    return DONE if ready(s, arena, units + 4) else NO_ROOM


@subroutine
def room(s, arena, out, op, row, parent):
    """Whether the operation's first piece surely fits; the tables that it changes are grown."""
    _, stop = reach(s, arena, op, row)
    stop = max(stop, s.first_objects, 1)
    words = words_for(arena, row, stop) + names.words_for_name(s, arena, parent)
    if arena[row + state.PARENT] != 0:
        words += names.words_for_name(s, arena, arena[row + state.PARENT])
    if op.op == records.MALLOC:
        words += words_for(arena, row, units_of(op.length))
    if not has_room(s, arena, words) or not has_events(s, out, NAME_EVENTS if op.op != records.WRITE else STEP):
        return False
    if op.op != records.READ:
        reserve(s, arena, row, stop)
    return True


@subroutine
def nameless(arena, op, row):
    """Whether it is a file operation on a memory object that is no file: an error of the program."""
    is_file = (
        op.op <= records.CLOSE and op.op != records.ULOAD and op.op != records.USTORE or op.op == records.FILE_TO_MM
    )
    return is_file and arena[row + file_row.STATUS] & (file_row.EXISTS | state.MEMORY) == state.MEMORY


@subroutine
def any_step(s, arena, out, op, row, parent):
    """Run or resume a call, of those on memory objects too; False: no room to finish it."""
    if nameless(arena, op, row) or of_directory(arena, op, row):
        emit_recipe(s, out, recipes.OTHER)
        return True
    if op.op >= records.MALLOC or op.op == records.ULOAD or op.op == records.USTORE:
        return object_call(s, arena, out, op, row, parent)
    return calls.step(s, arena, out, op, row, parent)


@subroutine
def synchronize_write(s, out):
    """A write to a file that was opened with O_SYNC is written back as by fsync, without its call."""


@subroutine
def list_names(s, arena, out, row):
    """readdir: all entries of a directory."""
    names.scan(s, arena, out, row, arena[row + state.TOP])
    s.reg[recipes.COUNT] = arena[row + state.NAMES]
    emit_recipe(s, out, recipes.LISTED)


@subroutine
def ended(s, arena, op, row):
    """An fsync writes back the directory, too, even where the file is gone by then."""
    s.directory = arena[row + state.PARENT]


@subroutine
def ordered(s, op):
    """Whether the operation ends with a write-back of what it changed."""
    if s.kind == recipes.MANAGER:
        return False
    if op.op == records.FSYNC or op.op == records.MSYNC or (op.op == records.WRITE and op.flag & records.SYNCHRONOUS):
        return True
    changes = op.op == records.CREATE or op.op == records.WRITE or records.TRUNCATE <= op.op <= records.RMDIR
    return s.synchronous and changes


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    row, parent = s.files + op.file * state.FILE_WORDS, calls.parent_of(s, op)
    parent = names.as_directory(s, arena, parent)
    if s.stage == state.NEW:
        fits = begin(s, arena, op, row)
        if fits != DONE:
            return fits
        if adopts(arena, op, row):
            if not has_events(s, out, NAME_EVENTS) or not names.adopt(s, arena, out, row, parent):
                return NO_ROOM
        if not room(s, arena, out, op, row, parent):
            return NO_ROOM
        s.stage = state.READY
    if s.stage != state.FLUSHING:
        if calls.run(s, arena, out, op, row, parent) == NO_ROOM or not ready(s, arena, 1):
            return NO_ROOM
        s.stage, s.flushed = state.FLUSHING, 0
    if ordered(s, op) and not synchronize(s, arena, out, row):
        return NO_ROOM
    return DONE


@subroutine
def known(s, op):
    """Whether the operation is one of the model's."""
    if op.file < 0:
        return False
    is_object = records.MALLOC <= op.op <= records.FILE_TO_MM or op.op == records.ULOAD or op.op == records.USTORE
    return s.kind == recipes.MANAGER if is_object else op.op <= records.CLOSE


@subroutine
def prepare(s, arena, out, op):
    """Dirty blocks that are older than the period are written back first; False: no room to finish that."""
    s.now = op.time_ns
    return s.stage != state.NEW or s.head == 0 or expire(s, arena, out, op.time_ns, op.op == records.SYNC)


@subroutine
def end(s, out):
    """The next operation is a new one."""
    s.stage = state.NEW


@subroutine
def leave(s, out):
    """What the space report reads."""
    if s.kind == recipes.MANAGER:
        s.free_blocks = buddy.room(s, recipes.ZERO + DATA_ORDER)


_HOOKS = {"prepare": prepare, "concerns": known, "perform": perform, "end": end, "leave": leave}
_CALLS = {
    "state": state,
    "recipes": recipes,
    "any_step": any_step,
    "synchronize": synchronize_write,
    "write": write_file,
    "read": read_file,
    "fallocate": fallocate,
    "truncate": truncate,
    "create": names.create,
    "unlink": names.unlink,
    "link": names.link,
    "rename": names.rename,
    "read_directory": list_names,
    "ended": ended,
    "evict": names.evict,
}
emit = bind("scm", operations, {operations: _HOOKS, calls: _CALLS}).emit
