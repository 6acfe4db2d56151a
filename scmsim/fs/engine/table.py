"""A growable table of int64 values inside the arena: index -> value, 0 = absent.

Uses per file: page -> log entry, page -> block, list of log pages.
"""

from scmsim.fs.engine.arena import give, order_of, take
from scmsim.jit import kernel

# A table's handle, one word each:
ENTRIES = 0  # arena offset of the entries, 0: none yet
ORDER = 1  # log2 of the entries that fit
HANDLE_WORDS = 2


@kernel
def words_to_hold(arena, handle, count):
    """Return how many arena words a `reserve` of `count` entries allocates now (0 if the entries already fit)."""
    if arena[handle + ENTRIES] != 0 and (1 << arena[handle + ORDER]) >= count:
        return 0
    return 1 << order_of(count)


@kernel
def reserve(s, arena, handle, count):
    """Extend the table to indices below `count`; the arena must have room (`words_to_hold`)."""
    if arena[handle + ENTRIES] != 0 and (1 << arena[handle + ORDER]) >= count:
        return
    order = order_of(count)
    block = take(s, arena, order)
    old = arena[handle + ENTRIES]
    if old != 0:
        for i in range(1 << arena[handle + ORDER]):
            arena[block + i] = arena[old + i]
        give(s, arena, old, arena[handle + ORDER])
    arena[handle + ENTRIES] = block
    arena[handle + ORDER] = order


@kernel
def get(arena, handle, i):
    """Return the value at index i, 0 if it was never set or is past the table's end."""
    if arena[handle + ENTRIES] == 0 or i >= (1 << arena[handle + ORDER]):
        return 0
    return arena[arena[handle + ENTRIES] + i]


@kernel
def put(arena, handle, i, value):
    """Set the value at index i, which `reserve` must have made available."""
    arena[arena[handle + ENTRIES] + i] = value


@kernel
def drop(s, arena, handle):
    """Free the table's block and forget all values."""
    if arena[handle + ENTRIES] != 0:
        give(s, arena, arena[handle + ENTRIES], arena[handle + ORDER])
        arena[handle + ENTRIES] = 0
        arena[handle + ORDER] = 0
