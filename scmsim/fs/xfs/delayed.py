"""Delayed allocation of XFS with the page cache: reservations, speculative preallocation, and real extents at write-back.

A page whose block is only reserved ("delayed") has IS_UNWRITTEN and no block in its packed word.  Write-back gives blocks to the
whole delayed extent that contains a page, also past the file's end.  The blocks are unwritten until their data is stored.
Units: blocks and pages of 4096 bytes.  Source: Linux 6.1 fs/xfs/{xfs_iomap.c: xfs_buffered_write_iomap_begin,
xfs_iomap_prealloc_size, xfs_iomap_write_unwritten; xfs_aops.c: xfs_end_ioend; libxfs/xfs_bmap.c:
xfs_bmapi_reserve_delalloc, xfs_bmapi_convert_delalloc}.  Simplified: no blocks are reserved for the extent tree, so a leaf
for which no block is free is added later; a full device does not free the preallocations of other files.
"""

from scmsim.alloc.xfs_groups import allocate
from scmsim.fs.engine.events import emit_template
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import page_word, starts_at_ends, write_extents
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs import templates as x
from scmsim.fs.xfs.data import leaf_goal, log_extents, unreserved
from scmsim.fs.xfs.goals import delayed_goal
from scmsim.fs.xfs.log import log_free_space, log_inode
from scmsim.jit import subroutine

PIECE = n.EXTENT_PAGES * e.BLOCK  # maximum number of bytes that one block request of a write covers
SMALLEST_SHIFT = 16  # log2 of the bytes of the smallest preallocation (XFS_WRITEIO_LOG_LARGE)
SMALLEST = 1 << SMALLEST_SHIFT - 12  # pages
LONGEST = (1 << 21) - 1  # pages of an extent (XFS_MAX_BMBT_EXTLEN)


@subroutine
def is_delayed(word):
    """Return whether the block of a page is only reserved."""
    return word != 0 and word >> e.BLOCK_SHIFT == 0


@subroutine
def length_before(arena, f, page):
    """Return how many pages before `page` are in adjacent blocks, across extents, too; 0 if `page` follows a hole."""
    if page == 0 or page_word(arena, f, page - 1) == 0:
        return 0
    last = arena[f + e.PAGES] + page - 1
    block, count = arena[last] >> e.BLOCK_SHIFT, 1
    # stop early: a longer run leads to the same preallocation
    while count < page and count <= LONGEST // 2:
        word = arena[last - count]
        if word == 0 or word >> e.BLOCK_SHIFT != (block - count if block else 0):
            break
        count += 1
    return count


@subroutine
def preallocation(s, arena, f, at, size):
    """Return how many pages to preallocate for a write at `at` that extends a file of `size` bytes (xfs_iomap_prealloc_size)."""
    if size < 1 << SMALLEST_SHIFT:
        return 0
    before = length_before(arena, f, at >> 12)
    if before == 0:
        return SMALLEST
    want = 2 * before
    if want > LONGEST:
        want = min((at + 4095) >> 12, LONGEST + 1)
    free, percent = unreserved(s), s.blocks // 100
    if free < 5 * percent:
        # less than 5 % is free: a quarter of the wanted pages, halved for each further percent that is used
        shift = 2
        for low in range(1, 5):
            shift += free < low * percent
        want >>= shift
    power = 1
    while 2 * power <= want:
        power *= 2
    want = min(power, LONGEST) if want else 0
    while want and want >= free:
        want >>= 4
    return max(want, SMALLEST)


@subroutine
def most_pages(s, f_size, end, last):
    """Return the maximum number of pages that a file's page table needs for a write up to byte `end`.

    `last` is the last page written, after which the write may preallocate; `f_size` is the file's size in bytes.
    """
    if end <= f_size or end <= 1 << SMALLEST_SHIFT:
        return last + 1
    return last + 1 + SMALLEST + min(2 * (last + 1), max(unreserved(s), 0))


@subroutine
def reserve_blocks(s, arena, f, at, end, size):
    """Reserve blocks for a write's hole at byte `at`, and more past the file's end for later writes.

    The write ends before byte `end`; `size` is the file's length in bytes when the write reaches `at`.
    """
    page, stop = at >> 12, min(end, at + PIECE)
    last, first_known = (stop + 4095) >> 12, page + 1
    known = arena[f + e.PAGE_COUNT]
    while first_known < known and arena[arena[f + e.PAGES] + first_known] == 0:
        first_known += 1
    more, is_last = 0, first_known >= known
    if is_last and stop > size:
        want = preallocation(s, arena, f, at, size)
        if want:
            more = ((stop - 1) >> SMALLEST_SHIFT << SMALLEST_SHIFT - 12) + want - last
    count = last - page
    if not is_last:
        count = min(count, first_known - page)
    if count + more > unreserved(s):
        more = 0
    set_delayed(s, arena, f, page, count + more)


@subroutine
def set_delayed(s, arena, f, page, count):
    """Turn `count` holes from `page` on into delayed pages, whose blocks are reserved."""
    words = arena[f + e.PAGES] + page
    for i in range(words, words + count):
        arena[i] = e.IS_UNWRITTEN
    s.reserved += count
    arena[f + e.MAPPED] += count
    arena[f + n.DELAYED] += count
    arena[f + e.PAGE_COUNT] = max(arena[f + e.PAGE_COUNT], page + count)


@subroutine
def add_delayed(s, arena, out, f, page, want):
    """Give blocks to up to `want` delayed pages from `page` on, in a transaction; return how many got one (0 if none is free)."""
    block = allocate(s, arena, delayed_goal(s, arena, f, page, want), want, True)
    if s.got == 0:
        return 0
    words = arena[f + e.PAGES] + page
    arena[f + e.EXTENTS] -= starts_at_ends(arena, f, page, s.got)
    for i in range(s.got):
        arena[words + i] |= (block + i) << e.BLOCK_SHIFT
    arena[f + e.EXTENTS] += starts_at_ends(arena, f, page, s.got)
    count = s.got
    s.data_blocks += count
    s.reserved -= count
    arena[f + n.DELAYED] -= count
    log_free_space(s, arena, block)
    log_extents(s, arena, out, f, page, leaf_goal(s, arena, f, block), s.reserved)
    arena[f + e.DATA_TID] = s.sequence
    s.reg[x.COMPARED], s.compared = s.compared, 0
    emit_template(s, out, q.ALLOCATE)
    return count


@subroutine
def convert_delayed(s, arena, out, f, page):
    """Give blocks to the delayed extent that contains `page`, at least up to `page`; return whether enough blocks were free."""
    words, first, end = arena[f + e.PAGES], page, page + 1
    while first > 0 and is_delayed(arena[words + first - 1]):
        first -= 1
    while end < arena[f + e.PAGE_COUNT] and is_delayed(arena[words + end]):
        end += 1
    while first <= page:
        count = add_delayed(s, arena, out, f, first, end - first)
        if count == 0:
            return False
        first += count
    return True


@subroutine
def finish_storing(s, arena, out, f, page, count):
    """Finish write-back of `count` pages of one extent: mark them as written and update the file's size on the device.

    The data is on the device before the transaction (xfs_end_ioend).
    """
    end = min(arena[f + e.SIZE], (page + count) << 12)
    is_new = arena[arena[f + e.PAGES] + page] & e.IS_UNWRITTEN
    if not is_new and end <= arena[f + n.DISK_SIZE]:
        return
    arena[f + n.DISK_SIZE] = max(arena[f + n.DISK_SIZE], end)
    arena[f + e.DATA_TID] = s.sequence
    if is_new:
        write_extents(arena, f, page, count)
        log_extents(s, arena, out, f, page, leaf_goal(s, arena, f, -1), s.reserved)
    else:
        log_inode(s, arena, out, f)
    emit_template(s, out, q.CONVERT)
