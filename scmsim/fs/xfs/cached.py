"""Reads and writes of XFS with the page cache: bytes go to cached pages, and blocks are reserved for them.

Source: Linux 6.1 fs/xfs/xfs_file.c (xfs_file_buffered_write, xfs_file_write_checks), mm/filemap.c,
fs/iomap/buffered-io.c (iomap_file_buffered_write, iomap_zero_range).
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import holes, last_of_folio, page_run, page_word
from scmsim.fs.linux.dirty_queue import queue_dirty
from scmsim.fs.linux.folios import clean_folios, folios_in
from scmsim.fs.linux.transfer import add_cached, cache_page, copy_in
from scmsim.fs.xfs import cached_templates as c
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.data import set_times, unreserved
from scmsim.fs.xfs.delayed import PIECE, most_pages, reserve_blocks
from scmsim.jit import subroutine

PAGE_EVENTS = 6  # maximum number of events of a page that is read, written or cleared


@subroutine
def mark_dirty(s, arena, row, f, page, count):
    """Mark `count` cached pages from `page` on as dirty; each has a block or a reserved block."""
    if arena[f + e.DIRTY] == 0:
        queue_dirty(s, arena, row, f)
        arena[f + e.FIRST_DIRTY_PAGE] = page
    arena[f + e.FIRST_DIRTY_PAGE] = min(arena[f + e.FIRST_DIRTY_PAGE], page)
    words = arena[f + e.PAGES]
    for at in range(words + page, words + page + count):
        if not arena[at] & e.IS_DIRTY:
            s.pages_dirtied += 1
            arena[f + e.DIRTY] += 1
            arena[at] |= e.IS_DIRTY


@subroutine
def pages_to_clear(arena, f, at, end):
    """Return an upper bound of the number of pages with content in the bytes [at, end)."""
    return max(min((end + 4095) >> 12, arena[f + e.PAGE_COUNT]) - (at >> 12), 0)


@subroutine
def clear_range(s, arena, out, row, f, at, end):
    """Clear the bytes [at, end) in the page cache, where their pages become dirty; return whether any page was cleared.

    Holes and pages with unwritten blocks are skipped, even dirty ones; delayed pages are cleared (iomap_zero_iter).
    """
    cleared, end = False, min(end, arena[f + e.PAGE_COUNT] << 12)
    while at < end:
        page, stop = at >> 12, min(end, (at & ~4095) + e.BLOCK)
        word = page_word(arena, f, page)
        if word and (word & e.IS_UNWRITTEN == 0 or word >> e.BLOCK_SHIFT == 0):
            if not word & e.IS_CACHED:
                cache_page(s, arena, out, f, page, stop - at < e.BLOCK)
                word = page_word(arena, f, page)
            mark_dirty(s, arena, row, f, page, 1)
            s.reg[q.TO] = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095)
            s.reg[q.BYTES] = stop - at
            emit_template(s, out, q.CLEAR_FRAME)
            cleared = True
        at = stop
    return cleared


@subroutine
def run_of_content(s, arena, f, page, last):
    """Return the number of pages from `page` to at most `last` with content, in adjacent frames or all uncached."""
    count = page_run(s, arena, f, page, last)
    for i in range(1, count):
        if page_word(arena, f, page + i) == 0:
            return i
    return count


@subroutine
def write_slice(s, arena, out, op, row, f):
    """Run part of a write() from `s.progress` on: for each hole reserve blocks, then copy to cached pages."""
    at, whole_end = op.offset + s.progress, op.offset + op.length
    end = min(whole_end, (at & ~4095) + n.EXTENT_PAGES * e.BLOCK)
    first, size, reservations = at >> 12, arena[f + e.SIZE], 0
    if s.progress == 0:
        emit_template(s, out, q.WRITE)
        set_times(s, arena, out, f)
        if op.offset > size:
            clear_range(s, arena, out, row, f, size, op.offset)
    s.new_pages, s.reading, s.pages_dirtied = 0, 0, 0
    s.reg[q.FOLIOS], s.reg[q.LARGE_FOLIOS], s.reg[q.ZEROED_PAGES] = 0, 0, 0
    dirtied, added = 0, first  # clean folios that become dirty; page after those that this write has added
    while at < end:
        page = at >> 12
        if page_word(arena, f, page) == 0:
            reserve_blocks(s, arena, f, at, whole_end, max(size, at if at > op.offset else 0))
            reservations += 1
        count = run_of_content(s, arena, f, page, (end - 1) >> 12)
        if not page_word(arena, f, page) & e.IS_CACHED:
            add_cached(s, arena, out, op, f, (page, page + count))
            added = page + count
            count = page_run(s, arena, f, page, page + count - 1)
        elif page >= added:
            dirtied += clean_folios(s, arena, f, page, page + count)
        mark_dirty(s, arena, row, f, page, count)
        stop = min(end, (page + count) << 12)
        word = page_word(arena, f, page)
        target = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095)
        copy_in(s, out, target, (op.thread << 36) + op.buffer + at - op.offset, stop - at)
        at = stop
    s.progress = at - op.offset
    s.reg[q.PAGES], s.reg[q.NEW], s.reg[c.RESERVATIONS] = ((end - 1) >> 12) - first + 1, s.new_pages, reservations
    s.reg[q.HAS], s.reg[q.DIRTIED_FOLIOS] = s.pages_dirtied - s.new_pages, dirtied
    s.reg[q.WRITTEN_FOLIOS], _, _ = folios_in(s, arena, f, first, (end - 1 >> 12) + 1)
    emit_template(s, out, q.FINISH)
    arena[f + e.SIZE] = max(size, end)


@subroutine
def has_blocks(s, arena, op, f):
    """Return whether blocks can be reserved for a write; count the needed blocks only if few are left."""
    first, last = op.offset >> 12, (op.offset + op.length - 1) >> 12
    return unreserved(s) >= last + 1 - first or holes(arena, f, first, last) <= unreserved(s)


@subroutine
def longest_fitting_prefix(s, arena, op):
    """Return how many leading bytes of a write get blocks; each part of a hole, up to 4 MiB, gets all or none."""
    f = arena[s.rows + op.file * e.ROW_WORDS + e.ROW_RECORD]
    at, end, left = op.offset, op.offset + op.length, unreserved(s)
    while at < end:
        page = at >> 12
        if page_word(arena, f, page) == 0:
            stop, count = (min(end, at + PIECE) + 4095) >> 12, 1
            while page + count < stop and page_word(arena, f, page + count) == 0:
                count += 1
            left -= count
            if left < 0:
                break
            page += count - 1
        at = (page + 1) << 12
    return max(min(at, end) - op.offset, 0)


@subroutine
def slice_fits(s, arena, out, op, f):
    """Return whether `out` and the arena have enough space for the next part of a read or write; grow the page table."""
    first, end = (op.offset + s.progress) >> 12, op.offset + op.length
    is_write = op.op == r.WRITE
    last = min((end - 1) >> 12, first + (n.EXTENT_PAGES if is_write else e.SLICE_PAGES) - 1)
    pages = last - first + 1
    if is_write and s.progress == 0:
        pages += pages_to_clear(arena, f, arena[f + e.SIZE], op.offset)
    if not reserve_events(s, out, n.ROOM + PAGE_EVENTS * pages):
        return False
    return not is_write or table_reaches(
        s, arena, f, end, last_of_folio(s, min((end - 1) >> 12, last + n.EXTENT_PAGES))
    )


@subroutine
def table_reaches(s, arena, f, end, last):
    """Reserve arena words for the page table up to page `last`, and for the preallocation of a write up to byte `end`.

    Returns False if the arena must grow first.
    """
    count = most_pages(s, arena[f + e.SIZE], end, last)
    words = words_to_hold(arena, f + e.PAGES, count)
    if not has_room(s, arena, words + n.WORDS):
        return False
    reserve(s, arena, f + e.PAGES, count)
    return True


TRANSFER = {"has_blocks": has_blocks, "slice_fits": slice_fits, "write_slice": write_slice}
