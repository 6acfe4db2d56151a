"""Hooks of families whose files have the rows of `engine.file_row`: what does not depend on how a family finds its blocks.

A fault for a store to a page without a block asks the file system for one, as fallocate of that page does; so its costs hold those
of a call.
"""

from scmsim.fs.engine import file_row
from scmsim.jit import subroutine

ROW_WORDS = 0  # of a family's rows


@subroutine
def find(s, arena, file):
    """A file's row, if it exists."""
    row = s.files + file * ROW_WORDS
    return row if arena[row + file_row.STATUS] & file_row.EXISTS else 0


@subroutine
def length(s, arena, f):
    """Bytes of a file."""
    return arena[f + file_row.SIZE]


@subroutine
def pin(s, arena, f, change):
    """A mapping keeps its file as an open descriptor does."""
    if change < 0 and arena[f + file_row.LINKS] <= 0 and arena[f + file_row.OPENS] <= 1:
        return True
    arena[f + file_row.OPENS] = max(arena[f + file_row.OPENS] + change, 0)
    return False


HOOKS = {"find": find, "length": length, "pin": pin, "BY_REQUEST": True}
