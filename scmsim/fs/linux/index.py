"""The index from a file to its blocks: hooks of a family (see `scmsim.jit.binding`).

By default the index takes no blocks, as in memory.  ext4 binds extents, ext2 pointer blocks.  The table LEAVES holds a file's index
blocks, each in its slot.
"""

from scmsim.jit import subroutine

MOST_ABOVE = 0  # most index blocks that one more page may need


@subroutine
def slots(page):
    """Return how many slots the table of index blocks needs so that the file can reach `page`."""
    return 0


@subroutine
def missing(arena, f, page, last):
    """Return the number of index blocks that a file lacks for the pages [page, last]."""
    return 0


@subroutine
def reach(s, arena, f, page, want):
    """Add the index blocks that `want` pages from `page` on need; return how many of the pages these blocks can map."""
    return want


@subroutine
def whole(s, arena, f, page, want, bits):
    """Allocate several pages at once, before `page`, a hole, gets a block; their words get the flags `bits`.

    At least `want` more pages are needed.  Returns how many pages from `page` on got blocks.
    """
    return 0


@subroutine
def added(s, arena, f, page, count):
    """Record the index changes after `count` pages from `page` on got blocks."""


@subroutine
def inserted(s, arena, f, page, count, extents):
    """Record the index changes after `count` pages from `page` on became a new extent; the file now has `extents`."""
    added(s, arena, f, page, count)


@subroutine
def to_store(s, arena, f, page, count):
    """Add the index blocks that are needed before `count` unwritten pages from `page` on, of one extent, are stored."""


@subroutine
def merged(s, arena, f):
    """Free the index block that a file no longer needs, after pages got blocks or became written."""


@subroutine
def converted(s, arena, f, is_moved):
    """Add or free index blocks after unwritten pages became written; `is_moved`: they only moved to a neighbouring extent."""


@subroutine
def to_punch(s, arena, f, page, last):
    """Add the index blocks that a hole at the pages [page, last] needs, before these lose their blocks."""


@subroutine
def punched(s, arena, f):
    """Free the index blocks that no longer lead to a page, after a hole was punched."""


@subroutine
def to_write(s, arena, f, page, count):
    """Record the index changes before `count` unwritten pages from `page` on, of one extent, become written.

    Returns the pages that become written with them: (first, how many, whether an extent is split for them).
    """
    return page, count, False


@subroutine
def freed(s, arena, f, page, count):
    """Record the index changes before `count` pages from `page` on lose their blocks."""


@subroutine
def piece_after(page, end, start, stop):
    """Return (first page, page after) of the piece of [page, end) that loses its blocks after the piece [start, stop).

    `stop` is 0 before the first piece; after the last one the result is empty.
    """
    return (page, end) if stop == 0 else (end, end)


@subroutine
def above(slot):
    """Return the slot of the index block that points to the index block in `slot`; -1 if the inode does."""
    return -1


@subroutine
def blocks_kept(arena, f):
    """Return the number of index blocks that a file needs after a truncation."""
    return 0
