"""Run the operations of tmpfs and ramfs: those of Linux's file systems, with DRAM pages as blocks and without metadata."""

from scmsim.fs.linux import driver, index, pages, transfer
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.tmpfs import huge
from scmsim.fs.tmpfs.state import IS_HUGE
from scmsim.jit import subroutine
from scmsim.jit.binding import bind


@subroutine
def use_pages(s, arena, f, page, count):
    """Record a use of existing pages; `s.new_pages` counts the second uses, one per huge page (mark_page_accessed)."""
    words = arena[f + e.PAGES]
    for k in range(page, page + count):
        at = words + (k & -huge.PAGES if arena[words + k] & IS_HUGE else k)
        if arena[at] & e.IS_UNWRITTEN:  # a read finds a hole there
            continue
        s.new_pages += huge.use(arena, at)


@subroutine
def count_slice(s, arena, out, pages, grown):
    """Set the registers for the pages that a slice of a write used, and for its second uses."""
    s.reg[q.PAGES], s.reg[q.NEW] = pages, s.new_pages


_TRANSFER = {
    "use_pages": use_pages, "has_blocks": huge.has_blocks, "add_zeroed": huge.add_pages, "fill_new": huge.clear_edges,
    "count_slice": count_slice,
}  # fmt: skip
_HOOKS = {
    index: {"whole": huge.whole}, transfer: _TRANSFER,
    pages: {
        "split_parts": huge.split_parts, "reserve_range": huge.reserve_range, "fill_holes": huge.fill_holes,
        "AT_SAME_SIZE": False, "ENDS_AT_SIZE": False, "DOES_A_PART": False, "SEPARATE": 0,
    },
}  # fmt: skip
emit = driver.emitter(bind("tmpfs", driver, _HOOKS))
