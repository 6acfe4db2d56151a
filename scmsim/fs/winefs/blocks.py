"""Allocate and free the blocks of WineFS's files: a call takes or frees a run, and some calls lose blocks.

Source: WineFS fs/winefs/inode.c (recursive_alloc_blocks, recursive_truncate_blocks, truncate_strong_guarantees,
__winefs_truncate_blocks), winefs.h (check_eof_blocks), file.c (winefs_fallocate).
"""

from scmsim.alloc import aligned_holes, range_tree
from scmsim.core import records
from scmsim.fs.engine import calls, file_row, table
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.jit import subroutine

PAST_END = 8  # STATUS bit: fallocate left blocks after the file's end (WINEFS_EOFBLOCKS_FL)
LEAF_NODES = 700  # maximum tree nodes for the holes that a leaf's blocks, its index nodes and a few other blocks leave


@subroutine
def wanted(s, arena, row, at, stop):
    """Return how many blocks one call allocates: `at` to `stop`, even if some exist; 0 if block `at` is kept."""
    if not s.replacing and table.get(arena, row + pmfs_state.BLOCKS, at) != 0:
        return 0
    return stop - at + 1


@subroutine
def missing(s, arena, op, row, first, stop):
    """Return how many blocks WineFS's allocation calls for data blocks [first, stop) take."""
    if s.replacing:
        # A second copy that meets a hole allocates again.
        holes = stop > arena[row + pmfs_state.BLOCK_COUNT]
        for i in range(first, min(stop, arena[row + pmfs_state.BLOCK_COUNT])):
            holes |= table.get(arena, row + pmfs_state.BLOCKS, i) == 0
        return (stop - first) * (1 + (holes and s.strict and arena[row + pmfs_state.ALIGNED]))
    count, at = 0, first
    while at < stop:
        end = min((at | 511) + 1, stop)
        while (
            at < end and at < arena[row + pmfs_state.BLOCK_COUNT] and table.get(arena, row + pmfs_state.BLOCKS, at) != 0
        ):
            at += 1
        count += end - at
        at = end
    return count


@subroutine
def put_block(s, arena, row, i, block):
    """Point data block `i` to `block`; a relaxed overwrite keeps the old block and frees the new one (free_blk_list).

    Without such a list (from the file's end on, and in fallocate) the block without a pointer is lost.
    """
    before = table.get(arena, row + pmfs_state.BLOCKS, i)
    if before == 0:
        arena[row + file_row.MAPPED] += 1
        table.put(arena, row + pmfs_state.BLOCKS, i, block)
        return
    if s.replacing:
        table.put(arena, row + pmfs_state.OLD, i, before if s.strict else block)
    else:
        s.lost_blocks += 1
        s.data_blocks -= 1
    if s.strict:
        table.put(arena, row + pmfs_state.BLOCKS, i, block)


@subroutine
def give(s, arena, row, start, count):
    """Free a run of a file's blocks."""
    aligned_holes.release(s, arena, start, count)
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        s.dir_blocks -= count
    else:
        s.data_blocks -= count


@subroutine
def free_slots(s, arena, row, field, first, stop):
    """Free the blocks at [first, stop) of a table of the file's row, by runs; return (blocks, runs)."""
    count, runs, start, length = 0, 0, 0, 0
    for i in range(first, stop):
        block = table.get(arena, row + field, i)
        if block == 0 and field == pmfs_state.OLD:
            continue  # the list of replaced blocks has no gaps, so a run may continue
        if length > 0 and block != start + length:
            give(s, arena, row, start, length)
            runs, length = runs + 1, 0
        if block != 0:
            start = block if length == 0 else start
            length += 1
            count += 1
            table.put(arena, row + field, i, 0)
    if length > 0:
        give(s, arena, row, start, length)
        runs += 1
    return count, runs


@subroutine
def can_free(s, arena):
    """Return whether the trees of holes have nodes for the blocks of a leaf."""
    return range_tree.ready(s, arena, LEAF_NODES)


@subroutine
def is_ready(s, arena, op):
    """Return whether the trees of holes have enough nodes for the operation, with one per block that it replaces."""
    pages = (op.length >> 12) + 2 if s.replacing and calls.allocates(op) else 0
    return range_tree.ready(s, arena, LEAF_NODES + pages)


@subroutine
def reserved(s, arena, row, op):
    """Note a fallocate that keeps the file's size."""
    if op.flag & records.KEEP_SIZE:
        arena[row + file_row.STATUS] |= PAST_END


@subroutine
def cuts(s, arena, row, new_size):
    """Return whether a truncate to `new_size` frees blocks: also one that keeps or raises the size, if blocks are after the end."""
    return new_size < arena[row + file_row.SIZE] or arena[row + file_row.STATUS] & PAST_END != 0


@subroutine
def truncated(s, arena, row):
    """Forget the blocks after the file's end once the file's size covers its number of blocks."""
    if arena[row + file_row.SIZE] + 4096 > arena[row + file_row.MAPPED] << 12:
        arena[row + file_row.STATUS] &= ~PAST_END
