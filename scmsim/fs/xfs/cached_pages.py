"""Calls that change the pages of a file of XFS with the page cache without a write: truncate, fallocate and close.

Source: Linux 6.1 fs/xfs/{xfs_iops.c: xfs_setattr_size; xfs_file.c: xfs_file_fallocate; xfs_bmap_util.c: xfs_free_file_space,
xfs_can_free_eofblocks, xfs_free_eofblocks; xfs_inode.c: xfs_release}.
"""

from scmsim.alloc.xfs_free_space import release
from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import holes, page_word, starts_at_ends
from scmsim.fs.linux.dirty_queue import unqueue_clean
from scmsim.fs.linux.files import call
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs import templates as x
from scmsim.fs.xfs.cached import PAGE_EVENTS, clear_range, pages_to_clear
from scmsim.fs.xfs.data import add_blocks, free_leaves, leaf_goal, log_extents, note_change, unreserved
from scmsim.fs.xfs.delayed import convert_delayed, is_delayed
from scmsim.fs.xfs.log import log_free_space, log_inode
from scmsim.fs.xfs.writeback import TO_THE_END, store_range
from scmsim.jit import subroutine

BEGUN, CHANGED, GROWN = 0, 1, 2  # stages of a truncate or fallocate, in `s.progress`


@subroutine
def drop_words(s, arena, f, page, count):
    """Turn `count` pages from `page` on into holes and count the cached ones; all are in one extent, or `count` is 1."""
    words = arena[f + e.PAGES] + page
    before = starts_at_ends(arena, f, page, count)
    for i in range(words, words + count):
        word = arena[i]
        if word:
            arena[f + e.MAPPED] -= 1
        if is_delayed(word):
            s.reserved -= 1
            arena[f + n.DELAYED] -= 1
        arena[f + e.DIRTY] -= word & e.IS_DIRTY
        s.reg[q.PAGES] += word & e.IS_CACHED != 0
        s.reg[q.FOLIOS] += word & (e.IS_CACHED | e.IS_TAIL) == e.IS_CACHED
        arena[i] = 0
    arena[f + e.EXTENTS] += starts_at_ends(arena, f, page, count) - before


@subroutine
def free_pages(s, arena, out, f, page, last):
    """Free the pages [page, last] with their blocks, the last extent first; emits at most 4 events."""
    last = min(last, arena[f + e.PAGE_COUNT] - 1)
    was_dirty, stop = arena[f + e.DIRTY], last + 1
    s.reg[q.COUNT], s.reg[q.PAGES], s.reg[q.FOLIOS] = 0, 0, 0
    while stop > page:
        words = arena[f + e.PAGES] + stop - 1
        count = 1
        if arena[words] >> e.BLOCK_SHIFT:
            while stop - count > page and arena[words - 1] >> e.BLOCK_SHIFT == (arena[words] >> e.BLOCK_SHIFT) - 1:
                if (arena[words - 1] ^ arena[words]) & e.IS_UNWRITTEN:
                    break
                words -= 1
                count += 1
            block = arena[words] >> e.BLOCK_SHIFT
            release(s, arena, block, count)
            log_free_space(s, arena, block)
            # no intent is logged, as its done item is in the same checkpoint (xlog_cil_push_work: XFS_LI_WHITEOUT)
            s.reg[q.COUNT] += 1
            s.freed_extents += 1
            s.data_blocks -= count
        stop -= count
        drop_words(s, arena, f, stop, count)
        if s.reg[q.COUNT] % n.FREE_AT_ONCE == 0:  # the end of a transaction
            free_leaves(s, arena, f)
    if was_dirty and arena[f + e.DIRTY] == 0:
        unqueue_clean(s, arena, f)
    if last == arena[f + e.PAGE_COUNT] - 1:
        arena[f + e.PAGE_COUNT] = min(arena[f + e.PAGE_COUNT], page)
    emit_template(s, out, q.FREED)
    if s.reg[q.COUNT]:
        log_extents(s, arena, out, f, page, leaf_goal(s, arena, f, -1), s.reserved)
    else:  # a transaction that only releases reserved blocks logs the inode's core
        log_inode(s, arena, out, f)


@subroutine
def drop_cached(s, arena, f, page, last):
    """Remove the clean pages [page, last] from the cache (truncate_pagecache_range)."""
    for at in range(arena[f + e.PAGES] + page, arena[f + e.PAGES] + min(last + 1, arena[f + e.PAGE_COUNT])):
        if arena[at] & e.IS_CACHED:
            arena[at] &= ~(e.FRAME_MASK << e.FRAME_SHIFT | e.IS_CACHED | e.IS_TAIL)


@subroutine
def has_blocks_past_end(arena, f):
    """Return whether a close starts a transaction to free blocks past the file's end (xfs_can_free_eofblocks)."""
    if arena[f + e.IS_DIR] or arena[f + n.FLAGS] & (n.PREALLOCATED | n.CLOSED_DIRTY):
        return False
    if arena[f + n.DELAYED]:
        return True
    for page in range((arena[f + e.SIZE] + 4095) >> 12, arena[f + e.PAGE_COUNT]):
        if page_word(arena, f, page):
            return True
    return False


@subroutine
def release_file(s, arena, out, f):
    """At a close, write back a truncated file and free blocks past its end; return False if this must be resumed."""
    if arena[f + n.FLAGS] & n.TRUNCATED:
        if arena[f + n.DELAYED] and not store_range(s, arena, out, f, 0, TO_THE_END):
            return False
        arena[f + n.FLAGS] &= ~(n.TRUNCATED | n.CLOSED_DIRTY)
    if not has_blocks_past_end(arena, f):
        return True
    if not reserve_events(s, out, n.ROOM) or not has_room(s, arena, n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
        return False
    emit_template(s, out, q.TIMES)  # starts the transaction
    free_pages(s, arena, out, f, (arena[f + e.SIZE] + 4095) >> 12, TO_THE_END)
    if arena[f + n.DELAYED]:
        arena[f + n.FLAGS] |= n.CLOSED_DIRTY
    return True


@subroutine
def finish_size(s, arena, out, f):
    """Store the dirty pages between the file's size on the device and its new size; return False if this must be resumed."""
    size, known = arena[f + e.SIZE], arena[f + n.DISK_SIZE]
    if size > known and s.old_size != known:
        return store_range(s, arena, out, f, known >> 12, (size - 1) >> 12)
    return True


@subroutine
def truncate(s, arena, out, op, row, f):
    """Run truncate: clear the rest of the last page, free pages after it, store pages up to the new size; return the outcome."""
    size, old = max(op.new_size, 0), arena[f + e.SIZE]
    page, end = size >> 12, (size + 4095) >> 12
    if s.progress == BEGUN:
        # store the page with the new end first: an unwritten page would not be cleared
        if size <= old and not store_range(s, arena, out, f, page, page):
            return NO_ROOM
        if not reserve_events(
            s, out, n.ROOM + PAGE_EVENTS * (pages_to_clear(arena, f, min(old, size), size + 4095) + 1)
        ):
            return NO_ROOM
        call(s, arena, out, f, q.TRUNCATE)
        if size > old:
            cleared = clear_range(s, arena, out, row, f, old, size)
        else:
            cleared = clear_range(s, arena, out, row, f, size, end << 12)
            if old or arena[f + e.PAGE_COUNT]:
                arena[f + n.FLAGS] |= n.TRUNCATED
        arena[f + e.SIZE] = size
        # blocks past the file's end stay if the file grows (xfs_setattr_size)
        if size <= old and (size < old or end < arena[f + e.PAGE_COUNT]):
            free_pages(s, arena, out, f, end, TO_THE_END)
        s.progress, s.old_size = CHANGED, -1 if cleared else old
    if not finish_size(s, arena, out, f):
        return NO_ROOM
    if not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    arena[f + n.DISK_SIZE] = size
    note_change(s, arena, out, f)
    return DONE


@subroutine
def punch(s, arena, out, op, row, f):
    """Punch a hole: store the range's pages, drop them from the cache, free whole pages, clear the rest; return the outcome."""
    end = op.offset + op.length
    first, last, stop = op.offset >> 12, (end - 1) >> 12, min(end, arena[f + e.SIZE])
    if s.progress == BEGUN:
        if not store_range(s, arena, out, f, first, last):
            return NO_ROOM
        if not reserve_events(s, out, n.ROOM + 4 * PAGE_EVENTS):
            return NO_ROOM
        call(s, arena, out, f, q.FALLOCATE)
        drop_cached(s, arena, f, first, last)
        free_pages(s, arena, out, f, (op.offset + 4095) >> 12, (end >> 12) - 1)
        if op.offset < stop:
            clear_edges(s, arena, out, row, f, op.offset, stop)
        s.progress = CHANGED
    # the kernel clears the last page past the file's end and stores that page
    if (
        op.offset < stop == arena[f + e.SIZE]
        and stop & 4095
        and not store_range(s, arena, out, f, stop >> 12, TO_THE_END)
    ):
        return NO_ROOM
    if not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    note_change(s, arena, out, f)
    return DONE


@subroutine
def clear_edges(s, arena, out, row, f, at, end):
    """Clear the bytes [at, end) in their first and last page; the pages between are already holes."""
    stop = min(end, (at & ~4095) + e.BLOCK)
    clear_range(s, arena, out, row, f, at, stop)
    if end > stop:
        clear_range(s, arena, out, row, f, max(stop, end - 1 & ~4095), end)


@subroutine
def fill_range(s, arena, out, f, page, last):
    """Allocate unwritten blocks for the holes and the delayed pages in [page, last]."""
    s.reg[q.COUNT], block = 0, -1
    filled = 0
    while page <= last:
        count, word = 1, page_word(arena, f, page)
        if is_delayed(word):
            convert_delayed(s, arena, out, f, page)
        elif word == 0:
            while page + count <= last and page_word(arena, f, page + count) == 0:
                count += 1
            count = add_blocks(s, arena, f, page, count, e.IS_UNWRITTEN)
            block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
            log_free_space(s, arena, block)
            filled += 1
        page += count
    s.reg[q.COUNT] = filled
    s.reg[x.COMPARED], s.compared = s.compared, 0
    emit_template(s, out, q.FALLOCATED)
    log_extents(s, arena, out, f, last, leaf_goal(s, arena, f, block), s.reserved)


@subroutine
def delayed_in(arena, f, first, last):
    """Count the pages of [first, last] whose block is only reserved."""
    count = 0
    if arena[f + n.DELAYED]:
        for page in range(first, min(last + 1, arena[f + e.PAGE_COUNT])):
            count += is_delayed(page_word(arena, f, page))
    return count


@subroutine
def allocate_range(s, arena, out, op, row, f):
    """Run fallocate that allocates: add unwritten blocks, and extend the file unless KEEP_SIZE is set; return the outcome."""
    end = op.offset + op.length
    first, last = op.offset >> 12, (end - 1) >> 12
    if s.progress == BEGUN:
        if holes(arena, f, first, last) > unreserved(s):
            return FULL
        old, grows = arena[f + e.SIZE], not op.flag & r.KEEP_SIZE and end > arena[f + e.SIZE]
        words = table.words_to_hold(arena, f + e.PAGES, last + 1) + 4 * arena[f + e.LEAF_COUNT] + n.WORDS
        if not has_room(s, arena, words + (last + 1 - first) // 8):
            return NO_ROOM
        events = PAGE_EVENTS * (
            delayed_in(arena, f, first, last) * 4 + (pages_to_clear(arena, f, old, end) if grows else 0)
        )
        if not reserve_events(s, out, n.ROOM + events):
            return NO_ROOM
        table.reserve(s, arena, f + e.PAGES, last + 1)
        call(s, arena, out, f, q.FALLOCATE)
        fill_range(s, arena, out, f, first, last)
        arena[f + n.FLAGS] |= n.PREALLOCATED
        s.progress = CHANGED
        if grows:
            cleared = clear_range(s, arena, out, row, f, old, end)
            arena[f + e.SIZE] = end
            s.progress, s.old_size = GROWN, -1 if cleared else old
    if s.progress == GROWN and not finish_size(s, arena, out, f):
        return NO_ROOM
    if not reserve_events(s, out, n.ROOM):
        return NO_ROOM
    if s.progress == GROWN:
        arena[f + n.DISK_SIZE] = end
    note_change(s, arena, out, f)
    return DONE


@subroutine
def change_file(s, arena, out, op, row, f):
    """Run truncate or fallocate; return the outcome."""
    if arena[f + e.IS_DIR] or (op.op == r.FALLOCATE and (op.length <= 0 or op.offset < 0)):
        emit_template(s, out, q.OTHER)
        return DONE
    if not has_room(s, arena, n.WORDS + 4 * arena[f + e.LEAF_COUNT]):
        return NO_ROOM
    if op.op == r.TRUNCATE:
        return truncate(s, arena, out, op, row, f)
    return punch(s, arena, out, op, row, f) if op.flag & r.PUNCH_HOLE else allocate_range(s, arena, out, op, row, f)
