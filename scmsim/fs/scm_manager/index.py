"""From a file to its units, and from a unit of the device to its entry in the chain table, the FAT or the bitmaps.

By default a file's units are a chain: the entry of each, a word, names the next.  ext2 binds indirect blocks and bitmaps.
"""

from scmsim.fs.engine import table
from scmsim.fs.scm_manager import recipes, state
from scmsim.jit import subroutine

ENTRY_SHIFT = 5  # log2 of the bits of a unit's entry


@subroutine
def words_for(arena, row, stop):
    """Words of arena that the file's tables take to hold the units below `stop`."""
    return table.words_to_hold(arena, row + state.BLOCKS, stop)


@subroutine
def reserve(s, arena, row, stop):
    """Make the tables hold the units below `stop`; the arena has room."""
    table.reserve(s, arena, row + state.BLOCKS, stop)


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
    """Number of the entry of the unit at a device offset."""
    return (at - s.origin) >> s.shift


@subroutine
def entry_at(s, at):
    """Device offset of the entry of the unit at a device offset."""
    return s.table_at + (number(s, at) << ENTRY_SHIFT >> 3)


@subroutine
def words_changed(count, linked):
    """Words of entries that change with `count` units, and, if they are `linked`, with the end of the chain before them."""
    return count + linked


@subroutine
def find(s, arena, row, unit):
    """Registers of the entries that lead to a unit: its chain is followed from the unit used last, or from the first one."""
    begin = arena[row + state.CURSOR] if arena[row + state.CURSOR] <= unit else recipes.ZERO + 0
    s.reg[recipes.HOPS] = unit - begin
    s.reg[recipes.HOP_AT] = entry_at(s, place(arena, row, begin))
    s.reg[recipes.HOP_BYTES] = min(recipes.WORD * (unit - begin), s.table_at + s.table_bytes - s.reg[recipes.HOP_AT])
