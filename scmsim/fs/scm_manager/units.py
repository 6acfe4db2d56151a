"""Allocate, free and find the units of files.

By default allocation takes the lowest free units, and only the chain leads to a unit.
Source: SCM manager paper, section 4.2; Linux 2.6.24 fs/fat/{cache,fatent,misc}.c, fs/ext2/{balloc,inode}.c.
"""

from scmsim.alloc import first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template
from scmsim.fs.scm_manager import cache, device, index, state, templates
from scmsim.fs.scm_manager.cache import cleaned, table_unit
from scmsim.fs.scm_manager.index import entry_at, place
from scmsim.jit import subroutine


@subroutine
def ready(s, arena, units):
    """Grow the tables of the allocator and the device, if needed, for `units` units; return False if the arena must grow first."""
    if not first_fit.ready(s, arena, min(units, s.free_blocks)):
        return False
    sectors, inodes, entries = table_unit(s, s.tracked) + 1, (s.file_count >> 3) + 1, device.table_entries(s)
    words = table.words_to_hold(arena, s.table + state.BLOCKS, sectors)
    words += table.words_to_hold(arena, s.inodes + state.BLOCKS, inodes)
    words += table.words_to_hold(arena, s.table + state.SLOTS, entries) if entries else 0
    if not has_room(s, arena, words):
        return False
    table.reserve(s, arena, s.table + state.BLOCKS, sectors)
    table.reserve(s, arena, s.inodes + state.BLOCKS, inodes)
    if entries:
        table.reserve(s, arena, s.table + state.SLOTS, entries)
    return True


@subroutine
def available(s):
    """Return how many units can be allocated."""
    return s.free_blocks


@subroutine
def take(s, arena, want):
    """Allocate up to `want` adjacent units, set `s.got` to their number, and return the device offset of the first.

    The caller has made sure that units are free.
    """
    return s.origin + (first_fit.allocate(s, arena, want) << s.shift)


@subroutine
def give(s, arena, row, i):
    """Free unit `i` of a file in the allocator."""
    cleaned(s, arena, row, i)
    first_fit.release(s, arena, index.number(s, place(arena, row, i)), 1)


@subroutine
def noted(s, arena, out, at, count, linked):
    """Store the entries of new units; with `linked` (1), also the entry of the unit before them, which points to them."""
    words = index.words_changed(count, linked)
    s.reg[templates.CHAIN], s.reg[templates.COUNT] = entry_at(s, at), count
    s.reg[templates.CHAIN_BYTES] = templates.WORD * words
    emit_template(s, out, templates.TAKE)
    cache.note_entries(s, arena, out, index.number(s, at), count, words)


@subroutine
def take_nodes(s, arena, out, row, first, last):
    """Allocate the index units that lead to the units `first` to `last` of a file; a chain needs none."""


@subroutine
def extend(s, arena, out, row, stop):
    """Allocate one run of the units missing between `resume_at` and `stop`; a synchronous mount allocates one unit."""
    first = s.resume_at
    while first < stop and place(arena, row, first) != 0:
        first += 1
    want, most = 0, 1 if s.synchronous else s.longest
    while first + want < stop and want < most and place(arena, row, first + want) == 0:
        want += 1
    if want == 0:
        s.resume_at = stop
        return
    take_nodes(s, arena, out, row, first, first + want - 1)
    done, start, run = 0, 0, 0
    while done < want:
        at = take(s, arena, want - done)
        for k in range(s.got):
            at_unit = (at >> state.PLACE_SHIFT) + (k << (s.shift - state.PLACE_SHIFT))
            table.put(arena, row + state.BLOCKS, first + done + k, at_unit << 2 | state.CACHED)
        if run > 0 and at != start + (run << s.shift):
            noted(s, arena, out, start, run, first + done > run)
            run = 0
        if run == 0:
            start = at
        run += s.got
        done += s.got
    noted(s, arena, out, start, run, first + done > run)
    arena[row + file_row.MAPPED] += want
    arena[row + state.UNIT_COUNT] = max(arena[row + state.UNIT_COUNT], first + want)
    s.resume_at = first + want


@subroutine
def release(s, arena, row, i):
    """Free unit `i` of a file."""
    give(s, arena, row, i)
    table.put(arena, row + state.BLOCKS, i, 0)
    arena[row + file_row.MAPPED] -= 1


@subroutine
def free_run(s, arena, out, row):
    """Free one run of units from `resume_at` on."""
    first, end = s.resume_at, arena[row + state.UNIT_COUNT]
    while first < end and place(arena, row, first) == 0:
        first += 1
    s.resume_at = first
    if first == end:
        return
    at, count = place(arena, row, first), 1
    while count < s.longest and first + count < end and place(arena, row, first + count) == at + (count << s.shift):
        count += 1
    for i in range(first, first + count):
        release(s, arena, row, i)
    s.reg[templates.CHAIN], s.reg[templates.COUNT] = entry_at(s, at), count
    s.reg[templates.CHAIN_BYTES] = templates.WORD * index.words_changed(count, 0)
    emit_template(s, out, templates.GIVE)
    cache.note_entries(s, arena, out, index.number(s, at), count, 0)
    s.resume_at = first + count


@subroutine
def free_nodes(s, arena, row, stop):
    """Free the index units that no unit below `stop` needs; a chain has none."""


@subroutine
def read_entries(s, arena, out, row, unit):
    """Read the entries that lead to a unit from the device; by default they need no reading."""


@subroutine
def walk(s, arena, out, row, unit):
    """Emit the search for unit `unit` of a file, or for the last unit if the file is shorter."""
    unit = min(unit, arena[row + state.UNIT_COUNT] - 1)
    if unit < 0:
        return
    index.find(s, arena, row, unit)
    read_entries(s, arena, out, row, unit)
    arena[row + state.CURSOR] = unit
    emit_template(s, out, templates.HOP)


@subroutine
def place_old_nodes(s, arena, row, first, stop):
    """Mark the index units that lead to the units [first, stop) as stored; a chain has none."""


@subroutine
def place_old_units(s, arena, out, row, first, stop):
    """Mark units of a file from before the trace as stored, not cached; on NAND each page counts as written once."""
    for i in range(first, stop):
        entry = table.get(arena, row + state.BLOCKS, i)
        table.put(arena, row + state.BLOCKS, i, entry & ~(state.CACHED | state.DIRTY))
        device.place_old_unit(s, arena, out, place(arena, row, i))
    place_old_nodes(s, arena, row, first, stop)
