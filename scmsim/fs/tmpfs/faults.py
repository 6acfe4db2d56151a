"""Define the hooks of tmpfs and ramfs for mapped files (see `scmsim.fs.mapping.hooks`).

Source: Linux 6.1 mm/shmem.c (shmem_fault), mm/memory.c (do_fault_around, finish_fault), mm/huge_memory.c (unmap_folio).
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, NO_ROOM
from scmsim.fs.linux import mapping
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import blocks_left
from scmsim.fs.mapping import words as w
from scmsim.fs.tmpfs.huge import PAGES, can_be_huge, clear_pages, get_content, is_huge, use, word_of
from scmsim.fs.tmpfs.state import IS_UNUSED
from scmsim.jit import subroutine


@subroutine
def unmapped_by(s, arena, op, f):
    """Implement `hooks.unmapped_by`: return the page range of the huge pages that an operation is about to split."""
    if f == 0:
        return 0, 0
    record = arena[f + e.ROW_RECORD]
    at, end = op.offset, op.offset + op.length
    if op.op == r.TRUNCATE:
        at, end = max(at, 0), arena[record + e.PAGE_COUNT] << 12
        if at >= arena[record + e.SIZE]:
            return 0, 0
    low, high = (at + 4095) >> 12, end >> 12
    if at & (PAGES << 12) - 1 and is_huge(arena, record, at >> 12):
        low = at >> 12 & -PAGES
        high = max(high, low + PAGES)
    if end & (PAGES << 12) - 1 and is_huge(arena, record, end >> 12):
        low = min(low, end >> 12 & -PAGES)
        high = (end >> 12 | PAGES - 1) + 1
    return low, high


@subroutine
def folio(s, arena, f, page):
    """Implement `hooks.folio`: return the huge page that has a page or would be allocated for it, else the page alone."""
    record, first = arena[f + e.ROW_RECORD], page & -PAGES
    return (first, PAGES) if is_huge(arena, record, page) or can_be_huge(s, arena, record, page) else (page, 1)


@subroutine
def read_in(s, arena, out, f, page):
    """Implement `hooks.read_in`: give a hole or unwritten page a cleared frame, or allocate a huge page."""
    place, record = mapping.block(s, arena, f, page), arena[f + e.ROW_RECORD]
    if place and not place & w.UNWRITTEN:
        return DONE, w.WAS_THERE
    if not reserve_events(s, out, e.ROOM) or not mapping.reserve_for_fault(s, record, arena, page):
        return NO_ROOM, w.WAS_THERE
    s.whole = s.folio_order > 0 and blocks_left(s) >= PAGES
    came, pages = w.CAME_WHOLE, PAGES
    s.advice = arena[s.maps + w.ADVICE_AT_WORK]
    whole = get_content(s, arena, record, page)
    s.advice = 0
    if not whole and place:  # fallocate left the page's frame uncleared
        clear_pages(s, arena, out, record, page, 1)
        arena[word_of(arena, record, page)] |= IS_UNUSED
        return DONE, w.WAS_THERE
    if not whole:
        outcome = mapping.give_blocks(s, arena, out, f, page, 1)[0]
        if outcome != DONE:
            return outcome, w.WAS_THERE
        came, pages = w.WAS_THERE, 1
    arena[word_of(arena, record, page)] |= IS_UNUSED
    s.reg[q.TO], s.reg[q.BYTES] = mapping.block(s, arena, f, page & -pages), pages << 12
    emit_template(s, out, q.CLEAR_PM)
    return DONE, came


@subroutine
def note_use(s, arena, f, page):
    """Implement `hooks.note_use`: record a use of a page; return whether it is the second use."""
    return use(arena, word_of(arena, arena[f + e.ROW_RECORD], page))


@subroutine
def charge_uses(s, arena, out, count):
    """Implement `hooks.charge_uses`: charge `count` second uses by the template of a write that writes no pages."""
    if count:
        s.reg[q.PAGES], s.reg[q.NEW] = 0, count
        emit_template(s, out, q.FINISH)


HOOKS = mapping.IN_MEMORY | {
    "read_in": read_in, "folio": folio, "unmapped_by": unmapped_by,
    "COUNTS_USES": True, "note_use": note_use, "charge_uses": charge_uses,
}  # fmt: skip
