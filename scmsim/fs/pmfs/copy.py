"""Find device offsets in PMFS's block tree, and set the registers of single look-ups, copies and clears.

Source: PMFS fs/pmfs/xip.c (__pmfs_xip_file_write, pmfs_clear_edge_blk), inode.c (pmfs_find_data_block).
"""

from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import state, templates
from scmsim.fs.pmfs.tree import node
from scmsim.jit import subroutine

PAGE_BY_PAGE = True  # a write makes one copy per page; False: one copy per run of blocks (WineFS)


@subroutine
def inode_at(s, row):
    """Return the device offset of a file's inode."""
    return s.inode_table + (row - s.files) // state.FILE_WORDS * templates.INODE_BYTES


@subroutine
def looked_up(s, page, pages):
    """Return how many look-ups find `pages` pages from `page` on: one look-up per 2**`lookup` pages."""
    return ((page + pages - 1) >> s.lookup) - (page >> s.lookup) + 1


@subroutine
def set_find(s, arena, row, page, pages):
    """Set the registers for the look-up of `pages` pages (at most `chunk`) from `page` on."""
    pages = looked_up(s, page, pages)
    i, height = page >> s.shift - 12, arena[row + state.HEIGHT]
    leaf, upper = node(arena, row, 1, i >> 9), node(arena, row, height, 0) if height > 1 else 0
    span = pages << 3
    s.reg[templates.PAGES], s.reg[templates.HEADERS] = pages, pages * s.header_loads
    s.reg[templates.LEAF_AT] = leaf * templates.BLOCK + min((i & 511) << 3, templates.BLOCK - span)
    s.reg[templates.LEAF] = span * (leaf != 0)
    s.reg[templates.UPPER_AT] = upper * templates.BLOCK
    s.reg[templates.UPPER] = span * max(height - 1, 0) * (upper != 0)


@subroutine
def device(s, arena, row, at):
    """Return the device offset of byte `at` of the file, -1 if it is in a hole."""
    block = table.get(arena, row + state.BLOCKS, at >> s.shift)
    return -1 if block == 0 else block * templates.BLOCK + (at & ((1 << s.shift) - 1))


@subroutine
def stretch(s, arena, row, at, end):
    """Return the end of the run of bytes from `at` that is contiguous on the device, or that is one hole.

    The run has at most `chunk` pages and ends at `end` at the latest.
    """
    limit = min(end, ((at >> 12) + s.chunk) << 12)
    first = at >> s.shift
    block, stop = table.get(arena, row + state.BLOCKS, first), first + 1
    while stop << s.shift < limit and table.get(arena, row + state.BLOCKS, stop) == (
        block + (stop - first) * s.unit if block != 0 else 0
    ):
        stop += 1
    return min(limit, stop << s.shift)


@subroutine
def set_copy(s, op, target, low, high):
    """Set the registers to copy bytes [low, high) of the file from the caller's buffer to the device offset `target`.

    As in PMFS's code, the last cache line is not written back if the last copy's start and end have the same offset in a
    line (pmfs_flush_edge_cachelines; Chipmunk's PMFS_BUG4 and WINEFS_BUG3).
    """
    last = max(low, (high - 1) & ~4095) if PAGE_BY_PAGE else low
    s.reg[templates.TO], s.reg[templates.BYTES], s.reg[templates.LINES] = target, high - low, (high - low + 63) >> 6
    s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + low - op.offset
    s.reg[templates.LEAF] = (low & 7) != 0
    s.reg[templates.EDGE] = (high & 7) != 0 and (last & 63) != (high & 63)
    s.reg[templates.EDGE_AT] = target + high - low


@subroutine
def set_copy_within(s, source, target, length):
    """Set the registers to copy `length` bytes from one device offset to another."""
    s.reg[templates.FROM], s.reg[templates.TO] = source, target
    s.reg[templates.BYTES], s.reg[templates.LINES] = length, (length + 63) >> 6


@subroutine
def clear(s, out, block, low, high):
    """Clear bytes [low, high) of a new block (memset_nt, in units of 8 bytes)."""
    s.reg[templates.TO], s.reg[templates.BYTES] = block * templates.BLOCK + low, high - low
    s.reg[templates.LINES] = (high - low + 63) >> 6
    s.zeroed_bytes += high - low
    emit_template(s, out, templates.ZEROED)
