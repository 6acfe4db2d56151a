"""Page faults: what a touch of a page that is not mapped, or not for storing, makes of the page table.

With DAX a fault maps 2 MiB where the address and the offset agree modulo 2 MiB, the whole 2 MiB lie inside the mapping and the
file, and are one run of blocks that begins at a multiple of 2 MiB on the device; where they have no content, a load maps the huge
page of zeros, and a store is given blocks from their first page on, as far as one run goes.  A region that DAX has given out in
small entries is never given out whole again.
A fault for a load maps pages around it as far as the page cache has them.
Source: Linux 5.13 fs/dax.c (dax_iomap_pmd_fault, dax_iomap_pte_fault, grab_mapping_entry), mm/memory.c (do_read_fault,
do_shared_fault, do_cow_fault, wp_pfn_shared), mm/filemap.c (filemap_map_pages).
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_run, has_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.clean import clean_at
from scmsim.fs.mapping.mechanisms import (
    AROUND_COST,
    COPY_COST,
    FAULT_SITE,
    GIVEN_COST,
    LARGE_LOAD_COST,
    LARGE_STORE_COST,
    LOAD_COST,
    PROTECTED_COST,
    STORE_COST,
)
from scmsim.jit import subroutine

EVENTS = 32  # that a fault takes besides those of the file system


@subroutine
def ask(s, arena, what, file, page):
    """Leave something to the file system, which is done before the fault is tried again."""
    m = s.maps
    arena[m + w.ASKS], arena[m + w.ASKS_FILE], arena[m + w.ASKS_AT], arena[m + w.ANSWERED] = what, file, page, 0
    return w.ASK


@subroutine
def found(s, arena, mapping):
    """What stands for a mapping's file in its family."""
    return hooks.find(s, arena, (arena[mapping + w.FILE] - arena[s.maps + w.FILES]) // w.FILE_WORDS)


@subroutine
def tell(s, arena, out, mapping, span, how):
    """Append the MAP event of a fault that mapped span = (page, pages, log2 of the bytes of a page)."""
    page, pages, order = span
    what = tables.what_of(s, arena, r.MAP, FAULT_SITE, r.USER)
    tables.emit_at(s, out, what, 0, pages << 12, tables.address_of(arena, mapping, page), order)
    out[s.emitted - 1].width = how


@subroutine
def protected(word, write):
    """FAULT bits of a fault that finds `word`."""
    how = w.FAULT | (w.WRITES if write else 0)
    return how | w.PROTECTED if word & w.PRESENT and write else how


@subroutine
def cost_of(how):
    """Cost of a fault that maps pages of 4 KiB, by its FAULT bits."""
    if how & w.PROTECTED:
        return PROTECTED_COST
    return STORE_COST if how & w.WRITES else LOAD_COST


@subroutine
def forget_zeros(s, arena, out, mapping, page):
    """The entry of zeros that maps a page goes, since the page has a block now."""
    at = tables.entry_at(arena, mapping, page)
    if arena[at] & w.ZERO:
        span = w.FAN if arena[at] & w.LARGE else 1
        begin = tables.region_end(arena, mapping, page) - w.FAN if span > 1 else page
        tables.zap(s, arena, out, mapping, begin, begin + span)


@subroutine
def run_of(s, arena, f, page):
    """Where the 2 MiB from `page` on lie if they are one run of blocks, or of holes: as `hooks.place`; -1: they are none."""
    first = hooks.place(s, arena, f, page)
    for k in range(1, w.FAN):
        if hooks.place(s, arena, f, page + k) != (first + (k << 12) if first else 0):
            return -1
    if first == 0 and not hooks.is_long_hole(s, arena, f, page):
        return -1
    return first if first == 0 or first & w.UNWRITTEN or first & w.HUGE_PAGE - 1 == 0 else -1


@subroutine
def can_be_large(s, arena, mapping, f, page):
    """Whether the 2 MiB in which a page lies fit the mapping and the file, and nothing small stands in their place."""
    first, address = page & ~(w.FAN - 1), tables.address_of(arena, mapping, page)
    if not hooks.MAY_BE_LARGE or (address >> 12 ^ page) & w.FAN - 1:
        return False
    if first < arena[mapping + w.FIRST] or first + w.FAN > arena[mapping + w.FIRST] + arena[mapping + w.PAGES]:
        return False
    word = arena[tables.slot_at(arena, mapping, page)]
    return (word == 0 or word & w.PRESENT != 0) and (
        not hooks.DAX or (first + w.FAN - 1) << 12 < hooks.length(s, arena, f)
    )


@subroutine
def becomes_dirty(s, arena, write):
    """DIRTY if a fault makes what it maps dirty."""
    return w.DIRTY if write or arena[s.maps + w.LOADS_DIRTY] else 0


@subroutine
def blockless_run(s, arena, f, page, stop):
    """How many pages from `page` on, before `stop`, are holes, or have one run of blocks without content."""
    first = hooks.place(s, arena, f, page)
    count = 0
    while page + count < stop:
        place = hooks.place(s, arena, f, page + count)
        if place != (first + (count << 12) if first else 0) or (place and not place & w.UNWRITTEN):
            break
        count += 1
    return count


@subroutine
def fill(s, arena, out, mapping, f, page):
    """A store asks for the blocks of its 2 MiB, and is given those of the first run; returns the outcome.

    Source: fs/dax.c: dax_iomap_pmd_fault asks iomap_begin for 2 MiB; ext4_iomap_alloc and xfs_iomap_write_direct map one extent.
    """
    m, first = s.maps, page & ~(w.FAN - 1)
    known = table.get(arena, arena[mapping + w.FILE] + w.TREE, page >> 9)
    if arena[m + w.FILL_END] == 0:
        arena[m + w.FILL_AT] = first
    if not arena[m + w.FILLS] or (known and not known & w.PRESENT):
        return DONE
    if arena[m + w.FILL_END] == 0:
        arena[m + w.FILL_END] = first + blockless_run(s, arena, f, first, first + w.FAN)
    while arena[m + w.FILL_AT] < arena[m + w.FILL_END]:
        at = arena[m + w.FILL_AT]
        outcome, count = hooks.give_blocks(s, arena, out, f, at, arena[m + w.FILL_END] - at)
        if outcome == NO_ROOM:
            return NO_ROOM
        tables.charge(s, arena, out, GIVEN_COST, outcome == DONE)
        arena[m + w.FILL_AT] = at + count if outcome == DONE else arena[m + w.FILL_END]
    arena[m + w.FILL_END] = 0
    return must_wait(s, arena, out, mapping, f, page)


@subroutine
def must_wait(s, arena, out, mapping, f, page):
    """MAP_SYNC: a store waits until what leads to the file's blocks is stored; returns the outcome.

    What was dirty there is written back before (dax_finish_sync_fault: vfs_fsync_range of what the fault maps).  A large entry of
    zeros has gone by then (grab_mapping_entry).
    """
    file = arena[mapping + w.FILE]
    asks = arena[mapping + w.FLAGS] & r.MAP_SYNC and arena[s.maps + w.ANSWERED] < w.ASK_SYNC
    if not asks or not hooks.must_sync(s, arena, f):
        return DONE
    entry = tables.tree_entry(arena, file, page)
    zeros = entry and arena[entry] & w.LARGE and arena[entry] & w.ZERO
    if not zeros and not clean_at(s, arena, out, file, page):
        return NO_ROOM
    return ask(s, arena, w.ASK_SYNC, file, page)


@subroutine
def large_fault(s, arena, out, mapping, f, at):
    """DAX: map the 2 MiB in which a page lies, at = (page, FAULT bits); returns whether that could be done."""
    page, write = at[0], at[1] & w.WRITES
    file, first = arena[mapping + w.FILE], page & ~(w.FAN - 1)
    slot = tables.slot_at(arena, mapping, page)
    known = table.get(arena, file + w.TREE, page >> 9)
    place = -1 if known and not known & w.PRESENT else run_of(s, arena, f, first)
    zeros = place == 0 or place & w.UNWRITTEN
    if place < 0 or (zeros and write):
        if arena[slot] & w.PRESENT:  # a large entry cannot be made writable: it goes, and small ones come
            tables.zap(s, arena, out, mapping, first, first + w.FAN)
        return False
    word = w.PRESENT | w.LARGE | (w.ZERO | w.ZERO_PAGE if zeros else place)
    tables.reserve_tree(s, arena, file, page)
    leaf = tables.tree_slot(arena, file, page)
    arena[leaf] = word | arena[leaf] & w.DIRTY | becomes_dirty(s, arena, write)
    arena[slot] = word | (w.WRITABLE if write else 0)
    tables.charge(s, arena, out, LARGE_STORE_COST if write else LARGE_LOAD_COST, 1)
    tell(s, arena, out, mapping, (first, w.FAN, 21), at[1] | filled_hole(s, arena))
    return True


@subroutine
def filled_hole(s, arena):
    """MAJOR if the fault at work gave a hole its block; it is over."""
    fresh = arena[s.maps + w.FRESH]
    arena[s.maps + w.FRESH] = 0
    return w.MAJOR if fresh else 0


@subroutine
def note_given(s, arena, out, file, page, word):
    """The tree learns that DAX has given a page out.

    A large entry of zeros makes room for small ones, and goes from all mappings (grab_mapping_entry: unmap_mapping_pages).
    """
    tables.reserve_tree(s, arena, file, page)
    at, first = tables.tree_slot(arena, file, page), page & ~(w.FAN - 1)
    if arena[at] & w.PRESENT and arena[at] & w.ZERO:
        arena[at] = 0
        mapping = arena[file + w.HEAD]
        while mapping:
            tables.zap_but(s, arena, out, mapping, first, first + w.FAN, w.COPIED)
            mapping = arena[mapping + w.NEXT]
    if not arena[at] & w.PRESENT:
        at = tables.tree_leaf(s, arena, file, page)
        arena[at] = word | arena[at] & w.DIRTY
    if word & w.DIRTY:
        arena[at] |= w.DIRTY


@subroutine
def small_fault(s, arena, out, mapping, f, at):
    """DAX: map one page, at = (page, FAULT bits); returns the outcome."""
    page, how = at
    file, place, write = arena[mapping + w.FILE], hooks.place(s, arena, f, page), how & w.WRITES
    if write and (place == 0 or place & w.UNWRITTEN):
        arena[s.maps + w.FRESH] = place == 0
        outcome = (
            ask(s, arena, w.ASK_BLOCK, file, page)
            if hooks.BY_REQUEST
            else hooks.give_blocks(s, arena, out, f, page, 1)[0]
        )
        if outcome != DONE:
            return outcome
        tables.charge(s, arena, out, GIVEN_COST, 1)
        place = hooks.place(s, arena, f, page)
    outcome = must_wait(s, arena, out, mapping, f, page) if write else DONE
    if outcome != DONE:
        return outcome
    zeros = place == 0 or place & w.UNWRITTEN
    word = w.PRESENT | (w.ZERO | w.ZERO_PAGE if zeros else place)
    note_given(s, arena, out, file, page, word | becomes_dirty(s, arena, write))
    tables.small_table(s, arena, out, mapping, page)
    arena[tables.entry_at(arena, mapping, page)] = word | (w.WRITABLE if write else 0)
    tables.charge(s, arena, out, cost_of(how), 1)
    tell(s, arena, out, mapping, (page, 1, 12), how | filled_hole(s, arena))
    return DONE


@subroutine
def dax_fault(s, arena, out, mapping, f, at):
    """A fault of DAX; returns the outcome."""
    page, write = at
    place = hooks.place(s, arena, f, page)
    if place and not place & w.UNWRITTEN:
        forget_zeros(s, arena, out, mapping, page)
    if write:
        hooks.note_write(s, arena, out, f)
    how = protected(arena[tables.entry_at(arena, mapping, page)], write)
    new = arena[s.maps + w.ANSWERED] == w.ASK_BLOCK and not hooks.WHOLE_BLOCKS
    if not new and can_be_large(s, arena, mapping, f, page):
        outcome = fill(s, arena, out, mapping, f, page) if write else DONE
        if outcome != DONE:
            return outcome
        filled = arena[s.maps + w.FILL_AT] & w.FAN - 1 if write else 0  # less than 2 MiB are mapped one by one
        if filled == 0 and large_fault(s, arena, out, mapping, f, (page, how)):
            return DONE
    return small_fault(s, arena, out, mapping, f, (page, how))


@subroutine
def map_around(s, arena, out, mapping, f, page):
    """Page cache: map a page for loads, and those around it that are there; returns how many came, and the first."""
    address = tables.address_of(arena, mapping, page) >> 12
    first = max(page - address % hooks.AROUND, arena[mapping + w.FIRST])
    stop = min(first + hooks.AROUND, tables.region_end(arena, mapping, page), (hooks.length(s, arena, f) + 4095) >> 12)
    tables.small_table(s, arena, out, mapping, page)
    count, begin = 0, page
    for at in range(first, stop):
        entry, place = tables.entry_at(arena, mapping, at), hooks.place(s, arena, f, at)
        if arena[entry] == 0 and place and not place & w.UNWRITTEN:
            arena[entry] = place | w.PRESENT | (0 if hooks.KEEPS_CLEAN else may_store(arena, mapping))
            count, begin = count + 1, min(begin, at)
    return count, begin


@subroutine
def may_store(arena, mapping):
    """WRITABLE if a mapping's pages are stored to in place."""
    flags = arena[mapping + w.FLAGS]
    return w.WRITABLE if flags & r.WRITABLE_SHARED else 0


@subroutine
def large_page(s, arena, out, mapping, f, at):
    """Page cache: map the folio of 2 MiB in which a page lies, at = (page, FAULT bits); returns whether that could be done.

    An entry that may not be stored to goes before (wp_huge_pmd of a file: __split_huge_pmd).
    """
    page, write = at[0], at[1] & w.WRITES
    first, slot = page & ~(w.FAN - 1), tables.slot_at(arena, mapping, page)
    place = hooks.place(s, arena, f, page)
    if place == 0 or place & w.UNWRITTEN or hooks.folio(s, arena, f, page)[1] != w.FAN:
        return False
    if arena[slot]:
        tables.zap(s, arena, out, mapping, first, first + w.FAN)
    store = (w.WRITABLE if write else 0) if hooks.KEEPS_CLEAN else may_store(arena, mapping)
    arena[slot] = place - (page - first << 12) | w.PRESENT | w.LARGE | store
    tables.charge(s, arena, out, LARGE_STORE_COST if write else LARGE_LOAD_COST, 1)
    tell(s, arena, out, mapping, (first, w.FAN, 21), at[1])
    return True


@subroutine
def cached_fault(s, arena, out, mapping, f, at):
    """A fault of the page cache; returns the outcome."""
    page, write = at
    old = arena[tables.entry_at(arena, mapping, page)]
    outcome, came = hooks.read_in(s, arena, out, f, page)
    if outcome == DONE and write:
        hooks.note_write(s, arena, out, f)
        outcome = hooks.make_dirty(s, arena, out, f, page)
    if outcome != DONE:
        return outcome
    how = protected(old, write) | (w.MAJOR if came == w.WAS_READ else 0)
    if can_be_large(s, arena, mapping, f, page) and large_page(
        s, arena, out, mapping, f, (page, protected(old, write))
    ):
        return DONE
    count, begin = 1, page
    if old & w.LARGE:  # its folio has lost pages: small entries come
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
    tell(s, arena, out, mapping, (begin, count, 12), how)
    return DONE


@subroutine
def copy_fault(s, arena, out, mapping, f, at):
    """A store through a private mapping: the page is copied into memory of the program; returns the outcome."""
    page, place = at[0], hooks.place(s, arena, f, at[0])
    slot = tables.slot_at(arena, mapping, page)
    old = arena[tables.entry_at(arena, mapping, page)]
    if arena[slot] & w.PRESENT:
        tables.zap(s, arena, out, mapping, page, page + 1)
    tables.unfold(arena, mapping, page)
    tables.small_table(s, arena, out, mapping, page)
    copy = w.ANONYMOUS + (arena[s.maps + w.COPIES] << 12)
    arena[s.maps + w.COPIES] += 1
    if place and not place & w.UNWRITTEN:
        emit_run(s, out, tables.what_of(s, arena, r.LOAD, FAULT_SITE, hooks.SPACE), place, w.PAGE)
    emit_run(s, out, tables.what_of(s, arena, r.STORE, FAULT_SITE, r.KERNEL), copy, w.PAGE)
    arena[tables.entry_at(arena, mapping, page)] = copy | w.PRESENT | w.WRITABLE | w.COPIED
    tables.charge(s, arena, out, COPY_COST, 1)
    tell(s, arena, out, mapping, (page, 1, 12), protected(old, 1))
    return DONE


@subroutine
def fault(s, arena, out, mapping, page, write):
    """A touch of a page that is not mapped as it must be; returns the outcome."""
    file = arena[mapping + w.FILE]
    f = found(s, arena, mapping)
    if f == 0 or page << 12 >= hooks.length(s, arena, f):
        return w.BEYOND
    if not has_events(s, out, EVENTS + 2 * arena[s.maps + w.LIVE]) or not has_room(
        s, arena, w.FAULT_WORDS + 2 * (page >> 9)
    ):
        return NO_ROOM
    answered = arena[s.maps + w.ANSWERED]
    if answered == w.REFUSED:
        return FULL
    if write and not answered and hooks.due(s):
        return ask(s, arena, w.ASK_TURN, file, page)
    if write and arena[mapping + w.FLAGS] & r.PRIVATE:
        outcome, _ = (DONE, w.WAS_THERE) if hooks.DAX else hooks.read_in(s, arena, out, f, page)
        return copy_fault(s, arena, out, mapping, f, (page, write)) if outcome == DONE else outcome
    if hooks.DAX:
        outcome = dax_fault(s, arena, out, mapping, f, (page, write))
    else:
        outcome = cached_fault(s, arena, out, mapping, f, (page, write))
    return outcome
