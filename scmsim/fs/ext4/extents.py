"""Extent tree of ext4: extents in the inode, or in one level of leaves, ordered by page and evenly filled on average.

Source: Linux fs/ext4/extents.c.
"""

from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import change_groups
from scmsim.jit import subroutine

INLINE = 4  # extents that the inode holds
PER_LEAF = 340
MOST_ZEROED = 8  # blocks: 32 KiB (s_extent_max_zeroout_kb)


@subroutine
def change_leaf(s, arena, f, page, count):
    """Record the change of the leaf that holds the extent of `page`."""
    leaves = arena[f + e.LEAF_COUNT]
    if leaves:
        leaf = min(page * leaves // max(arena[f + e.PAGE_COUNT], 1), leaves - 1)
        join(s, arena, arena[arena[f + e.LEAVES] + leaf])


@subroutine
def blocks_kept(arena, f):
    """Return the number of leaves after a truncation; leaves are freed with the file's last extent."""
    return arena[f + e.LEAF_COUNT] if arena[f + e.EXTENTS] else 0


@subroutine
def drop_leaf(s, arena, f):
    """Free the file's only leaf, whose extents now fit in the inode or were all removed."""
    block = arena[arena[f + e.LEAVES]]
    change_groups(s, arena, block, 1)
    metadata.forget(s, arena, block)
    placement.release_blocks(s, arena, block, 1)
    arena[arena[f + e.LEAVES]], arena[f + e.LEAF_COUNT] = 0, 0
    s.meta_blocks -= 1


@subroutine
def merged(s, arena, f):
    """Move the extents of a file's only leaf into the inode if they fit there (ext4_ext_try_to_merge_up)."""
    if arena[f + e.LEAF_COUNT] == 1 and arena[f + e.EXTENTS] <= INLINE:
        drop_leaf(s, arena, f)


@subroutine
def slots(page):
    """Return the number of leaves that a file needs if each page up to `page` is an extent of its own."""
    return page // PER_LEAF + 1


@subroutine
def leaf_fits(s):
    """Return whether a block is free for a leaf; blocks that are kept for leaves count as free."""
    return s.free_blocks + placement.blocks_to_come(s) + s.kept_blocks - s.reserved > 0


@subroutine
def add_leaves(s, arena, f, extents):
    """Give a file the leaves that `extents` extents need, while blocks are left.

    The table of leaves has room for those of all pages (`slots`).  An extent that does not fit gets its leaf when it is inserted
    (ext4_ext_insert_extent), so before the next extent of the same call gets blocks.  The call's blocks were counted without
    the leaf, so as many of those kept for leaves are lent to it.
    """
    while extents > INLINE and extents > arena[f + e.LEAF_COUNT] * PER_LEAF and leaf_fits(s):
        leaves = arena[f + e.LEAF_COUNT]
        leaf = placement.take_index_block(s, arena, f, arena[f + e.PAGE_COUNT], leaves)
        arena[arena[f + e.LEAVES] + leaves] = leaf
        arena[f + e.LEAF_COUNT] += 1
        s.meta_blocks += 1
        s.lent = s.lent + 1 if s.lent_to == s.seen else 1
        s.lent_to = s.seen
        join(s, arena, leaf)
        change_groups(s, arena, leaf, 1)


@subroutine
def added(s, arena, f, page, count):
    """Record the change of the leaf over new blocks, and add a leaf for their extent if no leaf has room."""
    change_leaf(s, arena, f, page, count)
    add_leaves(s, arena, f, arena[f + e.EXTENTS])


@subroutine
def inserted(s, arena, f, page, count, extents):
    """Record the change of the leaf over new blocks, and add a leaf if `extents` extents need one (ext4_ext_insert_extent)."""
    change_leaf(s, arena, f, page, count)
    add_leaves(s, arena, f, extents)


@subroutine
def to_store(s, arena, f, page, count):
    """Split the unwritten extent of pages that will be stored, which may take a leaf (ext4_split_convert_extents)."""
    last = page + count - 1
    before, after = continued(arena, f, page, -1, 1), continued(arena, f, last, 1, 1)
    add_leaves(s, arena, f, arena[f + e.EXTENTS] + before + after)


@subroutine
def converted(s, arena, f, is_moved):
    """Add a leaf for the extents that a split made; or move the extents of the only leaf into the inode if they fit.

    `is_moved`: pages moved to a neighbouring extent, which leaves the tree unchanged (ext4_ext_convert_to_initialized).
    """
    add_leaves(s, arena, f, arena[f + e.EXTENTS])
    if not is_moved:
        merged(s, arena, f)


@subroutine
def to_punch(s, arena, f, page, last):
    """Split the extent that goes on after the hole [page, last], before its pages are freed (ext4_ext_remove_space).

    The split takes a leaf if the extents, with the new one, do not fit; the leaf stays when fewer are left.
    """
    words = arena[f + e.PAGES] + last
    if last + 1 < arena[f + e.PAGE_COUNT] and is_next(arena[words], arena[words + 1], 1):
        add_leaves(s, arena, f, arena[f + e.EXTENTS] + 1)


@subroutine
def punched(s, arena, f):
    """Free the file's only leaf if no extent is left."""
    if arena[f + e.LEAF_COUNT] == 1 and arena[f + e.EXTENTS] == 0:
        drop_leaf(s, arena, f)


@subroutine
def is_next(word, other, step):
    """Return whether two pages, `step` pages apart, belong to one extent."""
    block = word >> e.BLOCK_SHIFT
    return block != 0 and other >> e.BLOCK_SHIFT == block + step and (word ^ other) & e.IS_UNWRITTEN == 0


@subroutine
def continued(arena, f, page, step, most):
    """Return how many pages, at most `most`, continue the extent of a page after it (step 1) or before it (step -1)."""
    count, at, word = 0, page + step, arena[arena[f + e.PAGES] + page]
    while count < most and 0 <= at < arena[f + e.PAGE_COUNT] and is_next(word, arena[arena[f + e.PAGES] + at], step):
        count, at, word = count + 1, at + step, arena[arena[f + e.PAGES] + at]
    return count


@subroutine
def joins_written(arena, f, page, count):
    """Return whether pages of an unwritten extent continue an adjacent written extent, which then takes them."""
    words = arena[f + e.PAGES] + page
    word = arena[words] - e.IS_UNWRITTEN
    if page > 0 and arena[words - 1] == word - e.ONE_BLOCK:
        return True
    return page + count < arena[f + e.PAGE_COUNT] and arena[words + count] == word + count * e.ONE_BLOCK


@subroutine
def write_alone(s, arena, f, page, count):
    """Make only the given pages written (`index.to_write`)."""
    change_leaf(s, arena, f, page, count)
    return page, count, not joins_written(arena, f, page, count)


@subroutine
def write_short(s, arena, f, page, count):
    """Choose the pages that become written with the given ones (`index.to_write`).

    Pages next to a written extent are merged into it; else the rest of their own extent is zeroed if it is short and
    the whole extent is inside the file.  Source: Linux 5.13 fs/ext4/extents.c: ext4_ext_convert_to_initialized, its
    cases 2, 3 and 5.
    """
    change_leaf(s, arena, f, page, count)
    if joins_written(arena, f, page, count):
        return page, count, False
    last = page + count - 1
    tail, head = continued(arena, f, last, 1, MOST_ZEROED), continued(arena, f, page, -1, MOST_ZEROED)
    if tail == 0 or (count + tail > MOST_ZEROED and head + count >= MOST_ZEROED):
        return page, count, True
    end = (max(arena[f + e.SIZE], (last + 1) << 12) + 4095) >> 12
    if last + continued(arena, f, last, 1, end - last) >= end:
        return page, count, True
    pages = count + tail if count + tail <= MOST_ZEROED else count
    if head + pages < MOST_ZEROED:
        return page - head, head + pages, True
    return page, pages, True


HOOKS = {
    "slots": slots,
    "added": added,
    "inserted": inserted,
    "to_store": to_store,
    "merged": merged,
    "converted": converted,
    "to_punch": to_punch,
    "punched": punched,
    "to_write": write_short,
    "freed": change_leaf,
    "blocks_kept": blocks_kept,
}
