"""Page tables of mappings: the entry of a file's page, the invalidation of entries, and DAX's tree of a file."""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import take
from scmsim.fs.engine.events import emit_run, emit_work
from scmsim.fs.mapping import hooks
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import (
    FAULT_SITE,
    TABLE_COST,
    UNMAP_COPY_COST,
    UNMAP_COST,
    UNMAP_LARGE_COST,
    UNMAP_SITE,
    UNMAP_SLOT_COST,
)
from scmsim.jit import subroutine


@subroutine
def address_of(arena, mapping, page):
    """Return the virtual address at which a mapping maps a page of its file."""
    return arena[mapping + w.START] + (page - arena[mapping + w.FIRST_PAGE] << 12)


@subroutine
def slot_at(arena, mapping, page):
    """Return the arena offset of the slot for the 2 MiB of addresses around a page."""
    return arena[mapping + w.SLOTS] + (address_of(arena, mapping, page) >> 21) - (arena[mapping + w.START] >> 21)


@subroutine
def entry_at(arena, mapping, page):
    """Return the arena offset of the entry that maps a page: the slot, or a small entry if the slot leads to small ones."""
    at = slot_at(arena, mapping, page)
    word = arena[at]
    if word == 0 or word & w.PRESENT:
        return at
    return (word >> 12) + (address_of(arena, mapping, page) >> 12 & w.FAN - 1)


@subroutine
def region_end(arena, mapping, page):
    """Return the first page after the 2 MiB of addresses around a page, at most the mapping's end."""
    end = page + w.FAN - (address_of(arena, mapping, page) >> 12 & w.FAN - 1)
    return min(end, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT])


@subroutine
def emit_at(s, out, what, addr, length, vaddr, order):
    """Append an event that also has a virtual address of the program and a page order."""
    emit_run(s, out, what, addr, length)
    e = out[s.emitted - 1]
    e.vaddr, e.order = vaddr, order


@subroutine
def what_of(s, arena, code, site, space):
    """Return the constant part (see records.pack) of an event of mechanism `site` of the mapping code."""
    return code | (arena[s.maps + w.SITE] + site) << 8 | space << 16


@subroutine
def charge(s, arena, out, cost, times):
    """Charge the cost `cost` of mapping code `times` times; emits at most 1 event."""
    if times > 0:
        emit_work(s, out, arena[s.maps + w.COST] + cost, times)


@subroutine
def upper_place(address, level):
    """Return the number of the page table that covers an address's GiB (level 0) or its 512 GiB (level 1)."""
    return address >> 30 & (1 << 17) - 1 if level == 0 else (1 << 17) + (address >> 39 & (1 << 8) - 1)


@subroutine
def new_table(s, arena, out, place):
    """Emit the allocation and clearing of a page-table page at byte offset `place`; emits at most 2 events."""
    emit_run(s, out, what_of(s, arena, r.STORE, FAULT_SITE, r.KERNEL), w.PAGE_TABLES + place, w.PAGE)
    charge(s, arena, out, TABLE_COST, 1)


@subroutine
def upper_tables(s, arena, out, mapping, page):
    """Create the tables that lead to the 2 MiB around a page; emits at most 4 events.

    Source: mm/memory.c: __handle_mm_fault: p4d_alloc, pud_alloc, pmd_alloc.
    """
    address = address_of(arena, mapping, page)
    for level in range(1 if hooks.ORDER == 30 else 0, 2):  # a 1 GiB entry needs no table for its GiB
        number = upper_place(address, level)
        at, bit = arena[s.maps + w.UPPER] + (number >> 5), 1 << (number & 31)
        if not arena[at] & bit:
            arena[at] |= bit
            new_table(s, arena, out, w.UPPER_TABLES + (number << 12))


@subroutine
def drop_upper_tables(s, arena, mapping):
    """Free the upper tables that led only to a mapping, which is already unlinked from all lists; return their number.

    Source: mm/memory.c: free_pgtables.
    """
    count = 0
    for level in range(2):
        shift = 30 + 9 * level
        first = arena[mapping + w.START] >> shift
        for place in range(first, (arena[mapping + w.START] + (arena[mapping + w.PAGE_COUNT] << 12) - 1 >> shift) + 1):
            number = upper_place(place << shift, level)
            at, bit = arena[s.maps + w.UPPER] + (number >> 5), 1 << (number & 31)
            if arena[at] & bit and not leads_to(s, arena, place << shift, place + 1 << shift):
                arena[at] &= ~bit
                count += 1
    return count


@subroutine
def leads_to(s, arena, low, high):
    """Return whether any mapping overlaps the addresses [low, high)."""
    mapping = arena[s.maps + w.NEWEST]
    while mapping:
        start = arena[mapping + w.START]
        if start < high and start + (arena[mapping + w.PAGE_COUNT] << 12) > low:
            return True
        mapping = arena[mapping + w.OLDER]
    return False


@subroutine
def small_table(s, arena, out, mapping, page):
    """Make the slot of a page point to a table of 4 KiB entries; emits at most 6 events, allocates FAN arena words."""
    at = slot_at(arena, mapping, page)
    if arena[at] == 0:
        upper_tables(s, arena, out, mapping, page)
        entries = take(s, arena, w.FAN_ORDER)
        arena[at] = entries << 12
        new_table(s, arena, out, entries << 3)


@subroutine
def fold(s, arena, mapping, f, page):
    """Mark the 16 entries around a page as contiguous if they map 64 KiB of one folio with equal flags.

    Source: Linux 6.9 arch/arm64/mm/contpte.c: contpte_set_ptes, __contpte_try_fold.
    """
    first, pages = page & ~(w.GROUP - 1), hooks.folio(s, arena, f, page)[1]
    inside = (
        arena[mapping + w.FIRST_PAGE] <= first
        and first + w.GROUP <= arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]
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
    """Remove the mark of contiguous entries from the entries around a page (__contpte_try_unfold)."""
    if arena[slot_at(arena, mapping, page)] & (w.PRESENT | w.LARGE):
        return
    at = entry_at(arena, mapping, page)
    if arena[at] & w.CONTIGUOUS:
        at -= address_of(arena, mapping, page) >> 12 & w.GROUP - 1
        for k in range(w.GROUP):
            arena[at + k] &= ~w.CONTIGUOUS


@subroutine
def zap_entries(arena, mapping, page, stop, kept):
    """Remove the small entries of the pages [page, stop), all in one table, except entries with a bit of `kept`.

    Returns (number removed, first page, page after the last, private copies among them).
    """
    unfold(arena, mapping, page)
    unfold(arena, mapping, stop - 1)
    at = entry_at(arena, mapping, page)
    count, first, last, copies = 0, stop, page, 0
    for k in range(stop - page):
        if arena[at + k] and not arena[at + k] & kept:
            copies += arena[at + k] & w.COPIED != 0
            arena[at + k] = 0
            count += 1
            first, last = min(first, page + k), page + k + 1
    return count, first, last, copies


@subroutine
def note_uses(s, arena, out, mapping, low, high):
    """Page cache: mark as used the pages of [low, high) that small entries map; emits at most 2 events.

    Runs before the entries are removed and after they are populated.
    Source: mm/memory.c: zap_pte_range, mark_page_accessed.  x86 also makes the entries around a fault's page young
    (do_set_pte).
    """
    if not hooks.COUNTS_USES:
        return
    f = hooks.find(s, arena, (arena[mapping + w.FILE] - arena[s.maps + w.FILES]) // w.FILE_WORDS)
    page, count = max(low, arena[mapping + w.FIRST_PAGE]), 0
    high = min(high, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT])
    while f and page < high:
        word = arena[entry_at(arena, mapping, page)]
        if word & w.PRESENT and not word & (w.LARGE | w.COPIED):
            count += hooks.note_use(s, arena, f, page)
        page = page + 1 if arena[slot_at(arena, mapping, page)] else region_end(arena, mapping, page)
    hooks.charge_uses(s, arena, out, count)


@subroutine
def zap(s, arena, out, mapping, low, high):
    """Remove and invalidate the entries of the pages [low, high), large entries as a whole; emits at most 5 events."""
    zap_but(s, arena, out, mapping, low, high, 0)


@subroutine
def zap_but(s, arena, out, mapping, low, high, kept):
    """Run `zap`, but keep small entries that have a bit of `kept`.

    Linux gathers removals: one invalidation from the first to the last removed page (mmu_gather).
    """
    low = max(low, arena[mapping + w.FIRST_PAGE])
    high = min(high, arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT])
    page, count, large, copies, looked = low, 0, 0, 0, 0
    first, last, order = high, low, 30 if hooks.ORDER == 30 else 21
    while page < high:
        stop = min(region_end(arena, mapping, page), high)
        at = slot_at(arena, mapping, page)
        if arena[at] & w.PRESENT:
            arena[at] = 0
            large += 1
            first, last = min(first, page), stop
        elif arena[at]:
            more, begin, end, copied = zap_entries(arena, mapping, page, stop, kept)
            copies, looked = copies + copied, looked + stop - page
            if more:
                count += more
                first, last, order = min(first, begin), end, 12
        page = stop
    charge(s, arena, out, UNMAP_SLOT_COST, looked)
    if count or large:
        what = what_of(s, arena, r.UNMAP, UNMAP_SITE, r.USER)
        emit_at(s, out, what, 0, last - first << 12, address_of(arena, mapping, first), order)
        charge(s, arena, out, UNMAP_COST, count)
        charge(s, arena, out, UNMAP_LARGE_COST, large + 511 >> 9 if hooks.ORDER == 30 else large)
        charge(s, arena, out, UNMAP_COPY_COST, copies)


@subroutine
def tree_slot(arena, file, page):
    """Return the arena offset of the tree's slot for the 2 MiB of the file around a page; call `reserve_tree` before."""
    return arena[file + w.TREE] + (page >> 9)


@subroutine
def tree_entry(arena, file, page):
    """Return the arena offset of the tree's entry of a page; 0 if there is none."""
    if table.get(arena, file + w.TREE, page >> 9) == 0:
        return 0
    at = tree_slot(arena, file, page)
    return at if arena[at] & w.PRESENT else (arena[at] >> 12) + (page & w.FAN - 1)


@subroutine
def reserve_tree(s, arena, file, page):
    """Extend the file's tree to a page; the arena must have room."""
    table.reserve(s, arena, file + w.TREE, (page >> 9) + 1)


@subroutine
def tree_leaf(s, arena, file, page):
    """Return the arena offset of a page's 4 KiB entry in the tree; create its table if needed (FAN arena words)."""
    at = tree_slot(arena, file, page)
    if arena[at] == 0:
        arena[at] = take(s, arena, w.FAN_ORDER) << 12
    return (arena[at] >> 12) + (page & w.FAN - 1)


@subroutine
def is_new_node(arena, leaf, page):
    """Return whether the xarray node (64 slots, XA_CHUNK_SIZE) that a small entry of a page belongs to has no entry yet."""
    for at in range(leaf - (page & 63), leaf - (page & 63) + 64):
        if arena[at]:
            return False
    return True


@subroutine
def levels(arena, file):
    """Return the number of levels of nodes above the leaf nodes in the kernel's tree of a file."""
    last, count = arena[file + w.LAST_GIVEN] >> 6, 0
    while last:
        last, count = last >> 6, count + 1
    return count


@subroutine
def set_entry(arena, file, at, word):
    """Set an entry of a file's tree to `word` and update the count of dirty entries."""
    arena[file + w.DIRTIES] += ((word & w.DIRTY) - (arena[at] & w.DIRTY)) // w.DIRTY
    arena[at] = word
