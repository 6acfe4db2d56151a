"""Extents that were freed since the last checkpoint of XFS: a red-black tree of each allocation group.

A search trims a free run by the busy extents on its way down the tree.  Where it keeps one side of an extent, it does not see the
extents of the other subtree.  So the tree's shape and the order in which extents were freed decide what is left of a run.
Source: Linux 6.1 fs/xfs/xfs_extent_busy.c, lib/rbtree.c.  Unit: blocks of 4096 bytes.
"""

from scmsim.jit import kernel

FIELDS = [
    ("spare_nodes", "i8"),  # list of unused nodes, linked by LEFT, and its length
    ("spare_count", "i8"),
    ("is_stocked", "i8"),  # set once the current operation has the nodes that it may need
]

# A node, one word each:
START = 0  # first block
LENGTH = 1  # blocks
LEFT = 2  # nodes below, 0: none
RIGHT = 3
PARENT = 4  # node above, 0: the root
IS_RED = 5
NODE_ORDER = 3  # log2 of a node's words


@kernel
def keep(s, arena, node):
    """Add a node of 2**NODE_ORDER words to the list of unused nodes."""
    arena[node + LEFT] = s.spare_nodes
    s.spare_nodes = node
    s.spare_count += 1


@kernel
def rotate(arena, root, node, side):
    """Move a node down to `side`, below its child of the other side."""
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
    """Add the extent [start, start + length) to the tree whose root is at arena[root]; a node must be in stock."""
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
    """Return whether a block of [start, end) is busy."""
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
        # the right side is only used if much longer: backward allocation scatters directories
        elif busy_end >= end or busy - start >= need:
            end = busy
        elif end - busy_end >= 4 * need:
            start = busy_end
        else:
            return first, first
    return start, end
