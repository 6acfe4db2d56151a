"""Allocator of virtual address ranges: powers of two, each aligned to its size, with a free list per size.

Units: bytes above the start of the area.  It mimics nvmalloc's area; an allocation itself has no cost in the model.
"""

from scmsim.fs.engine.arena import give, take
from scmsim.jit import subroutine

SMALLEST = 21  # log2 of the bytes of a range: the reach of one page of page-table entries
LARGEST = 43
AREA = 15 << 40  # bytes available to all ranges

FIELDS = [("range_top", "i8"), ("range_free", "i8", (LARGEST + 1,))]
# The node of a free range, one word each:
START = 0  # address of the range, bytes
NEXT = 1  # next node of the free list, 0: none
NODE_WORDS = 2
_NODE = 1  # log2 of NODE_WORDS


@subroutine
def order_for(bytes_):
    """Return log2 of the bytes of the smallest range that holds `bytes_` bytes."""
    order = SMALLEST
    while (1 << order) < bytes_:
        order += 1
    return order


@subroutine
def take_range(s, arena, order):
    """Allocate a range of 2**order bytes and return its start; -1 if the area is exhausted."""
    node = s.range_free[order]
    if node != 0:
        s.range_free[order] = arena[node + NEXT]
        start = arena[node + START]
        give(s, arena, node, _NODE)
        return start
    start = (s.range_top + (1 << order) - 1) >> order << order
    if start + (1 << order) > AREA:
        return -1
    s.range_top = start + (1 << order)
    return start


@subroutine
def give_range(s, arena, start, order):
    """Free a range; the arena must have room for NODE_WORDS words."""
    node = take(s, arena, _NODE)
    arena[node + START], arena[node + NEXT] = start, s.range_free[order]
    s.range_free[order] = node
