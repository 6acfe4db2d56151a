"""Pages of a call, and which of them are mapped."""

from scmsim.core import records as r
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.length import file_of
from scmsim.fs.mapping.touch import mapping_of
from scmsim.jit import kernel, subroutine


@subroutine
def pages_of(op):
    """Return the pages [first, last) of an operation's bytes."""
    return op.offset >> 12, (op.offset + op.length + w.PAGE - 1) >> 12


@subroutine
def next_mapped(arena, file, page, high):
    """Return the first page after `page` at which a mapping of the file starts, at most `high`."""
    mapping = arena[file + w.HEAD]
    while mapping:
        if page < arena[mapping + w.FIRST_PAGE] < high:
            high = arena[mapping + w.FIRST_PAGE]
        mapping = arena[mapping + w.NEXT]
    return high


@kernel
def is_synced(state, arena, ops, i):
    """Return whether an msync reaches a shared mapping; if not, the file system does nothing (mm/msync.c).

    Returns True before the first touch of a mapping.
    """
    s, op = state[0], ops[i]
    page, high = pages_of(op)
    if s.map_cost:
        return True
    while page < high:
        mapping, stop = mapping_of(s, arena, op, page), next_mapped(arena, file_of(s, arena, op), page, high)
        if mapping and not arena[mapping + w.FLAGS] & r.PRIVATE:
            return True
        page = min(stop, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]) if mapping else stop
    return False
