"""Model the library's reads and writes: each run of pages is in a staging file, the scratch area, or a mapping of the file.

Source: utsaslab/SplitFS splitfs/fileops_nvp.c (_nvp_do_pread, _nvp_do_pwrite, _nvp_extend_write).
"""

from scmsim.core import records as r
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import PREALLOCATION, add_blocks, page_run, page_word, reserve_pages
from scmsim.fs.linux.transfer import add_zeroed, copy_in
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.touch import order_of
from scmsim.fs.splitfs import mappings as m
from scmsim.fs.splitfs import state as n
from scmsim.fs.splitfs import templates as x
from scmsim.jit import subroutine

# Maximum number of events of one page.  The fault of a store adds up to 12, not counting those that only the first fault emits.
WRITE_EVENTS, READ_EVENTS = 24 + 12, 6


@subroutine
def log_entry(s, out):
    """Emit the store of a 64-byte entry in the append log or the operation log, and the fence, which also orders the data."""
    s.reg[q.LOG] = s.entries_at + s.entry % s.entries_bytes
    s.entry += x.ENTRY
    emit_template(s, out, x.LOG_ENTRY)
    m.put_at(s, out, s.emitted - 2, m.AREA, m.ORDER)


@subroutine
def stage(s, arena, f, page, count):
    """Record that the pages [page, page + count) wait for a relink."""
    if arena[f + n.STAGED_END] == 0:
        arena[f + n.STAGED] = page
    arena[f + n.STAGED] = min(arena[f + n.STAGED], page)
    arena[f + n.STAGED_END] = max(arena[f + n.STAGED_END], page + count)


@subroutine
def take_staging(s, arena, out, f, page, want):
    """Allocate up to `want` staging blocks for the pages from `page` on; fill those beyond the prefilled bytes."""
    count = add_blocks(s, arena, f, page, want, 0)
    arena[f + e.MAPPED] += count
    stage(s, arena, f, page, count)
    m.put_in_staging(s, arena, f, page, count)
    used = min(s.filled, count * e.BLOCK)
    s.filled -= used
    s.reg[q.FROM] = (arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT) * e.BLOCK + used
    s.reg[q.BYTES] = count * e.BLOCK - used
    m.grow_staging(s, arena, out, s.reg[q.FROM], s.reg[q.BYTES])
    first = s.emitted
    emit_template(s, out, x.PREFILL)
    m.put_at(s, out, first, m.AREA, m.ORDER)
    return count


@subroutine
def to_scratch(s, arena, f, page, at, length):
    """Reserve scratch space for data that must not be written in place; return its address.  The relink copies partial pages."""
    if s.scratch + length + e.BLOCK > s.scratch_bytes:
        s.scratch = 0
    target = s.scratch_at + s.scratch + (at & 4095)
    s.scratch += (length + 2 * e.BLOCK - 1) & -e.BLOCK
    whole = max(((at + length) >> 12) - ((at + 4095) >> 12), 0)
    stage(s, arena, f, page, ((at + length - 1) >> 12) - page + 1)
    arena[f + n.TO_COPY] += length - whole * e.BLOCK
    return target


@subroutine
def user_at(op, at):
    """Return the address of the file's byte `at` in the program's buffer."""
    return (op.thread << 36) + op.buffer + at - op.offset


@subroutine
def copy_at(s, out, op, span, target, place):
    """Copy the bytes span = [from, to) of a write to `target` on the device; place = (offset of its address, page order)."""
    first = s.emitted
    copy_in(s, out, target, user_at(op, span[0]), span[1] - span[0])
    m.put_at(s, out, first, place[0], place[1])


@subroutine
def copy_in_place(s, arena, out, op, row, span):
    """Copy the bytes span = [from, to), whose pages are contiguous, at the addresses where the library maps them."""
    at, stop = span
    f = arena[row + e.ROW_RECORD]
    # Device offset minus file offset, which is the same for all bytes of the span.
    target = (page_word(arena, f, at >> 12) >> e.BLOCK_SHIFT << 12) - (at & ~4095)
    while at < stop:
        page, place = at >> 12, (m.AREA, m.ORDER)
        end = min(stop, page + m.same_side(arena, f, page, ((stop - 1) >> 12) - page + 1) << 12)
        if not m.is_in_staging(arena, f, page):
            entry, address, end = m.reach(s, arena, out, row, (at, end, 1))
            place = (address - target - at, order_of(entry))
        copy_at(s, out, op, (at, end), target + at, place)
        at = end


@subroutine
def write_part(s, arena, out, op, row, f):
    """Run part of a write from `s.progress` on: the program copies each run of pages.

    The part ends early at a piece of the file that must be mapped first (`s.wanted`).
    """
    at = op.offset + s.progress
    end = min(op.offset + op.length, (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    size, most = arena[f + e.SIZE], s.scratch_bytes - 2 * e.BLOCK
    if not s.called:
        emit_template(s, out, q.WRITE)
        s.called = 1
    while at < end:
        page = at >> 12
        count = page_run(s, arena, f, page, (end - 1) >> 12)
        word = arena[arena[f + e.PAGES] + page]
        # Written blocks change in place while they are staged or, outside strict mode, before the file's end.
        aside = word != 0 and not word & e.IS_UNWRITTEN and (at >= size or s.mode == n.STRICT)
        aside = aside and not (arena[f + n.STAGED] <= page and page + count <= arena[f + n.STAGED_END])
        if word == 0:
            count = take_staging(s, arena, out, f, page, count)
        elif not aside:
            s.wanted = 1 + m.first_unmapped(s, arena, f, page, count)
            if s.wanted:
                break
            if word & e.IS_UNWRITTEN:  # the page fault zeroes unwritten blocks
                count = add_zeroed(s, arena, out, f, page, count)
        stop = min(end, (page + count) << 12)
        if aside:
            stop = min(stop, at + most)
            copy_at(s, out, op, (at, stop), to_scratch(s, arena, f, page, at, stop - at), (m.AREA, m.ORDER))
        elif word == 0:
            block = arena[arena[f + e.PAGES] + page] >> e.BLOCK_SHIFT
            copy_at(s, out, op, (at, stop), (block << 12) + (at & 4095), (m.AREA, m.ORDER))
        else:
            copy_in_place(s, arena, out, op, row, (at, stop))
        at = stop
    s.progress = at - op.offset
    if s.progress == op.length:
        if op.offset < size:
            emit_template(s, out, x.DRAIN)
        if at > size or s.mode == n.STRICT:
            log_entry(s, out)
        arena[f + e.SIZE] = max(size, at)


@subroutine
def read_part(s, arena, out, op, f):
    """Run part of a read from `s.progress` on: the program copies each run of pages; a hole reads the zero page."""
    at = op.offset + s.progress
    end = min(op.offset + op.length, arena[f + e.SIZE], (at & ~4095) + e.SLICE_PAGES * e.BLOCK)
    s.reg[q.PAGES], s.reg[q.LINES], s.reg[q.NEW] = ((end - 1) >> 12) - (at >> 12) + 1, (end - at) >> 12, 0
    if s.progress == 0:
        emit_template(s, out, q.READ)
    row = s.rows + op.file * e.ROW_WORDS
    while at < end:
        page = at >> 12
        count = m.same_side(arena, f, page, page_run(s, arena, f, page, (end - 1) >> 12))
        stop = min(end, (page + count) << 12)
        target = ((page_word(arena, f, page) >> e.BLOCK_SHIFT) << 12) + (at & 4095)
        entry, address = w.LARGE, target + m.AREA
        if not m.is_in_staging(arena, f, page):
            entry, address, stop = m.reach(s, arena, out, row, (at, stop, 0))
        s.reg[q.USER_AT], s.reg[q.FROM], s.reg[q.BYTES] = user_at(op, at), target, stop - at
        s.reg[q.HAS], first = stop - at, s.emitted
        emit_template(s, out, q.COPY_OUT)
        m.put_at(s, out, first, address - target, order_of(entry))
        if entry & w.ZERO:
            out[first].space, out[first].addr = r.KERNEL, w.ZERO_PAGE
        at = stop
    if at > op.offset:
        emit_template(s, out, q.READ_PAGES)
    s.progress = at - op.offset


@subroutine
def part_fits(s, arena, out, op, f):
    """Return whether the next part of a read or write surely fits; map the pages that it needs, and grow its tables."""
    at, row = op.offset + s.progress, s.rows + op.file * e.ROW_WORDS
    first = at >> 12
    last = min((op.offset + op.length - 1) >> 12, first + e.SLICE_PAGES - 1)
    if op.op == r.READ:
        if not m.map_read(s, arena, out, row, at, min(op.offset + op.length, (last + 1) << 12)):
            return False
    elif s.wanted and not m.map_piece(s, arena, out, row, s.wanted - 1):
        return False
    s.wanted = 0
    if not reserve_events(s, out, 64 + (WRITE_EVENTS if op.op == r.WRITE else READ_EVENTS) * (last - first + 1)):
        return False
    return op.op != r.WRITE or (
        reserve_pages(s, arena, f, last) and m.has_words(s, arena, f, first, last, PREALLOCATION * (last - first + 1))
    )


TRANSFER = {"NOTHING": x.USER_CALL, "write_slice": write_part, "read_slice": read_part, "slice_fits": part_fits}
