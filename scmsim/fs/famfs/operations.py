"""Run famfs's operations one by one.

The first call that gives a file a length (fallocate, truncate or write) represents `famfs creat` or `famfs cp`: it
preallocates the file and logs it.  From then on famfs only copies data: a write ends at the file's end, a truncate or
fallocate does nothing, and an unlinked file keeps its memory.  With growth = logged, the model executes each of these
calls and stores the file's log entry again.
Source: famfs README.md (missing file system operations), fs/famfs/famfs_file.c (famfs_rw_prep), src/famfs_lib.c.
"""

from scmsim.core import records as r
from scmsim.fs.engine import calls, file_row, operations, table
from scmsim.fs.engine.events import emit_template, note_refused, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.famfs import data, state, templates
from scmsim.fs.famfs.units import allocate, release_from, units_of
from scmsim.fs.linux import cached_names, memory_operations
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine
from scmsim.jit.binding import bind

EVENTS = 64  # maximum number of events of a call, without its copies


@subroutine
def adopt(s, arena, row):
    """Create a file or directory from before the trace, without events; return the outcome."""
    is_dir = arena[row + file_row.STATUS] & file_row.IS_DIR
    length = 0 if is_dir else max(arena[row + file_row.INITIAL_SIZE] - 1, 0)
    if length or is_dir:
        if s.live_entries >= s.log_entries:
            return FULL
        outcome = allocate(s, arena, row, length) if length else DONE
        if outcome != DONE:
            return outcome
        arena[row + state.ENTRY] = s.logged % s.log_entries + 1
        s.logged, s.live_entries = s.logged + 1, s.live_entries + 1
    arena[row + file_row.STATUS] |= file_row.EXISTS
    arena[row + file_row.LINKS], arena[row + file_row.SIZE], arena[row + file_row.INITIAL_SIZE] = 1, length, 0
    return DONE


@subroutine
def length_for(arena, op, row):
    """Return the file length in bytes that a truncate or allocating call needs; -1 for other calls."""
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        return -1
    if op.op == r.TRUNCATE:
        return op.new_size
    return op.offset + op.length if calls.allocates(op) else -1


@subroutine
def refuse(s, arena, op, row):
    """Refuse a call that famfs does not support on a preallocated file; return NO_ROOM if the driver must shorten a write.

    famfs_rw_prep cuts a write at the file's length, so that a write after it returns 0.
    """
    left = max(arena[row + file_row.SIZE] - op.offset, 0)
    if op.op == r.TRUNCATE or op.op == r.FALLOCATE:
        s.unsupported += 1
        note_refused(s)
    elif left < op.length:
        s.beyond += 1
        if not op.flag & r.SETUP:
            s.failed_bytes += op.length - left
        if left:
            s.cut_to = left
            return NO_ROOM
        note_refused(s)
    return DONE


@subroutine
def admit(s, arena, out, op, row):
    """Prepare a new operation: adopt its file and allocate the units that it requests; return its outcome."""
    if calls.adopts(arena, op, row):
        outcome = adopt(s, arena, row)
        if outcome != DONE:
            return outcome
    s.sized, s.cut_to = 0, 0
    if op.op == r.MKDIR and calls.changes_names(arena, op, row):
        return DONE if s.live_entries < s.log_entries else FULL
    length = length_for(arena, op, row)
    if length < 0 or (length == 0 and arena[row + file_row.MAPPED] == 0):
        return DONE
    if arena[row + file_row.MAPPED] and not s.grows:
        return refuse(s, arena, op, row)
    if arena[row + state.ENTRY] == 0 and s.live_entries >= s.log_entries:
        return FULL
    if units_of(length) > arena[row + file_row.MAPPED]:
        outcome = allocate(s, arena, row, length)
        if outcome != DONE:
            return outcome
        s.sized = 1
    if length > arena[row + file_row.SIZE] or op.op == r.TRUNCATE:
        s.sized = 1
    return DONE


@subroutine
def is_refused(s, arena, op, row):
    """Return whether famfs refuses a call, which then has no effect."""
    if s.grows or s.sized or length_for(arena, op, row) < 0 or arena[row + file_row.MAPPED] == 0:
        return False
    return op.op != r.WRITE or op.offset >= arena[row + file_row.SIZE]


@subroutine
def create(s, arena, out, op, row, parent):
    """Run create and mkdir: a new file is only a name without a map; a new directory also gets a log entry."""
    cached_names.make(s, arena, out, op, row)
    if op.op == r.MKDIR:
        data.append(s, arena, out, row)


@subroutine
def change_length(s, arena, out, row, length):
    """Set a file's length, bytes, and publish it; with growth = logged, free the units after the end."""
    if s.grows and length < arena[row + file_row.SIZE]:
        release_from(s, arena, row, units_of(length))
    arena[row + file_row.SIZE] = length
    data.publish(s, arena, out, row)


@subroutine
def truncate(s, arena, out, row, new_size):
    """Run a truncate, which sets the length of a new file or, with growth = logged, of any file; return True (done)."""
    emit_template(s, out, templates.OTHER)
    if s.sized:
        change_length(s, arena, out, row, new_size)
    return True


@subroutine
def fallocate(s, arena, out, op, row):
    """Run an fallocate, which sets a new file's length or, with growth = logged, adds units; return True (done)."""
    emit_template(s, out, templates.OTHER)
    if s.sized:
        keeps = op.flag & r.KEEP_SIZE and s.grows
        end = arena[row + file_row.SIZE] if keeps else op.offset + op.length
        change_length(s, arena, out, row, max(arena[row + file_row.SIZE], end))
    return True


@subroutine
def evict(s, arena, out, row):
    """Forget a file without a name; with growth = logged, free its units and its log entry."""
    if not reserve_events(s, out, EVENTS):
        return False
    memory_operations.set_file(s, row)
    emit_template(s, out, q.REMOVE)
    if arena[row + state.ENTRY] and s.grows:
        data.append(s, arena, out, row)  # FAMFS_LOG_DELETE, which famfs defines and never writes
        s.live_entries -= 1
        release_from(s, arena, row, 0)
    elif arena[row + state.ENTRY]:
        s.lost_units += arena[row + file_row.MAPPED]
        s.unlinked += 1
    table.drop(s, arena, row + state.UNITS)
    for word in (file_row.SIZE, file_row.OPENS, file_row.MAPPED, state.EXTENTS, state.CHUNK, state.ENTRY):
        arena[row + word] = 0
    arena[row + file_row.STATUS] &= ~(file_row.EXISTS | state.HAS_MAP)
    return True


HOOKS = {
    operations: memory_operations.HOOKS,
    memory_operations: {"state": state, "EVENTS": EVENTS, "admit": admit, "is_refused": is_refused},
    calls: {
        "state": state,
        "templates": templates,
        **memory_operations.CALLS,
        "write": data.write,
        "read": data.read,
        "fallocate": fallocate,
        "truncate": truncate,
        "create": create,
        "unlink": cached_names.unlink,
        "link": cached_names.link,
        "rename": cached_names.rename,
        "read_directory": cached_names.read_directory,
        "evict": evict,
        "on_first_open": data.ask_map,
    },
}
emit = bind("famfs", operations, HOOKS).emit
