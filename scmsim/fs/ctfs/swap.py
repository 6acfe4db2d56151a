"""Atomic write of ctFS: a write to a staging partition, whose page-table entries are then swapped with the file's (pswap).

The entries of a whole piece of 2 MiB are swapped as one; a piece that is swapped in part is split into 512 entries
permanently.
Sources: ctFS ctfs_func.c (ctfs_pwrite_atomic), kernel/device.c (dax_pswap, dax_downgrade_huge); the staging partition's
pages are not taken from the model's device, and the file keeps its blocks.
"""

from scmsim.core.records import INVALIDATE, PM, pack
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.ctfs import templates
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.jit import subroutine

EVENTS = 160  # maximum number of events of one atomic write
AT_ONCE = 32  # maximum pages of one INVALIDATE event: a longer event would count as a flush of the whole TLB
_INVALIDATES = pack(INVALIDATE, list(tpl.SITES).index("page table"), PM)


@subroutine
def flush_all(s, arena, out, row):
    """Emit a flush of all TLB entries of the user's address space."""
    page_map.table_event(s, out, _INVALIDATES, 0, page_map.address_of(arena, row, 0), 1 << 18, page_map.NORMAL)


@subroutine
def split(s, arena, out, row, piece):
    """Map a piece by entries of 4 KiB; return whether a superpage mapped it before."""
    if table.get(arena, row + contiguous_state.PTES, piece) != 0:
        return False
    block = page_map.take_block(s, arena, 1)
    table.put(arena, row + contiguous_state.PTES, piece, block)
    s.table_blocks += 1
    s.owed -= 1
    s.reg[tpl.TABLE] = block * tpl.BLOCK
    s.reg[tpl.DIRECTORY] = page_map.directory_at(arena, row, piece)
    emit_template(s, out, templates.SPLIT)
    return True


@subroutine
def swap_pages(s, arena, out, row, first, count):
    """Swap the entries of `count` pages of one piece; return whether a split requires a flush of the whole TLB."""
    piece = first // page_map.PIECE
    whole = split(s, arena, out, row, piece)
    s.reg[tpl.TABLE] = table.get(arena, row + contiguous_state.PTES, piece) * tpl.BLOCK
    s.reg[tpl.PTE_AT] = s.reg[tpl.TABLE] + ((first & (page_map.PIECE - 1)) << 3)
    s.reg[tpl.PTE_BYTES], s.reg[tpl.PAGES] = count << 3, count
    emit_template(s, out, templates.SWAP_PAGES)
    page = first
    while not whole and page < first + count:
        many = min(first + count - page, AT_ONCE)
        page_map.table_event(s, out, _INVALIDATES, 0, page_map.address_of(arena, row, page), many, page_map.NORMAL)
        page += many
    return whole


@subroutine
def write_swapped(s, arena, out, op, row):
    """Finish an atomic write after its copy; an append is written in place."""
    if not s.shadow or op.offset >= s.old_size:
        return
    end, first = op.offset + op.length, op.offset // tpl.BLOCK
    stop = (end - 1) // tpl.BLOCK + 1
    # copy the bytes of the first and last page that the write does not cover to the staging pages
    s.reg[tpl.BYTES] = op.offset - first * tpl.BLOCK + min(stop * tpl.BLOCK, max(s.old_size, end)) - end
    if s.reg[tpl.BYTES] > 0:
        emit_template(s, out, templates.SHADOW_COPY)
    emit_template(s, out, templates.SWAP)
    # [first, begin): a partial piece, [begin, middle): whole pieces, [middle, stop): a partial piece
    begin = min(page_map.whole_pieces(first), stop)
    middle = max(stop // page_map.PIECE * page_map.PIECE, begin)
    whole = False
    if first < begin:
        whole = swap_pages(s, arena, out, row, first, begin - first)
    if begin < middle:
        s.reg[tpl.DIRECTORY] = page_map.directory_at(arena, row, begin // page_map.PIECE)
        s.reg[tpl.DIRECTORY_BYTES] = (middle - begin) // page_map.PIECE << 3
        emit_template(s, out, templates.SWAP_PIECES)
        whole = True
    if middle < stop:
        whole = swap_pages(s, arena, out, row, middle, stop - middle) or whole
    if whole:
        flush_all(s, arena, out, row)
