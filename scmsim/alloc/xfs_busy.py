"""Busy extents of XFS (blocks freed since the last checkpoint): a red-black tree per allocation group.

A search trims a free run by the busy extents on its path down the tree.  After it keeps one side of an extent, it does not see
extents in the other subtree.  So the shape of the tree, which follows the order of frees, decides what is left of a run.
Source: Linux 6.1 fs/xfs/xfs_extent_busy.c, lib/rbtree.c.  Unit: blocks of 4096 bytes.
"""

from scmsim.jit import kernel

FIELDS = [
    ("spare_nodes", "i8"),  # list of unused nodes, linked by LEFT, and its length
    ("spare_count", "i8"),
    ("is_stocked", "i8"),  # 1 once the nodes that the current operation may need are on the list of unused nodes
]

# Fields of a node, one arena word each:
START = 0  # first block
LENGTH = 1  # blocks
LEFT = 2  # child nodes; 0 if none
RIGHT = 3
PARENT = 4  # parent node; 0 in the root
IS_RED = 5
NODE_ORDER = 3  # log2 of the arena words of a node


@kernel
def keep(s, arena, node):
    """Add a node of 2**NODE_ORDER words to the list of unused nodes."""
    arena[node + LEFT] = s.spare_nodes
    s.spare_nodes = node
    s.spare_count += 1


@kernel
def rotate(arena, root, node, side):
    """Rotate a node down to `side`: its child on the other side takes its place."""
    other = LEFT + RIGHT - side
    child, parent = arena[node + other], arena[node + PARENT]
    inner = arena[child + side]
    arena[node + other] = inner
    if inner:
        arena[inner + PARENT] = node
    arena[child + PARENT] = parent
    if parent == 0:
        arena[root] = child
    else:
        arena[parent + (LEFT if arena[parent + LEFT] == node else RIGHT)] = child
    arena[child + side], arena[node + PARENT] = node, child


@kernel
def balance(arena, root, node):
    """Restore the colours above a new red node (rb_insert_color)."""
    while True:
        parent = arena[node + PARENT]
        if parent == 0:
            arena[node + IS_RED] = 0
            return
        if arena[parent + IS_RED] == 0:
            return
        above = arena[parent + PARENT]
        side = LEFT if arena[above + LEFT] == parent else RIGHT
        uncle = arena[above + LEFT + RIGHT - side]
        if uncle and arena[uncle + IS_RED]:
            arena[uncle + IS_RED], arena[parent + IS_RED], arena[above + IS_RED] = 0, 0, 1
            node = above
            continue
        if arena[parent + side] != node:
            rotate(arena, root, parent, side)
            parent = node
        arena[parent + IS_RED], arena[above + IS_RED] = 0, 1
        rotate(arena, root, above, LEFT + RIGHT - side)
        return


@kernel
def insert(s, arena, root, start, length):
    """Add the extent [start, start + length) to the tree with its root at arena[root]; an unused node must be on the list."""
    node = s.spare_nodes
    if node == 0:
        return
    s.spare_nodes = arena[node + LEFT]
    s.spare_count -= 1
    parent, link = 0, root
    while arena[link]:
        parent = arena[link]
        link = parent + (LEFT if start < arena[parent + START] else RIGHT)
    arena[node + START], arena[node + LENGTH], arena[node + IS_RED] = start, length, 1
    arena[node + LEFT], arena[node + RIGHT], arena[node + PARENT] = 0, 0, parent
    arena[link] = node
    balance(arena, root, node)


@kernel
def clear(s, arena, root):
    """Remove all extents of a tree."""
    node = arena[root]
    while node:
        child = arena[node + LEFT] if arena[node + LEFT] else arena[node + RIGHT]
        if child:
            node = child
            continue
        parent = arena[node + PARENT]
        if parent:
            arena[parent + (LEFT if arena[parent + LEFT] == node else RIGHT)] = 0
        keep(s, arena, node)
        node = parent
    arena[root] = 0


@kernel
def overlaps(arena, root, start, end):
    """Return whether any block of [start, end) is busy."""
    node = arena[root]
    while node:
        if end <= arena[node + START]:
            node = arena[node + LEFT]
        elif start >= arena[node + START] + arena[node + LENGTH]:
            node = arena[node + RIGHT]
        else:
            return True
    return False


@kernel
def trim(arena, root, start, end, need):
    """Return the part of the free run [start, end) that a search for `need` blocks uses, as (start, end) (xfs_extent_busy_trim)."""
    node, first = arena[root], start
    while node and end - start >= need:
        busy, busy_end = arena[node + START], arena[node + START] + arena[node + LENGTH]
        if end <= busy:
            node = arena[node + LEFT]
        elif start >= busy_end:
            node = arena[node + RIGHT]
        elif busy <= start:
            if end <= busy_end:
                return first, first
            start = busy_end
        # the right part is used only if it is much longer: allocation backwards would scatter directories
        elif busy_end >= end or busy - start >= need:
            end = busy
        elif end - busy_end >= 4 * need:
            start = busy_end
        else:
            return first, first
    return start, end
