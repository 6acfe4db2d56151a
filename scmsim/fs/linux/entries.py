"""Directory entries on the device: hooks of a family (see `scmsim.jit.binding`).

By default a directory has no entries on the device: in memory, a name is an entry of the dentry cache.
"""

from scmsim.jit import subroutine

FIRST_BLOCKS = 0  # blocks of an empty directory


@subroutine
def growth(s, arena, row, d):
    """Return the number of blocks by which directory `d` must grow to take the entry of table row `row`."""
    return 0


@subroutine
def growth_by_rename(s, arena, row, d):
    """Return the number of blocks by which directory `d` must grow to give the entry of table row `row` a new name."""
    return 0


@subroutine
def search(s, arena, out, row, d, change):
    """Emit the search for the entry of table row `row` in directory `d`, which has blocks: at most 2 events.

    `change`: ENTRY_REMOVED, ENTRY_ADDED or ENTRY_RENAMED.  Return the directory page that changes.
    """
    return 0
