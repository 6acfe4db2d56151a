"""Model the page cache over a block device (FAT, ext2): dirty units and their write-back.

Rows with dirty units form a list, oldest first; they are written back after 30 seconds (pdflush), or earlier by fsync,
sync or a synchronous mount. FAT sectors, bitmaps and inode tables have rows of their own, so one path writes all.
Source: Linux 2.6.24 mm/page-writeback.c (dirty_expire_centisecs), fs/buffer.c.
"""

from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.scm_manager import device, index, state, templates
from scmsim.fs.scm_manager.index import place
from scmsim.jit import subroutine

EXPIRE = 30_000_000_000  # ns
STEP = 256  # maximum number of events of one piece of work


@subroutine
def send(s, arena, out, at, units, template):
    """Write a run of units to the device at offset `at`."""
    device.write(s, arena, out, at, units)
    s.reg[templates.AT], s.reg[templates.BYTES] = at, units << s.shift
    s.reg[templates.WORDS] = (units << s.shift) // templates.WORD
    s.reg[templates.UNITS], s.reg[templates.REQUESTS] = units, 1
    emit_template(s, out, template)


@subroutine
def send_table(s, arena, out, at, units):
    """Write units of the FAT, to both copies, or of ext2's bitmaps."""
    send(s, arena, out, at, units, templates.OUT_META)
    if s.mirror > 0:
        send(s, arena, out, at + s.mirror, units, templates.OUT_META)


@subroutine
def fetch(s, arena, out, at, units):
    """Read a run of units from the device into the cache."""
    s.reg[templates.AT], s.reg[templates.BYTES] = at, units << s.shift
    s.reg[templates.WORDS] = (units << s.shift) // templates.WORD
    s.reg[templates.UNITS], s.reg[templates.REQUESTS] = units, 1
    device.read(s, units)
    emit_template(s, out, templates.READ_IN)


@subroutine
def fill_cache(s, arena, out, row, first, stop, cold):
    """Read into the cache those of the units [first, stop) that are not cached; if `cold`, read all but the dirty units."""
    i = first
    while i < stop:
        entry = table.get(arena, row + state.BLOCKS, i)
        if entry == 0 or (entry & state.CACHED and not cold) or entry & state.DIRTY:
            i += 1
            continue
        count = 0
        while i + count < stop:
            entry = table.get(arena, row + state.BLOCKS, i + count)
            if (entry & state.CACHED and not cold) or entry & state.DIRTY:
                break
            table.put(arena, row + state.BLOCKS, i + count, entry | state.CACHED)
            count += 1
        fetch(s, arena, out, place(arena, row, i), count)
        i += count


@subroutine
def fetch_edges(s, arena, out, row, at, stop):
    """Read into the cache the first and last unit of [at, stop) if they are about to be written only in part."""
    mask, first, last = (1 << s.shift) - 1, at >> s.shift, (stop - 1) >> s.shift
    size = arena[row + file_row.SIZE]
    if at & mask and first << s.shift < size:
        fill_cache(s, arena, out, row, first, first + 1, False)
    if stop & mask and stop < size and (last > first or not at & mask):
        fill_cache(s, arena, out, row, last, last + 1, False)


@subroutine
def enlist(s, arena, row):
    """Append a row to the list of dirty rows."""
    arena[row + state.DIRTY_SINCE_NS], arena[row + state.NEXT], arena[row + state.PREVIOUS] = s.now, 0, s.tail
    if s.tail != 0:
        arena[s.tail + state.NEXT] = row
    else:
        s.head = row
    s.tail = row


@subroutine
def delist(s, arena, row):
    """Remove a row without dirty units from the list."""
    before, after = arena[row + state.PREVIOUS], arena[row + state.NEXT]
    if before != 0:
        arena[before + state.NEXT] = after
    else:
        s.head = after
    if after != 0:
        arena[after + state.PREVIOUS] = before
    else:
        s.tail = before


@subroutine
def mark(s, arena, row, first, count):
    """Mark units [first, first + count) of a row as dirty."""
    if s.silent:
        return
    if arena[row + state.DIRTY_UNITS] == 0:
        enlist(s, arena, row)
        arena[row + state.FIRST_DIRTY_UNIT] = first
    for i in range(first, first + count):
        entry = table.get(arena, row + state.BLOCKS, i)
        arena[row + state.DIRTY_UNITS] += not entry & state.DIRTY
        table.put(arena, row + state.BLOCKS, i, entry | state.DIRTY | state.CACHED)
    arena[row + state.FIRST_DIRTY_UNIT] = min(arena[row + state.FIRST_DIRTY_UNIT], first)


@subroutine
def cleaned(s, arena, row, i):
    """Mark unit `i` of a row as no longer dirty."""
    entry = table.get(arena, row + state.BLOCKS, i)
    if entry & state.DIRTY:
        table.put(arena, row + state.BLOCKS, i, entry & ~state.DIRTY)
        arena[row + state.DIRTY_UNITS] -= 1
        if arena[row + state.DIRTY_UNITS] == 0:
            delist(s, arena, row)


@subroutine
def table_unit(s, unit):
    """Return the unit of the FAT or of the bitmaps that has the entry of a device unit."""
    return unit >> (s.shift + 3 - index.ENTRY_SHIFT)


@subroutine
def system_unit(s, arena, row, i):
    """Return the table entry of a unit of the FAT, the bitmaps or the inode table; create it on first use."""
    entry = table.get(arena, row + state.BLOCKS, i)
    if entry == 0:
        at = (s.table_at if row == s.table else s.inodes_at) + (i << s.shift)
        entry = (at >> state.PLACE_SHIFT) << 2
        table.put(arena, row + state.BLOCKS, i, entry)
    return entry


@subroutine
def note_entries(s, arena, out, unit, count, words):
    """Record a change of the entries of the device's units [unit, unit + count).

    A synchronous mount writes each of the `words` changed words at once.
    """
    if s.silent:
        return
    first, last = table_unit(s, unit), table_unit(s, unit + count - 1)
    for i in range(first, last + 1):
        system_unit(s, arena, s.table, i)
    if not s.synchronous or words == 0:
        mark(s, arena, s.table, first, last - first + 1)
        return
    entry = table.get(arena, s.table + state.BLOCKS, first)
    table.put(arena, s.table + state.BLOCKS, first, entry | state.CACHED)
    for _ in range(words):
        send_table(s, arena, out, (entry >> 2) << state.PLACE_SHIFT, 1)


@subroutine
def load_entry(s, arena, out, unit):
    """Read into the cache the unit of the FAT or of the bitmaps that has the entry of `unit`."""
    i = table_unit(s, unit)
    entry = system_unit(s, arena, s.table, i)
    if not entry & state.CACHED:
        fetch(s, arena, out, (entry >> 2) << state.PLACE_SHIFT, 1)
        table.put(arena, s.table + state.BLOCKS, i, entry | state.CACHED)


@subroutine
def dirty_run(s, arena, row, first):
    """Return how many units from the dirty unit `first` on one request can write."""
    entry, count = table.get(arena, row + state.BLOCKS, first), 1
    step = 1 << (s.shift - state.PLACE_SHIFT)
    while count < s.most_written:
        other = table.get(arena, row + state.BLOCKS, first + count)
        if not other & state.DIRTY or (other >> 2) != (entry >> 2) + count * step:
            break
        count += 1
    return count


@subroutine
def send_nodes(s, arena, out, row, first):
    """Write the index units that lead to the units written from `first` on; by default there are none."""


@subroutine
def write_back(s, arena, out, row):
    """Write a row's dirty units to the device; return False if `out` or the arena must grow."""
    while arena[row + state.DIRTY_UNITS] > 0:
        if not reserve_events(s, out, STEP):
            return False
        # FIRST_DIRTY_UNIT is a lower bound: no unit before it is dirty.
        first = arena[row + state.FIRST_DIRTY_UNIT]
        while not table.get(arena, row + state.BLOCKS, first) & state.DIRTY:
            first += 1
        count = dirty_run(s, arena, row, first)
        at = (table.get(arena, row + state.BLOCKS, first) >> 2) << state.PLACE_SHIFT
        for i in range(first, first + count):
            cleaned(s, arena, row, i)
        arena[row + state.FIRST_DIRTY_UNIT] = first + count
        if row == s.table:
            send_table(s, arena, out, at, count)
            continue
        is_data = arena[row + file_row.STATUS] & (file_row.IS_DIR | state.SYSTEM) == 0
        send(s, arena, out, at, count, templates.OUT_DATA if is_data else templates.OUT_META)
        send_nodes(s, arena, out, row, first)
    return True


@subroutine
def flush_order(s, row):
    """Return the rows that an fsync writes back, in order."""
    return row, s.directory, s.table, s.inodes


@subroutine
def synchronize(s, arena, out, row):
    """Model fsync: write back the file, its directory, the bitmaps and the inode table.

    Returns False if `out` or the arena must grow.
    """
    while s.flushed < 4:
        which = flush_order(s, row)[s.flushed]
        if which != 0 and not write_back(s, arena, out, which):
            return False
        s.flushed += 1
    return True


@subroutine
def expire(s, arena, out, now, all_of_them):
    """Write back rows that have been dirty for 30 seconds, or all rows; return False if `out` or the arena must grow."""
    while s.head != 0 and (all_of_them or now - arena[s.head + state.DIRTY_SINCE_NS] > EXPIRE):
        if not write_back(s, arena, out, s.head):
            return False
    return True
