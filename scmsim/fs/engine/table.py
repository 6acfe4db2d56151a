"""A growable table of int64 values inside the arena: index -> value, 0 = absent.

A table's handle is two words of the arena: where its block is (0 = none yet) and the block's order.  Used per file: page ->
log entry, page -> block, log page list.
"""

from scmsim.fs.engine.arena import give, order_of, take
from scmsim.jit import kernel

HANDLE_WORDS = 2


@kernel
def words_to_hold(arena, handle, count):
    """Words of arena that a `reserve` of `count` entries may take now (0 if it fits already)."""
    if arena[handle] != 0 and (1 << arena[handle + 1]) >= count:
        return 0
    return 1 << order_of(count)


@kernel
def reserve(s, arena, handle, count):
    """Make room for indices below `count`; the caller has made sure of the arena's room."""
    if arena[handle] != 0 and (1 << arena[handle + 1]) >= count:
        return
    order = order_of(count)
    block = take(s, arena, order)
    old = arena[handle]
    if old != 0:
        for i in range(1 << arena[handle + 1]):
            arena[block + i] = arena[old + i]
        give(s, arena, old, arena[handle + 1])
    arena[handle] = block
    arena[handle + 1] = order


@kernel
def get(arena, handle, i):
    """Value at index i, 0 if it was never set or lies beyond the table."""
    if arena[handle] == 0 or i >= (1 << arena[handle + 1]):
        return 0
    return arena[arena[handle] + i]


@kernel
def put(arena, handle, i, value):
    """Set index i, which `reserve` has made room for."""
    arena[arena[handle] + i] = value


@kernel
def drop(s, arena, handle):
    """Give the table's block back and forget all values."""
    if arena[handle] != 0:
        give(s, arena, arena[handle], arena[handle + 1])
        arena[handle] = 0
        arena[handle + 1] = 0
