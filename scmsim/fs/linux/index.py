"""What leads from a file to its blocks: hooks of a family (see `scmsim.jit.binding`).

By default nothing that takes blocks itself, as in memory.  ext4 binds extents, ext2 pointer blocks.  A file's index blocks stand in
the table LEAVES, each in its slot.
"""

from scmsim.jit import subroutine

MOST_ABOVE = 0  # index blocks that one more page may take


@subroutine
def slots(page):
    """Slots that the table of a file with page `page` has."""
    return 0


@subroutine
def missing(arena, f, page, last):
    """Index blocks that a file does not have yet and needs for the pages [page, last]."""
    return 0


@subroutine
def reach(s, arena, f, page, want):
    """Before `want` pages from `page` on get blocks: index blocks on the way to them; returns how many of them those lead to."""
    return want


@subroutine
def whole(s, arena, f, page, want, bits):
    """Before `page`, a hole, gets a block: how many pages from it on, of `want` or more, come at once; their words get `bits`."""
    return 0


@subroutine
def added(s, arena, f, page, count):
    """The index changes, since `count` pages from `page` on got blocks."""


@subroutine
def to_write(s, arena, f, page, count):
    """The index changes, since `count` pages from `page` on, of one extent without content, get content.

    Returns which pages get it with them: (first, how many, whether an extent is split for them).
    """
    return page, count, False


@subroutine
def freed(s, arena, f, page, count):
    """The index changes, since `count` pages from `page` on lose their blocks."""


@subroutine
def above(slot):
    """Slot of the index block that names the one in `slot`, -1 if the inode does."""
    return -1


@subroutine
def kept(arena, f):
    """Index blocks that a file needs after a truncation."""
    return 0


@subroutine
def fits(s, arena, f):
    """Whether the index holds all of a file's extents; if not, `grow` is due: `s.grow_file` and `s.rare` are set."""
    return True


@subroutine
def grow(s, arena):
    """Give the file `s.grow_file` the index blocks that it needs; False: the arena has no room."""
    s.grow_file = 0
    return True
