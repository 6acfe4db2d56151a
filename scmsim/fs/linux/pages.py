"""Pages that truncate and fallocate remove from a file or add to it, and the blocks that they free.

Source: Linux fs/ext4/{inode.c,extents.c}.
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import delayed, index, lookups, metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import (
    add_changed,
    blocks_left,
    blocks_needed,
    change_groups,
    page_word,
    reserve_pages,
    starts_at_ends,
)
from scmsim.fs.linux.clear import clear_end, clear_part
from scmsim.fs.linux.files import call, dirty_inode
from scmsim.fs.linux.transfer import cache_page, mark_dirty
from scmsim.jit import subroutine

AT_SAME_SIZE = True  # whether a truncate to the file's size frees the blocks past it (ext4_setattr)
ENDS_AT_SIZE = True  # whether a hole is punched up to the page that contains the file's end, at most
DOES_A_PART = True  # whether fallocate keeps the blocks that it got before the device was full
FROM_END = False  # whether extents lose their blocks from the last one on (ext4_ext_remove_space)
SEPARATE = e.IS_UNWRITTEN  # flags that must be equal in all pages of an extent


@subroutine
def is_same(word, other, distance):
    """Return whether page `other` (a packed word) continues the extent of page `word`, `distance` pages before it."""
    return other >> e.BLOCK_SHIFT == (word >> e.BLOCK_SHIFT) + distance and other & SEPARATE == word & SEPARATE


@subroutine
def extent_after(arena, f, page, end):
    """Return (first page, pages) of the extent that starts at `page`, limited to the pages before `end`.

    A page without a block is an extent of its own.
    """
    words, count = arena[f + e.PAGES] + page, 1
    if arena[words] >> e.BLOCK_SHIFT:
        while page + count < end and is_same(arena[words], arena[words + count], count):
            count += 1
    return page, count


@subroutine
def extent_before(arena, f, page, end):
    """Return (first page, pages) of the extent that ends just before page `end`, limited to the pages from `page` on.

    A page without a block is an extent of its own.
    """
    at = arena[f + e.PAGES] + end - 1
    count, last = 1, arena[at]
    if last >> e.BLOCK_SHIFT:
        while end - count > page and is_same(arena[at - count], last, count):
            count += 1
    return end - count, count


@subroutine
def free_run(s, arena, f, at, count):
    """Free the pages of one extent, or one page without a block."""
    words, before = arena[f + e.PAGES] + at, 0
    block = arena[words] >> e.BLOCK_SHIFT
    if block:
        before = starts_at_ends(arena, f, at, count)
        change_groups(s, arena, block, count)
        index.freed(s, arena, f, at, count)
        placement.release_blocks(s, arena, block, count)
        s.data_blocks -= count
        s.reg[q.COUNT] += 1
    for i in range(words, words + count):
        if arena[i]:
            arena[f + e.MAPPED] -= 1
            arena[f + e.DIRTY] -= arena[i] & e.IS_DIRTY
            if block == 0:  # a page without a block holds a reserved one (delayed allocation)
                delayed.promise(s, arena, f, -1)
            s.reg[q.PAGES] += arena[i] & e.IS_CACHED != 0
            s.reg[q.FOLIOS] += arena[i] & (e.IS_CACHED | e.IS_TAIL) == e.IS_CACHED
        arena[i] = 0
    if block:
        arena[f + e.EXTENTS] += starts_at_ends(arena, f, at, count) - before


@subroutine
def free_pages(s, arena, out, f, page, last):
    """Free the pages [page, last]; emits at most 2 events."""
    last = min(last, arena[f + e.PAGE_COUNT] - 1)
    was_dirty = arena[f + e.DIRTY]
    s.reg[q.COUNT], s.reg[q.PAGES], s.reg[q.FOLIOS] = 0, 0, 0
    start, stop = index.piece_after(page, last + 1, 0, 0)
    while start < stop:
        left, right = start, stop
        while left < right:
            at, count = extent_before(arena, f, left, right) if FROM_END else extent_after(arena, f, left, right)
            free_run(s, arena, f, at, count)
            if FROM_END:
                right = at
            else:
                left = at + count
        start, stop = index.piece_after(page, last + 1, start, stop)
    if was_dirty and arena[f + e.DIRTY] == 0:
        delayed.left_clean(s, arena, f)
    if last == arena[f + e.PAGE_COUNT] - 1:
        arena[f + e.PAGE_COUNT] = min(arena[f + e.PAGE_COUNT], page)
    emit_template(s, out, q.FREED)


@subroutine
def free_leaves(s, arena, f, keep):
    """Free a file's index blocks except the first `keep`."""
    for i in range(arena[f + e.LEAVES] + keep, arena[f + e.LEAVES] + arena[f + e.LEAF_COUNT]):
        if arena[i]:
            placement.release_blocks(s, arena, arena[i], 1)
            change_groups(s, arena, arena[i], 1)
            metadata.forget(s, arena, arena[i])
            s.meta_blocks -= 1
            arena[i] = 0
            above = index.above(i - arena[f + e.LEAVES])
            # a kept index block that loses a pointer changes
            if above >= 0 and above < keep:
                metadata.join(s, arena, arena[arena[f + e.LEAVES] + above])
    arena[f + e.LEAF_COUNT] = min(arena[f + e.LEAF_COUNT], keep)


@subroutine
def change_part(s, arena, out, row, f, at, length):
    """Clear `length` bytes from `at` on, inside one page; emits at most 4 events.

    In the page cache, a page that is on the device is read first and becomes dirty (ext4_block_truncate_page, block_truncate_page).
    """
    page = at >> 12
    if length > 0 and page < arena[f + e.PAGE_COUNT] and not s.dax:
        word = arena[arena[f + e.PAGES] + page]
        if word >> e.BLOCK_SHIFT and not word & e.IS_UNWRITTEN:
            if not word & e.IS_CACHED:
                cache_page(s, arena, out, f, page, 1)
            mark_dirty(s, arena, row, f, page, 1)
    clear_part(s, arena, out, f, at, length)


@subroutine
def split_parts(s, arena, out, f, at, end):
    """Split the huge pages that the bytes [at, end) cover only in part, before these bytes are freed.

    By default do nothing: only tmpfs has huge pages.  Emits at most 6 events.
    """


@subroutine
def truncate(s, arena, out, op, row, f):
    """Run truncate: free the pages past the new size and clear the rest of its last page."""
    size = max(op.new_size, 0)
    call(s, arena, out, f, q.TRUNCATE)
    clear_end(s, arena, out, f, size)
    if size < arena[f + e.SIZE] or (AT_SAME_SIZE and size == arena[f + e.SIZE]):
        split_parts(s, arena, out, f, size, arena[f + e.PAGE_COUNT] << 12)
        if size & 4095:
            lookups.looked_up(s, arena, f, size >> 12, 1)
        placement.discard_preallocations(s, arena, f)
        lookups.forget(s, arena, f, (size + 4095) >> 12, e.MOST_PAGES)
        free_pages(s, arena, out, f, (size + 4095) >> 12, arena[f + e.PAGE_COUNT])
        change_part(s, arena, out, row, f, size, -size & 4095)
        free_leaves(s, arena, f, index.blocks_kept(arena, f))
    arena[f + e.SIZE] = size
    if size == 0:
        delayed.emptied(arena, f)
    delayed.changed(s, arena, row, f)
    metadata.join_orphans(s, arena)  # ext4_truncate is on the orphan list while it runs
    note_change(s, arena, out, f)


@subroutine
def blocks_asked(arena, f, first, last):
    """Return the number of blocks that a fallocate of the pages [first, last] needs.

    A page with a promised block gets its block before the promise is released, so one more block must be free
    (ext4_claim_free_clusters).
    """
    count = blocks_needed(arena, f, first, last)
    if delayed.is_promised(arena, f):
        for at in range(arena[f + e.PAGES] + first, arena[f + e.PAGES] + min(last + 1, arena[f + e.PAGE_COUNT])):
            if arena[at] and arena[at] >> e.BLOCK_SHIFT == 0:
                return count + 1
    return count


@subroutine
def last_that_fits(s, arena, f, first, last):
    """Return the last page of [first, last] up to which the device has blocks for the holes; first - 1 if it has none."""
    low, high = first, last
    while low <= high:
        middle = (low + high) >> 1
        if blocks_asked(arena, f, first, middle) <= blocks_left(s):
            low = middle + 1
        else:
            high = middle - 1
    return high


@subroutine
def pass_over(s, arena, f, page, last):
    """Look up a page that has a block; return how many pages from it on, all in its extent, the fallocate skips."""
    count = extent_after(arena, f, page, min(last + 1, arena[f + e.PAGE_COUNT]))[1]
    count = lookups.looked_up(s, arena, f, page, count)
    if arena[arena[f + e.PAGES] + page] & e.IS_UNWRITTEN:
        lookups.learn_root(s, arena, f)
        lookups.learn(s, arena, f, page, page + count)
    return count


@subroutine
def is_hole_like(word, other):
    """Return whether two pages are both holes or both promised a block; `word` is the packed word of a page without a block."""
    return other >> e.BLOCK_SHIFT == 0 and (word == 0) == (other == 0)


@subroutine
def fill_holes(s, arena, out, f, page, last):
    """Allocate unwritten blocks for the holes in the pages [page, last]."""
    s.reg[q.COUNT], following = 0, -1
    while page <= last:
        word = page_word(arena, f, page)
        if word >> e.BLOCK_SHIFT:
            page, following = page + pass_over(s, arena, f, page, last), -1
            continue
        count, wanted = 1, max(last, s.uncut_page)
        known = min(wanted + 1, arena[f + e.PAGE_COUNT])
        while page + count < known and is_hole_like(word, arena[arena[f + e.PAGES] + page + count]):
            count += 1
        if page + count >= arena[f + e.PAGE_COUNT] and word == 0:
            count = wanted + 1 - page  # no page after the table's last one has blocks
        count = lookups.looked_up(s, arena, f, page, count)
        lookups.learn_root(s, arena, f)
        bits = e.IS_UNWRITTEN | e.IS_PROMISED if word else e.IS_UNWRITTEN | s.page_bits
        count = add_changed(s, arena, f, page, count, bits)
        if word:  # dirty pages that were only promised blocks
            delayed.promise(s, arena, f, -count)
        else:
            arena[f + e.MAPPED] += count
        lookups.learn(s, arena, f, page, page + count)
        block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
        s.reg[q.COUNT] += block != following
        following = block + count
        page += count
    emit_template(s, out, q.FALLOCATED)


@subroutine
def reserve_range(s, arena, out, f, first, last):
    """Make room in the page table for [first, last] if the device has blocks for the holes there; return an outcome."""
    if blocks_asked(arena, f, first, last) > blocks_left(s):
        return FULL
    return DONE if reserve_pages(s, arena, f, last) else NO_ROOM


@subroutine
def note_change(s, arena, out, f):
    """Record the change of a file's inode and blocks."""
    dirty_inode(s, arena, out, f)
    arena[f + e.TID], arena[f + e.DATA_TID] = s.tid, s.tid


@subroutine
def punch_hole(s, arena, out, row, f, at, end):
    """Turn the bytes [at, end) into a hole: clear partly covered pages, free the blocks of whole pages."""
    if ENDS_AT_SIZE and end + s.frees_last_page > arena[f + e.SIZE]:
        # Linux 7.3 frees the last page of a hole that ends at the file's size, too (found from layouts).
        # Linux 6.1 also frees the page after the last one of a file that ends at a page boundary (ext4_punch_hole)
        end = (arena[f + e.SIZE] + (4095 if s.exact_holes else e.BLOCK)) & ~4095
    if at >= end or (ENDS_AT_SIZE and at >= arena[f + e.SIZE]):
        return
    split_parts(s, arena, out, f, at, end)
    if at >> 12 == (end - 1) >> 12:
        change_part(s, arena, out, row, f, at, (end - at) & 4095)
    else:
        change_part(s, arena, out, row, f, at, -at & 4095)
        change_part(s, arena, out, row, f, end & ~4095, end & 4095)
    if at & 4095:
        lookups.looked_up(s, arena, f, at >> 12, 1)
    if end & 4095 and (end >> 12 != at >> 12 or at & 4095 == 0):
        lookups.looked_up(s, arena, f, end >> 12, 1)
    if (at + 4095) >> 12 < end >> 12:
        placement.discard_preallocations(s, arena, f)
        lookups.forget(s, arena, f, (at + 4095) >> 12, end >> 12)
    first, last = (at + 4095) >> 12, (end >> 12) - 1
    if first <= last < arena[f + e.PAGE_COUNT]:
        index.to_punch(s, arena, f, first, last)
    free_pages(s, arena, out, f, first, last)
    index.punched(s, arena, f)
    if s.exact_holes:
        lookups.learn(s, arena, f, first, last + 1)


@subroutine
def fallocate(s, arena, out, op, row, f):
    """Run fallocate: give unwritten blocks to the holes of the range, or punch a hole there; return the outcome."""
    end = op.offset + op.length
    first, last = op.offset >> 12, (end - 1) >> 12
    if op.length <= 0 or op.offset < 0:
        emit_template(s, out, q.OTHER)
        return DONE
    punches, outcome = op.flag & r.PUNCH_HOLE != 0, DONE
    if not punches:
        outcome = reserve_range(s, arena, out, f, first, last)
        if outcome == FULL and DOES_A_PART:
            s.uncut_page = last
            last = last_that_fits(s, arena, f, first, last)
            end = min(end, (last + 1) << 12)
            if last >= first and reserve_range(s, arena, out, f, first, last) == NO_ROOM:
                return NO_ROOM
        if outcome == NO_ROOM or last < first or (outcome == FULL and not DOES_A_PART):
            return outcome
    call(s, arena, out, f, q.FALLOCATE)
    if punches:
        punch_hole(s, arena, out, row, f, op.offset, end)
    else:
        fill_holes(s, arena, out, f, first, last)
        if not op.flag & r.KEEP_SIZE:
            clear_end(s, arena, out, f, end)
            arena[f + e.SIZE] = max(arena[f + e.SIZE], end)
    if not punches or op.offset < arena[f + e.SIZE]:
        delayed.changed(s, arena, row, f)
    note_change(s, arena, out, f)
    return outcome
