"""Run operations one by one; `manager`, `fat` and `ext2` bind their own subroutines.

An operation begins only if the device has enough free units for it. A long one stops between two runs when the event
buffer is full, and resumes in the next call at the state's `stage` and `resume_at`.
"""

from scmsim.core import records
from scmsim.fs.engine import calls, file_row, operations
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.calls import adopts
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.scm_manager import data as data
from scmsim.fs.scm_manager import index, state, templates, units
from scmsim.fs.scm_manager import names as names
from scmsim.fs.scm_manager.cache import STEP, expire, synchronize
from scmsim.jit import subroutine

NAME_EVENTS = 4 * STEP  # maximum number of events of a namespace operation
MOST_UNITS = 1 << 33  # maximum number of units of a file, so that its tables fit the largest arena
TOO_FAR = 1 << 40  # arena words: more than allowed, so that the request to grow ends the replay with an error


@subroutine
def of_directory(arena, op, row):
    """Return whether the operation reads, writes, truncates or allocates data of a directory (EISDIR or EBADF)."""
    code = op.op
    return arena[row + file_row.STATUS] & file_row.IS_DIR and (
        records.READ <= code <= records.WRITE or records.TRUNCATE <= code <= records.FALLOCATE
    )


@subroutine
def reach(s, arena, op, row):
    """Return (first unit that may be allocated, end of the file afterwards), in units; the end is 0 if nothing is allocated."""
    if of_directory(arena, op, row):
        return 0, 0
    size = arena[row + file_row.SIZE]
    if op.op == records.TRUNCATE and op.new_size > size and not data.HOLES:
        first, end = size, op.new_size
    elif calls.allocates(op):
        first, end = op.offset, op.offset + op.length
    else:
        return 0, 0
    return first >> s.shift, (end + (1 << s.shift) - 1) >> s.shift


@subroutine
def missing(arena, row, first, stop):
    """Return how many units must be allocated for the file to reach from `first` to `stop`."""
    return max(stop - arena[row + state.UNIT_COUNT], 0)


@subroutine
def own_units(op):
    """Return how many units an operation that only a variant has may allocate; 0 by default."""
    return 0


@subroutine
def own_begin(s, arena, op, row):
    """Reserve table space for an operation that only a variant has; return its outcome.  By default, do nothing."""
    return DONE


@subroutine
def needed(s, arena, op, row):
    """Return the maximum number of units that an operation allocates for names and a file from before the trace."""
    code, exists = op.op, arena[row + file_row.STATUS] & file_row.EXISTS
    count = 0
    if adopts(arena, op, row):
        count += names.NAME_UNITS
        if not arena[row + file_row.STATUS] & file_row.IS_DIR:
            length = max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
            count += missing(arena, row, 0, (length + (1 << s.shift) - 1) >> s.shift)
    if (code == records.CREATE or code == records.MKDIR) and not exists or records.RENAME <= code <= records.LINK:
        count += names.NAME_UNITS
    return count + own_units(op)


@subroutine
def admit(s, arena, op, row):
    """Check that the device has the units for a new operation; return DONE if so, else FULL or NO_ROOM."""
    first, stop = reach(s, arena, op, row)
    if stop > 0 and op.op != records.TRUNCATE and op.length > s.capacity:
        return FULL
    if stop > MOST_UNITS:
        s.need_words = TOO_FAR
        return NO_ROOM
    count = needed(s, arena, op, row)
    if stop > 0:
        count += missing(arena, row, first, stop)
    if count > 0 and count > units.available(s):
        return FULL
    outcome = own_begin(s, arena, op, row)
    if outcome != DONE:
        return outcome
    return DONE if units.ready(s, arena, count + 4) else NO_ROOM


@subroutine
def reserve_first_piece(s, arena, out, op, row, parent):
    """Return whether `out` and the arena have room for the operation's first part; grow the tables that it changes."""
    _, stop = reach(s, arena, op, row)
    stop = max(stop, s.first_objects, 1)
    words = index.words_for(arena, row, stop) + names.words_for_name(s, arena, parent)
    if arena[row + state.PARENT] != 0:
        words += names.words_for_name(s, arena, arena[row + state.PARENT])
    if not has_room(s, arena, words) or not reserve_events(s, out, NAME_EVENTS if op.op != records.WRITE else STEP):
        return False
    if op.op != records.READ:
        index.reserve(s, arena, row, stop)
    return True


@subroutine
def any_step(s, arena, out, op, row, parent):
    """Run or resume a call; return False if `out` or the arena must grow before it can finish."""
    if of_directory(arena, op, row):
        emit_template(s, out, templates.OTHER)
        return True
    return calls.step(s, arena, out, op, row, parent)


@subroutine
def synchronize_write(s, out):
    """Do nothing: `perform` stores the data of an O_SYNC write as an fsync does, without the cost of that call."""


@subroutine
def list_names(s, arena, out, row):
    """Model readdir: load all entries of a directory."""
    names.scan(s, arena, out, row, arena[row + state.TOP])
    s.reg[templates.COUNT] = arena[row + state.NAMES]
    emit_template(s, out, templates.LISTED)


@subroutine
def after_call(s, arena, op, row):
    """Record the file's directory, which an fsync also writes back, even if the file is gone by then."""
    s.directory = arena[row + state.PARENT]


@subroutine
def ordered(s, op):
    """Return whether the operation ends with a write-back of its changes."""
    if op.op == records.FSYNC or op.op == records.MSYNC or (op.op == records.WRITE and op.flag & records.SYNCHRONOUS):
        return True
    changes = op.op == records.CREATE or op.op == records.WRITE or records.TRUNCATE <= op.op <= records.RMDIR
    return s.synchronous and changes


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation and return its outcome."""
    row, parent = s.files + op.file * state.FILE_WORDS, calls.parent_of(s, op)
    parent = names.as_directory(s, arena, parent)
    if s.stage == state.NEW:
        fits = admit(s, arena, op, row)
        if fits != DONE:
            return fits
        if adopts(arena, op, row):
            if not reserve_events(s, out, NAME_EVENTS) or not names.adopt(s, arena, out, row, parent):
                return NO_ROOM
        if not reserve_first_piece(s, arena, out, op, row, parent):
            return NO_ROOM
        s.stage = state.READY
    if s.stage != state.FLUSHING:
        if calls.run(s, arena, out, op, row, parent) == NO_ROOM or not units.ready(s, arena, 1):
            return NO_ROOM
        s.stage, s.flushed = state.FLUSHING, 0
    if ordered(s, op) and not synchronize(s, arena, out, row):
        return NO_ROOM
    return DONE


@subroutine
def check_prefix(s, arena, op, last):
    """Return DONE if a write up to the end of page `last` gets its units, else FULL: Linux's loop writes what fits."""
    row = s.files + op.file * state.FILE_WORDS
    count = needed(s, arena, op, row) + missing(arena, row, op.offset >> s.shift, (last + 1) << 12 >> s.shift)
    return DONE if count <= units.available(s) else FULL


@subroutine
def prepare(s, arena, out, op):
    """Write back units dirty for longer than EXPIRE, or all at a sync; return False if `out` must grow first."""
    s.now = op.time_ns
    return s.stage != state.NEW or s.head == 0 or expire(s, arena, out, op.time_ns, op.op == records.SYNC)


@subroutine
def end(s, out):
    """Reset the stage for the next operation."""
    s.stage = state.NEW


HOOKS = {
    operations: {"prepare": prepare, "perform": perform, "end": end},
    calls: {
        "state": state,
        "templates": templates,
        "any_step": any_step,
        "synchronize": synchronize_write,
        "write": data.write_file,
        "read": data.read_file,
        "fallocate": data.fallocate,
        "truncate": data.truncate,
        "create": names.create,
        "unlink": names.unlink,
        "link": names.link,
        "rename": names.rename,
        "read_directory": list_names,
        "after_call": after_call,
        "evict": names.evict,
    },
}
