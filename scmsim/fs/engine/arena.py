"""Allocator of int64 words inside the arena: blocks are powers of two, with a free list per size.

Freed blocks are reused, so the arena's size follows the blocks in use at the same time, not the number of operations.
"""

from scmsim.jit import kernel


@kernel
def order_of(words):
    """Return log2 of the smallest power of two that is at least `words`."""
    order = 0
    while (1 << order) < words:
        order += 1
    return order


@kernel
def has_room(s, arena, words):
    """Return whether `words` more words fit; if not, request them from Python through `need_words`."""
    if s.arena_top + words <= arena.size:
        return True
    s.need_words = words
    return False


@kernel
def take(s, arena, order):
    """Allocate a zeroed block of 2**order words and return its offset; the caller must have called `has_room`."""
    block = s.arena_free[order]
    if block >= 0:
        # a free block's first word links to the next free block
        s.arena_free[order] = arena[block]
    else:
        block = s.arena_top
        s.arena_top += 1 << order
    for i in range(block, block + (1 << order)):
        arena[i] = 0
    return block


@kernel
def give(s, arena, block, order):
    """Free a block of 2**order words."""
    arena[block] = s.arena_free[order]
    s.arena_free[order] = block
