"""Page faults of the page cache: a fault for a load also maps the cached pages around its page.

Source: Linux 5.13 mm/memory.c (do_read_fault, do_shared_fault), mm/filemap.c (filemap_map_pages).
"""

from scmsim.fs.engine.operations import DONE
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.common import can_be_large, cost_of, emit_fault_event, may_store, protected
from scmsim.fs.mapping.mechanisms import AROUND_COST, HUGE_PAGE_COST, LARGE_LOAD_COST, LARGE_STORE_COST, PASSED_COST
from scmsim.jit import subroutine


@subroutine
def map_around(s, arena, out, mapping, f, page):
    """Page cache: map a page and the cached pages around it for loads; return (number of mapped pages, first mapped page)."""
    address = tables.address_of(arena, mapping, page) >> 12
    first = max(page - address % hooks.AROUND, arena[mapping + w.FIRST_PAGE])
    stop = min(first + hooks.AROUND, tables.region_end(arena, mapping, page), (hooks.length(s, arena, f) + 4095) >> 12)
    tables.small_table(s, arena, out, mapping, page)
    count, begin, passed = 0, page, 0
    for at in range(first, stop):
        entry, place = tables.entry_at(arena, mapping, at), hooks.place(s, arena, f, at)
        if place == 0 or place & w.UNWRITTEN:
            continue
        passed += arena[entry] != 0
        if arena[entry] == 0:
            arena[entry] = place | w.PRESENT | (0 if hooks.KEEPS_CLEAN else may_store(arena, mapping))
            count, begin = count + 1, min(begin, at)
    tables.charge(s, arena, out, PASSED_COST, passed)
    return count, begin


@subroutine
def large_page(s, arena, out, mapping, f, at):
    """Map the 2 MiB page-cache folio around a page if possible, and return whether it was; at = (page, fault flags).

    An entry that does not allow stores is removed first (wp_huge_pmd of a file: __split_huge_pmd).
    """
    page, write = at[0], at[1] & w.WRITES
    first, slot = page & ~(w.FAN - 1), tables.slot_at(arena, mapping, page)
    place = hooks.place(s, arena, f, page)
    if place == 0 or place & w.UNWRITTEN or hooks.folio(s, arena, f, page)[1] != w.FAN:
        return False
    if arena[slot]:
        tables.zap(s, arena, out, mapping, first, first + w.FAN)
    else:
        tables.upper_tables(s, arena, out, mapping, page)
    store = (w.WRITABLE if write else 0) if hooks.KEEPS_CLEAN else may_store(arena, mapping)
    arena[slot] = place - (page - first << 12) | w.PRESENT | w.LARGE | store
    tables.charge(s, arena, out, LARGE_STORE_COST if write else LARGE_LOAD_COST, 1)
    emit_fault_event(s, arena, out, mapping, (first, w.FAN, 21), at[1])
    return True


@subroutine
def cached_fault(s, arena, out, mapping, f, at):
    """Handle a fault on a page-cache page; return the outcome.  at = (page, whether it is a store)."""
    page, write = at
    old = arena[tables.entry_at(arena, mapping, page)]
    outcome, came = hooks.read_in(s, arena, out, f, page)
    if outcome == DONE and write:
        hooks.note_write(s, arena, out, f)
        outcome = hooks.make_dirty(s, arena, out, f, page)
    if outcome != DONE:
        return outcome
    tables.charge(s, arena, out, HUGE_PAGE_COST, came == w.CAME_WHOLE)
    how = protected(old, write) | (w.MAJOR if came == w.WAS_READ else 0)
    if can_be_large(s, arena, mapping, f, page) and large_page(
        s, arena, out, mapping, f, (page, protected(old, write))
    ):
        return DONE
    count, begin = 1, page
    if old & w.LARGE:  # the folio of the large entry has lost pages: small entries replace the entry
        first = tables.region_end(arena, mapping, page) - w.FAN
        tables.zap(s, arena, out, mapping, first, first + w.FAN)
    tables.unfold(arena, mapping, page)
    if not write and came == w.WAS_THERE and hooks.AROUND > 1 and hooks.place(s, arena, f, page):
        count, begin = map_around(s, arena, out, mapping, f, page)
    else:
        tables.small_table(s, arena, out, mapping, page)
        store = w.WRITABLE if write else (0 if hooks.KEEPS_CLEAN else may_store(arena, mapping))
        place = hooks.place(s, arena, f, page)
        arena[tables.entry_at(arena, mapping, page)] = w.PRESENT | (place | store if place else w.ZERO | w.ZERO_PAGE)
    if count == w.GROUP or tables.address_of(arena, mapping, page) >> 12 & w.GROUP - 1 == w.GROUP - 1:
        tables.fold(s, arena, mapping, f, page)
    tables.charge(s, arena, out, cost_of(how), 1)
    tables.charge(s, arena, out, AROUND_COST, count - 1)
    emit_fault_event(s, arena, out, mapping, (begin, count, 12), how)
    return DONE
