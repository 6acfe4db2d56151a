"""ctFS's atomic write: into a staging partition, whose page-table entries are then swapped with the file's (pswap).

Entries of whole pieces of 2 MiB are swapped as one; a piece that is swapped in part is split into 512 entries for good.
Sources: ctFS ctfs_func.c (ctfs_pwrite_atomic), kernel/device.c (dax_pswap, dax_downgrade_huge); the staging partition's pages
are not taken from the model's device, and the file keeps its blocks.
"""

from scmsim.core.records import INVALIDATE, PM, pack
from scmsim.fs.contiguous import map as m
from scmsim.fs.contiguous import recipes as q
from scmsim.fs.contiguous import state as n
from scmsim.fs.ctfs import recipes
from scmsim.fs.engine import table
from scmsim.fs.engine.events import play
from scmsim.jit import part

EVENTS = 160  # of one atomic write, at most
AT_ONCE = 32  # pages of one event: a longer one would count as a flush of the whole TLB
_INVALIDATES = pack(INVALIDATE, list(q.SITES).index("page table"), PM)


@part
def flush_all(s, arena, out, row):
    """A flush of the user's whole TLB."""
    m.table_event(s, out, _INVALIDATES, 0, m.address_of(arena, row, 0), 1 << 18, m.NORMAL)


@part
def split(s, arena, out, row, piece):
    """Map a piece by entries of 4 KiB, if it is not yet."""
    if table.get(arena, row + n.PTES, piece) != 0:
        return False
    block = m.take_block(s, arena, 1)
    table.put(arena, row + n.PTES, piece, block)
    s.table_blocks += 1
    s.owed -= 1
    s.reg[q.TABLE], s.reg[q.DIRECTORY] = block * q.BLOCK, m.directory_at(arena, row, piece)
    play(s, out, recipes.SPLIT)
    return True


@part
def swap_pages(s, arena, out, row, first, count):
    """Swap the entries of `count` pages of one piece; True: the whole TLB is to be flushed, since the piece was split."""
    piece = first // m.PIECE
    whole = split(s, arena, out, row, piece)
    s.reg[q.TABLE] = table.get(arena, row + n.PTES, piece) * q.BLOCK
    s.reg[q.PTE_AT] = s.reg[q.TABLE] + ((first & (m.PIECE - 1)) << 3)
    s.reg[q.PTE_BYTES], s.reg[q.PAGES] = count << 3, count
    play(s, out, recipes.SWAP_PAGES)
    page = first
    while not whole and page < first + count:
        many = min(first + count - page, AT_ONCE)
        m.table_event(s, out, _INVALIDATES, 0, m.address_of(arena, row, page), many, m.NORMAL)
        page += many
    return whole


@part
def write_swapped(s, arena, out, op, row):
    """What an atomic write does besides its copy; an append is written in place."""
    if not s.shadow or op.offset >= s.old_size:
        return
    end, first = op.offset + op.length, op.offset // q.BLOCK
    stop = (end - 1) // q.BLOCK + 1
    s.reg[q.BYTES] = op.offset - first * q.BLOCK + min(stop * q.BLOCK, max(s.old_size, end)) - end
    if s.reg[q.BYTES] > 0:
        play(s, out, recipes.SHADOW_COPY)
    play(s, out, recipes.SWAP)
    begin = min(m.whole_pieces(first), stop)
    middle = max(stop // m.PIECE * m.PIECE, begin)
    whole = False
    if first < begin:
        whole = swap_pages(s, arena, out, row, first, begin - first)
    if begin < middle:
        s.reg[q.DIRECTORY] = m.directory_at(arena, row, begin // m.PIECE)
        s.reg[q.DIRECTORY_BYTES] = (middle - begin) // m.PIECE << 3
        play(s, out, recipes.SWAP_PIECES)
        whole = True
    if middle < stop:
        whole = swap_pages(s, arena, out, row, middle, stop - middle) or whole
    if whole:
        flush_all(s, arena, out, row)
