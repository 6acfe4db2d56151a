"""Model tmpfs's huge pages: the mount option allows allocating 2 MiB of a file at once; freeing a part splits them.

The first write, fault or fallocate in a 2 MiB piece of a file allocates the whole piece as one huge page if no page of
the piece exists, the option allows it, and an aligned 2 MiB run of frames is free. The written page gets the data, the
rest of the huge page is cleared. If one condition fails, small pages are allocated, as in a piece that was split. A
truncate or punched hole that frees or clears a part of a huge page splits the page: pages after the file's end are
freed, the rest stay as small pages, and their page-table entries are removed.
Source: Linux 6.1 mm/shmem.c (shmem_is_huge, shmem_alloc_hugefolio, shmem_write_end, shmem_fallocate, shmem_undo_range),
mm/truncate.c (truncate_inode_partial_folio), mm/huge_memory.c (split_huge_page_to_list).
"""

from scmsim.alloc import aligned_fit
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import NO_ROOM
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import blocks_left, blocks_needed, holes, page_run
from scmsim.fs.linux.pages import fill_holes as fill_small_holes
from scmsim.fs.linux.pages import free_pages
from scmsim.fs.linux.pages import reserve_range as reserve_small
from scmsim.fs.linux.transfer import add_zeroed
from scmsim.fs.linux.transfer import clear_edges as clear_small_edges
from scmsim.fs.linux.transfer import has_blocks as has_small_blocks
from scmsim.fs.mapping.words import ADVISED, ADVISED_AGAINST
from scmsim.fs.tmpfs.state import ALWAYS_HUGE, HUGE_ORDER, IS_HUGE, IS_UNUSED, IS_USED, NEVER_HUGE, WITHIN_SIZE
from scmsim.jit import subroutine

PAGES = 1 << HUGE_ORDER


@subroutine
def is_huge(arena, f, page):
    """Return whether a page of a file is part of a huge page."""
    return page < arena[f + e.PAGE_COUNT] and arena[arena[f + e.PAGES] + page] & IS_HUGE != 0


@subroutine
def word_of(arena, f, page):
    """Return the arena offset of the entry with a page's use flags: its own, or its huge page's first one."""
    words = arena[f + e.PAGES]
    return words + (page & -PAGES if is_huge(arena, f, page) else page)


@subroutine
def use(arena, at):
    """Record a use of the page with entry `at` (see `word_of`); return whether it is the second use.

    Only the second use moves the page to the active list (mark_page_accessed).
    """
    if arena[at] & IS_UNUSED:
        arena[at] -= IS_UNUSED
        return False
    second = arena[at] & IS_USED == 0
    arena[at] |= IS_USED
    return second


@subroutine
def may_be_huge(s, arena, f, page):
    """Return whether the mount option, and madvise of the faulting mapping, let a page allocate its huge page.

    The check uses the file's size before the call, so with within_size an append allocates no huge page. Before Linux
    5.15 the first page of a piece is checked as if it belonged to the preceding piece.
    """
    if s.huge == NEVER_HUGE or s.advice == ADVISED_AGAINST or arena[f + e.IS_DIR]:
        return False
    if s.huge == ALWAYS_HUGE or s.advice == ADVISED:
        return True
    end = max((page + (not s.by_page) + PAGES - 1) & -PAGES, PAGES)
    return s.huge == WITHIN_SIZE and end <= (arena[f + e.SIZE] + 4095) >> 12


@subroutine
def can_be_huge(s, arena, f, page):
    """Return whether the 2 MiB of a page can be one huge page: none of its pages exists."""
    first = page & -PAGES
    return may_be_huge(s, arena, f, page) and holes(arena, f, first, first + PAGES - 1) == PAGES


@subroutine
def bring(s, arena, f, page, bits):
    """Allocate the 2 MiB of a page as one huge page whose entries get `bits`; return False if that is impossible.

    Only the first page is marked as cached, for the whole huge page.
    """
    first = page & -PAGES
    if not can_be_huge(s, arena, f, page):
        return False
    word = aligned_fit.next_run(s, arena, s.low << 6, PAGES >> 6)
    if word < 0:
        return False
    aligned_fit.take(s, arena, word, PAGES >> 6)
    words = arena[f + e.PAGES] + first
    for k in range(PAGES):
        arena[words + k] = ((word << 6) + k) << e.BLOCK_SHIFT | bits & ~e.IS_CACHED | IS_HUGE
    arena[words] |= e.IS_CACHED
    arena[f + e.PAGE_COUNT] = max(arena[f + e.PAGE_COUNT], first + PAGES)
    arena[f + e.MAPPED] += PAGES
    s.data_blocks += PAGES
    return True


@subroutine
def whole(s, arena, f, page, want, bits):
    """Return how many pages from `page` on a huge page provides to a file from before the trace, or 0 (see `index.whole`).

    The device must have room for the range's edges. The file is assumed to have grown by appends, which allocate huge
    pages only with huge=always.
    """
    if s.huge != ALWAYS_HUGE or blocks_left(s) < want + 2 * PAGES or not bring(s, arena, f, page, bits):
        return 0
    return PAGES - (page & PAGES - 1)


@subroutine
def waiting_runs(arena, f, page, last):
    """Return how many runs of pages in [page, last] lack content."""
    words, count, before = arena[f + e.PAGES], 0, 0
    for at in range(page, min(last + 1, arena[f + e.PAGE_COUNT])):
        waits = arena[words + at] & e.IS_UNWRITTEN
        count += waits > before
        before = waits
    return count


@subroutine
def reserve_range(s, arena, out, f, first, last):
    """Implement `pages.reserve_range`: reserve an event for each huge page and for each run of pages without content."""
    runs = waiting_runs(arena, f, first, last)
    if not reserve_events(s, out, e.ROOM + runs + (last - first >> HUGE_ORDER)):
        return NO_ROOM
    s.whole = s.folio_order > 0 and blocks_left(s) >= blocks_needed(arena, f, first, last) + 2 * PAGES
    return reserve_small(s, arena, out, f, first, last)


@subroutine
def clear_pages(s, arena, out, f, page, count):
    """Emit the clearing of `count` contiguous pages; the caller has reserved space for one event."""
    words = arena[f + e.PAGES] + page
    for at in range(words, words + count):
        arena[at] &= ~e.IS_UNWRITTEN
    s.reg[q.TO], s.reg[q.BYTES] = s.key_base + (arena[words] >> e.BLOCK_SHIFT << 12), count << 12
    emit_template(s, out, q.CLEAR_PM)


@subroutine
def fill_holes(s, arena, out, f, page, last):
    """Implement `pages.fill_holes`: allocate huge pages where possible, then single ones; clear pages that lack content.

    Before Linux 5.15 fallocate requests each page (shmem_fallocate), so the second page of a huge page clears the huge
    page.
    """
    at = page
    while at <= last:
        stop = (at | PAGES - 1) + 1
        if s.whole and bring(s, arena, f, at, e.IS_UNWRITTEN | s.page_bits):
            if s.by_page and min(stop, last + 1) > at + 1:
                clear_pages(s, arena, out, f, at & -PAGES, PAGES)
        else:
            clear_waiting(s, arena, out, f, at, min(last + 1, stop))
        at = stop
    fill_small_holes(s, arena, out, f, page, last)


@subroutine
def clear_waiting(s, arena, out, f, page, stop):
    """Clear the pages [page, stop) within 2 MiB that lack content, each with its huge page if it has one."""
    stop = min(stop, arena[f + e.PAGE_COUNT])
    while page < stop:
        first, count = page, 1
        if arena[arena[f + e.PAGES] + page] & e.IS_UNWRITTEN:
            if is_huge(arena, f, page):
                first, count = page & -PAGES, PAGES
            else:
                count = page_run(s, arena, f, page, stop - 1)
            clear_pages(s, arena, out, f, first, count)
        page = first + count


@subroutine
def has_blocks(s, arena, op, f):
    """Implement `transfer.has_blocks` and decide whether the call may allocate huge pages.

    The first and the last huge page may each need up to 511 pages in addition to the pages of the call.
    """
    if not s.folio_order:
        return has_small_blocks(s, arena, op, f)
    need = blocks_needed(arena, f, op.offset >> 12, (op.offset + op.length - 1) >> 12)
    s.whole = blocks_left(s) >= need + 2 * PAGES
    return blocks_left(s) >= need


@subroutine
def get_content(s, arena, f, page):
    """Allocate the huge page around a page, or mark an existing one as filled; return False if there is no huge page."""
    if not is_huge(arena, f, page):
        return s.whole != 0 and bring(s, arena, f, page, s.page_bits)
    words = arena[f + e.PAGES] + (page & -PAGES)
    for at in range(words, words + PAGES):
        arena[at] &= ~e.IS_UNWRITTEN
    return True


@subroutine
def add_pages(s, arena, out, f, page, count):
    """Implement `transfer.add_zeroed`: allocate small pages or a huge page for a write; return the number of pages."""
    left = PAGES - (page & PAGES - 1)
    if not get_content(s, arena, f, page):
        return add_zeroed(s, arena, out, f, page, min(count, left) if s.folio_order else count)
    s.reg[q.COUNT] = 1
    emit_template(s, out, q.ALLOCATE)
    return min(count, left)


@subroutine
def clear_edges(s, arena, out, f, at, stop):
    """Implement `transfer.clear_edges`: clear a huge page except the bytes written to its first page (shmem_write_end)."""
    if not is_huge(arena, f, at >> 12):
        clear_small_edges(s, arena, out, f, at, stop)
        return
    first, end = at >> 12 & -PAGES, min(stop, (at | 4095) + 1)
    begin = s.key_base + (arena[arena[f + e.PAGES] + first] >> e.BLOCK_SHIFT << 12)
    s.reg[q.TO], s.reg[q.HEAD] = begin, at - (first << 12)
    s.reg[q.TAIL_AT], s.reg[q.TAIL] = begin + end - (first << 12), ((first + PAGES) << 12) - end
    emit_template(s, out, q.EDGES)


@subroutine
def split(s, arena, out, f, page, span):
    """Split the huge page around a page, because the bytes span = (at, end) are freed; emits at most 3 events.

    The freed bytes in the huge page are cleared first; before Linux 5.17 only the freed bytes of pages that stay
    (`clear.clear_part` clears them if the pages have content). Pages after the file's end are freed too.
    """
    if not is_huge(arena, f, page):
        return
    first = page & -PAGES
    words = arena[f + e.PAGES] + first
    at, end = max(span[0], first << 12), min(span[1], (first + PAGES) << 12)
    if not arena[words] & e.IS_UNWRITTEN:
        at, end = (at + 4095) & -4096, end & -4096
    if not s.by_page and at < end:
        s.reg[q.TO] = s.key_base + (arena[words] >> e.BLOCK_SHIFT << 12) + at - (first << 12)
        s.reg[q.BYTES] = end - at
        emit_template(s, out, q.CLEAR_PM)
    for k in range(words, words + PAGES):
        arena[k] = arena[k] & ~IS_HUGE | e.IS_CACHED
    free_pages(s, arena, out, f, max(first, (arena[f + e.SIZE] + 4095) >> 12), first + PAGES - 1)


@subroutine
def split_parts(s, arena, out, f, at, end):
    """Implement `pages.split_parts`: split the huge pages that the bytes [at, end) cover only in part."""
    if at & (PAGES << 12) - 1:
        split(s, arena, out, f, at >> 12, (at, end))
    if end & (PAGES << 12) - 1:
        split(s, arena, out, f, end >> 12, (at, end))
