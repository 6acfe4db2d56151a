"""Ranges of virtual addresses in powers of two, each aligned to its size; a range given back is used again for its size.

Units: bytes above the start of the area.  As a nvmalloc area would hand them out; the addresses themselves cost nothing.
"""

from scmsim.fs.engine.arena import give, take
from scmsim.jit import subroutine

SMALLEST = 21  # log2 of the bytes of a range: the reach of one page of page-table entries
LARGEST = 43
AREA = 15 << 40  # bytes that ranges may take in all

FIELDS = [("range_top", "i8"), ("range_free", "i8", (LARGEST + 1,))]
_NODE = 1  # arena order of a free range: its address, and the next free one
NODE_WORDS = 2


@subroutine
def order_for(bytes_):
    """Order of the smallest range that holds `bytes_` bytes."""
    order = SMALLEST
    while (1 << order) < bytes_:
        order += 1
    return order


@subroutine
def take_range(s, arena, order):
    """Start of a free range of 2**order bytes, -1 if the area is used up."""
    node = s.range_free[order]
    if node != 0:
        s.range_free[order] = arena[node + 1]
        start = arena[node]
        give(s, arena, node, _NODE)
        return start
    start = (s.range_top + (1 << order) - 1) >> order << order
    if start + (1 << order) > AREA:
        return -1
    s.range_top = start + (1 << order)
    return start


@subroutine
def give_range(s, arena, start, order):
    """Give a range back; the caller has made sure of NODE_WORDS words."""
    node = take(s, arena, _NODE)
    arena[node], arena[node + 1] = start, s.range_free[order]
    s.range_free[order] = node
