"""Declare the hooks of a variant for inodes (see `scmsim.jit.binding`); by default an inode has a fixed place."""

from scmsim.jit import hook, subroutine


@hook
def changed(s, arena, out, row):
    """Charge the store of a changed inode."""


@subroutine
def make(s, arena, row):
    """Give a new file an inode; the default does nothing, because the file already has one."""


@subroutine
def unnamed(s, arena, out, row):
    """Update the inode of a file that lost a name."""
    changed(s, arena, out, row)


@subroutine
def free(s, arena, row):
    """Free the inode of a file without names; by default there is nothing to free."""
