"""Page faults of DAX.

A fault maps 2 MiB if the address and the offset agree modulo 2 MiB, the 2 MiB are inside the mapping and the file, and
they are one run of blocks that begins at a multiple of 2 MiB on the device.  If the 2 MiB have no content, a load maps
the huge zero page, and a store allocates one run of blocks from their first page on.  A 2 MiB region that has small
entries in DAX's tree never gets a large entry.
Source: Linux 5.13 fs/dax.c (dax_iomap_pmd_fault, dax_iomap_pte_fault, grab_mapping_entry).
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.clean import clean_at
from scmsim.fs.mapping.common import can_be_large, cost_of, emit_fault_event, protected, request_fs
from scmsim.fs.mapping.mechanisms import (
    ASKED_LOAD_COST,
    ASKED_STORE_COST,
    GIVEN_COST,
    GIVEN_FIRST_COST,
    GIVEN_NEW_COST,
    LARGE_ENTRY_COST,
    LARGE_LOAD_COST,
    LARGE_STORE_COST,
    LEVEL_COST,
    LOOKED_COST,
    NODE_COST,
    ZEROS_COST,
)
from scmsim.jit import subroutine


@subroutine
def forget_zeros(s, arena, out, mapping, page):
    """Remove the entry that maps a page to zeros, since the page has a block now."""
    at = tables.entry_at(arena, mapping, page)
    if arena[at] & w.ZERO:
        span = w.FAN if arena[at] & w.LARGE else 1
        begin = tables.region_end(arena, mapping, page) - w.FAN if span > 1 else page
        tables.zap(s, arena, out, mapping, begin, begin + span)


@subroutine
def run_of(s, arena, f, page):
    """Return the place (see `hooks.place`) of the 2 MiB from `page` on if a large entry can map them, else -1.

    They must be one hole, one run of unwritten blocks, or one run of blocks that starts at a multiple of 2 MiB.
    """
    first = hooks.place(s, arena, f, page)
    for k in range(1, w.FAN):
        if hooks.place(s, arena, f, page + k) != (first + (k << 12) if first else 0):
            return -1
    if first == 0 and not hooks.is_long_hole(s, arena, f, page):
        return -1
    return first if first == 0 or first & w.UNWRITTEN or first & w.HUGE_PAGE - 1 == 0 else -1


@subroutine
def becomes_dirty(s, arena, write):
    """Return DIRTY if a fault makes the mapped pages dirty, else 0."""
    return w.DIRTY if write or arena[s.maps + w.LOADS_DIRTY] else 0


@subroutine
def blockless_run(s, arena, f, page, stop):
    """Return the length in pages of the run of holes, or of adjacent unwritten blocks, that starts at `page`, up to `stop`."""
    first = hooks.place(s, arena, f, page)
    count = 0
    while page + count < stop:
        place = hooks.place(s, arena, f, page + count)
        if place != (first + (count << 12) if first else 0) or (place and not place & w.UNWRITTEN):
            break
        count += 1
    return count


@subroutine
def give(s, arena, out, f, page, count):
    """Run `hooks.give_blocks` and charge its cost; return (outcome, pages that got blocks)."""
    new, first = hooks.place(s, arena, f, page) == 0, not hooks.must_sync(s, arena, f)
    outcome, count = hooks.give_blocks(s, arena, out, f, page, count)
    if outcome == DONE:
        tables.charge(s, arena, out, GIVEN_NEW_COST if new else GIVEN_COST, 1)
        tables.charge(s, arena, out, GIVEN_FIRST_COST, first)
    return outcome, count


@subroutine
def fill(s, arena, out, mapping, f, page):
    """Allocate blocks for the holes or unwritten pages at the start of the 2 MiB around a store; return the outcome.

    Source: fs/dax.c: dax_iomap_pmd_fault asks iomap_begin for 2 MiB; ext4_iomap_alloc and xfs_iomap_write_direct map
    one extent.
    """
    m, first = s.maps, page & ~(w.FAN - 1)
    known = table.get(arena, arena[mapping + w.FILE] + w.TREE, page >> 9)
    if arena[m + w.FILL_END] == 0:
        arena[m + w.FILL_AT] = first
    # faults in a region with small entries in the tree allocate single pages
    if not arena[m + w.FILLS] or (known and not known & w.PRESENT):
        return DONE
    if arena[m + w.FILL_END] == 0:
        count = blockless_run(s, arena, f, first, first + w.FAN)
        if hooks.place(s, arena, f, first) == 0:
            count = min(count, hooks.hole_at_once(s, arena, f, first))
        arena[m + w.FILL_END] = first + count
    while arena[m + w.FILL_AT] < arena[m + w.FILL_END]:
        at = arena[m + w.FILL_AT]
        outcome, count = give(s, arena, out, f, at, arena[m + w.FILL_END] - at)
        if outcome == NO_ROOM:
            return NO_ROOM
        arena[m + w.FILL_AT] = at + count if outcome == DONE else arena[m + w.FILL_END]
    arena[m + w.FILL_END] = 0
    return must_wait(s, arena, out, mapping, f, page)


@subroutine
def must_wait(s, arena, out, mapping, f, page):
    """Make a store through a MAP_SYNC mapping wait until the metadata of the file's blocks is stored; return the outcome.

    Dirty mapped pages are written back first (dax_finish_sync_fault: vfs_fsync_range of the mapped pages).  By then a
    large entry of zeros is gone (grab_mapping_entry).
    """
    file = arena[mapping + w.FILE]
    asks = arena[mapping + w.FLAGS] & r.MAP_SYNC and arena[s.maps + w.REPLY] < w.ASK_SYNC
    if not asks or not hooks.must_sync(s, arena, f):
        return DONE
    entry = tables.tree_entry(arena, file, page)
    zeros = entry and arena[entry] & w.LARGE and arena[entry] & w.ZERO
    if not zeros and not clean_at(s, arena, out, file, page):
        return NO_ROOM
    return request_fs(s, arena, w.ASK_SYNC, file, page)


@subroutine
def large_fault(s, arena, out, mapping, f, at):
    """Map the 2 MiB around a page by a large entry if possible; return whether they were mapped.  at = (page, fault flags)."""
    page, write = at[0], at[1] & w.WRITES
    file, first = arena[mapping + w.FILE], page & ~(w.FAN - 1)
    slot = tables.slot_at(arena, mapping, page)
    known = table.get(arena, file + w.TREE, page >> 9)
    # small entries in the tree conflict with a large one (grab_mapping_entry: VM_FAULT_FALLBACK)
    conflicts = known != 0 and known & w.PRESENT == 0
    if not conflicts:
        hooks.look_up(s, arena, out, f, first)
    place = -1 if conflicts else run_of(s, arena, f, first)
    zeros = place == 0 or place & w.UNWRITTEN
    if place < 0 or (zeros and write):
        if arena[slot] & w.PRESENT:  # a large entry cannot become writable: small entries replace it
            tables.zap(s, arena, out, mapping, first, first + w.FAN)
        return False
    word = w.PRESENT | w.LARGE | (w.ZERO | w.ZERO_PAGE if zeros else place)
    tables.reserve_tree(s, arena, file, page)
    leaf = tables.tree_slot(arena, file, page)
    note_last(arena, file, page)
    if arena[slot] == 0:
        tables.upper_tables(s, arena, out, mapping, page)
    known = arena[leaf] & w.PRESENT and not arena[leaf] & w.ZERO
    tables.charge(s, arena, out, LARGE_ENTRY_COST, not zeros and not known)
    tables.set_entry(arena, file, leaf, word | arena[leaf] & w.DIRTY | becomes_dirty(s, arena, write))
    arena[slot] = word | (w.WRITABLE if write else 0)
    tables.charge(s, arena, out, LARGE_STORE_COST if write else LARGE_LOAD_COST, 1)
    emit_fault_event(s, arena, out, mapping, (first, w.FAN, 21), at[1] | filled_hole(s, arena))
    return True


@subroutine
def filled_hole(s, arena):
    """Return MAJOR if the current fault filled a hole, else 0; clear MAJOR in the field HOW."""
    filled = arena[s.maps + w.HOW] & w.MAJOR
    arena[s.maps + w.HOW] -= filled
    return filled


@subroutine
def note_last(arena, file, page):
    """Raise LAST_GIVEN, the last page that ever had an entry in the kernel's tree of a file, to at least `page`."""
    arena[file + w.LAST_GIVEN] = max(arena[file + w.LAST_GIVEN], page)


@subroutine
def note_given(s, arena, out, file, page, word):
    """Insert the entry of a page into the file's tree (dax_insert_entry).

    A small entry replaces a large entry of zeros, which is removed from all mappings (grab_mapping_entry: unmap_mapping_pages).
    """
    tables.reserve_tree(s, arena, file, page)
    note_last(arena, file, page)
    at, first = tables.tree_slot(arena, file, page), page & ~(w.FAN - 1)
    if arena[at] & w.PRESENT and arena[at] & w.ZERO:
        tables.set_entry(arena, file, at, 0)
        mapping = arena[file + w.HEAD]
        while mapping:
            tables.zap_but(s, arena, out, mapping, first, first + w.FAN, w.COPIED)
            mapping = arena[mapping + w.NEXT]
    if not arena[at] & w.PRESENT:
        at = tables.tree_leaf(s, arena, file, page)
        tables.charge(s, arena, out, NODE_COST, tables.is_new_node(arena, at, page))
        tables.set_entry(arena, file, at, word | arena[at] & w.DIRTY)
    if word & w.DIRTY:
        tables.set_entry(arena, file, at, arena[at] | w.DIRTY)


@subroutine
def small_fault(s, arena, out, mapping, f, at):
    """Map one page by a small entry; return the outcome.  at = (page, fault flags)."""
    page, how = at
    file, place, write = arena[mapping + w.FILE], hooks.place(s, arena, f, page), how & w.WRITES
    if write and (place == 0 or place & w.UNWRITTEN):
        arena[s.maps + w.HOW] = arena[s.maps + w.HOW] & ~w.MAJOR | (w.MAJOR if place == 0 else 0)
        outcome = (
            request_fs(s, arena, w.ASK_BLOCK, file, page) if hooks.BY_REQUEST else give(s, arena, out, f, page, 1)[0]
        )
        if outcome != DONE:
            return outcome
        place = hooks.place(s, arena, f, page)
    outcome = must_wait(s, arena, out, mapping, f, page) if write else DONE
    if outcome != DONE:
        return outcome
    hooks.look_up(s, arena, out, f, page)
    zeros = place == 0 or place & w.UNWRITTEN
    word = w.PRESENT | (w.ZERO | w.ZERO_PAGE if zeros else place)
    note_given(s, arena, out, file, page, word | becomes_dirty(s, arena, write))
    tables.small_table(s, arena, out, mapping, page)
    arena[tables.entry_at(arena, mapping, page)] = word | (w.WRITABLE if write else 0)
    tables.charge(s, arena, out, ZEROS_COST if zeros else cost_of(how), 1)
    tables.charge(s, arena, out, LEVEL_COST, tables.levels(arena, file))
    emit_fault_event(s, arena, out, mapping, (page, 1, 12), how | filled_hole(s, arena))
    return DONE


@subroutine
def dax_fault(s, arena, out, mapping, f, at):
    """Handle a DAX fault; return the outcome.  at = (page, whether it is a store)."""
    m, (page, write) = s.maps, at
    if arena[m + w.HOW] & w.FAULT == 0:
        arena[m + w.HOW] |= begun(s, arena, out, mapping, f, at)
    outcome = map_page(s, arena, out, mapping, f, (page, write, arena[m + w.HOW] & ~w.MAJOR))
    if outcome != NO_ROOM:
        arena[m + w.HOW] &= w.MAJOR  # a fault that waits for the file system starts again
    return outcome


@subroutine
def begun(s, arena, out, mapping, f, at):
    """Run the first steps of a fault; return its fault flags, with ASKED if a large entry was considered."""
    page, write = at
    place = hooks.place(s, arena, f, page)
    if place and not place & w.UNWRITTEN:
        forget_zeros(s, arena, out, mapping, page)
    if write:
        hooks.note_write(s, arena, out, f)
    asks = hooks.MAY_BE_LARGE and arena[tables.slot_at(arena, mapping, page)] == 0
    return protected(arena[tables.entry_at(arena, mapping, page)], write) | (w.ASKED if asks else 0)


@subroutine
def map_page(s, arena, out, mapping, f, at):
    """Map 2 MiB or a page for a fault; return the outcome.  at = (page, whether it is a store, HOW)."""
    page, write, found = at
    how = found & ~w.ASKED
    new = arena[s.maps + w.REPLY] == w.ASK_BLOCK and not hooks.WHOLE_BLOCKS
    looks = not new and can_be_large(s, arena, mapping, f, page)
    if looks:
        outcome = fill(s, arena, out, mapping, f, page) if write else DONE
        if outcome != DONE:
            return outcome
        filled = (
            arena[s.maps + w.FILL_AT] & w.FAN - 1 if write else 0
        )  # not 0 if only a part of the 2 MiB got blocks; a small page is mapped then
        if filled == 0 and large_fault(s, arena, out, mapping, f, (page, how)):
            return DONE
    outcome = small_fault(s, arena, out, mapping, f, (page, how))
    if outcome == DONE:
        tables.charge(s, arena, out, ASKED_STORE_COST if write else ASKED_LOAD_COST, found & w.ASKED != 0)
        tables.charge(s, arena, out, LOOKED_COST, looks)
    return outcome
