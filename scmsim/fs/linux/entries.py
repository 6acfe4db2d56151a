"""Directory entries on the device: hooks of a family (see `scmsim.jit.binding`).

By default there are none: in memory, a name is an entry of the dentry cache.
"""

from scmsim.jit import subroutine

FIRST_BLOCKS = 0  # of an empty directory


@subroutine
def growth(s, arena, row, d):
    """Blocks that directory `d` grows by when it takes the entry of table row `row`."""
    return 0


@subroutine
def search(s, arena, row, d, out, change):
    """What a change of the entry of table row `row` looks at in directory `d`, which has blocks: at most 2 events.

    `change`: the entry is ENTRY_REMOVED, ENTRY_ADDED or ENTRY_RENAMED.  Returns the page of the directory that changes.
    """
    return 0
