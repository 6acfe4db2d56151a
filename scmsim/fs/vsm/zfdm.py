"""Zero-copy file data migration (ZFDM): the unused tail of a closed file's last superpage, and how the file grows again.

Source: VSM paper (2020), III.C: step 1 at close, steps 2 and 3 before an append.  That the swap is logged as an
overwrite's is, is a reconstruction: the paper does not say how a migration survives a crash.  So is that a closing file's pages
move into a superpage that is partly used: without it closed small files would hold a superpage each, and "the same space
efficiency as 4 KiB pages" (the paper's claim) could not be.
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
def relocate(s, arena, out, row, new):
    """Steps 2 and 3: the pages that the file keeps of its last superpage move to those from `new` on; the old ones are free."""
    i, pages = arena[row + pmfs_state.KEPT_AT], arena[row + pmfs_state.KEPT]
    old, rest = table.get(arena, row + pmfs_state.BLOCKS, i), pages & 511
    if rest > 0:
        take_apart(s, arena, out, old + pages - rest, rest)
        take_apart(s, arena, out, new + pages - rest, rest)
    open_log(s, 1 + (pages >> 9) + rest)
    emit_recipe(s, out, recipes.MIGRATE)
    swap(s, arena, out, old, new, pages)
    s.reg[pmfs_recipes.INODE], s.reg[recipes.SLOT_AT] = inode_at(s, row), slot_at(s, arena, row, i)
    s.reg[recipes.COUNT], s.reg[recipes.SPAN] = 1, pmfs_recipes.BLOCK
    emit_recipe(s, out, recipes.MOVED)
    table.put(arena, row + pmfs_state.BLOCKS, i, new)
    first_fit.release(s, arena, old, pages)
    aligned_fit.freed(s, old)


@subroutine
def place_to_pack(s, arena, row):
    """First page of the lowest free run, taken, if the pages that a closed file keeps fit into it; -1: they stay.

    The run lies before them, in a superpage that is used already: one that the run begins is left whole.  A move of whole
    entries of 2 MiB needs aligned places, so less than 512 pages move.
    """
    pages, old = (
        arena[row + pmfs_state.KEPT],
        table.get(arena, row + pmfs_state.BLOCKS, arena[row + pmfs_state.KEPT_AT]),
    )
    if pages >= 512:
        return -1
    new = first_fit.allocate(s, arena, pages)
    if s.got == pages and new < old and new & (s.unit - 1) != 0:
        return new
    first_fit.release(s, arena, new, s.got)
    return -1


@subroutine
def migrate(s, arena, out, row):
    """The file grows again: its pages move to a fresh superpage."""
    pages = arena[row + pmfs_state.KEPT]
    relocate(s, arena, out, row, aligned_fit.allocate(s, arena, s.unit))
    s.data_blocks += s.unit - pages
    s.migrations += 1
    arena[row + pmfs_state.KEPT] = 0


@subroutine
def reclaim(s, arena, out, row):
    """Step 1: at close, the pages behind the file's end are free, and its inode says so; then it may leave its superpage."""
    if keep_tail(s, arena, row) == 0:
        return
    s.reg[pmfs_recipes.INODE] = inode_at(s, row)
    emit_recipe(s, out, recipes.RECLAIM)
    new = place_to_pack(s, arena, row)
    if new >= 0:
        relocate(s, arena, out, row, new)
        s.packed_files += 1
