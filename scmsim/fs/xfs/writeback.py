"""Write-back of XFS with the page cache: store a file's dirty pages, or those of a range, in page order.

Source: Linux 6.1 fs/xfs/xfs_aops.c (xfs_vm_writepages, xfs_map_blocks), fs/iomap/buffered-io.c (iomap_do_writepage).
"""

from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import page_run
from scmsim.fs.linux.dirty_queue import unqueue_clean
from scmsim.fs.linux.folios import folios_in
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs.delayed import convert_delayed, finish_storing
from scmsim.jit import subroutine

STEP_PAGES = 4096  # maximum number of pages in one step and in one I/O (IOEND_BATCH_SIZE)
RUN_EVENTS = 16  # maximum number of events of a run of pages: a load, a store, an allocation, a conversion
TO_THE_END = 1 << 50  # page after every file


@subroutine
def store_run(s, arena, out, f, page, most):
    """Store up to `most` dirty pages from `page` on whose blocks are adjacent and of one state; return their number.

    Blocks that are only reserved are allocated first.
    """
    words = arena[f + e.PAGES] + page
    if arena[words] >> e.BLOCK_SHIFT == 0 and not convert_delayed(s, arena, out, f, page):
        arena[words] &= ~e.IS_DIRTY  # no block is free: the page is dropped
        return 1
    first, count = arena[words], 1
    while count < most and arena[words + count] >> e.BLOCK_SHIFT == (first >> e.BLOCK_SHIFT) + count:
        if (arena[words + count] ^ first) & (e.IS_UNWRITTEN | e.IS_DIRTY):
            break
        count += 1
    s.reg[q.TO], s.reg[q.BYTES] = first >> e.BLOCK_SHIFT << 12, count * e.BLOCK
    emit_template(s, out, q.FLUSH_RUN)
    at = page
    while at < page + count:
        # adjacent blocks may have frames that are not adjacent
        frames = page_run(s, arena, f, at, page + count - 1)
        s.reg[q.FROM] = q.FRAMES + ((arena[arena[f + e.PAGES] + at] >> e.FRAME_SHIFT) & e.FRAME_MASK) * e.BLOCK
        s.reg[q.HAS] = frames * e.BLOCK
        emit_template(s, out, q.FLUSH_LOAD)
        at += frames
    for i in range(words, words + count):
        arena[i] &= ~e.IS_DIRTY
    finish_storing(s, arena, out, f, page, count)
    return count


@subroutine
def store_pages(s, arena, out, f, first, last):
    """Run one step of write-back: store up to STEP_PAGES dirty pages of [first, last], lowest first."""
    page = start = max(first, arena[f + e.FIRST_DIRTY_PAGE])
    last, left = min(last, arena[f + e.PAGE_COUNT] - 1), min(arena[f + e.DIRTY], STEP_PAGES)
    pages, folios, counted = 0, 0, 0
    while page <= last and pages < left:
        count = 1
        if arena[arena[f + e.PAGES] + page] & e.IS_DIRTY:
            count = store_run(s, arena, out, f, page, min(left - pages, last - page + 1))
            pages += count
            more, _, counted = folios_in(s, arena, f, max(page, counted), page + count)
            folios += more
        page += count
    arena[f + e.DIRTY] -= pages
    if start == arena[f + e.FIRST_DIRTY_PAGE]:
        arena[f + e.FIRST_DIRTY_PAGE] = page
    s.reg[q.PAGES], s.reg[q.FOLIOS] = pages, folios
    emit_template(s, out, q.FLUSHED)
    if pages and arena[f + e.DIRTY] == 0:
        unqueue_clean(s, arena, f)


@subroutine
def next_dirty(arena, f, first, last):
    """Return the first dirty page of [first, last], -1 if there is none."""
    if arena[f + e.DIRTY]:
        for page in range(max(first, arena[f + e.FIRST_DIRTY_PAGE]), min(last + 1, arena[f + e.PAGE_COUNT])):
            if arena[arena[f + e.PAGES] + page] & e.IS_DIRTY:
                return page
    return -1


@subroutine
def store_range(s, arena, out, f, first, last):
    """Write back the dirty pages of [first, last] (filemap_write_and_wait_range); return False if that is not finished."""
    page = next_dirty(arena, f, first, last)
    while page >= 0:
        pages = min(arena[f + e.DIRTY], STEP_PAGES, last + 1 - page)
        words = n.WORDS + 4 * arena[f + e.LEAF_COUNT] + pages
        if not reserve_events(s, out, n.ROOM + RUN_EVENTS * pages) or not has_room(s, arena, words):
            return False
        store_pages(s, arena, out, f, page, last)
        page = next_dirty(arena, f, page, last)
    return True


@subroutine
def store_old(s, arena, out, limit):
    """Write back the files that became dirty at time `limit` (ns) or earlier; return False if that is not finished."""
    while s.oldest >= 0 and arena[arena[s.oldest] + e.DIRTY_SINCE_NS] <= limit:
        if not store_range(s, arena, out, arena[s.oldest], 0, TO_THE_END):
            return False
    return True
