"""Red-black trees of block ranges, as Linux's rbtree keeps them, in one pool of nodes inside the arena.

A tree is not always sorted, since a caller may change the range of a node in place, and WineFS inserts a node before it sets the
node's range.  So the shape of a tree decides what a search finds, and the shape must be that of Linux.
Source: Linux lib/rbtree.c; Cormen et al., Introduction to Algorithms, chapter 13.  Node 0 is the leaf of all trees.
"""

import numpy as np

from scmsim.jit import kernel

LEFT, RIGHT, PARENT, RED, LOW, HIGH = range(6)
WORDS = 6  # arena words of a node
EMPTY = -1  # value of HIGH in a node that is in no tree
FIELDS = [
    ("pool", "i8"),  # arena offset of node 0
    ("pool_nodes", "i8"),  # nodes of the pool, node 0 included
    ("unused", "i8"),  # number of nodes that are in no tree
    ("unused_first", "i8"),  # first node that is in no tree; LEFT links to the next
]


@kernel
def ready(s, arena, nodes):
    """Make at least `nodes` nodes unused; return False, with `need_words` set, if the arena is too small."""
    if s.unused >= nodes:
        return True
    held = s.pool_nodes
    more = max(held, nodes - s.unused) + (held == 0)
    if s.arena_top + (held + more) * WORDS > arena.size:
        s.need_words = (held + more) * WORDS
        return False
    to = s.arena_top
    s.arena_top += (held + more) * WORDS
    for w in range(held * WORDS):
        arena[to + w] = arena[s.pool + w]
    s.pool, s.pool_nodes = to, held + more
    for n in range(held + more - 1, max(held, 1) - 1, -1):
        put(s, arena, n, LEFT, s.unused_first)
        put(s, arena, n, HIGH, EMPTY)
        s.unused_first = n
        s.unused += 1
    return True


def ranges(record, arena: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (low, high) of the nodes of all trees, unordered."""
    nodes = arena[record.pool : record.pool + record.pool_nodes * WORDS].reshape(-1, WORDS)[1:]
    nodes = nodes[nodes[:, HIGH] != EMPTY]
    return nodes[:, LOW], nodes[:, HIGH]


@kernel
def get(s, arena, n, field):
    """Return a field of a node."""
    return arena[s.pool + n * WORDS + field]


@kernel
def put(s, arena, n, field, value):
    """Set a field of a node."""
    arena[s.pool + n * WORDS + field] = value


@kernel
def _replace(s, arena, root, n, by):
    """Put node `by`, or node 0, in the place of a node; return the tree's root."""
    parent = get(s, arena, n, PARENT)
    if not parent:
        root = by
    elif get(s, arena, parent, LEFT) == n:
        put(s, arena, parent, LEFT, by)
    else:
        put(s, arena, parent, RIGHT, by)
    put(s, arena, by, PARENT, parent)  # also if `by` is node 0: `erase` repairs the tree from there on
    return root


@kernel
def _rotate(s, arena, root, n, left):
    """Rotate at a node, to the left if `left` is 1, else to the right; return the tree's root."""
    near, far = (LEFT, RIGHT) if left else (RIGHT, LEFT)
    child = get(s, arena, n, far)
    moved = get(s, arena, child, near)
    put(s, arena, n, far, moved)
    if moved:
        put(s, arena, moved, PARENT, n)
    root = _replace(s, arena, root, n, child)
    put(s, arena, child, near, n)
    put(s, arena, n, PARENT, child)
    return root


@kernel
def insert(s, arena, root, key, low, high):
    """Insert an unused node where a search for `key` ends, then give it a range; return (root, node)."""
    node = s.unused_first
    s.unused_first, s.unused = get(s, arena, node, LEFT), s.unused - 1
    at, parent = root, 0
    while at:
        parent = at
        at = get(s, arena, at, LEFT if key < get(s, arena, at, LOW) else RIGHT)
    put(s, arena, node, LEFT, 0)
    put(s, arena, node, RIGHT, 0)
    put(s, arena, node, PARENT, parent)
    put(s, arena, node, RED, 1)
    put(s, arena, node, LOW, low)
    put(s, arena, node, HIGH, high)
    if not parent:
        root = node
    elif key < get(s, arena, parent, LOW):
        put(s, arena, parent, LEFT, node)
    else:
        put(s, arena, parent, RIGHT, node)
    n = node
    while get(s, arena, get(s, arena, n, PARENT), RED):
        up = get(s, arena, n, PARENT)
        top = get(s, arena, up, PARENT)
        left = 1 if get(s, arena, top, LEFT) == up else 0
        aunt = get(s, arena, top, RIGHT if left else LEFT)
        if get(s, arena, aunt, RED):
            put(s, arena, up, RED, 0)
            put(s, arena, aunt, RED, 0)
            put(s, arena, top, RED, 1)
            n = top
            continue
        if n == get(s, arena, up, RIGHT if left else LEFT):
            root = _rotate(s, arena, root, up, left)
            up = n
        put(s, arena, up, RED, 0)
        put(s, arena, top, RED, 1)
        root = _rotate(s, arena, root, top, 1 - left)
        break
    put(s, arena, root, RED, 0)
    return root, node


@kernel
def erase(s, arena, root, n):
    """Remove a node from its tree and make the node unused; return the tree's root."""
    left, right, red = get(s, arena, n, LEFT), get(s, arena, n, RIGHT), get(s, arena, n, RED)
    if not left or not right:
        at = left or right
        root = _replace(s, arena, root, n, at)
    else:
        heir = right
        while get(s, arena, heir, LEFT):
            heir = get(s, arena, heir, LEFT)
        red, at = get(s, arena, heir, RED), get(s, arena, heir, RIGHT)
        if heir == right:
            put(s, arena, at, PARENT, heir)
        else:
            root = _replace(s, arena, root, heir, at)
            put(s, arena, heir, RIGHT, right)
            put(s, arena, right, PARENT, heir)
        root = _replace(s, arena, root, n, heir)
        put(s, arena, heir, LEFT, left)
        put(s, arena, left, PARENT, heir)
        put(s, arena, heir, RED, get(s, arena, n, RED))
    if not red:
        root = _repair(s, arena, root, at)
    put(s, arena, n, LEFT, s.unused_first)
    put(s, arena, n, HIGH, EMPTY)
    s.unused_first, s.unused = n, s.unused + 1
    return root


@kernel
def _repair(s, arena, root, at):
    """Rebalance the tree after node `at` took the place of a removed black node; return the root."""
    while at != root and not get(s, arena, at, RED):
        up = get(s, arena, at, PARENT)
        left = 1 if get(s, arena, up, LEFT) == at else 0
        near, far = (LEFT, RIGHT) if left else (RIGHT, LEFT)
        sister = get(s, arena, up, far)
        if get(s, arena, sister, RED):
            put(s, arena, sister, RED, 0)
            put(s, arena, up, RED, 1)
            root = _rotate(s, arena, root, up, left)
            sister = get(s, arena, up, far)
        inner, outer = get(s, arena, sister, near), get(s, arena, sister, far)
        if not get(s, arena, inner, RED) and not get(s, arena, outer, RED):
            put(s, arena, sister, RED, 1)
            at = up
            continue
        if not get(s, arena, outer, RED):
            put(s, arena, inner, RED, 0)
            put(s, arena, sister, RED, 1)
            root = _rotate(s, arena, root, sister, 1 - left)
            sister = inner
        put(s, arena, sister, RED, get(s, arena, up, RED))
        put(s, arena, up, RED, 0)
        put(s, arena, get(s, arena, sister, far), RED, 0)
        root = _rotate(s, arena, root, up, left)
        at = root
    put(s, arena, at, RED, 0)
    return root


@kernel
def end_of(s, arena, n, side):
    """Return the first (LEFT) or last (RIGHT) node of the subtree of node `n`; 0 for node 0."""
    while n and get(s, arena, n, side):
        n = get(s, arena, n, side)
    return n


@kernel
def neighbour(s, arena, n, side):
    """Return the node after (RIGHT) or before (LEFT) a node in the tree's order; 0 if there is none."""
    below = get(s, arena, n, side)
    if below:
        return end_of(s, arena, below, LEFT if side == RIGHT else RIGHT)
    up = get(s, arena, n, PARENT)
    while up and get(s, arena, up, side) == n:
        n, up = up, get(s, arena, up, PARENT)
    return up


@kernel
def around(s, arena, root, low, high):
    """Return the nodes (before, after) a free range, as a search for its first block finds them; 0 for none."""
    at, last = root, 0
    while at:
        last = at
        if low < get(s, arena, at, LOW):
            at = get(s, arena, at, LEFT)
        elif low > get(s, arena, at, HIGH):
            at = get(s, arena, at, RIGHT)
        else:
            break
    if not last:
        return 0, 0
    if get(s, arena, last, HIGH) < low:
        return last, neighbour(s, arena, last, RIGHT)
    return neighbour(s, arena, last, LEFT), last
