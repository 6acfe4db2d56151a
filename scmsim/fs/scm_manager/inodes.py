"""Where a file's inode lies: hooks of a variant (see `scmsim.jit.binding`).  By default it has its place and needs none made."""

from scmsim.jit import subroutine

changed = None  # (s, arena, out, row): the inode changed


@subroutine
def make(s, arena, row):
    """A new file gets an inode."""


@subroutine
def unnamed(s, arena, out, row):
    """The inode of a file that lost a name."""
    changed(s, arena, out, row)


@subroutine
def free(s, arena, row):
    """A file without names loses its inode."""
