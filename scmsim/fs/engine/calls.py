"""Which call an operation is, from its first piece to the freeing of a file that it leaves without a name.

A family binds its modules, its subroutines and what it does besides to this module (see `scmsim.jit.binding`).  A subroutine that
returns False had no room to go on: the operation is resumed with it in the next call of the kernel.
"""

from scmsim.core import records as r
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import charge_map, emit_recipe, has_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.jit import subroutine

# What every family binds.  Of the stages of an operation ENDING and EVICTING stand behind all those in which a call is at work.
state = None  # module: FILE_WORDS, UNNAMED (rows behind those of files), ENDING, EVICTING
recipes = None  # module: OPEN, CLOSE, FSYNC, STAT, MAP, OTHER
write = read = fallocate = None  # (s, arena, out, op, row) -> whether it is done
truncate = None  # (s, arena, out, row, new_size) -> whether it is done
create = unlink = link = None  # (s, arena, out, op, row, parent)
rename = None  # (s, arena, out, row, parent, replaced), the row of the file that loses its name, or 0
read_directory = None  # (s, arena, out, row)
evict = None  # (s, arena, out, row) -> whether it is done: free a file that nothing names

# By default nothing: a family binds what it does.


@subroutine
def set_file(s, row):
    """Registers of the file."""


@subroutine
def synchronize(s, out):
    """The end of a write to a file that was opened with O_SYNC."""
    emit_recipe(s, out, recipes.FSYNC)


@subroutine
def look(s, arena, out, row):
    """The path of a file is looked up."""


@subroutine
def opened(s, arena, out, row):
    """A file got its first descriptor."""


@subroutine
def closed(s, arena, out, row):
    """A file lost its last descriptor."""


@subroutine
def ended(s, arena, op, row):
    """The call is done but for the freeing of a file."""


@subroutine
def kept(s, arena, out, op, row):
    """The call left no file without a name."""


@subroutine
def begin_eviction(s, arena, out, row):
    """What precedes the freeing of a file; False: no room for it."""
    return True


@subroutine
def parent_of(s, op):
    """Row of the directory that an operation names; of one that the trace does not name where it names none."""
    known = s.file_count - state.UNNAMED
    if op.op != r.RENAME and 0 <= op.file2 < known:
        return s.files + op.file2 * state.FILE_WORDS
    return s.files + known * state.FILE_WORDS


@subroutine
def allocates(op):
    """Whether an operation gives space to a file."""
    return (op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)) and op.length > 0


@subroutine
def adopts(arena, op, row):
    """Whether an operation is the first on a file that is taken to have existed before: any but the making of a new one."""
    if arena[row + file_row.STATUS] & file_row.EXISTS:
        return False
    return not (arena[row + file_row.FIRST] == 0 and (op.op == r.CREATE or op.op == r.MKDIR))


@subroutine
def due(s, arena, row):
    """Whether a file has neither a name nor, as far as the trace shows closes at all, an open descriptor."""
    alive = arena[row + file_row.STATUS] & file_row.EXISTS and arena[row + file_row.LINKS] <= 0
    return alive and (s.closes == 0 or arena[row + file_row.OPENS] <= 0)


@subroutine
def changes_names(arena, op, row):
    """Whether an operation changes a directory: the creation of a file that exists opens it."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        return not arena[row + file_row.STATUS] & file_row.EXISTS
    return r.UNLINK <= op.op <= r.RMDIR


@subroutine
def change_names(s, arena, out, op, row, parent):
    """create, mkdir, unlink, rmdir, rename, link."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        create(s, arena, out, op, row, parent)
    elif op.op == r.RENAME:
        replaced = s.files + op.file2 * state.FILE_WORDS if op.file2 >= 0 and op.file2 != op.file else 0
        if replaced != 0 and not arena[replaced + file_row.STATUS] & file_row.EXISTS:
            arena[replaced + file_row.FIRST] = 0  # from before the trace, and never looked at: it does not come back
            replaced = 0
        rename(s, arena, out, row, parent, replaced)
    elif op.op == r.LINK:
        link(s, arena, out, op, row, parent)
    else:
        unlink(s, arena, out, op, row, parent)


@subroutine
def plain_call(s, arena, out, op, row):
    """A call that changes nothing on the device."""
    code = op.op
    if code == r.FSYNC or code == r.MSYNC:
        emit_recipe(s, out, recipes.FSYNC)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        look(s, arena, out, row)
        if code != r.MKDIR:
            if arena[row + file_row.OPENS] == 0:
                opened(s, arena, out, row)
            arena[row + file_row.OPENS] += 1
        emit_recipe(s, out, recipes.OPEN)
    elif code == r.CLOSE:
        emit_recipe(s, out, recipes.CLOSE)
        s.closes += 1
        if arena[row + file_row.OPENS] == 1:
            closed(s, arena, out, row)
        arena[row + file_row.OPENS] = max(arena[row + file_row.OPENS] - 1, 0)
    elif code == r.STAT:
        look(s, arena, out, row)
        emit_recipe(s, out, recipes.STAT)
    elif code == r.READDIR:
        read_directory(s, arena, out, row)
    elif code == r.MMAP or code == r.MUNMAP:
        emit_recipe(s, out, recipes.MAP)
        charge_map(s, out, code)
    else:
        emit_recipe(s, out, recipes.OTHER)


@subroutine
def step(s, arena, out, op, row, parent):
    """Run or resume a call; False: no room to finish it."""
    code = op.op
    if code == r.WRITE and op.length > 0:
        if not write(s, arena, out, op, row) or not has_events(s, out, 4):
            return False
        if op.flag & r.SYNCHRONOUS:
            synchronize(s, out)
        return True
    if code == r.READ:
        return read(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return truncate(s, arena, out, row, op.offset)
    if allocates(op):
        return fallocate(s, arena, out, op, row)
    if changes_names(arena, op, row):
        change_names(s, arena, out, op, row, parent)
    else:
        plain_call(s, arena, out, op, row)
    return True


@subroutine
def any_step(s, arena, out, op, row, parent):
    """As `step`: for families with calls of their own."""
    return step(s, arena, out, op, row, parent)


@subroutine
def finish(s, arena, out, op, row):
    """Free what an unlink, rmdir, close or rename left without a name; False: no room to go on."""
    gone = row
    if op.op == r.RENAME:
        if op.file2 < 0:
            return True
        gone = s.files + op.file2 * state.FILE_WORDS
    elif op.op != r.UNLINK and op.op != r.RMDIR and op.op != r.CLOSE:
        return True
    if s.stage != state.EVICTING:
        if not due(s, arena, gone):
            kept(s, arena, out, op, row)
            return True
        if not begin_eviction(s, arena, out, gone):
            return False
        s.stage, s.resume_at = state.EVICTING, 0
    return evict(s, arena, out, gone)


@subroutine
def run(s, arena, out, op, row, parent):
    """Run or resume an operation that may begin; returns its outcome."""
    if s.stage < state.ENDING:
        set_file(s, row)
        if not any_step(s, arena, out, op, row, parent):
            return NO_ROOM
        ended(s, arena, op, row)
        s.stage = state.ENDING
    return DONE if finish(s, arena, out, op, row) else NO_ROOM
