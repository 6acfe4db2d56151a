"""Extent tree of ext4: extents in the inode, or in one level of leaves, ordered by page and evenly filled on average.

Source: Linux fs/ext4/extents.c.
"""

from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import metadata, placement
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import blocks_left, change_groups
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
    """Free the file's only leaf, whose extents fit in the inode or are gone."""
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
def punched(s, arena, f):
    """Free the file's only leaf if no extent is left; request a leaf if the extents that a split added need one."""
    if arena[f + e.LEAF_COUNT] == 1 and arena[f + e.EXTENTS] == 0:
        drop_leaf(s, arena, f)
    ensure_index(s, arena, f)


@subroutine
def ensure_index(s, arena, f):
    """Return whether the file's extents fit; if another leaf is needed, request the slow path, which adds it."""
    extents = arena[f + e.EXTENTS]
    if extents > INLINE and extents > arena[f + e.LEAF_COUNT] * PER_LEAF:
        s.grow_file, s.needs_slow_path = f, 1
        return False
    return True


@subroutine
def grow(s, arena):
    """Give the file `s.grow_file` the leaves that it needs, while blocks are left; return False if the arena must grow."""
    f = s.grow_file
    while f and not ensure_index(s, arena, f) and blocks_left(s) + s.kept_blocks > 0:
        leaves = arena[f + e.LEAF_COUNT]
        if not has_room(s, arena, 4 * leaves + e.ROOM):
            return False
        table.reserve(s, arena, f + e.LEAVES, leaves + 1)
        leaf = placement.take_index_block(s, arena, f, arena[f + e.PAGE_COUNT], leaves)
        arena[arena[f + e.LEAVES] + leaves] = leaf
        arena[f + e.LEAF_COUNT] += 1
        s.meta_blocks += 1
        join(s, arena, leaf)
        change_groups(s, arena, leaf, 1)
    s.grow_file = 0
    return True


@subroutine
def continued(arena, f, page, step, most):
    """Return how many pages, at most `most`, continue the extent of a page after it (step 1) or before it (step -1)."""
    count, at, word = 0, page + step, arena[arena[f + e.PAGES] + page]
    while (
        count < most
        and 0 <= at < arena[f + e.PAGE_COUNT]
        and arena[arena[f + e.PAGES] + at] == word + step * e.ONE_BLOCK
    ):
        count, at, word = count + 1, at + step, word + step * e.ONE_BLOCK
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
    "added": change_leaf,
    "merged": merged,
    "punched": punched,
    "to_write": write_short,
    "freed": change_leaf,
    "blocks_kept": blocks_kept,
    "ensure_index": ensure_index,
    "grow": grow,
}
