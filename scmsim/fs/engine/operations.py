"""The loop over operations.  A family binds its own subroutines to it (see `scmsim.jit.binding`): at least `perform`.

A model emits the events of one operation after the other until one does not fit into the buffer or its tables; it says what room it
needs, and the next call resumes with that operation.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import count_enospc
from scmsim.jit import kernel, subroutine

DONE, NO_ROOM, FULL = 1, 0, -1  # outcomes of an operation: FULL is ENOSPC


@subroutine
def mount(s, out):
    """Before the first operation of a call."""


@subroutine
def prepare(s, arena, out, op):
    """What is due before an operation, such as deferred work; False: the call ends here."""
    return True


@subroutine
def concerns(s, op):
    """Whether an operation enters the file system, by a file."""
    return op.file >= 0 and op.op <= r.CLOSE and op.op != r.ULOAD and op.op != r.USTORE


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; returns its outcome."""
    return DONE


@subroutine
def end(s, out):
    """After an operation, whether it failed or not."""


@subroutine
def leave(s, out):
    """After the last operation of a call."""


@subroutine
def loop(s, arena, ops, i, out):
    """Operations from `ops[i]` on while they fit; returns the index of the first one not done."""
    while i < ops.size and s.need_collect == 0:
        op = ops[i]
        s.op = i
        if not prepare(s, arena, out, op):
            break
        if concerns(s, op):
            outcome = perform(s, arena, out, op)
            if outcome == NO_ROOM:
                break
            if outcome == FULL:
                count_enospc(s, op)
        end(s, out)
        s.seen += 1
        i += 1
    return i


@kernel
def emit(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events while they fit; returns the index of the first one not done."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    if i < ops.size:
        s.op = i
        mount(s, out)
    i = loop(s, arena, ops, i, out)
    leave(s, out)
    return i
