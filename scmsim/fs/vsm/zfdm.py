"""Zero-copy file data migration (ZFDM): the unused tail of a closed file's last superpage, and how the file grows again.

Source: VSM paper (2020), III.C: step 1 at close, steps 2 and 3 before an append.  That the swap is logged as an
overwrite's is, is a reconstruction: the paper does not say how a migration survives a crash.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_recipe
from scmsim.fs.pmfs import recipes as pmfs_recipes
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.vsm import recipes
from scmsim.fs.vsm.data import covers, open_log, set_entries, slot_at, take_apart
from scmsim.fs.vsm.gaps import keep_tail
from scmsim.jit import subroutine


@subroutine
def due(s, arena, op, row):
    """Whether the operation makes the file longer than what it kept of its last superpage."""
    if arena[row + pmfs_state.KEPT] == 0:
        return False
    i = arena[row + pmfs_state.KEPT_AT]
    held = (i << s.shift) + (arena[row + pmfs_state.KEPT] << 12)
    if op.op == records.WRITE:
        return op.length > 0 and op.offset + op.length > held and not covers(s, op, i)
    if op.op == records.FALLOCATE:
        return op.length > 0 and not op.flag & records.PUNCH_HOLE and op.offset + op.length > held
    return op.op == records.TRUNCATE and op.offset > held


@subroutine
def reclaim(s, arena, out, row):
    """Step 1: at close, the pages behind the file's end are free, and its inode says so."""
    if keep_tail(s, arena, row) > 0:
        s.reg[pmfs_recipes.INODE] = inode_at(s, row)
        emit_recipe(s, out, recipes.RECLAIM)


@subroutine
def swap(s, arena, out, old, new, pages):
    """Step 2: exchange the entries of `pages` pages of two superpages, of 2 MiB as far as they fill them."""
    groups, rest = pages >> 9, pages & 511
    if groups > 0:
        s.reg[recipes.PTES_AT] = s.page_table + (s.blocks + (old >> 9)) * recipes.PTE
        s.reg[recipes.FRESH_AT] = s.page_table + (s.blocks + (new >> 9)) * recipes.PTE
        s.reg[recipes.PTES], s.reg[recipes.COUNT], s.reg[recipes.SPAN] = groups * recipes.PTE, groups, groups << 21
        s.reg[recipes.VA], s.reg[recipes.FRESH_VA] = old * pmfs_recipes.BLOCK, new * pmfs_recipes.BLOCK
        emit_recipe(s, out, recipes.MOVE)
    if rest > 0:
        set_entries(s, old + (groups << 9), new + (groups << 9), rest)
        emit_recipe(s, out, recipes.MOVE)
    s.swapped_pmds += groups
    s.swapped_ptes += rest


@subroutine
def migrate(s, arena, out, row):
    """Steps 2 and 3: the file's pages move to a fresh superpage; what it had of the old one is free."""
    i, pages = arena[row + pmfs_state.KEPT_AT], arena[row + pmfs_state.KEPT]
    old, new = table.get(arena, row + pmfs_state.BLOCKS, i), aligned_fit.allocate(s, arena, s.unit)
    rest = pages & 511
    if rest > 0:
        take_apart(s, arena, out, old + pages - rest, rest)
        take_apart(s, arena, out, new + pages - rest, rest)
    open_log(s, 1 + (pages >> 9) + rest)
    emit_recipe(s, out, recipes.MIGRATE)
    swap(s, arena, out, old, new, pages)
    s.reg[pmfs_recipes.INODE], s.reg[recipes.SLOT_AT], s.reg[recipes.COUNT] = (
        inode_at(s, row),
        slot_at(s, arena, row, i),
        1,
    )
    s.reg[recipes.SPAN] = pmfs_recipes.BLOCK
    emit_recipe(s, out, recipes.MOVED)
    table.put(arena, row + pmfs_state.BLOCKS, i, new)
    first_fit.release(s, arena, old, pages)
    aligned_fit.freed(s, old)
    s.data_blocks += s.unit - pages
    s.migrations += 1
    arena[row + pmfs_state.KEPT] = 0
