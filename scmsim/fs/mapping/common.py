"""Code shared by faults of DAX and of the page cache: requests to the file system, MAP events, the test for large pages."""

from scmsim.core import records as r
from scmsim.fs.mapping import advice, hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.mechanisms import FAULT_SITE, LOAD_COST, PROTECTED_COST, STORE_COST
from scmsim.jit import subroutine


@subroutine
def request_fs(s, arena, what, file, page):
    """Request `what` from the file system, after which the fault is retried; return the outcome ASK."""
    m = s.maps
    arena[m + w.REQUEST], arena[m + w.REQUEST_FILE], arena[m + w.REQUEST_PAGE], arena[m + w.REPLY] = what, file, page, 0
    return w.ASK


@subroutine
def file_of_mapping(s, arena, mapping):
    """Return the model's row of the mapped file."""
    return hooks.find(s, arena, (arena[mapping + w.FILE] - arena[s.maps + w.FILES]) // w.FILE_WORDS)


@subroutine
def emit_fault_event(s, arena, out, mapping, span, how):
    """Append the MAP event of a fault with the flags `how` that mapped span = (page, pages, log2 of the bytes of a page)."""
    page, pages, order = span
    what = tables.what_of(s, arena, r.MAP, FAULT_SITE, r.USER)
    tables.emit_at(s, out, what, 0, pages << 12, tables.address_of(arena, mapping, page), order)
    out[s.emitted - 1].fault_flags = how


@subroutine
def protected(word, write):
    """Return the flags of a fault that finds the entry `word`: FAULT, WRITES for a store, PROTECTED if the page is mapped."""
    how = w.FAULT | (w.WRITES if write else 0)
    return how | w.PROTECTED if word & w.PRESENT and write else how


@subroutine
def cost_of(how):
    """Return the cost row of a fault that maps 4 KiB pages, chosen by the fault flags `how`."""
    if how & w.PROTECTED:
        return PROTECTED_COST
    return STORE_COST if how & w.WRITES else LOAD_COST


@subroutine
def ever_large(arena, maps):
    """Return whether a mapping can have 2 MiB entries at all on this mount; `maps` is the table of mappings."""
    return hooks.MAY_BE_LARGE and (hooks.ORDER > 0 or hooks.DAX or hooks.KEEPS_CLEAN or arena[maps + w.HUGE] != 0)


@subroutine
def can_be_large(s, arena, mapping, f, page):
    """Return whether the 2 MiB around a page are inside the mapping and the file, and no 4 KiB entries map any of them."""
    first, address = page & ~(w.FAN - 1), tables.address_of(arena, mapping, page)
    if not hooks.MAY_BE_LARGE or (address >> 12 ^ page) & w.FAN - 1:
        return False
    if (
        first < arena[mapping + w.FIRST_PAGE]
        or first + w.FAN > arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]
    ):
        return False
    word, said = arena[tables.slot_at(arena, mapping, page)], advice.over(arena, mapping, first, first + w.FAN)
    if said == advice.MIXED or (word == 0 and (hooks.KEEPS_CLEAN or hooks.DAX) and said == w.ADVISED_AGAINST):
        return False
    return (word == 0 or word & w.PRESENT != 0) and (
        not hooks.DAX or (first + w.FAN - 1) << 12 < hooks.length(s, arena, f)
    )


@subroutine
def may_store(arena, mapping):
    """Return WRITABLE if stores through a mapping go to the file's pages, else 0."""
    flags = arena[mapping + w.FLAGS]
    return w.WRITABLE if flags & r.WRITABLE_SHARED else 0
