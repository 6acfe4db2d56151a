"""The index from a file to its blocks: hooks of a family (see `scmsim.jit.binding`).

By default the index takes no blocks, as in memory.  ext4 binds extents, ext2 pointer blocks.  The table LEAVES lists a file's index
blocks; an entry of the table is called a slot.
"""

from scmsim.jit import subroutine

MOST_ABOVE = 0  # maximum number of index blocks that one more page may need


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
    """Add the index blocks that up to `want` pages from `page` on need; return how many of these pages may get blocks at once."""
    return want


@subroutine
def whole(s, arena, f, page, want, bits):
    """Allocate a huge page that contains the hole `page`; its packed page words get the flags `bits`.

    `want` is the number of pages from `page` on that still need blocks.  Returns how many pages from `page` on got blocks, 0 if the
    family has no huge pages or cannot allocate one here.
    """
    return 0


@subroutine
def added(s, arena, f, page, count):
    """Record the index changes after `count` pages from `page` on got blocks."""


@subroutine
def inserted(s, arena, f, page, count, extents):
    """Record the index changes after `count` pages from `page` on became an extent; the file has `extents` extents."""
    added(s, arena, f, page, count)


@subroutine
def to_store(s, arena, f, page, count):
    """Add the index blocks that are needed to store `count` unwritten pages of one extent, from `page` on."""


@subroutine
def merged(s, arena, f):
    """Free the index block that a file no longer needs, after pages got blocks or became written."""


@subroutine
def converted(s, arena, f, is_moved):
    """Add or free index blocks after unwritten pages became written; `is_moved` if they only joined a neighbouring extent."""


@subroutine
def to_punch(s, arena, f, page, last):
    """Add the index blocks that a hole at the pages [page, last] needs, before these pages lose their blocks."""


@subroutine
def punched(s, arena, f):
    """Free the index blocks that no longer lead to a page, after a hole was punched."""


@subroutine
def to_write(s, arena, f, page, count):
    """Record the index changes before `count` unwritten pages of one extent, from `page` on, become written.

    Returns (first page, number of pages, whether the extent is split) of the range that becomes written, which may be larger.
    """
    return page, count, False


@subroutine
def freed(s, arena, f, page, count):
    """Record the index changes that precede the loss of the blocks of `count` pages from `page` on."""


@subroutine
def piece_after(page, end, start, stop):
    """Return, as (first page, page after it), the part of [page, end) that loses its blocks after the part [start, stop).

    `stop` is 0 before the first part; after the last part the result is empty.
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
