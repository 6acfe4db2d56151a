"""Allocate, reserve and free the pages of files in the pool; run read, `ported` writes and fallocate.

Source: Linux 6.1 mm/hugetlb.c (alloc_huge_page, hugetlb_reserve_pages), fs/hugetlbfs/inode.c (hugetlbfs_read_iter,
hugetlbfs_fallocate, hugetlbfs_punch_hole, remove_inode_hugepages).
"""

from scmsim.alloc import first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.hugetlbfs import state, templates
from scmsim.fs.linux import templates as q
from scmsim.jit import subroutine

EVENTS = 16  # maximum number of events of one page's allocation, clearing and copy


@subroutine
def owns_device(s, row):
    """Return whether a file is the whole device of device-dax, page for page."""
    return s.is_device and not s.ported and row == s.owner


@subroutine
def word_of(s, arena, row, page):
    """Return a file page's table entry: 0 (no memory), RESERVED, or its page number in the pool + FIRST."""
    if owns_device(s, row):
        return page + state.FIRST if page < s.blocks else 0
    return table.get(arena, row + state.PAGES, page)


@subroutine
def place(s, arena, row, at):
    """Return the physical address of byte `at` of a file; -1 if its page has no memory."""
    word = word_of(s, arena, row, at >> s.shift)
    if word < state.FIRST:
        return -1
    return s.start_at + (word - state.FIRST << s.shift) + (at & (1 << s.shift) - 1)


@subroutine
def can_take(s, arena, row, first, stop):
    """Return whether the pages [first, stop) without memory can be allocated (DONE, FULL, or NO_ROOM in the arena)."""
    if owns_device(s, row):
        return DONE if stop <= s.blocks else FULL
    count, promised = 0, 0
    if stop - first > s.blocks:
        return FULL
    for page in range(first, stop):
        word = table.get(arena, row + state.PAGES, page)
        count += word < state.FIRST
        promised += word == state.RESERVED
    if count - promised > s.free_blocks - s.reserved:
        return FULL
    if not first_fit.ready(s, arena, min(s.free_blocks, count)):
        return NO_ROOM
    if not has_room(s, arena, table.words_to_hold(arena, row + state.PAGES, stop)):
        return NO_ROOM
    table.reserve(s, arena, row + state.PAGES, stop)
    return DONE


@subroutine
def take(s, arena, out, row, page):
    """Allocate memory for a page that has none, and clear the page except on device-dax; emits at most 3 events."""
    word = word_of(s, arena, row, page)
    if word >= state.FIRST:
        return
    s.reserved -= word == state.RESERVED
    table.put(arena, row + state.PAGES, page, first_fit.allocate(s, arena, 1) + state.FIRST)
    arena[row + file_row.MAPPED] += 1
    s.used += 1
    emit_template(s, out, templates.TAKE)
    if not s.is_device:
        clear(s, arena, out, row, page << s.shift, page + 1 << s.shift)


@subroutine
def clear(s, arena, out, row, low, high):
    """Clear the bytes [low, high) of one page, if it has memory; emits at most 2 events."""
    at = place(s, arena, row, low)
    if at >= 0 and high > low:
        s.reg[q.TO], s.reg[q.BYTES], s.reg[q.PAGES] = at, high - low, (high - low + 4095) >> 12
        emit_template(s, out, templates.CLEAR)


@subroutine
def promise(s, arena, out, row, first, stop):
    """Reserve the pages [first, stop) for a mapping (hugetlb_reserve_pages); return the outcome."""
    if stop - first > s.blocks:
        return FULL
    count = 0
    for page in range(first, stop):
        count += table.get(arena, row + state.PAGES, page) == 0
    if count > s.free_blocks - s.reserved:
        return FULL
    if not has_room(s, arena, table.words_to_hold(arena, row + state.PAGES, stop)) or not reserve_events(s, out, 4):
        return NO_ROOM
    if count:
        table.reserve(s, arena, row + state.PAGES, stop)
        for page in range(first, stop):
            if table.get(arena, row + state.PAGES, page) == 0:
                table.put(arena, row + state.PAGES, page, state.RESERVED)
    s.reserved += count
    emit_template(s, out, templates.RESERVE)
    return DONE


@subroutine
def free_pages(s, arena, out, row, first, stop):
    """Free the memory and the reservations of the pages [first, stop); emits at most 1 event."""
    count = 0
    stop = min(stop, 1 << arena[row + state.PAGES + table.ORDER]) if arena[row + state.PAGES] else first
    for page in range(first, stop):
        word = table.get(arena, row + state.PAGES, page)
        if word >= state.FIRST:
            first_fit.release(s, arena, word - state.FIRST, 1)
            count += 1
        s.reserved -= word == state.RESERVED
        table.put(arena, row + state.PAGES, page, 0)
    arena[row + file_row.MAPPED] -= count
    s.used -= count
    s.reg[q.PAGES] = count
    emit_template(s, out, templates.FREE)


@subroutine
def copy(s, arena, out, op, row, end, writes):
    """Copy from `resume_at` to `end` page by page, allocating memory for a write; return whether the copy is done."""
    while s.resume_at < end:
        if not reserve_events(s, out, EVENTS):
            return False
        at = s.resume_at
        stop = min(((at >> s.shift) + 1) << s.shift, end)
        if writes:
            take(s, arena, out, row, at >> s.shift)
        where = place(s, arena, row, at)
        s.reg[q.USER_AT], s.reg[q.BYTES] = (op.thread << 36) + op.buffer + at - op.offset, stop - at
        s.reg[q.TO], s.reg[q.FROM] = where, where
        if writes:
            emit_template(s, out, q.COPY)
        else:
            emit_template(s, out, q.COPY_OUT if where >= 0 else templates.COPY_HOLE)
        s.resume_at = stop
    return True


@subroutine
def write(s, arena, out, op, row):
    """Run or resume a `ported` write; return whether it is done."""
    end = op.offset + op.length
    if s.stage == state.READY:
        s.stage, s.resume_at = state.COPYING, op.offset
    if not copy(s, arena, out, op, row, end, 1):
        return False
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    return True


@subroutine
def read(s, arena, out, op, row):
    """Run or resume a read (hugetlbfs_read_iter), or a `ported` one; return whether it is done."""
    if s.stage == state.READY:
        emit_template(s, out, q.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    return copy(s, arena, out, op, row, min(op.offset + op.length, arena[row + file_row.SIZE]), 0)


@subroutine
def fallocate(s, arena, out, op, row, keeps):
    """Run or resume hugetlbfs_fallocate; return whether it is done."""
    stop = (op.offset + op.length - 1 >> s.shift) + 1
    if s.stage == state.READY:
        emit_template(s, out, templates.OTHER)
        s.stage, s.resume_at = state.COPYING, op.offset >> s.shift
    while s.resume_at < stop:
        if not reserve_events(s, out, EVENTS):
            return False
        take(s, arena, out, row, s.resume_at)
        s.resume_at += 1
    if not keeps:
        arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], op.offset + op.length)
    return True


@subroutine
def punch(s, arena, out, op, row):
    """Run hugetlbfs_punch_hole: whole pages are freed, the rest is cleared; emits at most 6 events; return True."""
    mask, end = (1 << s.shift) - 1, op.offset + op.length
    first, last = op.offset + mask & ~mask, end & ~mask
    clear(s, arena, out, row, op.offset, min(first, end))
    if end > last and end > first:
        clear(s, arena, out, row, last, end)
    if last > first:
        free_pages(s, arena, out, row, first >> s.shift, last >> s.shift)
    emit_template(s, out, templates.OTHER)
    return True
