"""Read and write of ext4, with DAX and with the page cache.

With DAX a copy goes to persistent memory at once; a new block is zeroed through the block layer first, so its bytes
are stored twice.  With the page cache a copy goes to cached pages, blocks are allocated at write-back (delayed
allocation), and whole pages are stored; the cache has no size limit.  Source: Linux 5.13 fs/ext4/{file.c:
ext4_dax_write_iter, inode.c: ext4_iomap_begin, ext4_da_write_begin, ext4_da_write_end, ext4_writepages}, fs/dax.c:
dax_iomap_actor, mm/filemap.c.
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import delayed, index, lookups, metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import (
    PREALLOCATION,
    add_changed,
    blocks_left,
    blocks_needed,
    page_run,
    reserve_besides,
    write_extents,
)
from scmsim.fs.linux.clear import clear_end
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.folios import clean_folios, folios_in, order_at
from scmsim.fs.linux.groups import block_bitmap
from scmsim.jit import subroutine

NOTHING = q.OTHER  # template of a call that transfers no byte
MOST_NEW = e.SLICE_PAGES  # pages that get blocks at once with DAX
WHOLE_REQUESTS = False  # whether a write requests blocks for a hole beyond the slice, too (ext4_iomap_begin)


# Hooks that a family may bind (see `scmsim.jit.binding`); by default they do nothing.
@subroutine
def fill_new(s, arena, out, f, at, stop):
    """DAX: fill the parts outside of the bytes [at, stop) in the first and last page of new blocks."""


@subroutine
def clear_edges(s, arena, out, f, at, stop):
    """Clear the parts of the first and last page outside of the bytes [at, stop): `fill_new` of families without zeroed blocks."""
    word = arena[arena[f + e.PAGES] + (at >> 12)]
    block = s.key_base + ((word >> s.key_shift & s.key_mask) << 12)
    s.reg[q.TO], s.reg[q.HEAD] = block, at & 4095
    s.reg[q.TAIL_AT], s.reg[q.TAIL] = block + stop - (at & ~4095), -stop & 4095
    emit_template(s, out, q.EDGES)


@subroutine
def use_pages(s, arena, f, page, count):
    """DAX: record the use of `count` existing pages from `page` on by a read or write."""


@subroutine
def allocate_now(s, arena, out, f, page, count):
    """Page cache: allocate the blocks that `count` pages from `page` on lack, for a family without delayed allocation."""


@subroutine
def find_blocks(s, out, page, count):
    """Emit the index search that finds the adjacent blocks of `count` pages from `page` on."""


@subroutine
def add_zeroed(s, arena, out, f, page, count):
    """DAX: give zeroed blocks to up to `count` pages at `page`, all of them holes or all unwritten; return how many got one."""
    new, first, zeroed, splits = arena[arena[f + e.PAGES] + page] == 0, page, count, False
    if new:
        last = max(page + count - 1, s.last_page, s.uncut_page)
        if last >= page + count:
            count = page_run(s, arena, f, page, last)
        count = lookups.looked_up(s, arena, f, page, count)
        lookups.learn_root(s, arena, f)
        count = add_changed(s, arena, f, page, min(count, MOST_NEW), s.page_bits)
        lookups.learn(s, arena, f, page, page + count)
        arena[f + e.MAPPED] += count
        zeroed = count
    else:
        count = lookups.looked_up(s, arena, f, page, count)
        lookups.learn_root(s, arena, f)
        first, zeroed, splits = index.to_write(s, arena, f, page, count)
        extents = arena[f + e.EXTENTS]
        write_extents(arena, f, first, zeroed)
        lookups.learn(s, arena, f, first, first + zeroed)
        index.converted(s, arena, f, not splits and arena[f + e.EXTENTS] == extents)
    block = arena[arena[f + e.PAGES] + first] >> e.BLOCK_SHIFT
    group = block // e.GROUP_BLOCKS
    s.reg[q.BITMAP] = q.BUFFERS + block_bitmap(s, group) * e.BLOCK + (block % e.GROUP_BLOCKS >> 3)
    s.reg[q.GROUP] = q.BUFFERS + e.BLOCK + group * 64
    s.reg[q.TO], s.reg[q.BYTES], s.reg[q.COUNT] = block * e.BLOCK, zeroed * e.BLOCK, zeroed
    s.reg[q.POINTERS], s.reg[q.HAS] = s.new_pointers, splits
    emit_template(s, out, q.ALLOCATE if new else q.CONVERT)
    return count


@subroutine
def cache_page(s, arena, out, f, page, is_kept):
    """Add a page to the cache; read its content if it has any and some of it is kept, and return whether it was read."""
    words = arena[f + e.PAGES] + page
    word = arena[words] | e.IS_CACHED | (s.frame & e.FRAME_MASK) << e.FRAME_SHIFT
    s.frame += 1
    is_read = is_kept and word >> e.BLOCK_SHIFT != 0 and not word & e.IS_UNWRITTEN
    if is_read:
        s.reg[q.FROM] = word >> e.BLOCK_SHIFT << 12
        s.reg[q.TO] = q.FRAMES + ((word >> e.FRAME_SHIFT) & e.FRAME_MASK) * e.BLOCK
        emit_template(s, out, q.FILL)
    arena[words] = word
    return is_read


@subroutine
def add_cached(s, arena, out, op, f, span):
    """Add the uncached pages [span[0], span[1]) to the cache; read partially written pages first."""
    end, tail, first = op.offset + op.length, 0, span[0]
    for at in range(span[0], span[1]):
        if tail == 0:
            tail = 1
            if s.folio_order and not s.reading:
                tail = 1 << order_at(s, at, span[1], max(op.offset, at << 12), end)
            s.frame = (s.frame + tail - 1) & ~(tail - 1)  # a folio's frames are aligned to its size
            s.reg[q.FOLIOS] += 1
            s.reg[q.LARGE_FOLIOS] += tail > 1
            first = at
        # a page that is written as a whole, or up to the file's end, is not read (__block_write_begin)
        part_kept = at << 12 < op.offset or (end < (at + 1) << 12 and end < arena[f + e.SIZE]) or s.reading
        in_part = at << 12 < op.offset or end < (at + 1) << 12
        is_read = cache_page(s, arena, out, f, at, part_kept)
        s.reg[q.ZEROED_PAGES] += in_part and not is_read
        arena[arena[f + e.PAGES] + at] |= e.IS_TAIL if at > first else 0
        tail -= 1
    s.new_pages += span[1] - span[0]


@subroutine
def mark_dirty(s, arena, row, f, page, count):
    """Mark `count` cached pages from `page` on as dirty; reserve a block for each page without one."""
    if arena[f + e.DIRTY] == 0:
        delayed.began_dirty(s, arena, row, f)
        arena[f + e.FIRST_DIRTY_PAGE] = page
    arena[f + e.FIRST_DIRTY_PAGE] = min(arena[f + e.FIRST_DIRTY_PAGE], page)
    arena[f + e.PAGE_COUNT] = max(arena[f + e.PAGE_COUNT], page + count)
    words, first, end = arena[f + e.PAGES], page, page + count
    while first < end:
        count = lookups.before_dirty(s, arena, f, first, end - first)
        for at in range(words + first, words + first + count):
            word = arena[at]
            if not word & e.IS_DIRTY:
                s.pages_dirtied += 1
                arena[f + e.DIRTY] += 1
                # delayed allocation: the block is only reserved (ext4_da_reserve_space)
                if word >> e.BLOCK_SHIFT == 0:
                    delayed.promise(s, arena, f, 1)
                    arena[f + e.MAPPED] += 1
                arena[at] = word | e.IS_DIRTY
        lookups.dirtied(s, arena, f, first, count)
        first += count


@subroutine
def copy_in(s, out, target, source, length):
    """Copy from the user's buffer: 8-byte non-temporal stores, cached stores at ends that are not aligned to 8 bytes."""
    head = -target & 7 if length >= 8 else 0
    body = (length - head) & ~7
    width = 0
    if length == 4 and target & 3 == 0:  # 4 aligned bytes are one non-temporal store (__copy_user_nocache)
        body, width = 4, -4
    tail = length - head - body
    # __copy_user_flushcache counts all bytes up to the next line as flushed with the head
    ahead = -target & 63 if head else 0
    s.reg[q.TO], s.reg[q.USER_AT], s.reg[q.BYTES] = target, source, length
    s.reg[q.HEAD], s.reg[q.HEAD_LINE] = head, 1 if head else 0
    s.reg[q.BODY_AT], s.reg[q.BODY_USER], s.reg[q.BODY], s.reg[q.WIDTH] = target + head, source + head, body, width
    s.reg[q.TAIL_AT], s.reg[q.TAIL_USER], s.reg[q.TAIL] = target + length - tail, source + length - tail, tail
    s.reg[q.TAIL_LINE_AT], s.reg[q.TAIL_LINE] = target + length - 1, 1 if length > ahead and (length - ahead) & 7 else 0
    if length < 8:
        s.reg[q.TAIL_LINE_AT], s.reg[q.TAIL_LINE] = target, tail
    s.reg[q.LINES] = body >> 6
    emit_template(s, out, q.COPY)


@subroutine
def write_slice(s, arena, out, op, row, f):
    """Run one slice of a write() from `s.progress` on: for each run of pages, add missing blocks or cached pages, then copy."""
    at = op.offset + s.progress
    end = min(op.offset + op.length, (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    size = arena[f + e.SIZE]
    first = at >> 12
    if s.progress == 0:
        emit_template(s, out, q.WRITE)
        clear_end(s, arena, out, f, op.offset)
        stamp = time_stamp(s)
        if stamp != arena[f + e.STAMP]:  # file_update_time
            arena[f + e.STAMP] = stamp
            emit_template(s, out, q.TIMES)
            dirty_inode(s, arena, out, f)
            arena[f + e.TID] = s.tid
    s.new_pages, s.changed, s.reading, s.pages_dirtied = 0, 0, 0, 0
    s.reg[q.FOLIOS], s.reg[q.LARGE_FOLIOS], s.reg[q.ZEROED_PAGES], dirtied = 0, 0, 0, 0
    s.last_page = (op.offset + op.length - 1) >> 12 if WHOLE_REQUESTS and s.dax else 0
    while at < end:
        page = at >> 12
        count = page_run(s, arena, f, page, (end - 1) >> 12)
        word = arena[arena[f + e.PAGES] + page]
        if s.dax:
            if word == 0 or word & e.IS_UNWRITTEN:
                count = add_zeroed(s, arena, out, f, page, count)
                s.changed = 1
                fill_new(s, arena, out, f, at, min(end, (page + count) << 12))
            else:
                lookups.looked_through(s, arena, f, page, count)
                use_pages(s, arena, f, page, count)
        else:
            if word & e.IS_CACHED == 0:
                add_cached(s, arena, out, op, f, (page, page + count))
            else:
                dirtied += clean_folios(s, arena, f, page, page + count)
            allocate_now(s, arena, out, f, page, count)
            mark_dirty(s, arena, row, f, page, count)
        find_blocks(s, out, page, count)
        word = arena[arena[f + e.PAGES] + page]
        stop = min(end, (page + count) << 12)
        target = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095)
        copy_in(s, out, target, (op.thread << 36) + op.buffer + at - op.offset, stop - at)
        at = stop
    s.progress = at - op.offset
    if not s.dax:
        stop = (end - 1 >> 12) + 1
        s.reg[q.WRITTEN_FOLIOS], pages, after = folios_in(s, arena, f, first, stop)
        s.reg[q.FOLIO_PAGES] = pages - (after - stop) * s.stops_at_end
        s.reg[q.DIRTIED_FOLIOS] = dirtied
    finish_slice(s, arena, out, f, (first, size, end))


@subroutine
def count_slice(s, arena, out, pages, grown):
    """Set the registers with the numbers of journal handles and inode updates of a slice of `pages` pages.

    `grown` + 1 pages end after the old size; `grown` is -1 if the slice does not extend the file.  DAX: a write that extends the
    file has three handles (put it on the orphan list; allocate; set the size and remove it from the list); a write that fills a
    hole has one.  Page cache: one handle per page, and two inode updates for each page that extends the file.
    """
    if s.dax:
        s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = s.changed, 2 * s.changed, 0
        if grown >= 0:
            metadata.join_orphans(s, arena)
            s.reg[q.GROWN], s.reg[q.NEW], s.reg[q.HAS] = 3, 6, 1
    else:
        s.reg[q.PAGES], s.reg[q.NEW] = pages, s.new_pages
        s.reg[q.HAS] = s.pages_dirtied - s.new_pages
        s.reg[q.GROWN] = 2 * min(pages, grown + 1)


@subroutine
def finish_slice(s, arena, out, f, span):
    """Finish a slice after its copies and update the file's size; span = (first page, size before, end)."""
    first, size, end = span
    last = (end - 1) >> 12
    count_slice(s, arena, out, last - first + 1, last - (size >> 12) if end > size else -1)
    emit_template(s, out, q.FINISH)
    if end > size or s.changed:
        arena[f + e.SIZE] = max(size, end)
        dirty_inode(s, arena, out, f)
        arena[f + e.DATA_TID] = s.tid
        if s.changed:
            arena[f + e.TID] = s.tid


@subroutine
def time_stamp(s):
    """Return the value by which file times are compared: the clock tick, or the transaction if the clock has no ticks."""
    s.stamped_at = s.now
    return s.now // s.timestamp_tick if s.timestamp_tick else s.tid


@subroutine
def set_access_time(s, arena, out, f):
    """Set the access time at the first read after a change (relatime; touch_atime, ext4_dirty_inode).

    Emits at most 2 events.
    """
    # the access time is newer than the last write (relatime_need_update)
    if not s.relatime or arena[f + e.READ_STAMP] > arena[f + e.STAMP]:
        return
    stamp = time_stamp(s)
    if stamp != arena[f + e.READ_STAMP]:
        arena[f + e.READ_STAMP] = stamp
        emit_template(s, out, q.ACCESSED)
        dirty_inode(s, arena, out, f)


@subroutine
def read_slice(s, arena, out, op, f):
    """Run one slice of a read() from `s.progress` on: copy each run of pages by a rep-string; a hole only clears the buffer."""
    at = op.offset + s.progress
    end = min(op.offset + op.length, arena[f + e.SIZE], (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    s.reg[q.PAGES], s.reg[q.LINES] = ((end - 1) >> 12) - (at >> 12) + 1, (end - at) >> 12
    s.new_pages, s.reading, first = 0, 1, at >> 12
    if s.progress == 0:
        emit_template(s, out, q.READ)
        set_access_time(s, arena, out, f)
    while at < end:
        page = at >> 12
        count = page_run(s, arena, f, page, (end - 1) >> 12)
        word = 0
        if s.dax:
            lookups.looked_through(s, arena, f, page, count)
        if page < arena[f + e.PAGE_COUNT]:
            word = arena[arena[f + e.PAGES] + page]
            if word and not s.dax and not word & e.IS_CACHED:
                count = 1
                add_cached(s, arena, out, op, f, (page, page + count))
                word = arena[arena[f + e.PAGES] + page]
            elif word and s.dax:
                use_pages(s, arena, f, page, min(count, arena[f + e.PAGE_COUNT] - page))
        find_blocks(s, out, page, count)
        stop = min(end, (page + count) << 12)
        s.reg[q.USER_AT], s.reg[q.BYTES] = (op.thread << 36) + op.buffer + at - op.offset, stop - at
        s.reg[q.HAS] = stop - at
        s.reg[q.FROM] = s.key_base + ((word >> s.key_shift & s.key_mask) << 12) + (at & 4095)
        # a hole or unwritten page: the user's buffer is only cleared
        if word == 0 or word & e.IS_UNWRITTEN and s.dax:
            s.reg[q.HAS] = 0
        emit_template(s, out, q.COPY_OUT)
        at = stop
    s.reg[q.NEW] = s.new_pages
    if at > op.offset:
        if not s.dax:
            s.reg[q.FOLIOS], s.reg[q.FOLIO_PAGES], _ = folios_in(s, arena, f, first, (end - 1 >> 12) + 1)
        emit_template(s, out, q.READ_PAGES)
    s.progress = at - op.offset


@subroutine
def has_blocks(s, arena, op, f):
    """Return whether the device has the blocks that a write needs; count the needed blocks only if few are left."""
    # an upper bound of the index's blocks: four at the ends, and one per 512 pages
    if (blocks_left(s) - 4) << 12 >= op.length + 8191 + (op.length >> 9):
        return True
    return blocks_left(s) >= blocks_needed(arena, f, op.offset >> 12, (op.offset + op.length - 1) >> 12)


@subroutine
def slice_fits(s, arena, out, op, f):
    """Return whether the event buffer and the arena have enough space for the next slice; grow the file's page table for it."""
    first = (op.offset + s.progress) >> 12
    last = min((op.offset + op.length - 1) >> 12, first + e.SLICE_PAGES - 1)
    if not reserve_events(s, out, 64 + (24 if op.op == r.WRITE else 6) * (last - first + 1)):
        return False
    words = PREALLOCATION * (last - first + 1)
    if op.op != r.WRITE:
        return lookups.ready(s, arena, f, last - first + 1)
    if WHOLE_REQUESTS and s.dax:
        last = min(last + MOST_NEW, (op.offset + op.length - 1) >> 12)
    return has_room(s, arena, words) and reserve_besides(s, arena, f, last, words)


@subroutine
def transfer(s, arena, out, op, row):
    """Run or resume a read or write, slice by slice; return its outcome."""
    f = arena[row + e.ROW_RECORD]
    s.reg[q.INODE] = q.INODES + arena[f + e.INODE] * e.INODE_OBJECT
    if op.length <= 0 or op.offset < 0:
        emit_template(s, out, NOTHING)
        return DONE
    total = op.length
    if op.op == r.READ:
        total = min(total, arena[f + e.SIZE] - op.offset)
    elif s.progress == 0 and not has_blocks(s, arena, op, f):
        return FULL
    while s.progress == 0 or s.progress < total:  # a read at the end of the file runs once, too
        if not slice_fits(s, arena, out, op, f):
            return NO_ROOM
        if op.op == r.READ:
            read_slice(s, arena, out, op, f)
            if s.progress == 0:
                return DONE
        else:
            write_slice(s, arena, out, op, row, f)
    if s.uncut_page >= 0:
        placement.discard_preallocations(s, arena, f)  # ext4_truncate after a write that stopped early
    return DONE
