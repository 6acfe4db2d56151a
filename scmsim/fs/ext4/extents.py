"""ext4's extent tree: extents in the inode, or in one level of leaves, ordered by page and evenly filled on average.

Source: Linux fs/ext4/extents.c.
"""

from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.ext4.jbd2 import join
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import blocks_left, change_groups, take_blocks
from scmsim.jit import subroutine

INLINE = 4  # extents that the inode holds
PER_LEAF = 340


@subroutine
def change_leaf(s, arena, f, page, count):
    """The leaf that has the extent of `page` changes."""
    leaves = arena[f + e.LEAF_COUNT]
    if leaves:
        leaf = min(page * leaves // max(arena[f + e.END], 1), leaves - 1)
        join(s, arena, arena[arena[f + e.LEAVES] + leaf])


@subroutine
def kept(arena, f):
    """Leaves that a file needs after a truncation; they go with its last page."""
    return arena[f + e.LEAF_COUNT] if arena[f + e.END] else 0


@subroutine
def fits(s, arena, f):
    """False if the file's extents need another leaf, which is left to the kernel of the rare operations."""
    extents = arena[f + e.EXTENTS]
    if extents > INLINE and extents > arena[f + e.LEAF_COUNT] * PER_LEAF:
        s.grow_file, s.rare = f, 1
        return False
    return True


@subroutine
def grow(s, arena):
    """Give the file `s.grow_file` the leaves that it needs, as long as there are blocks for them; False: no words."""
    f = s.grow_file
    while f and not fits(s, arena, f) and blocks_left(s) > 0:
        leaves = arena[f + e.LEAF_COUNT]
        if not has_room(s, arena, 4 * leaves + e.ROOM):
            return False
        table.reserve(s, arena, f + e.LEAVES, leaves + 1)
        leaf = take_blocks(s, arena, f, arena[f + e.END], 1)
        arena[arena[f + e.LEAVES] + leaves] = leaf
        arena[f + e.LEAF_COUNT] += 1
        s.meta_blocks += 1
        join(s, arena, leaf)
        change_groups(s, arena, leaf, 1)
    s.grow_file = 0
    return True


HOOKS = {"added": change_leaf, "freed": change_leaf, "kept": kept, "fits": fits, "grow": grow}
