"""Partitions of ctFS: a file's range of addresses is 2 MiB times a power of 8, mapped by whole pieces of 2 MiB from its start.

Sources: ctFS ctfs_pgg.c, ctfs_inode.c.
"""

from scmsim.alloc import first_fit
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.ctfs import templates
from scmsim.fs.engine import ranges, table
from scmsim.fs.engine.events import emit_template
from scmsim.jit import subroutine

LARGEST = 39  # log2 of 512 GiB
DIRECTORY_REACH = 30  # log2 bytes: partitions of this size or larger have a page of page-directory entries per GiB


@subroutine
def range_order(stop):
    """Return log2 of the bytes of the partition for `stop` pages: 2 MiB times a power of 8."""
    order = ranges.order_for(stop * tpl.BLOCK)
    return order + -order % 3


@subroutine
def place(s, out, is_first):
    """Emit the allocation of a partition, and store its address in the inode if `is_first` (the file had no partition)."""
    emit_template(s, out, templates.PARTITION)
    if is_first:
        emit_template(s, out, templates.PLACED)


@subroutine
def set_moved(s, arena, out, row, old, held):
    """Set the registers for a move, which changes all entries of the old partition; emit a flush of the whole TLB."""
    s.reg[tpl.DIRECTORY_BYTES] = 8 << (held - (DIRECTORY_REACH if held >= DIRECTORY_REACH else page_map.SUPER))
    page_map.table_event(s, out, page_map.FLUSH_ALL, 0, page_map.RANGES + old, 1 << 18, page_map.NORMAL)


@subroutine
def span(arena, row, first, stop):
    """Return the page range [first, end) to map: whole pieces of 2 MiB, from the first unmapped piece on."""
    if stop > page_map.MOST_PAGES:
        return first, stop
    return min(first, arena[row + contiguous_state.HELD] * page_map.PIECE), page_map.whole_pieces(stop)


@subroutine
def has_supers(s):
    """Return True: ctFS maps all files by superpages."""
    return True


@subroutine
def extends_supers(s, arena, row, piece):
    """Return whether a piece directly follows a file's superpages; ctFS always maps that piece by a superpage."""
    return piece == arena[row + contiguous_state.HELD]


@subroutine
def drop_split(s, arena, row, wanted):
    """Free the page-table pages with the 4 KiB entries of superpages that a swap has split, from number `wanted` on."""
    for piece in range(wanted, arena[row + contiguous_state.HELD]):
        entries = table.get(arena, row + contiguous_state.PTES, piece)
        if entries != 0:
            first_fit.release(s, arena, entries, 1)
            table.put(arena, row + contiguous_state.PTES, piece, 0)
            s.table_blocks -= 1
