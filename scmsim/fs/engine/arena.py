"""Blocks of int64 words inside the arena: powers of two, freed blocks go to a list per size and are used again.

So the arena's size follows what is alive at the same time, not the number of operations.
"""

from scmsim.jit import kernel


@kernel
def order_of(words):
    """Smallest power of two that holds `words` words, as an exponent."""
    order = 0
    while (1 << order) < words:
        order += 1
    return order


@kernel
def has_room(s, arena, words):
    """Whether `words` more words fit; if not, asks Python for them through `need_words`."""
    if s.arena_top + words <= arena.size:
        return True
    s.need_words = words
    return False


@kernel
def take(s, arena, order):
    """Offset of a zeroed block of 2**order words.  The caller has made sure of room with `has_room`."""
    block = s.arena_free[order]
    if block >= 0:
        s.arena_free[order] = arena[block]
    else:
        block = s.arena_top
        s.arena_top += 1 << order
    for i in range(block, block + (1 << order)):
        arena[i] = 0
    return block


@kernel
def give(s, arena, block, order):
    """Return a block of 2**order words."""
    arena[block] = s.arena_free[order]
    s.arena_free[order] = block
