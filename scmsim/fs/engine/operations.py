"""The loop over operations; a family binds its own subroutines to it, at least `perform` (see `scmsim.jit.binding`).

The loop runs operations in order until one needs more space than the event buffer or the arena has.  It records how much space is
needed, and the next kernel call resumes that operation.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import MOST_REFUSED, count_enospc, count_short
from scmsim.fs.engine.paths import walk_path
from scmsim.jit import kernel, subroutine

DONE, NO_ROOM, FULL = 1, 0, -1  # outcomes of an operation: NO_ROOM: `out` or the arena must grow; FULL: ENOSPC
MOST_WRITTEN = (1 << 31) - 4096  # bytes of one call (MAX_RW_COUNT of Linux); a longer write is never shortened


@subroutine
def mount(s, out):
    """Run the work due before the first operation of a kernel call."""


@subroutine
def prepare(s, arena, out, op):
    """Run the work due before an operation, such as deferred work; return False to end the kernel call here."""
    return True


@subroutine
def filter_operation(s, op):
    """Return whether `perform` runs an operation: it is a call on a file, and not a program's own load or store."""
    return op.file >= 0 and op.op <= r.CLOSE and op.op != r.ULOAD and op.op != r.USTORE


@subroutine
def perform(s, arena, out, op):
    """Run or resume an operation; return its outcome."""
    return DONE


@subroutine
def block_shift(s):
    """Return log2 of the granularity in bytes at which a write may be shortened."""
    return 12


@subroutine
def check_prefix(s, arena, op, last):
    """Return the outcome that a write would have if it ended with the file's block `last`.

    By default FULL: a write is either done whole or refused.
    """
    return FULL


@subroutine
def longest_fitting_prefix(s, arena, op):
    """Return how many leading bytes of the write fit on the device; -1 if the arena must grow first."""
    shift = block_shift(s)
    low, high = op.offset >> shift, (op.offset + op.length - 1) >> shift
    while low < high:  # bisection: a write that ends before block `low` fits, one that ends with block `high` does not
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
    """Finish an operation that was done or failed; by default do nothing."""


@subroutine
def leave(s, out):
    """Finish a call of `emit`, after its last operation; by default do nothing."""


@subroutine
def loop(s, arena, ops, i, out):
    """Run operations from `ops[i]` on until one must wait for space; return the index of that one, or `ops.size` if none."""
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
    """Emit the events of operations from `ops[i]` on; return the index of the operation with which the next call goes on."""
    s = state[0]
    s.emitted, s.need_events, s.need_words = 0, 0, 0
    if i < ops.size:
        s.op = i
        mount(s, out)
    i = loop(s, arena, ops, i, out)
    leave(s, out)
    return i
