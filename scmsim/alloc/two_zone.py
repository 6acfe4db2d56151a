"""A device in two zones: normal pages below a boundary, superpages of 2 MiB above it.

Models SCMFS's allocator for superpages.  Source: SCMFS superpage paper (2013), IV.A and IV.C: the boundary is set at mount, and
four functions serve files.  The normal zone uses `first_fit`; free superpages are on a stack, at first with the lowest on top.  The
paper does not state what happens when a zone is full; here `lend` moves a whole superpage to the normal zone for good, and counts
the move.  Unit: blocks of 4096 bytes.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.jit import kernel

SUPERPAGE = 512  # blocks
STEP = 4096  # the boundary is a multiple of this many blocks (16 MiB), i.e. of a word of the bitmap's summary

FIELDS = [
    *first_fit.FIELDS,  # `free_blocks` counts the normal zone alone
    ("stack", "i8"),  # arena offset of the free superpages
    ("free_supers", "i8"),
    ("supers", "i8"),  # superpages that the zone had at the start
    ("boundary", "i8"),  # first block of the superpage zone
    ("device_blocks", "i8"),
    ("lent", "i8"),  # superpages moved to the normal zone
]


def boundary_of(reserved: int, blocks: int, percent: int) -> int:
    """Return the boundary that gives the normal zone about `percent` of the device; `blocks` if no superpage is left."""
    boundary = max(blocks * percent // 100, reserved + 1)
    boundary = -(-boundary // STEP) * STEP
    return boundary if boundary + SUPERPAGE <= blocks else blocks


def arena_words(blocks: int, boundary: int) -> int:
    """Return the number of arena words that `attach` reserves."""
    if boundary == blocks:
        return first_fit.arena_words(min(blocks, 2 * first_fit.AT_ONCE))
    return first_fit.arena_words(blocks) + (blocks - boundary) // SUPERPAGE


def attach(state, reserved: int, blocks: int, boundary: int) -> None:
    """Lay out both zones, with the blocks [reserved, boundary) and all whole superpages from `boundary` on free."""
    record = state.record[0]
    whole = boundary == blocks
    first_fit.attach(state, reserved, blocks, first_fit.AT_ONCE if whole else None)
    record.device_blocks, record.boundary = blocks, boundary
    record.supers = record.free_supers = (blocks - boundary) // SUPERPAGE
    if whole:
        return
    state.arena[record.bits + boundary // 64 : record.summary] = 0
    words = -(-blocks // 64)
    state.arena[record.summary + boundary // STEP : record.summary + -(-words // 64)] = 0
    record.free_blocks -= blocks - boundary
    record.stack = record.arena_top
    record.arena_top += record.supers
    stack = np.arange(record.supers)[::-1] * SUPERPAGE + boundary
    state.arena[record.stack : record.arena_top] = stack


@kernel
def free_everywhere(s):
    """Return the number of free blocks in both zones."""
    return s.free_blocks + s.free_supers * SUPERPAGE


@kernel
def nvmalloc_superpage(s, arena, where, count):
    """Allocate `count` superpages, with their first blocks listed at arena[where]; return `count`, or 0 if too few are free."""
    if count > s.free_supers:
        return 0
    for k in range(count):
        s.free_supers -= 1
        arena[where + k] = arena[s.stack + s.free_supers]
    return count


@kernel
def nvfree_superpage(s, arena, where, count):
    """Free the `count` superpages listed at arena[where], and clear the list."""
    for k in range(where + count - 1, where - 1, -1):
        arena[s.stack + s.free_supers] = arena[k]
        s.free_supers += 1
        arena[k] = 0


@kernel
def nvmalloc_expand_superpage(s, arena, where, held, wanted):
    """Grow a list of `held` superpages to `wanted`; return its new length, or `held` if too few superpages are free."""
    return held + nvmalloc_superpage(s, arena, where + held, wanted - held)


@kernel
def nvmalloc_shrink_superpage(s, arena, where, held, wanted):
    """Free the superpages of a list from index `wanted` on; return its new length."""
    if wanted < held:
        nvfree_superpage(s, arena, where + wanted, held - wanted)
    return min(held, wanted)


@kernel
def lend(s, arena):
    """Move a free superpage to the normal zone; return False if there is none."""
    if s.free_supers == 0:
        return False
    s.free_supers -= 1
    first_fit.release(s, arena, arena[s.stack + s.free_supers], SUPERPAGE)
    s.lent += 1
    return True
