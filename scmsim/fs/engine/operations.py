"""The loop over operations, to which a family binds its own subroutines (see `scmsim.jit.binding`): at least `perform`.

A model emits the events of one operation after the other until one does not fit into the buffer or the model's tables; it records
the room that it needs, and the next call resumes with that operation.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import MOST_REFUSED, count_enospc, count_short
from scmsim.fs.engine.paths import walk_path
from scmsim.jit import kernel, subroutine

DONE, NO_ROOM, FULL = 1, 0, -1  # outcomes of an operation: FULL is ENOSPC
MOST_WRITTEN = (1 << 31) - 4096  # bytes of one call (MAX_RW_COUNT of Linux); a longer write is never done in part


@subroutine
def mount(s, out):
    """Run the work due before the first operation of a kernel call."""


@subroutine
def prepare(s, arena, out, op):
    """Run the work due before an operation, such as deferred work; return False to end the kernel call here."""
    return True


@subroutine
def filter_operation(s, op):
    """Return whether an operation enters the file system through a file."""
    return op.file >= 0 and op.op <= r.CLOSE and op.op != r.ULOAD and op.op != r.USTORE


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return its outcome."""
    return DONE


@subroutine
def block_shift(s):
    """Return log2 of the unit in bytes at which a write is cut."""
    return 12


@subroutine
def check_prefix(s, arena, op, last):
    """Return the outcome of a write up to the end of the file's block `last`; by default a write is done whole or refused."""
    return FULL


@subroutine
def longest_fitting_prefix(s, arena, op):
    """Return how many leading bytes of the write fit on the device; -1 if the arena must grow first."""
    shift = block_shift(s)
    low, high = op.offset >> shift, (op.offset + op.length - 1) >> shift
    while low < high:  # bisection: all blocks before `low` fit, `high` does not
        middle = (low + high) >> 1
        outcome = check_prefix(s, arena, op, middle)
        if outcome == NO_ROOM:
            return -1
        low, high = (middle + 1, high) if outcome == DONE else (low, middle)
    return max((low << shift) - op.offset, 0)


@subroutine
def shorten_write(s, arena, op):
    """Handle an operation that does not fit on the device: shorten a write to what fits; others fail with ENOSPC."""
    s.cut_to = 0
    if op.op == r.WRITE and 0 < op.length <= MOST_WRITTEN:
        s.cut_to = longest_fitting_prefix(s, arena, op)
    if s.cut_to == 0:
        count_enospc(s, op)
        return FULL
    if s.cut_to < 0:
        s.cut_to = 0
    else:
        count_short(s, op)
    # the driver grows the arena or shortens the write to `cut_to`, and calls the kernel again
    return NO_ROOM


@subroutine
def end(s, out):
    """Finish an operation, whether it failed or not."""


@subroutine
def leave(s, out):
    """Finish a call of `emit`, after its last operation; by default do nothing."""


@subroutine
def loop(s, arena, ops, i, out):
    """Run operations from `ops[i]` on while they fit; return the index of the first one not done."""
    while i < ops.size and s.need_collect == 0 and s.refused < MOST_REFUSED:
        op = ops[i]
        s.op = i
        if not prepare(s, arena, out, op):
            break
        if filter_operation(s, op):
            if not walk_path(s, arena, out, op):
                break
            outcome = perform(s, arena, out, op)
            if outcome == FULL:
                outcome = shorten_write(s, arena, op)
            if outcome == NO_ROOM:
                break
        end(s, out)
        s.walked = 0
        s.seen += 1
        i += 1
    return i


@kernel
def emit(state, arena, ops, i, out):
    """Turn operations from `ops[i]` on into events while they fit; return the index of the first one not done."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    if i < ops.size:
        s.op = i
        mount(s, out)
    i = loop(s, arena, ops, i, out)
    leave(s, out)
    return i
