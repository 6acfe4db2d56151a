"""Reads and writes of files that are contiguous in virtual memory: one copy between the user's buffer and the file.

Of a new page only the bytes before a write and after the old end of the file are cleared.  A growing file gets `spare`
pages more than it needs, within the 2 MiB of its last page.  Source: SCMFS superpage paper (2013), III; where the paper
is silent, the behaviour is an assumption.
"""

from scmsim.alloc import two_zone
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state, templates
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.jit import subroutine

CHUNK = 1 << 14  # maximum number of pages that one copy covers
END_EVENTS = 16  # maximum number of events after the copy of a write


@subroutine
def inode_at(s, row):
    """Return the device offset of a file's inode."""
    return s.inode_table + (row - s.files) // state.FILE_WORDS * templates.INODE_BYTES


@subroutine
def stretch(arena, row, at, end):
    """Return the end (at most `end`) of the stretch that begins at byte `at`: adjacent blocks in pages of one size, or a hole."""
    page = at // templates.BLOCK
    last = min((end - 1) // templates.BLOCK, page + CHUNK - 1)
    block, order, stop = table.get(arena, row + state.BLOCKS, page), page_map.order_at(arena, row, page), page + 1
    while stop <= last and page_map.order_at(arena, row, stop) == order:
        if table.get(arena, row + state.BLOCKS, stop) != (block + stop - page if block != 0 else 0):
            break
        stop += 1
    return min(end, stop * templates.BLOCK)


@subroutine
def touch(s, arena, out, row, template, at, stop):
    """Emit a template for the bytes [at, stop) of a file, one stretch; return False in a hole, where nothing is emitted."""
    page = at // templates.BLOCK
    block = table.get(arena, row + state.BLOCKS, page)
    s.reg[templates.BYTES] = stop - at
    if block == 0:
        return False
    s.reg[templates.AT] = block * templates.BLOCK + at % templates.BLOCK
    page_map.play_at(
        s,
        out,
        template,
        page_map.address_of(arena, row, page) - block * templates.BLOCK,
        page_map.order_at(arena, row, page),
    )
    return True


@subroutine
def clear(s, arena, out, row, low, high):
    """Clear every byte in [low, high) of a file that is in a mapped page."""
    high = min(high, arena[row + state.PAGE_COUNT] * templates.BLOCK)
    while low < high:
        stop = stretch(arena, row, low, high)
        if touch(s, arena, out, row, templates.CLEAR, low, stop):
            s.zeroed_bytes += stop - low
        low = stop


@subroutine
def clear_events(arena, row, low, high):
    """Return the maximum number of events of `clear` for the bytes [low, high)."""
    high, count = min(high, arena[row + state.PAGE_COUNT] * templates.BLOCK), 16
    while low < high:
        low = stretch(arena, row, low, high)
        count += 2
    return count


@subroutine
def use_spare(s, arena, row, last):
    """Turn the file's spare pages up to page `last` into pages of its data."""
    count = min(max(last + 1 - arena[row + state.SPARE_AT], 0), arena[row + state.SPARE])
    arena[row + state.SPARE_AT] += count
    arena[row + state.SPARE] -= count
    arena[row + file_row.MAPPED] += count
    s.spare_blocks -= count


@subroutine
def set_spare(s, arena, row, first):
    """Turn the mapped pages from `first` on, after the file's end, into spare pages."""
    count = arena[row + state.PAGE_COUNT] - first
    arena[row + state.SPARE_AT], arena[row + state.SPARE] = first, count
    arena[row + file_row.MAPPED] -= count
    s.spare_blocks += count


@subroutine
def last_page(s, arena, row, op_last):
    """Return the last page to map for a write up to page `op_last`; a growing file gets spare pages if space allows."""
    if op_last < arena[row + state.PAGE_COUNT] or s.spare == 0 or arena[row + state.SPARE] > 0:
        return op_last
    if arena[row + file_row.SIZE] > (op_last + 1) * templates.BLOCK:
        return op_last  # spare pages are not cleared, so they must not be in a hole of the file
    if arena[row + state.HELD] > 0 and s.whole:
        return op_last
    if two_zone.free_everywhere(s) < 8 * (s.spare + s.owed) or s.free_blocks < 8 * (s.spare + s.owed):
        return op_last
    return min(op_last | (page_map.PIECE - 1), op_last + s.spare)


@subroutine
def open_write(s, arena, out, op, row):
    """Prepare the mapping of a write's pages: record whether its first and last page are new, and find a range of addresses."""
    end = op.offset + op.length
    first, last = op.offset // templates.BLOCK, (end - 1) // templates.BLOCK
    s.old_size = arena[row + file_row.SIZE]
    use_spare(s, arena, row, last)
    s.edges = (table.get(arena, row + state.BLOCKS, first) == 0) + 2 * (table.get(arena, row + state.BLOCKS, last) == 0)
    area.ensure_range(s, arena, out, row, last + 1)
    s.resume_at, s.stage = page_map.span(arena, row, first, last + 1)[0], state.MAPPING


@subroutine
def map_pages(s, arena, out, row, last, wanted):
    """Map the missing pages from `resume_at` to `wanted`, spare after `last`; return False if `out` must grow first."""
    while s.resume_at <= wanted:
        if not reserve_events(s, out, page_map.MAP_EVENTS):
            return False
        page_map.fill(s, arena, out, row, wanted)
    if wanted > last and arena[row + state.PAGE_COUNT] > last + 1 and arena[row + state.HELD] * page_map.PIECE <= last:
        set_spare(s, arena, row, last + 1)
    return True


@subroutine
def clear_edges(s, arena, out, op, row):
    """Clear the rest of a write's new pages, and the bytes between the old end of the file and the write."""
    end, low = op.offset + op.length, s.old_size
    if s.edges & 1:
        low = min(low, op.offset // templates.BLOCK * templates.BLOCK)
    clear(s, arena, out, row, low, op.offset)
    if s.edges & 2 and end < s.old_size:
        clear(s, arena, out, row, end, min(s.old_size, ((end - 1) // templates.BLOCK + 1) * templates.BLOCK))


@subroutine
def copy_in(s, arena, out, row, at, stop):
    """Copy the user's bytes to one stretch of a file."""
    touch(s, arena, out, row, templates.COPY_IN, at, stop)


@subroutine
def copy_pieces(s, arena, out, op, row, end, reads):
    """Copy from `resume_at` to `end`, stretch by stretch; return False if `out` must grow first."""
    while s.resume_at < end:
        if not reserve_events(s, out, 16):
            return False
        at, stop = s.resume_at, stretch(arena, row, s.resume_at, end)
        s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        if not reads:
            copy_in(s, arena, out, row, at, stop)
        elif not touch(s, arena, out, row, templates.COPY_OUT, at, stop):
            emit_template(s, out, templates.HOLE)
        s.resume_at = stop
    return True


@subroutine
def mapped(s, arena, out, op, row):
    """Do nothing; a hook, called between the mapping of a write's pages and its copy."""


@subroutine
def copied(s, arena, out, op, row):
    """Emit the events of a write after its copy."""
    emit_template(s, out, templates.WRITTEN)


@subroutine
def write_file(s, arena, out, op, row):
    """Run one write(); return False if `out` must grow first."""
    end = op.offset + op.length
    last = (end - 1) // templates.BLOCK
    if s.stage == state.READY:
        emit_template(s, out, templates.WRITE)
        open_write(s, arena, out, op, row)
        s.wanted = last_page(s, arena, row, last)
    if s.stage == state.MAPPING:
        if not map_pages(s, arena, out, row, last, s.wanted):
            return False
        if not reserve_events(s, out, clear_events(arena, row, s.old_size, op.offset) + 16):
            return False
        clear_edges(s, arena, out, op, row)
        mapped(s, arena, out, op, row)
        s.stage, s.resume_at = state.COPYING, op.offset
    if not copy_pieces(s, arena, out, op, row, end, 0) or not reserve_events(s, out, END_EVENTS):
        return False
    s.reg[templates.GROWN] = 8 if end > arena[row + file_row.SIZE] else 0
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    arena[row + state.WRITTEN] = s.now
    copied(s, arena, out, op, row)
    return True


@subroutine
def read_file(s, arena, out, op, row):
    """Run one read(), which clears the user's buffer for holes; return False if `out` must grow first."""
    if s.stage == state.READY:
        emit_template(s, out, templates.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    return copy_pieces(s, arena, out, op, row, min(op.offset + op.length, arena[row + file_row.SIZE]), 1)
