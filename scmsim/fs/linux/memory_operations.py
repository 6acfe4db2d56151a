"""Run the operations of file systems for shared memory (famfs, hugetlbfs, device-dax, DaxFS) one by one.

A family binds its `state`, EVENTS and hooks to this module, HOOKS to the loop over operations (engine/operations.py), and CALLS to
`engine.calls`.
"""

from scmsim.core import records as r
from scmsim.fs.engine import calls
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import templates as q
from scmsim.jit import hook, subroutine

state = None  # module: FILE_WORDS, NEW, READY
EVENTS = 0  # maximum number of events of a call besides its pages


@hook
def admit(s, arena, out, op, row):
    """Prepare a new operation: set up a file from before the trace, check that enough memory is free; return the outcome."""


@hook
def is_refused(s, arena, op, row):
    """Return whether the file system refuses a call."""


@subroutine
def punch(s, arena, out, op, row):
    """Run or resume the punching of a hole; return whether it is done.  By default it costs only the entry into the kernel."""
    emit_template(s, out, q.OTHER)
    return True


@subroutine
def any_step(s, arena, out, op, row, parent):
    """Run or resume a call; a call that is refused enters the kernel and does nothing there."""
    if s.stage == state.READY and is_refused(s, arena, op, row):
        emit_template(s, out, q.WRITE if op.op == r.WRITE else q.OTHER)
        return True
    if op.op == r.FALLOCATE and op.flag & r.PUNCH_HOLE and op.length > 0:
        return punch(s, arena, out, op, row)
    return calls.step(s, arena, out, op, row, parent)


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return its outcome."""
    row = s.files + op.file * state.FILE_WORDS
    if s.stage == state.NEW:
        outcome = admit(s, arena, out, op, row)
        if outcome != DONE:
            return outcome
        s.stage = state.READY
    if s.stage == state.READY and not reserve_events(s, out, EVENTS):
        return NO_ROOM
    return calls.run(s, arena, out, op, row, calls.parent_of(s, op))


@subroutine
def set_file(s, row):
    """Set the register of the file's inode in the kernel."""
    s.reg[q.INODE] = q.INODES + ((row - s.files) // state.FILE_WORDS << 10)


@subroutine
def end(s, out):
    """Make the next operation start from the beginning."""
    s.stage = state.NEW


HOOKS = {"perform": perform, "end": end}
CALLS = {"any_step": any_step, "set_file": set_file}
