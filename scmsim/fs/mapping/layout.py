"""Queries about a file's pages that do not touch the pages."""

from scmsim.fs.mapping import hooks
from scmsim.fs.mapping.common import ever_large
from scmsim.jit import kernel


@kernel
def size(state, arena, file):
    """Return the length in bytes of a file of the trace, -1 if the file does not exist now."""
    s = state[0]
    f = hooks.find(s, arena, file)
    return hooks.length(s, arena, f) if f else -1


@kernel
def places(state, arena, file, out):
    """Set out[k] to the place of page k of a file, encoded as by `hooks.place`."""
    s = state[0]
    f = hooks.find(s, arena, file)
    for page in range(out.size):
        out[page] = hooks.place(s, arena, f, page)


@kernel
def folios(state, arena, file, out):
    """Set out[k] to the number of pages in the folio of page k of a file."""
    s = state[0]
    f = hooks.find(s, arena, file)
    page = 0
    while page < out.size:
        first, count = hooks.folio(s, arena, f, page)
        out[page : first + count] = count
        page = first + count


@kernel
def rules(state, arena):
    """Return the family's rules of mapping as a tuple.

    The elements are: whether the file system is DAX, whether a fault may map 2 MiB at once, whether a block that a fault requests
    has at least 2 MiB and can be mapped at once, the number of pages that a fault for a load maps, and whether pages exist only
    in memory.
    """
    return (
        hooks.DAX,
        ever_large(arena, state[0].maps),
        hooks.WHOLE_BLOCKS,
        hooks.AROUND,
        not hooks.DAX and not hooks.KEEPS_CLEAN,
    )
