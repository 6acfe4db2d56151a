"""msync and fsync of mapped files: dirty pages are written back and write-protected, so the next store faults again."""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_run, reserve_events
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import (
    CLEAN_CALL_COST,
    CLEAN_COST,
    CLEAN_MAPPING_COST,
    CLEAN_SITE,
    LEVEL_COST,
    LINE_COST,
    PROTECT_COST,
)
from scmsim.jit import subroutine


@subroutine
def protect(s, arena, out, mapping, page):
    """Remove a mapping's right to store to a page (dax_entry_mkclean); emits at most 2 events."""
    at = tables.entry_at(arena, mapping, page)
    large = arena[at] & w.LARGE
    if arena[at] & w.WRITABLE and not arena[at] & w.COPIED and not (large and arena[s.maps + w.LEAVES_LARGE]):
        arena[at] &= ~w.WRITABLE
        vaddr, order, bytes_ = tables.address_of(arena, mapping, page), 12, w.PAGE
        if large:
            vaddr, order, bytes_ = vaddr & ~(w.HUGE_PAGE - 1), 21, w.HUGE_PAGE
        tables.emit_at(s, out, tables.what_of(s, arena, r.INVALIDATE, CLEAN_SITE, r.USER), 0, bytes_, vaddr, order)
        tables.charge(s, arena, out, PROTECT_COST, 1)


@subroutine
def protect_everywhere(s, arena, out, file, page):
    """Run `protect` on a page in every mapping that contains the page; return the number of these mappings."""
    mapping, count = arena[file + w.HEAD], 0
    while mapping:
        if 0 <= page - arena[mapping + w.FIRST_PAGE] < arena[mapping + w.PAGE_COUNT]:
            protect(s, arena, out, mapping, page)
            count += 1
        mapping = arena[mapping + w.NEXT]
    return count


@subroutine
def write_back(s, arena, out, file, word, length):
    """Write back the cache lines of the `length` bytes that the entry `word` of DAX's tree maps; emits at most 4 events."""
    space = r.KERNEL if word & w.ZERO else r.PM
    emit_run(s, out, tables.what_of(s, arena, r.FLUSH, CLEAN_SITE, space), word & ~w.FLAG_BITS, length)
    tables.charge(s, arena, out, CLEAN_COST, 1)
    tables.charge(s, arena, out, LINE_COST, length >> 6)
    tables.charge(s, arena, out, LEVEL_COST, tables.levels(arena, file))


@subroutine
def clean_large(s, arena, out, file, page):
    """Write back the 2 MiB of a large DAX entry that starts at `page`; emits at most 5 events, and 2 for each mapping of it."""
    at, most = tables.tree_slot(arena, file, page), 0
    for k in range(w.FAN):
        most = max(most, protect_everywhere(s, arena, out, file, page + k))
    tables.charge(s, arena, out, CLEAN_MAPPING_COST, most)
    write_back(s, arena, out, file, arena[at], w.HUGE_PAGE)
    tables.set_entry(arena, file, at, arena[at] & ~w.DIRTY)


@subroutine
def events_of(s, arena, large):
    """Return the maximum number of events that the write-back of an entry emits."""
    return (6 + 2 * arena[s.maps + w.LIVE]) * (w.FAN if large else 1)


@subroutine
def clean_at(s, arena, out, file, page):
    """Write back the DAX entry of a page (4 KiB or 2 MiB) if it is dirty; return False if the events do not fit."""
    entry = tables.tree_entry(arena, file, page)
    if entry == 0 or not arena[entry] & w.DIRTY:
        return True
    large = arena[entry] & w.LARGE
    if not reserve_events(s, out, events_of(s, arena, large)):
        return False
    if large:
        clean_large(s, arena, out, file, page & ~(w.FAN - 1))
    else:
        count = protect_everywhere(s, arena, out, file, page)
        tables.charge(s, arena, out, CLEAN_MAPPING_COST, count)
        write_back(s, arena, out, file, arena[entry], w.PAGE)
        tables.set_entry(arena, file, entry, arena[entry] & ~w.DIRTY)
    return True


@subroutine
def dax_file(s, arena, out, file, low, high):
    """DAX: write back the dirty pages in [low, high); return False if unfinished."""
    m = s.maps
    if arena[m + w.AT] <= 0 and arena[file + w.DIRTIES]:
        if not reserve_events(s, out, 1 + events_of(s, arena, True)):  # enough for the first entry, too
            return False
        tables.charge(s, arena, out, CLEAN_CALL_COST, 1)
    page = max(low, arena[m + w.AT])
    high = min(high, w.FAN << arena[file + w.TREE + table.ORDER]) if arena[file + w.TREE] else page
    while page < high:
        at = tables.tree_slot(arena, file, page)
        large = arena[at] & w.PRESENT
        # no entries, or a clean large one: nothing is dirty in the 2 MiB
        if arena[at] == 0 or (large and not arena[at] & w.DIRTY):
            page = (page | w.FAN - 1) + 1
            continue
        arena[m + w.AT] = page
        if not clean_at(s, arena, out, file, page):
            return False
        page += 1
    arena[m + w.AT] = 0
    return True


@subroutine
def cached_file(s, arena, out, file, low, high):
    """Page cache: protect the pages in [low, high), which the file system writes back; return False if unfinished."""
    mapping = arena[file + w.HEAD]
    while mapping:
        page = max(low, arena[mapping + w.FIRST_PAGE])
        stop = min(high, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT])
        while page < stop:
            if arena[tables.slot_at(arena, mapping, page)] == 0:
                page = tables.region_end(arena, mapping, page)
                continue
            # a resumed call starts over: pages that are already protected emit nothing
            if not reserve_events(s, out, 2):
                return False
            protect(s, arena, out, mapping, page)
            page += 1
        mapping = arena[mapping + w.NEXT]
    return True


@subroutine
def clean_file(s, arena, out, file, low, high):
    """Write back and protect the stored pages in [low, high) of a file (KEEPS_CLEAN); return False if unfinished."""
    if not hooks.KEEPS_CLEAN:
        return True
    if hooks.DAX:
        return dax_file(s, arena, out, file, low, high)
    return cached_file(s, arena, out, file, low, high)
