"""What a family tells of the pages of a file, for who asks without touching them."""

from scmsim.fs.mapping import hooks
from scmsim.fs.mapping.common import ever_large
from scmsim.jit import kernel


@kernel
def size(state, arena, file):
    """Bytes of a file of the trace, -1 if there is none now."""
    s = state[0]
    f = hooks.find(s, arena, file)
    return hooks.length(s, arena, f) if f else -1


@kernel
def places(state, arena, file, out):
    """out[k] = where page k of a file lies, as `hooks.place`."""
    s = state[0]
    f = hooks.find(s, arena, file)
    for page in range(out.size):
        out[page] = hooks.place(s, arena, f, page)


@kernel
def folios(state, arena, file, out):
    """out[k] = pages of the folio that page k of a file lies in."""
    s = state[0]
    f = hooks.find(s, arena, file)
    page = 0
    while page < out.size:
        first, count = hooks.folio(s, arena, f, page)
        out[page : first + count] = count
        page = first + count


@kernel
def rules(state, arena):
    """(Whether it is DAX, whether a fault may map 2 MiB at once and gives a hole as many, pages that a fault for a load maps,
    whether pages are in memory alone)."""
    return (
        hooks.DAX,
        ever_large(arena, state[0].maps),
        hooks.WHOLE_BLOCKS,
        hooks.AROUND,
        not hooks.DAX and not hooks.KEEPS_CLEAN,
    )
