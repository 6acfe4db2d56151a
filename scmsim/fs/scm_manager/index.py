"""Find a file's units, and the entry of a device unit in the chain table, the FAT or the bitmaps.

By default a file's units are a chain: the 4-byte entry of each unit names the next. ext2 binds indirect blocks and
bitmaps.
"""

from scmsim.fs.engine import table
from scmsim.fs.scm_manager import state, templates
from scmsim.jit import subroutine

ENTRY_SHIFT = 5  # log2 of the bits of a unit's entry


@subroutine
def words_for(arena, row, stop):
    """Return how many arena words the file's tables need for the units below `stop`."""
    return table.words_to_hold(arena, row + state.BLOCKS, stop)


@subroutine
def reserve(s, arena, row, stop):
    """Extend the tables to the units below `stop`; the arena must have room."""
    table.reserve(s, arena, row + state.BLOCKS, stop)


@subroutine
def place(arena, row, i):
    """Return the device offset of a file's unit, or 0 if it has none."""
    return (table.get(arena, row + state.BLOCKS, i) >> 2) << state.PLACE_SHIFT


@subroutine
def stretch(s, arena, row, at, end):
    """Return where the run that contains byte `at` ends, at most `end`; a run is contiguous on the device, or a hole."""
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
    """Return the number of the unit at a device offset, which is also the number of its entry."""
    return (at - s.origin) >> s.shift


@subroutine
def entry_at(s, at):
    """Return the device offset of the entry for the unit at device offset `at`."""
    return s.table_at + (number(s, at) << ENTRY_SHIFT >> 3)


@subroutine
def words_changed(count, linked):
    """Return how many entry words change when `count` units are allocated; `linked`: 1 if the unit before them points to them."""
    return count + linked


@subroutine
def find(s, arena, row, unit):
    """Set the registers for the entries that lead to a unit: its chain, from the unit used last or from the first one."""
    begin = arena[row + state.CURSOR] if arena[row + state.CURSOR] <= unit else 0
    s.reg[templates.HOPS] = unit - begin
    s.reg[templates.HOP_AT] = entry_at(s, place(arena, row, begin))
    s.reg[templates.HOP_BYTES] = min(
        templates.WORD * (unit - begin), s.table_at + s.table_bytes - s.reg[templates.HOP_AT]
    )
