"""Blocks of files: runs of pages, allocation, and the metadata blocks that an allocation changes.

Units: blocks and pages of 4096 bytes.  Source: Linux fs/ext4/{extents.c,balloc.c}.  Simplified: extents that are
adjacent in the file and on the device count as one extent, whatever its length.
"""

from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.table import reserve, words_to_hold
from scmsim.fs.linux import index, lookups, metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux.groups import block_bitmap
from scmsim.jit import subroutine

# arena words of one preallocation; an operation creates at most one for each page that gets a block
PREALLOCATION = 1 << e.PREALLOCATION_ORDER


@subroutine
def page_word(arena, f, page):
    """Return a page's packed word (see `state`), 0 past the end of the file's page table."""
    return arena[arena[f + e.PAGES] + page] if page < arena[f + e.PAGE_COUNT] else 0


@subroutine
def page_run(s, arena, f, page, last):
    """Return the number of pages in the run from `page` on, up to page `last` at most.

    A run consists of pages at adjacent addresses (of the device or of the page cache), or of holes that are not cached.
    """
    end = arena[f + e.PAGE_COUNT]
    if page >= end:
        return last - page + 1
    words = arena[f + e.PAGES]
    stop = min(last + 1, end)
    key = arena[words + page] & s.key
    step = s.key_step if key else 0
    at = page + 1
    while at < stop and arena[words + at] & s.key == key + (at - page) * step:
        at += 1
    return last + 1 - page if at == end and key == 0 else at - page


@subroutine
def holes(arena, f, first, last):
    """Count the pages in [first, last] that have neither an allocated nor a reserved block."""
    end = min(last + 1, arena[f + e.PAGE_COUNT])
    count = last + 1 - max(end, first)
    for at in range(arena[f + e.PAGES] + first, arena[f + e.PAGES] + end):
        count += arena[at] == 0
    return count


@subroutine
def blocks_needed(arena, f, first, last):
    """Return how many blocks the pages [first, last] need: one per hole, and the missing index blocks that lead to them."""
    count = holes(arena, f, first, last)
    return count + index.missing(arena, f, first, last) if count else 0


@subroutine
def blocks_left(s):
    """Return the number of blocks that are neither allocated nor reserved; preallocated blocks count as free.

    The result is 0, not negative, if index blocks have already used part of the reserve that is kept for them.
    """
    return max(s.free_blocks + placement.blocks_to_come(s) - s.reserved, 0)


@subroutine
def change_groups(s, arena, block, count):
    """Record the bitmaps and descriptors that change as `count` blocks from `block` on are allocated or freed."""
    for group in range(block // e.GROUP_BLOCKS, (block + count - 1) // e.GROUP_BLOCKS + 1):
        metadata.join(s, arena, block_bitmap(s, group))
        metadata.join(s, arena, 1 + group // e.DESCRIPTORS_PER_BLOCK)


@subroutine
def starts_extent(arena, f, page):
    """Return 1 if an extent starts at a page, else 0."""
    if page >= arena[f + e.PAGE_COUNT]:
        return 0
    words = arena[f + e.PAGES] + page
    word, before = arena[words], arena[words - 1] if page else 0
    continues = before >> e.BLOCK_SHIFT == (word >> e.BLOCK_SHIFT) - 1 and (word ^ before) & e.IS_UNWRITTEN == 0
    return 0 if word >> e.BLOCK_SHIFT == 0 or (page and continues) else 1


@subroutine
def starts_at_ends(arena, f, page, count):
    """Count the extents that start at the first page of a run, or at the page after it."""
    return starts_extent(arena, f, page) + starts_extent(arena, f, page + count)


@subroutine
def write_extents(arena, f, page, count):
    """Mark `count` unwritten pages of one extent, from `page` on, as written; merge extents that become adjacent."""
    before = starts_at_ends(arena, f, page, count)
    words = arena[f + e.PAGES] + page
    for at in range(words, words + count):
        arena[at] &= ~e.IS_UNWRITTEN
    arena[f + e.EXTENTS] += starts_at_ends(arena, f, page, count) - before


@subroutine
def add_blocks(s, arena, f, page, want, bits):
    """Allocate up to `want` blocks for the pages from `page` on; return the number of new blocks.

    The packed words of the pages keep their frame numbers and get the flags `bits`.
    """
    block = placement.take_blocks(s, arena, f, page, index.reach(s, arena, f, page, want), bits)
    count = s.got
    words, before = arena[f + e.PAGES] + page, starts_extent(arena, f, page + count)
    for i in range(count):
        arena[words + i] |= (block + i) << e.BLOCK_SHIFT | bits
    arena[f + e.PAGE_COUNT] = max(arena[f + e.PAGE_COUNT], page + count)
    arena[f + e.EXTENTS] += starts_at_ends(arena, f, page, count) - before
    s.data_blocks += count
    return count


@subroutine
def add_changed(s, arena, f, page, want, bits):
    """Run `add_blocks` and record the changes of the metadata that describes the new blocks."""
    s.new_pointers = 0
    count = add_blocks(s, arena, f, page, want, bits)
    change_groups(s, arena, arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT, count)
    index.added(s, arena, f, page, count)
    index.merged(s, arena, f)
    return count


@subroutine
def add_promised(s, arena, f, page, want):
    """Allocate blocks for up to `want` dirty pages from `page` on, as a new extent; return the number of new blocks."""
    s.new_pointers, extents = 0, arena[f + e.EXTENTS]
    count = add_blocks(s, arena, f, page, want, 0)
    if count:
        change_groups(s, arena, arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT, count)
        index.inserted(s, arena, f, page, count, extents + 1)
    return count


@subroutine
def last_of_folio(s, page):
    """Return the last page of the largest folio that may contain a page."""
    return page | (1 << s.folio_order) - 1


@subroutine
def reserve_pages(s, arena, f, last):
    """Make room for page `last` and its folio in a file's tables of pages and index blocks; return False if the arena must grow."""
    return reserve_besides(s, arena, f, last, 0)


@subroutine
def reserve_besides(s, arena, f, last, more):
    """Run `reserve_pages`; if the tables grow, leave `more` arena words free, which the caller will use."""
    # a call that was shortened still requests the blocks of the whole call, and gets at most one group's blocks at once
    last = last_of_folio(s, min(max(last, s.uncut_page), last + e.GROUP_BLOCKS))
    words, slots = words_to_hold(arena, f + e.PAGES, last + 1), index.slots(last)
    words += lookups.words_for(s, arena, f, last + 1)
    if slots:
        words += words_to_hold(arena, f + e.LEAVES, slots)
    if words and not has_room(s, arena, words + more):
        return False
    reserve(s, arena, f + e.PAGES, last + 1)
    lookups.reserve(s, arena, f, last + 1)
    if slots:
        reserve(s, arena, f + e.LEAVES, slots)
    return True
