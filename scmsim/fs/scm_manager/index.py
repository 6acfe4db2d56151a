"""From a file to its units, and from a unit to its entry in the chain table, the FAT or the bitmaps."""

from scmsim.fs.engine import table
from scmsim.fs.scm_manager import recipes, state
from scmsim.jit import subroutine


@subroutine
def words_for(arena, row, stop):
    """Words of arena that the file's tables take to hold the units below `stop`."""
    words = table.words_to_hold(arena, row + state.BLOCKS, stop) + table.words_to_hold(
        arena, row + state.LEAVES, (stop >> 8) + 1
    )
    return words + table.words_to_hold(arena, row + state.UPPERS, (stop >> 16) + 2)


@subroutine
def reserve(s, arena, row, stop):
    """Make the tables hold the units below `stop`; the arena has room."""
    table.reserve(s, arena, row + state.BLOCKS, stop)
    if s.kind == recipes.EXT2:
        table.reserve(s, arena, row + state.LEAVES, (stop >> 8) + 1)
        table.reserve(s, arena, row + state.UPPERS, (stop >> 16) + 2)


@subroutine
def place(arena, row, i):
    """Device offset of a file's unit, 0: it has none."""
    return (table.get(arena, row + state.BLOCKS, i) >> 2) << state.PLACE_SHIFT


@subroutine
def stretch(s, arena, row, at, end):
    """End of the run from byte `at` on, to `end` at most, that lies in one piece on the device (or is a hole)."""
    first = at >> s.shift
    limit = min(end, (first + s.longest) << s.shift)
    start, stop = place(arena, row, first), first + 1
    while stop << s.shift < limit and place(arena, row, stop) == (
        start + ((stop - first) << s.shift) if start != 0 else 0
    ):
        stop += 1
    return min(limit, stop << s.shift)


@subroutine
def number(s, at):
    """Number of the unit at a device offset, from the first that can be allocated on."""
    return (at - s.origin) >> s.shift


@subroutine
def entry_at(s, unit_at):
    """Device offset of the entry of the unit at device offset `unit_at` in the chain table, the FAT or the bitmaps."""
    if s.kind == recipes.MANAGER:
        return s.table_at + ((unit_at - s.table_at) >> s.shift) * recipes.WORD
    if s.kind == recipes.FAT:
        return s.table_at + number(s, unit_at) * recipes.WORD
    return s.table_at + (number(s, unit_at) >> 3)
