"""Writes of XFS with DAX, and the allocation and freeing of files' blocks.

A write to a hole or to unwritten blocks has one transaction for each run of at most 4 MiB, counted from the run's first byte; the
transaction zeroes the blocks through the block layer before the data is copied.  Another transaction follows if the file grew.
Nothing is allocated beyond the write: only buffered writes preallocate.  Source: Linux 5.13 fs/xfs/{xfs_file.c:
xfs_file_dax_write; xfs_iomap.c: xfs_direct_write_iomap_begin, xfs_iomap_write_direct; xfs_bmap_util.c},
fs/xfs/libxfs/xfs_bmap.c.  Simplified: the extent tree has one level of leaves.
"""

import numpy as np

from scmsim.alloc.xfs_free_space import release
from scmsim.alloc.xfs_groups import allocate
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import holes, page_run, starts_at_ends, write_extents
from scmsim.fs.linux.clear import clear_end, clear_part
from scmsim.fs.linux.files import call
from scmsim.fs.linux.transfer import copy_in
from scmsim.fs.xfs import state as n
from scmsim.fs.xfs import templates as x
from scmsim.fs.xfs.dirs import give_block, take_block
from scmsim.fs.xfs.goals import goal_of
from scmsim.fs.xfs.inodes import inode_block
from scmsim.fs.xfs.log import add_bytes, fork_bytes, log_buffer, log_fork, log_free_space, log_inode, most_inline
from scmsim.jit import subroutine


@subroutine
def unreserved(s):
    """Return the number of blocks that are free and not reserved for cached pages."""
    return s.free_blocks - s.reserved


@subroutine
def set_times(s, arena, out, f):
    """Set a file's times in a transaction if the kernel's clock has advanced since they were set (xfs_vn_update_time)."""
    stamp = s.now // s.timestamp_tick if s.timestamp_tick else s.sequence
    if stamp != arena[f + e.STAMP]:
        arena[f + e.STAMP] = stamp
        emit_template(s, out, q.TIMES)
        log_inode(s, arena, out, f)


@subroutine
def free_leaves(s, arena, f):
    """Free the extent leaves of a file if its extents fit its inode again (xfs_bmap_btree_to_extents)."""
    while arena[f + e.LEAF_COUNT] and arena[f + e.EXTENTS] <= most_inline(s):
        arena[f + e.LEAF_COUNT] -= 1
        give_block(s, arena, table.get(arena, f + e.LEAVES, arena[f + e.LEAF_COUNT]))


@subroutine
def log_extents(s, arena, out, f, page, goal, left):
    """Log the change of a file's extents at `page`: its inode, and the leaf of its extent tree, if any.

    Leaves that are missing are added near block `goal`, as long as more than `left` blocks are free.
    """
    free_leaves(s, arena, f)
    leaves = arena[f + e.LEAF_COUNT]
    if leaves:
        leaf = min(page * leaves // max(arena[f + e.PAGE_COUNT], 1), leaves - 1)
        filled = arena[f + e.EXTENTS] // leaves
        at = n.BTREE_ROOT + n.EXTENT_BYTES * min(filled, n.EXTENTS_PER_LEAF - 1)
        log_buffer(s, arena, table.get(arena, f + e.LEAVES, leaf), at, at + n.EXTENT_BYTES - 1)
    while wants_leaf(s, arena, f) and s.free_blocks > left:
        leaves = arena[f + e.LEAF_COUNT]
        table.reserve(s, arena, f + e.LEAVES, leaves + 1)
        item = take_block(s, arena, goal)
        table.put(arena, f + e.LEAVES, leaves, item)
        arena[f + e.LEAF_COUNT] = leaves + 1
        filled = min(arena[f + e.EXTENTS] // (leaves + 1), n.EXTENTS_PER_LEAF)
        log_buffer(s, arena, item, 0, n.BTREE_ROOT + n.EXTENT_BYTES * filled)
    log_fork(s, arena, out, f, fork_bytes(s, arena, f))


@subroutine
def leaf_goal(s, arena, f, block):
    """Return the goal block for a new leaf of a file's extents; `block` is the transaction's new data block, -1 if none.

    Until Linux 6.2, the goal is in the group of the data block, or near the inode without a data block.  From 6.3 on, it is near
    the file's last leaf, or near its inode (xfs_bmbt_alloc_block, xfs_bmap_extents_to_btree).  If the data block's group comes
    later, the goal is at the same offset in that group, because groups are locked in order (xfs_alloc_vextent_start_ag).
    """
    if block >= 0 and not s.leaf_by_inode:
        return block // s.ag_blocks * s.ag_blocks
    goal, leaves = inode_block(s, arena, arena[f + e.INODE]), arena[f + e.LEAF_COUNT]
    if leaves and s.leaf_by_inode:
        goal = arena[table.get(arena, f + e.LEAVES, leaves - 1) + n.HOME]
    group = block // s.ag_blocks
    return goal if group <= goal // s.ag_blocks else group * s.ag_blocks + goal % s.ag_blocks


@subroutine
def wants_leaf(s, arena, f):
    """Return whether a file's extents need one more leaf."""
    extents = arena[f + e.EXTENTS]
    return extents > most_inline(s) and extents > n.EXTENTS_PER_LEAF * arena[f + e.LEAF_COUNT]


@subroutine
def add_blocks(s, arena, f, page, want, mark):
    """Allocate up to `want` adjacent blocks for the pages from `page` on; return how many.

    The packed words of the pages get the flags `mark`.
    """
    block = allocate(s, arena, goal_of(s, arena, f, page, want), want, True)
    words = arena[f + e.PAGES] + page
    # before and after the change, count the extents at the ends of the run: the new blocks may join their neighbours
    arena[f + e.EXTENTS] -= starts_at_ends(arena, f, page, s.got)
    for i in range(s.got):
        arena[words + i] = (block + i) << e.BLOCK_SHIFT | mark
    arena[f + e.PAGE_COUNT] = max(arena[f + e.PAGE_COUNT], page + s.got)
    arena[f + e.EXTENTS] += starts_at_ends(arena, f, page, s.got)
    arena[f + e.MAPPED] += s.got
    s.data_blocks += s.got
    return s.got


@subroutine
def map_run(s, arena, out, f, page, count, left):
    """Give zeroed blocks to up to `count` pages from `page` on, all of them holes or all unwritten; return how many got one.

    `left` is the number of blocks that the rest of the call needs, including those of these pages.
    """
    words = arena[f + e.PAGES] + page
    new = arena[words] == 0
    if new:
        count = add_blocks(s, arena, f, page, count, 0)
        left = max(left - count, 0)
    else:
        write_extents(arena, f, page, count)
    block = arena[words] >> e.BLOCK_SHIFT
    if new:
        log_free_space(s, arena, block)
    log_extents(s, arena, out, f, page, leaf_goal(s, arena, f, block if new else -1), left)
    arena[f + e.DATA_TID] = s.sequence
    s.reg[q.TO], s.reg[q.BYTES], s.reg[q.COUNT] = block * e.BLOCK, count * e.BLOCK, count
    if new:
        s.reg[x.COMPARED], s.compared = s.compared, 0
    emit_template(s, out, q.ALLOCATE if new else q.CONVERT)
    return count


@subroutine
def request_end(at):
    """Return the end page of one block request of a write from byte `at` on (xfs_direct_write_iomap_begin).

    A request that starts within a page covers 1025 pages, because the kernel limits its bytes, not its pages.
    """
    return (at + n.EXTENT_PAGES * e.BLOCK + e.BLOCK - 1) >> 12


@subroutine
def write_slice(s, arena, out, op, row, f):
    """Run part of a write() from `s.progress` on: for each run of pages, allocate missing blocks and copy.

    Each request for blocks starts a new part, because its size limit counts from its first byte.
    """
    start = at = op.offset + s.progress
    end = min(op.offset + op.length, request_end(at) << 12)
    if s.progress == 0:
        emit_template(s, out, q.WRITE)
        clear_end(s, arena, out, f, op.offset)
        set_times(s, arena, out, f)
    while at < end:
        page = at >> 12
        count = page_run(s, arena, f, page, (end - 1) >> 12)
        word = arena[arena[f + e.PAGES] + page]
        if word == 0 or word & e.IS_UNWRITTEN:
            if at > start:
                break
            last, left = (op.offset + op.length - 1) >> 12, 0
            if s.free_blocks < 2 * (last + 1 - page) + n.MOST_BLOCKS:
                left = holes(arena, f, page, last)
            count = map_run(s, arena, out, f, page, count, left)
            word = arena[arena[f + e.PAGES] + page]
        stop = min(end, (page + count) << 12)
        target = (word >> e.BLOCK_SHIFT << 12) + (at & 4095)
        copy_in(s, out, target, (op.thread << 36) + op.buffer + at - op.offset, stop - at)
        at = stop
    s.progress = at - op.offset
    if s.progress == op.length and at > arena[f + e.SIZE]:
        arena[f + e.SIZE] = at
        arena[f + e.DATA_TID] = s.sequence
        log_inode(s, arena, out, f)
        emit_template(s, out, q.FINISH)


@subroutine
def free_pages(s, arena, out, f, page, last):
    """Free the blocks of the pages [page, last], the last extent first, two per transaction; emits at most 4 events."""
    last = min(last, arena[f + e.PAGE_COUNT] - 1)
    s.reg[q.COUNT] = 0
    stop = last + 1
    while stop > page:
        words = arena[f + e.PAGES] + stop - 1
        count = 1
        if arena[words] >> e.BLOCK_SHIFT:
            while stop - count > page and arena[words - 1] == arena[words] - e.ONE_BLOCK:
                words -= 1
                count += 1
            block = arena[words] >> e.BLOCK_SHIFT
            release(s, arena, block, count)
            log_free_space(s, arena, block)
            # each transaction logs an intent to free extents and its done item (EFI, EFD)
            if s.reg[q.COUNT] % n.FREE_AT_ONCE == 0:
                add_bytes(s, 2 * n.INTENT)
            add_bytes(s, 2 * n.EXTENT_BYTES)
            s.reg[q.COUNT] += 1
            s.freed_extents += 1
            s.data_blocks -= count
            arena[f + e.MAPPED] -= count
        stop -= count
        arena[f + e.EXTENTS] -= starts_at_ends(arena, f, stop, count)
        for i in range(words, words + count):
            arena[i] = 0
        arena[f + e.EXTENTS] += starts_at_ends(arena, f, stop, count)
        if s.reg[q.COUNT] % n.FREE_AT_ONCE == 0:  # the end of a transaction
            free_leaves(s, arena, f)
    if last == arena[f + e.PAGE_COUNT] - 1:
        arena[f + e.PAGE_COUNT] = min(arena[f + e.PAGE_COUNT], page)
    emit_template(s, out, q.FREED)
    log_extents(s, arena, out, f, page, leaf_goal(s, arena, f, -1), 0)


@subroutine
def truncate(s, arena, out, op, f):
    """Run truncate: clear the rest of the new last page and free the pages after it."""
    size = max(op.new_size, 0)
    call(s, arena, out, f, q.TRUNCATE)
    end = (size + 4095) >> 12
    clear_end(s, arena, out, f, size)
    if size < arena[f + e.SIZE]:
        clear_part(s, arena, out, f, size, -size & 4095)
    # blocks past the file's end stay if the file grows (xfs_setattr_size)
    if size <= arena[f + e.SIZE] and (size < arena[f + e.SIZE] or end < arena[f + e.PAGE_COUNT]):
        free_pages(s, arena, out, f, end, arena[f + e.PAGE_COUNT])
    arena[f + e.SIZE] = size
    note_change(s, arena, out, f)


@subroutine
def note_change(s, arena, out, f):
    """Log a file's inode, and note that an fdatasync must write the next checkpoint."""
    log_inode(s, arena, out, f)
    arena[f + e.DATA_TID] = s.sequence


@subroutine
def reserve_range(s, arena, out, f, first, last):
    """Reserve arena words to fill the holes in the pages [first, last]; return NO_ROOM, FULL (no blocks) or DONE."""
    if holes(arena, f, first, last) > unreserved(s):
        return FULL
    words = table.words_to_hold(arena, f + e.PAGES, last + 1) + 4 * arena[f + e.LEAF_COUNT] + n.WORDS
    if not has_room(s, arena, words + (last + 1 - first) // 8):
        return NO_ROOM
    table.reserve(s, arena, f + e.PAGES, last + 1)
    return DONE


@subroutine
def fill_holes(s, arena, out, f, page, last):
    """Allocate unwritten blocks for the holes in the pages [page, last]."""
    s.reg[q.COUNT], block = 0, np.int64(-1)
    while page <= last:
        count = page_run(s, arena, f, page, last)
        if page >= arena[f + e.PAGE_COUNT] or arena[arena[f + e.PAGES] + page] == 0:
            count = add_blocks(s, arena, f, page, count, e.IS_UNWRITTEN)
            block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
            log_free_space(s, arena, block)
            s.reg[q.COUNT] += 1
        page += count
    s.reg[x.COMPARED], s.compared = s.compared, 0
    emit_template(s, out, q.FALLOCATED)
    log_extents(s, arena, out, f, last, leaf_goal(s, arena, f, block), 0)


PAGES = {
    "free_pages": free_pages, "fill_holes": fill_holes, "reserve_range": reserve_range, "note_change": note_change,
    "ENDS_AT_SIZE": False, "DOES_A_PART": False,
}  # fmt: skip
