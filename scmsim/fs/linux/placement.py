"""Allocation of the blocks of files: hooks of a family (see `scmsim.jit.binding`).

By default a file takes the first free blocks, as in tmpfs.  ext4 and ext2 bind the multiblock allocator (`preallocation`).
"""

from scmsim.alloc import first_fit
from scmsim.jit import subroutine


@subroutine
def take_blocks(s, arena, f, page, want, bits):
    """Take up to `want` adjacent blocks for the pages from `page` on and return the first; `s.got` is their number.

    At least one block is free.  `bits` are the flags that the pages' words get.
    """
    return first_fit.allocate(s, arena, want)


@subroutine
def take_index_block(s, arena, f, page, slot):
    """Take a block for the file's index block in `slot`, which leads to `page`; return the block."""
    return first_fit.allocate(s, arena, 1)


@subroutine
def release_blocks(s, arena, block, count):
    """Free the blocks [block, block + count)."""
    first_fit.release(s, arena, block, count)


@subroutine
def discard_preallocations(s, arena, f):
    """Free the blocks that are reserved for a file and hold none of its pages."""


@subroutine
def blocks_to_come(s):
    """Return how many blocks are preallocated or become free at the next commit, minus those kept for index blocks."""
    return 0


@subroutine
def committed(s, arena):
    """Free the blocks that the committed transaction freed."""
