"""Page tables of mappings: entries by page of the file, and what invalidates them."""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import take
from scmsim.fs.engine.events import emit_run, emit_work
from scmsim.fs.mapping import hooks
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import FAULT_SITE, TABLE_COST, UNMAP_COST, UNMAP_SITE
from scmsim.jit import subroutine


@subroutine
def address_of(arena, mapping, page):
    """Address at which a mapping has a page of its file."""
    return arena[mapping + w.START] + (page - arena[mapping + w.FIRST] << 12)


@subroutine
def slot_at(arena, mapping, page):
    """Arena offset of the word for the 2 MiB of addresses in which a page lies."""
    return arena[mapping + w.SLOTS] + (address_of(arena, mapping, page) >> 21) - (arena[mapping + w.START] >> 21)


@subroutine
def entry_at(arena, mapping, page):
    """Arena offset of the entry that maps a page: the slot, unless that leads to small entries."""
    at = slot_at(arena, mapping, page)
    word = arena[at]
    if word == 0 or word & w.PRESENT:
        return at
    return (word >> 12) + (address_of(arena, mapping, page) >> 12 & w.FAN - 1)


@subroutine
def region_end(arena, mapping, page):
    """The first page behind the 2 MiB of addresses in which a page lies, or behind the mapping."""
    behind = page + w.FAN - (address_of(arena, mapping, page) >> 12 & w.FAN - 1)
    return min(behind, arena[mapping + w.FIRST] + arena[mapping + w.PAGES])


@subroutine
def emit_at(s, out, what, addr, length, vaddr, order):
    """Append an event that has an address in the program's address space."""
    emit_run(s, out, what, addr, length)
    e = out[s.emitted - 1]
    e.vaddr, e.order = vaddr, order


@subroutine
def what_of(s, arena, code, site, space):
    """Constant part of an event of the mappings' own site `site`."""
    return code | (arena[s.maps + w.SITE] + site) << 8 | space << 16


@subroutine
def charge(s, arena, out, cost, times):
    """`times` times one of the mappings' own costs; takes an event."""
    if times > 0:
        emit_work(s, out, arena[s.maps + w.COST] + cost, times)


@subroutine
def small_table(s, arena, out, mapping, page):
    """Make the slot of a page lead to small entries; takes 2 events and FAN words."""
    at = slot_at(arena, mapping, page)
    if arena[at] == 0:
        entries = take(s, arena, w.FAN_ORDER)
        arena[at] = entries << 12
        emit_run(s, out, what_of(s, arena, r.STORE, FAULT_SITE, r.KERNEL), w.PAGE_TABLES + (entries << 3), w.PAGE)
        charge(s, arena, out, TABLE_COST, 1)


@subroutine
def fold(s, arena, mapping, f, page):
    """Mark the entries around a page as contiguous if all are there, alike, and map 64 KiB of one folio.

    Source: Linux 6.9 arch/arm64/mm/contpte.c: contpte_set_ptes, __contpte_try_fold.
    """
    first, pages = page & ~(w.GROUP - 1), hooks.folio(s, arena, f, page)[1]
    inside = (
        arena[mapping + w.FIRST] <= first and first + w.GROUP <= arena[mapping + w.FIRST] + arena[mapping + w.PAGES]
    )
    if pages < w.GROUP or not inside or (address_of(arena, mapping, page) >> 12 ^ page) & w.GROUP - 1:
        return
    at = entry_at(arena, mapping, first)
    if arena[at] >> 12 & w.GROUP - 1:
        return
    for k in range(w.GROUP):
        if arena[at + k] != arena[at] + (k << 12):
            return
    for k in range(w.GROUP):
        arena[at + k] |= w.CONTIGUOUS


@subroutine
def unfold(arena, mapping, page):
    """The entries around a page that are marked as contiguous are so no more."""
    if arena[slot_at(arena, mapping, page)] & (w.PRESENT | w.LARGE):
        return
    at = entry_at(arena, mapping, page)
    if arena[at] & w.CONTIGUOUS:
        at -= address_of(arena, mapping, page) >> 12 & w.GROUP - 1
        for k in range(w.GROUP):
            arena[at + k] &= ~w.CONTIGUOUS


@subroutine
def zap_entries(arena, mapping, page, stop, kept):
    """Remove the small entries of [page, stop) without a bit of `kept`; returns (how many, the first, behind the last).

    They lie in one table.
    """
    unfold(arena, mapping, page)
    unfold(arena, mapping, stop - 1)
    at = entry_at(arena, mapping, page)
    count, first, last = 0, stop, page
    for k in range(stop - page):
        if arena[at + k] and not arena[at + k] & kept:
            arena[at + k] = 0
            count += 1
            first, last = min(first, page + k), page + k + 1
    return count, first, last


@subroutine
def zap(s, arena, out, mapping, low, high):
    """Remove the entries of the pages [low, high) and invalidate them; a large one goes whole.  Takes 2 events."""
    zap_but(s, arena, out, mapping, low, high, 0)


@subroutine
def zap_but(s, arena, out, mapping, low, high, kept):
    """As `zap`, but small entries with a bit of `kept` stay.

    Linux gathers what it removes: one invalidation from the first to the last of it (mmu_gather).
    """
    low = max(low, arena[mapping + w.FIRST])
    high = min(high, arena[mapping + w.FIRST] + arena[mapping + w.PAGES])
    page, count, first, last, order = low, 0, high, low, 21
    while page < high:
        stop = min(region_end(arena, mapping, page), high)
        at = slot_at(arena, mapping, page)
        if arena[at] & w.PRESENT:
            arena[at] = 0
            count += 1
            first, last = min(first, page), stop
        elif arena[at]:
            more, begin, end = zap_entries(arena, mapping, page, stop, kept)
            if more:
                count += more
                first, last, order = min(first, begin), end, 12
        page = stop
    if count:
        what = what_of(s, arena, r.UNMAP, UNMAP_SITE, r.USER)
        emit_at(s, out, what, 0, last - first << 12, address_of(arena, mapping, first), order)
        charge(s, arena, out, UNMAP_COST, count)


@subroutine
def tree_slot(arena, file, page):
    """Arena offset of the word of the tree for the 2 MiB of the file in which a page lies; `reserve_tree` has made it."""
    return arena[file + w.TREE] + (page >> 9)


@subroutine
def tree_entry(arena, file, page):
    """Arena offset of the tree's entry of a page, 0 if there is none."""
    if table.get(arena, file + w.TREE, page >> 9) == 0:
        return 0
    at = tree_slot(arena, file, page)
    return at if arena[at] & w.PRESENT else (arena[at] >> 12) + (page & w.FAN - 1)


@subroutine
def reserve_tree(s, arena, file, page):
    """Make the file's tree reach a page; the arena has room."""
    table.reserve(s, arena, file + w.TREE, (page >> 9) + 1)


@subroutine
def tree_leaf(s, arena, file, page):
    """Arena offset of the small entry of a page, made where there is none; takes FAN words."""
    at = tree_slot(arena, file, page)
    if arena[at] == 0:
        arena[at] = take(s, arena, w.FAN_ORDER) << 12
    return (arena[at] >> 12) + (page & w.FAN - 1)
