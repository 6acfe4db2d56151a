"""Hooks, except the lookup of blocks, of families whose files have rows of `engine.file_row`.

A fault for a store to a page without a block requests one from the file system, as fallocate of that page does; so its
costs include those of a call.
"""

from scmsim.fs.engine import file_row
from scmsim.jit import subroutine

ROW_WORDS = 0  # arena words in a row of the family's table of files


@subroutine
def find(s, arena, file):
    """Return a file's row if the file exists, else 0."""
    row = s.files + file * ROW_WORDS
    return row if arena[row + file_row.STATUS] & file_row.EXISTS else 0


@subroutine
def length(s, arena, f):
    """Return the file's length in bytes."""
    return arena[f + file_row.SIZE]


@subroutine
def pin(s, arena, f, change):
    """Count a mapping as an open descriptor of its file; return whether the file must be freed."""
    if change < 0 and arena[f + file_row.LINKS] <= 0 and arena[f + file_row.OPENS] <= 1:
        return True
    arena[f + file_row.OPENS] = max(arena[f + file_row.OPENS] + change, 0)
    return False


HOOKS = {"find": find, "length": length, "pin": pin, "BY_REQUEST": True}
