"""Write-back of the page cache: the queue of dirty files, and how a file's dirty pages are stored.

Source: Linux 5.13 fs/fs-writeback.c, fs/ext4/inode.c: ext4_writepages, mpage_prepare_extent_to_map.
"""

from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import index
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import add_changed, page_run, write_extents
from scmsim.fs.linux.files import dirty_inode
from scmsim.jit import subroutine


@subroutine
def queue_dirty(s, arena, row, f):
    """Append a file that just became dirty to the queue of dirty files."""
    arena[f + e.DIRTY_SINCE_NS] = s.now
    arena[f + e.OLDER] = s.newest
    arena[f + e.NEWER] = -1
    if s.newest >= 0:
        arena[arena[s.newest] + e.NEWER] = row
    else:
        s.oldest = row
    s.newest = row


@subroutine
def unqueue_clean(s, arena, f):
    """Remove a file without dirty pages from the queue of dirty files."""
    older = arena[f + e.OLDER]
    newer = arena[f + e.NEWER]
    if older >= 0:
        arena[arena[older] + e.NEWER] = newer
    else:
        s.oldest = newer
    if newer >= 0:
        arena[arena[newer] + e.OLDER] = older
    else:
        s.newest = older


@subroutine
def flush_run(s, arena, out, f, page, most):
    """Store up to `most` dirty pages from `page` on whose blocks are adjacent; allocate blocks now if there are none.

    Returns the number of pages stored; `s.changed` counts runs whose extent changed.
    """
    words = arena[f + e.PAGES] + page
    block = arena[words] >> e.BLOCK_SHIFT
    bits = arena[words] & e.IS_UNWRITTEN | e.IS_DIRTY
    count = 1
    stop = min(most, arena[f + e.PAGE_COUNT] - page)
    while count < stop and arena[words + count] & (e.IS_UNWRITTEN | e.IS_DIRTY) == bits:
        if arena[words + count] >> e.BLOCK_SHIFT != (block + count if block else 0):
            break
        count += 1
    # delayed allocation: the run gets its blocks only now
    if block == 0:
        count = add_changed(s, arena, f, page, count, 0)
        if count == 0:  # no block is left: the page is dropped (mpage_map_and_submit_extent: "Data will be lost")
            arena[words] = 0
            arena[f + e.MAPPED] -= 1
            s.reserved -= 1
            return 1
        s.reserved -= count
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
        write_extents(arena, f, page, count)
        index.converted(s, arena, f, False)
    for i in range(words, words + count):
        arena[i] &= ~e.IS_DIRTY
    return count


@subroutine
def flush_pages(s, arena, out, f):
    """Run one step of write-back: store up to FLUSH_PAGES dirty pages of a file, lowest first.

    Emits at most 16 + 2 * pages events.
    """
    left = min(arena[f + e.DIRTY], e.FLUSH_PAGES)
    arena[f + e.DIRTY] -= left
    pages = left
    page = arena[f + e.FIRST_DIRTY_PAGE]
    s.changed = 0
    while left:
        if arena[arena[f + e.PAGES] + page] & e.IS_DIRTY:
            count = flush_run(s, arena, out, f, page, left)
            left -= count
            page += count
        else:
            page += 1
    arena[f + e.FIRST_DIRTY_PAGE] = page
    s.reg[q.PAGES], s.reg[q.NEW] = pages, s.changed
    emit_template(s, out, q.FLUSHED)
    if s.changed:
        dirty_inode(s, arena, out, f)
        arena[f + e.DATA_TID] = s.tid
    if arena[f + e.DIRTY] == 0:
        unqueue_clean(s, arena, f)
