"""Dispatch of an operation to its call, from the first step to the freeing of a file that lost its last name.

A family binds its modules, its subroutines and its additions to this module (see `scmsim.jit.binding`).  A subroutine returns False
if the buffer or the arena must grow: the next call of the kernel resumes the operation with that subroutine.
"""

from scmsim.core import records as r
from scmsim.fs.engine import file_row
from scmsim.fs.engine.events import charge_map, emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.jit import hook, subroutine

# Every family binds the names below.  The stages ENDING and EVICTING have larger numbers than all stages in which a call runs.
state = None  # module: FILE_WORDS, UNNAMED (number of extra rows after the files' rows), ENDING, EVICTING
templates = None  # module: OPEN, CLOSE, FSYNC, STAT, MAP, OTHER


@hook
def write(s, arena, out, op, row):
    """Run or resume a write; return whether it is done."""


@hook
def read(s, arena, out, op, row):
    """Run or resume a read; return whether it is done."""


@hook
def fallocate(s, arena, out, op, row):
    """Run or resume fallocate in any of its modes; return whether it is done."""


@hook
def truncate(s, arena, out, row, new_size):
    """Run or resume a truncation to `new_size` bytes; return whether it is done."""


@hook
def create(s, arena, out, op, row, parent):
    """Create the file or directory `row` in the directory `parent`."""


@hook
def unlink(s, arena, out, op, row, parent):
    """Remove a name of `row` from the directory `parent`."""


@hook
def link(s, arena, out, op, row, parent):
    """Add a name of `row` to the directory `parent`."""


@hook
def rename(s, arena, out, row, parent, replaced):
    """Move the name of `row` to the directory `parent`; `replaced` is the row of the file that loses its name, or 0."""


@hook
def read_directory(s, arena, out, row):
    """Read the entries of the directory `row`."""


@hook
def evict(s, arena, out, row):
    """Free a file that has no name, or resume freeing it; return whether the file is completely freed."""


# The hooks below do nothing by default; a family binds those that it needs.


@subroutine
def set_file(s, row):
    """Set the template registers that describe the file."""


@subroutine
def synchronize(s, out):
    """Finish a write to a file that was opened with O_SYNC."""
    emit_template(s, out, templates.FSYNC)


@subroutine
def on_lookup(s, arena, out, row):
    """Emit the lookup of a file's path."""


@subroutine
def on_first_open(s, arena, out, row):
    """Handle the opening of a file's first descriptor."""


@subroutine
def on_last_close(s, arena, out, row):
    """Handle the closing of a file's last descriptor."""


@subroutine
def after_call(s, arena, op, row):
    """Handle the end of a call, before a file without a name is freed."""


@subroutine
def on_still_linked(s, arena, out, op, row):
    """Handle an unlink, rename or close after which the file still has a name or an open descriptor."""


@subroutine
def begin_eviction(s, arena, out, row):
    """Emit the events that precede the freeing of a file; return False if `out` or the arena must grow first."""
    return True


@subroutine
def parent_of(s, op):
    """Return the row of the directory that an operation names, or the row of unnamed directories if it names none.

    A directory is never in itself, even if a trace names it as its own parent.
    """
    known = s.file_count - state.UNNAMED
    if op.op != r.RENAME and 0 <= op.parent < known and op.parent != op.file:
        return s.files + op.parent * state.FILE_WORDS
    return s.files + known * state.FILE_WORDS


@subroutine
def allocates(op):
    """Return whether an operation allocates space to a file."""
    return (op.op == r.WRITE or (op.op == r.FALLOCATE and not op.flag & r.PUNCH_HOLE)) and op.length > 0


@subroutine
def adopts(arena, op, row):
    """Return whether an operation is the first on a file that existed before the trace: any but the creation of a new file."""
    if arena[row + file_row.STATUS] & file_row.EXISTS:
        return False
    return not (arena[row + file_row.INITIAL_SIZE] == 0 and (op.op == r.CREATE or op.op == r.MKDIR))


@subroutine
def is_evictable(s, arena, row):
    """Return whether a file must be freed: it has no name, and no open descriptor if the trace records closes at all."""
    alive = arena[row + file_row.STATUS] & file_row.EXISTS and arena[row + file_row.LINKS] <= 0
    return alive and (s.closes == 0 or arena[row + file_row.OPENS] <= 0)


@subroutine
def changes_names(arena, op, row):
    """Return whether an operation changes a directory; the creation of a file that already exists only opens the file."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        return not arena[row + file_row.STATUS] & file_row.EXISTS
    return r.UNLINK <= op.op <= r.RMDIR


@subroutine
def change_names(s, arena, out, op, row, parent):
    """Run create, mkdir, unlink, rmdir, rename or link."""
    if op.op == r.CREATE or op.op == r.MKDIR:
        create(s, arena, out, op, row, parent)
    elif op.op == r.RENAME:
        replaced = s.files + op.replaced * state.FILE_WORDS if op.replaced >= 0 and op.replaced != op.file else 0
        if replaced != 0 and not arena[replaced + file_row.STATUS] & file_row.EXISTS:
            arena[replaced + file_row.INITIAL_SIZE] = 0  # an untouched older file must not be adopted later
            replaced = 0
        rename(s, arena, out, row, parent, replaced)
    elif op.op == r.LINK:
        link(s, arena, out, op, row, parent)
    else:
        unlink(s, arena, out, op, row, parent)


@subroutine
def plain_call(s, arena, out, op, row):
    """Run a call that changes nothing on the device."""
    code = op.op
    if code == r.FSYNC or code == r.MSYNC:
        emit_template(s, out, templates.FSYNC)
    elif code == r.OPEN or code == r.CREATE or code == r.MKDIR:
        on_lookup(s, arena, out, row)
        if code != r.MKDIR:
            if arena[row + file_row.OPENS] == 0:
                on_first_open(s, arena, out, row)
            arena[row + file_row.OPENS] += 1
        emit_template(s, out, templates.OPEN)
    elif code == r.CLOSE:
        emit_template(s, out, templates.CLOSE)
        s.closes += 1
        if arena[row + file_row.OPENS] == 1:
            on_last_close(s, arena, out, row)
        arena[row + file_row.OPENS] = max(arena[row + file_row.OPENS] - 1, 0)
    elif code == r.STAT:
        on_lookup(s, arena, out, row)
        emit_template(s, out, templates.STAT)
    elif code == r.READDIR:
        read_directory(s, arena, out, row)
    elif code == r.MMAP or code == r.MUNMAP:
        emit_template(s, out, templates.MAP)
        charge_map(s, out, code)
    else:
        emit_template(s, out, templates.OTHER)


@subroutine
def step(s, arena, out, op, row, parent):
    """Run or resume a call; return False if `out` or the arena must grow before it can finish."""
    code = op.op
    if code == r.WRITE and op.length > 0:
        if not write(s, arena, out, op, row) or not reserve_events(s, out, 4):
            return False
        if op.flag & r.SYNCHRONOUS:
            synchronize(s, out)
        return True
    if code == r.READ:
        return read(s, arena, out, op, row)
    if code == r.TRUNCATE:
        return truncate(s, arena, out, row, op.new_size)
    if allocates(op):
        return fallocate(s, arena, out, op, row)
    if changes_names(arena, op, row):
        change_names(s, arena, out, op, row, parent)
    else:
        plain_call(s, arena, out, op, row)
    return True


@subroutine
def any_step(s, arena, out, op, row, parent):
    """Run `step`; a hook for families that have additional calls."""
    return step(s, arena, out, op, row, parent)


@subroutine
def finish(s, arena, out, op, row):
    """Free a file that unlink, rmdir, close or rename left without a name; return False if `out` or the arena must grow."""
    gone = row
    if op.op == r.RENAME:
        if op.replaced < 0:
            return True
        gone = s.files + op.replaced * state.FILE_WORDS
    elif op.op != r.UNLINK and op.op != r.RMDIR and op.op != r.CLOSE:
        return True
    # once the stage is EVICTING, a resumed call goes on with the eviction
    if s.stage != state.EVICTING:
        if not is_evictable(s, arena, gone):
            on_still_linked(s, arena, out, op, row)
            return True
        if not begin_eviction(s, arena, out, gone):
            return False
        s.stage, s.resume_at = state.EVICTING, 0
    return evict(s, arena, out, gone)


@subroutine
def run(s, arena, out, op, row, parent):
    """Run or resume an operation whose prerequisites are met; return its outcome."""
    if s.stage < state.ENDING:
        set_file(s, row)
        if not any_step(s, arena, out, op, row, parent):
            return NO_ROOM
        after_call(s, arena, op, row)
        s.stage = state.ENDING
    return DONE if finish(s, arena, out, op, row) else NO_ROOM
