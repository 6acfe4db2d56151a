"""Zero-copy file data migration (ZFDM): the unused tail of a closed file's last superpage, and how the file grows again.

Source: VSM paper (2020), III.C: step 1 at close, steps 2 and 3 before an append.  That the swap is logged as an
overwrite's is, is a reconstruction: the paper does not say how a migration survives a crash.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.events import play
from scmsim.fs.pmfs import recipes as q
from scmsim.fs.pmfs import state as n
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.vsm import recipes as v
from scmsim.fs.vsm.data import covers, open_log, set_entries, slot_at, take_apart
from scmsim.fs.vsm.gaps import keep_tail
from scmsim.jit import part


@part
def due(s, arena, op, row):
    """Whether the operation makes the file longer than what it kept of its last superpage."""
    if arena[row + n.KEPT] == 0:
        return False
    i = arena[row + n.KEPT_AT]
    held = (i << s.shift) + (arena[row + n.KEPT] << 12)
    if op.op == r.WRITE:
        return op.length > 0 and op.offset + op.length > held and not covers(s, op, i)
    if op.op == r.FALLOCATE:
        return op.length > 0 and not op.flag & r.PUNCH_HOLE and op.offset + op.length > held
    return op.op == r.TRUNCATE and op.offset > held


@part
def reclaim(s, arena, out, row):
    """Step 1: at close, the pages behind the file's end are free, and its inode says so."""
    if keep_tail(s, arena, row) > 0:
        s.reg[q.INODE] = inode_at(s, row)
        play(s, out, v.RECLAIM)


@part
def swap(s, arena, out, old, new, pages):
    """Step 2: exchange the entries of `pages` pages of two superpages, of 2 MiB as far as they fill them."""
    groups, rest = pages >> 9, pages & 511
    if groups > 0:
        s.reg[v.PTES_AT] = s.page_table + (s.blocks + (old >> 9)) * v.PTE
        s.reg[v.FRESH_AT] = s.page_table + (s.blocks + (new >> 9)) * v.PTE
        s.reg[v.PTES], s.reg[v.COUNT], s.reg[v.SPAN] = groups * v.PTE, groups, groups << 21
        s.reg[v.VA], s.reg[v.FRESH_VA] = old * q.BLOCK, new * q.BLOCK
        play(s, out, v.MOVE)
    if rest > 0:
        set_entries(s, old + (groups << 9), new + (groups << 9), rest)
        play(s, out, v.MOVE)
    s.swapped_pmds += groups
    s.swapped_ptes += rest


@part
def migrate(s, arena, out, row):
    """Steps 2 and 3: the file's pages move to a fresh superpage; what it had of the old one is free."""
    i, pages = arena[row + n.KEPT_AT], arena[row + n.KEPT]
    old, new = table.get(arena, row + n.BLOCKS, i), aligned_fit.allocate(s, arena, s.unit)
    rest = pages & 511
    if rest > 0:
        take_apart(s, arena, out, old + pages - rest, rest)
        take_apart(s, arena, out, new + pages - rest, rest)
    open_log(s, 1 + (pages >> 9) + rest)
    play(s, out, v.MIGRATE)
    swap(s, arena, out, old, new, pages)
    s.reg[q.INODE], s.reg[v.SLOT_AT], s.reg[v.COUNT] = inode_at(s, row), slot_at(s, arena, row, i), 1
    play(s, out, v.MOVED)
    table.put(arena, row + n.BLOCKS, i, new)
    first_fit.release(s, arena, old, pages)
    aligned_fit.freed(s, old)
    s.data_blocks += s.unit - pages
    s.migrations += 1
    arena[row + n.KEPT] = 0
