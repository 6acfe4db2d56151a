"""Page faults: the effects of a touch of a page that is not mapped, or not writable for a store.

Source: Linux 5.13 mm/memory.c (handle_mm_fault, do_cow_fault, wp_page_copy).
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_run, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.mapping import advice, hooks, tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.cached import cached_fault
from scmsim.fs.mapping.common import emit_fault_event, file_of_mapping, protected, request_fs
from scmsim.fs.mapping.dax import dax_fault
from scmsim.fs.mapping.fixed import fixed_fault
from scmsim.fs.mapping.mechanisms import COPY_COST, FAULT_SITE, HUGE_PAGE_COST
from scmsim.jit import subroutine

EVENTS = 32  # maximum number of events of a fault, including the use of its page but not the events of the file system


@subroutine
def copy_fault(s, arena, out, mapping, f, at):
    """Copy a page into the program's memory for a store through a private mapping; return the outcome."""
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
    emit_fault_event(s, arena, out, mapping, (page, 1, 12), protected(old, 1))
    return DONE


@subroutine
def fault(s, arena, out, mapping, page, write):
    """Handle a page fault of a load or (`write`) store; return the outcome."""
    file = arena[mapping + w.FILE]
    f = file_of_mapping(s, arena, mapping)
    if f == 0 or page << 12 >= hooks.length(s, arena, f):
        return w.BEYOND  # SIGBUS
    if not reserve_events(s, out, EVENTS + 2 * hooks.look_up_events(s) + 4 * arena[s.maps + w.LIVE]) or not has_room(
        s, arena, w.FAULT_WORDS + 2 * (page >> 9)
    ):
        return NO_ROOM
    s.map_cost = 0  # the trace has touches, so from now on `fs.mapping` charges mmap and munmap
    arena[s.maps + w.ADVICE_AT_WORK] = advice.over(arena, mapping, page, page + 1)
    answered = arena[s.maps + w.REPLY]
    if answered == w.REFUSED:
        return FULL
    # the file system runs commits and write-back that are due before the fault changes metadata
    if write and not answered and hooks.has_background_work(s):
        return request_fs(s, arena, w.ASK_TURN, file, page)
    if write and arena[mapping + w.FLAGS] & r.PRIVATE:
        outcome, came = (DONE, w.WAS_THERE) if hooks.DAX else hooks.read_in(s, arena, out, f, page)
        tables.charge(s, arena, out, HUGE_PAGE_COST, came == w.CAME_WHOLE)
        return copy_fault(s, arena, out, mapping, f, (page, write)) if outcome == DONE else outcome
    if hooks.ORDER:
        outcome = fixed_fault(s, arena, out, mapping, f, (page, write))
    elif hooks.DAX:
        outcome = dax_fault(s, arena, out, mapping, f, (page, write))
    else:
        outcome = cached_fault(s, arena, out, mapping, f, (page, write))
    return outcome
