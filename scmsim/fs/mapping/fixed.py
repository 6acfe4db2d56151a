"""Page faults of memory that is mapped by entries of one size (hugetlbfs, device-dax), which `hooks.ORDER` gives.

Source: Linux 6.1 mm/hugetlb.c (hugetlb_no_page), drivers/dax/device.c (dev_dax_huge_fault).
"""

from scmsim.core import records as r
from scmsim.fs.engine.operations import DONE
from scmsim.fs.mapping import hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.common import cost_of, emit_fault_event, may_store, protected
from scmsim.fs.mapping.mechanisms import HUGE_PAGE_COST, LARGE_LOAD_COST, LARGE_STORE_COST
from scmsim.jit import subroutine


@subroutine
def is_refused(op, first, last):
    """Return whether an mmap is refused: private, or not at multiples of the page (hugetlbfs rounds its length up)."""
    mask = (1 << max(hooks.ORDER - 12, 0)) - 1
    misaligned = first & mask or (op.map_address >> 12) & mask or (last & mask and not hooks.HUGETLB)
    return hooks.ORDER > 0 and (misaligned != 0 or op.flag & r.PRIVATE != 0)


@subroutine
def set_entries(arena, mapping, page, word):
    """Map the huge page that starts at `page` by setting its 2 MiB slots, up to the mapping's end, to entries from `word` on."""
    end = arena[mapping + w.FIRST_PAGE] + arena[mapping + w.PAGE_COUNT]
    for at in range(page, min(page + (1 << hooks.ORDER - 12), end), w.FAN):
        arena[tables.slot_at(arena, mapping, at)] = word + (at - page << 12)


@subroutine
def fixed_fault(s, arena, out, mapping, f, at):
    """Map the huge page around a 4 KiB page by one entry; return the outcome.  at = (page, whether it is a store)."""
    page, write = at
    how = protected(arena[tables.entry_at(arena, mapping, page)], write)
    outcome, came = hooks.read_in(s, arena, out, f, page)
    if outcome != DONE:
        return outcome
    first = page & ~((1 << hooks.ORDER - 12) - 1)
    word = hooks.place(s, arena, f, first) | w.PRESENT | may_store(arena, mapping)
    if hooks.ORDER == 12:
        tables.small_table(s, arena, out, mapping, page)
        arena[tables.entry_at(arena, mapping, page)] = word
        tables.charge(s, arena, out, cost_of(how), 1)
    else:
        tables.upper_tables(s, arena, out, mapping, page)
        set_entries(arena, mapping, first, word | w.LARGE)
        tables.charge(s, arena, out, LARGE_STORE_COST if write else LARGE_LOAD_COST, 1)
        tables.charge(s, arena, out, HUGE_PAGE_COST, (came == w.CAME_WHOLE) << hooks.ORDER - 21)
    emit_fault_event(s, arena, out, mapping, (first, 1 << hooks.ORDER - 12, hooks.ORDER), how)
    return DONE
