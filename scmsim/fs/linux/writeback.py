"""Write-back of the page cache: how a file's dirty pages are stored.

Source: Linux 5.13 fs/fs-writeback.c, fs/ext4/inode.c: ext4_writepages, mpage_prepare_extent_to_map.
"""

from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.linux import delayed, index, lookups
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import PREALLOCATION, add_promised, page_run, write_extents
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.folios import folios_in
from scmsim.jit import subroutine

END = e.MOST_PAGES
STATE = e.IS_UNWRITTEN | e.IS_DIRTY | e.IS_PROMISED  # flags that all pages of a run share (BH_FLAGS)


@subroutine
def alike(arena, f, page, most):
    """Return how many dirty pages from `page` on, at most `most`, are alike: in adjacent blocks, or all without a block."""
    words = arena[f + e.PAGES] + page
    block = arena[words] >> e.BLOCK_SHIFT
    bits = arena[words] & STATE
    count = 1
    stop = min(most, arena[f + e.PAGE_COUNT] - page)
    while count < stop and arena[words + count] & STATE == bits:
        if arena[words + count] >> e.BLOCK_SHIFT != (block + count if block else 0):
            break
        count += 1
    return count


@subroutine
def give_blocks(s, arena, f, page, count):
    """Give blocks to up to `count` dirty pages from `page` on, none of which has a block; return how many got one.

    The blocks are unwritten until their data is stored, so their extent merges with its neighbours only then
    (ext4_convert_unwritten_extents).
    """
    lookups.learn_root(s, arena, f)
    count = add_promised(s, arena, f, page, count)
    if count:
        delayed.promise(s, arena, f, -count)
        delayed.served(s, arena, f)
        index.merged(s, arena, f)
        lookups.learn(s, arena, f, page, page + count)
    return count


@subroutine
def flush_run(s, arena, out, f, page, most):
    """Store up to `most` dirty pages from `page` on whose blocks are adjacent; allocate blocks now if there are none.

    Returns the number of pages stored; `s.changed` counts runs whose extent changed.
    """
    words = arena[f + e.PAGES] + page
    block = arena[words] >> e.BLOCK_SHIFT
    bits = arena[words] & e.IS_UNWRITTEN | e.IS_DIRTY
    count = alike(arena, f, page, most)
    if block == 0 or bits & e.IS_UNWRITTEN:
        count = lookups.looked_up(s, arena, f, page, count)
    # delayed allocation: the run gets its blocks only now
    if block == 0:
        count = give_blocks(s, arena, f, page, count)
        if count == 0:  # no block is left: the page is dropped (mpage_map_and_submit_extent: "Data will be lost")
            arena[words] = 0
            arena[f + e.MAPPED] -= 1
            delayed.promise(s, arena, f, -1)
            return 1
    # new blocks, and unwritten blocks that become written, change the extent tree
    s.changed += block == 0 or bits != e.IS_DIRTY
    s.reg[q.TO], s.reg[q.BYTES] = arena[words] >> e.BLOCK_SHIFT << 12, count * e.BLOCK
    emit_template(s, out, q.FLUSH_RUN)
    at = page
    while at < page + count:
        # adjacent blocks may have frames that are not adjacent
        frames = page_run(s, arena, f, at, page + count - 1)
        s.reg[q.FROM] = q.FRAMES + ((arena[arena[f + e.PAGES] + at] >> e.FRAME_SHIFT) & e.FRAME_MASK) * e.BLOCK
        s.reg[q.HAS] = frames * e.BLOCK
        emit_template(s, out, q.FLUSH_LOAD)
        at += frames
    if bits & e.IS_UNWRITTEN:
        lookups.learn_root(s, arena, f)
        index.to_store(s, arena, f, page, count)
        write_extents(arena, f, page, count)
        index.converted(s, arena, f, False)
    for i in range(words, words + count):
        arena[i] &= ~(e.IS_DIRTY | e.IS_PROMISED)
    if bits & e.IS_UNWRITTEN:
        lookups.learn(s, arena, f, page, page + count)
    return count


@subroutine
def is_dirty_in(arena, f, first, end):
    """Return whether a file has a dirty page in [first, end)."""
    if arena[f + e.DIRTY] == 0:
        return False
    page, end = max(first, arena[f + e.FIRST_DIRTY_PAGE]), min(end, arena[f + e.PAGE_COUNT])
    while page < end and not arena[arena[f + e.PAGES] + page] & e.IS_DIRTY:
        page += 1
    return page < end


@subroutine
def ready(s, arena, out, f):
    """Return whether a step of write-back fits into `out` and the arena; reserve words for its block look-ups."""
    pages = min(arena[f + e.DIRTY], 3 * e.FLUSH_PAGES + (1 << s.folio_order) - 1)
    if not reserve_events(s, out, 64 + 2 * pages) or not lookups.ready(s, arena, f, pages):
        return False
    return has_room(s, arena, PREALLOCATION * pages)


@subroutine
def flush_pages(s, arena, out, f, first, end):
    """Run one step of write-back: store dirty pages of [first, end), lowest first, until at least FLUSH_PAGES are stored.

    A run of pages that get their blocks now has up to FLUSH_PAGES pages.  With `maps_by_folio`, a step does not end within a folio
    after a request for blocks.  Emits at most 16 + 2 * pages events.
    """
    done, start, folio_end = 0, max(first, arena[f + e.FIRST_DIRTY_PAGE]), 0
    page, end = start, min(end, arena[f + e.PAGE_COUNT])
    s.changed, s.reg[q.FOLIOS], s.reg[q.FOLIO_PAGES], counted = 0, 0, 0, 0
    while arena[f + e.DIRTY] and (done < e.FLUSH_PAGES or page < folio_end) and page < end:
        word = arena[arena[f + e.PAGES] + page]
        if word & e.IS_DIRTY:
            most = e.FLUSH_PAGES if delayed.MERGES_LATE else e.FLUSH_PAGES - done
            is_mapped = word >> e.BLOCK_SHIFT == 0 or word & e.IS_UNWRITTEN != 0
            # Linux maps the rest of a folio that it has mapped in part before it goes on to other folios (mpage_process_folio)
            if is_mapped and page < folio_end:
                most = folio_end - page
            count = flush_run(s, arena, out, f, page, min(most, end - page))
            folios, pages, counted = folios_in(s, arena, f, max(page, counted), page + count)
            s.reg[q.FOLIOS] += folios
            s.reg[q.FOLIO_PAGES] += pages
            if is_mapped and s.maps_by_folio:
                folio_end = counted
            arena[f + e.DIRTY] -= count
            done += count
            page += count
        else:
            page += 1
    if start == arena[f + e.FIRST_DIRTY_PAGE]:
        arena[f + e.FIRST_DIRTY_PAGE] = page
    s.reg[q.PAGES], s.reg[q.NEW] = done, s.changed
    emit_template(s, out, q.FLUSHED)
    if s.changed:
        dirty_inode(s, arena, out, f)
        arena[f + e.DATA_TID] = s.tid
    if arena[f + e.DIRTY] == 0:
        delayed.left_clean(s, arena, f)
