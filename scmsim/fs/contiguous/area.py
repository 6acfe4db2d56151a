"""A file's range of virtual addresses: its size is a power of two, and a file that outgrows it moves to a larger range.

Source: SCMFS superpage paper (2013), III to IV; the sizes of ranges are an assumption.
"""

from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state, templates
from scmsim.fs.engine import ranges
from scmsim.fs.engine.events import emit_template
from scmsim.jit import subroutine

LARGEST = ranges.LARGEST  # log2 of the bytes of a range


@subroutine
def range_order(stop):
    """Return log2 of the bytes of the range for `stop` pages."""
    return ranges.order_for(stop * templates.BLOCK)


@subroutine
def place(s, out, is_first):
    """Do nothing; a hook, called when a file gets new addresses (`is_first`: it had no pages at other addresses)."""


@subroutine
def set_moved(s, arena, out, row, old, held):
    """Set the registers of the page-directory entries that change when a file leaves its range of 2**`held` bytes at `old`."""
    s.reg[templates.DIRECTORY_BYTES] = min(
        ((arena[row + state.PAGE_COUNT] + page_map.PIECE - 1) // page_map.PIECE) << 3, templates.TOP_BYTES
    )


@subroutine
def has_range(s, arena, row, stop):
    """Return whether a range for `stop` pages is available."""
    order = range_order(stop)
    if order > LARGEST:
        return False
    if order <= arena[row + state.RANGE_ORDER] or stop > page_map.MOST_PAGES or s.range_free[order] != 0:
        return True
    return s.range_top + (2 << order) <= ranges.AREA


@subroutine
def ensure_range(s, arena, out, row, stop):
    """Give a file a range for `stop` pages; if the old range is too small, move its page-table pages (nvmalloc_expand)."""
    order = range_order(stop)
    held = arena[row + state.RANGE_ORDER]
    if order <= held:
        return
    start = ranges.take_range(s, arena, order)
    old, end = arena[row + state.RANGE], arena[row + state.PAGE_COUNT]
    arena[row + state.RANGE], arena[row + state.RANGE_ORDER] = start, order
    place(s, out, held == 0 or end == 0)
    if held == 0:
        return
    if end > 0:
        s.reg[templates.DIRECTORY] = page_map.directory_at(arena, row, 0)
        set_moved(s, arena, out, row, old, held)
        emit_template(s, out, templates.RANGE_MOVED)
        page_map.table_event(s, out, page_map.REMAPS, 0, page_map.RANGES + old, end, page_map.NORMAL)
        out[s.emitted - 1].addr = page_map.RANGES + start
        s.range_moves += 1
    ranges.give_range(s, arena, old, held)
