"""Reads and writes of files that are contiguous in virtual memory: one copy between the user's buffer and the file's addresses.

A new page is not cleared as a whole: what lies before a write and behind the old end of the file is.  A file that grows
gets `spare` pages more than it needs, within the 2 MiB of its last page.  Source: SCMFS superpage paper (2013), III; what it
does not say are assumptions.
"""

from scmsim.alloc import two_zone
from scmsim.fs.contiguous import area as area
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import recipes, state
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_recipe, has_events
from scmsim.jit import subroutine

CHUNK = 1 << 14  # pages of one copy
END_EVENTS = 16  # of what follows the copy of a write


@subroutine
def inode_at(s, row):
    """Device offset of a file's inode."""
    return s.inode_table + (row - s.files) // state.FILE_WORDS * recipes.INODE_BYTES


@subroutine
def stretch(arena, row, at, end):
    """End of the run from byte `at` on, to `end` at most, that is one piece of the device in pages of one size, or a hole."""
    page = at // recipes.BLOCK
    last = min((end - 1) // recipes.BLOCK, page + CHUNK - 1)
    block, order, stop = table.get(arena, row + state.BLOCKS, page), page_map.order_at(arena, row, page), page + 1
    while stop <= last and page_map.order_at(arena, row, stop) == order:
        if table.get(arena, row + state.BLOCKS, stop) != (block + stop - page if block != 0 else 0):
            break
        stop += 1
    return min(end, stop * recipes.BLOCK)


@subroutine
def touch(s, arena, out, row, recipe, at, stop):
    """Play a recipe over the bytes [at, stop) of a file, one stretch; False in a hole, where nothing is played."""
    page = at // recipes.BLOCK
    block = table.get(arena, row + state.BLOCKS, page)
    s.reg[recipes.BYTES] = stop - at
    if block == 0:
        return False
    s.reg[recipes.AT] = block * recipes.BLOCK + at % recipes.BLOCK
    page_map.play_at(
        s,
        out,
        recipe,
        page_map.address_of(arena, row, page) - block * recipes.BLOCK,
        page_map.order_at(arena, row, page),
    )
    return True


@subroutine
def clear(s, arena, out, row, low, high):
    """Clear the bytes [low, high) of a file as far as they have pages."""
    high = min(high, arena[row + state.END] * recipes.BLOCK)
    while low < high:
        stop = stretch(arena, row, low, high)
        if touch(s, arena, out, row, recipes.CLEAR, low, stop):
            s.zeroed_bytes += stop - low
        low = stop


@subroutine
def clear_events(arena, row, low, high):
    """Events that clearing the bytes [low, high) takes, at most."""
    high, count = min(high, arena[row + state.END] * recipes.BLOCK), 16
    while low < high:
        low = stretch(arena, row, low, high)
        count += 2
    return count


@subroutine
def use_spare(s, arena, row, last):
    """Pages behind the end of the file, to page `last`, become pages of the file."""
    count = min(max(last + 1 - arena[row + state.SPARE_AT], 0), arena[row + state.SPARE])
    arena[row + state.SPARE_AT] += count
    arena[row + state.SPARE] -= count
    arena[row + file_row.MAPPED] += count
    s.spare_blocks -= count


@subroutine
def set_spare(s, arena, row, first):
    """The pages from `first` to the end of what is mapped lie behind the end of the file."""
    count = arena[row + state.END] - first
    arena[row + state.SPARE_AT], arena[row + state.SPARE] = first, count
    arena[row + file_row.MAPPED] -= count
    s.spare_blocks += count


@subroutine
def last_page(s, arena, row, op_last):
    """Last page to map for a write that ends in page `op_last`: more than that where the file grows and space is plenty."""
    if op_last < arena[row + state.END] or s.spare == 0 or arena[row + state.SPARE] > 0:
        return op_last
    if arena[row + file_row.SIZE] > (op_last + 1) * recipes.BLOCK:
        return op_last  # unused pages are not cleared: they must not lie where the file has a hole
    if arena[row + state.HELD] > 0 and s.whole:
        return op_last
    if two_zone.free_everywhere(s) < 8 * (s.spare + s.owed) or s.free_blocks < 8 * (s.spare + s.owed):
        return op_last
    return min(op_last | (page_map.PIECE - 1), op_last + s.spare)


@subroutine
def open_write(s, arena, out, op, row):
    """What precedes the mapping of pages: the inode is read, and a range of addresses found."""
    end = op.offset + op.length
    first, last = op.offset // recipes.BLOCK, (end - 1) // recipes.BLOCK
    s.old_size = arena[row + file_row.SIZE]
    use_spare(s, arena, row, last)
    s.edges = (table.get(arena, row + state.BLOCKS, first) == 0) + 2 * (table.get(arena, row + state.BLOCKS, last) == 0)
    area.ensure_range(s, arena, out, row, last + 1)
    s.resume_at, s.stage = page_map.span(arena, row, first, last + 1)[0], state.MAPPING


@subroutine
def map_pages(s, arena, out, row, last, wanted):
    """Map the missing pages from `resume_at` to `wanted`; those behind `last` are spare.  False: no room to go on."""
    while s.resume_at <= wanted:
        if not has_events(s, out, page_map.MAP_EVENTS):
            return False
        page_map.fill(s, arena, out, row, wanted)
    if wanted > last and arena[row + state.END] > last + 1 and arena[row + state.HELD] * page_map.PIECE <= last:
        set_spare(s, arena, row, last + 1)
    return True


@subroutine
def clear_edges(s, arena, out, op, row):
    """Clear what a write leaves over of new pages, and what lies between the old end of the file and the write."""
    end, low = op.offset + op.length, s.old_size
    if s.edges & 1:
        low = min(low, op.offset // recipes.BLOCK * recipes.BLOCK)
    clear(s, arena, out, row, low, op.offset)
    if s.edges & 2 and end < s.old_size:
        clear(s, arena, out, row, end, min(s.old_size, ((end - 1) // recipes.BLOCK + 1) * recipes.BLOCK))


@subroutine
def copy_in(s, arena, out, row, at, stop):
    """Copy the user's bytes to one stretch of a file."""
    touch(s, arena, out, row, recipes.COPY_IN, at, stop)


@subroutine
def copy_pieces(s, arena, out, op, row, end, reads):
    """Copy from `resume_at` to `end`, stretch by stretch; False: no room to go on."""
    while s.resume_at < end:
        if not has_events(s, out, 16):
            return False
        at, stop = s.resume_at, stretch(arena, row, s.resume_at, end)
        s.reg[recipes.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        if not reads:
            copy_in(s, arena, out, row, at, stop)
        elif not touch(s, arena, out, row, recipes.COPY_OUT, at, stop):
            emit_recipe(s, out, recipes.HOLE)
        s.resume_at = stop
    return True


@subroutine
def mapped(s, arena, out, op, row):
    """What a write does between the mapping of its pages and its copy."""


@subroutine
def copied(s, arena, out, op, row):
    """What a write does after its copy."""
    emit_recipe(s, out, recipes.WRITTEN)


@subroutine
def write_file(s, arena, out, op, row):
    """One write(); False: no room to go on."""
    end = op.offset + op.length
    last = (end - 1) // recipes.BLOCK
    if s.stage == state.READY:
        emit_recipe(s, out, recipes.WRITE)
        open_write(s, arena, out, op, row)
        s.wanted = last_page(s, arena, row, last)
    if s.stage == state.MAPPING:
        if not map_pages(s, arena, out, row, last, s.wanted):
            return False
        if not has_events(s, out, clear_events(arena, row, s.old_size, op.offset) + 16):
            return False
        clear_edges(s, arena, out, op, row)
        mapped(s, arena, out, op, row)
        s.stage, s.resume_at = state.COPYING, op.offset
    if not copy_pieces(s, arena, out, op, row, end, 0) or not has_events(s, out, END_EVENTS):
        return False
    s.reg[recipes.GROWN] = 8 if end > arena[row + file_row.SIZE] else 0
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    arena[row + state.WRITTEN] = s.now
    copied(s, arena, out, op, row)
    return True


@subroutine
def read_file(s, arena, out, op, row):
    """One read(); a hole is cleared in the user's buffer.  False: no room to go on."""
    if s.stage == state.READY:
        emit_recipe(s, out, recipes.READ)
        s.stage, s.resume_at = state.COPYING, op.offset
    return copy_pieces(s, arena, out, op, row, min(op.offset + op.length, arena[row + file_row.SIZE]), 1)
