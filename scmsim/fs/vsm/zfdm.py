"""Model zero-copy file data migration (ZFDM): free the unused tail of a closed file's last superpage; let it grow again.

Source: VSM paper (2020), III.C: step 1 at close, steps 2 and 3 before an append. Two parts are a reconstruction. The
swap is logged like an overwrite's, because the paper does not say how a migration survives a crash. And a closing file's
pages move into a partly used superpage, because otherwise each closed small file would hold a superpage, and the paper's
claim of "the same space efficiency as 4 KiB pages" could not hold.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core import records
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.pmfs.copy import inode_at
from scmsim.fs.vsm import templates
from scmsim.fs.vsm.data import open_log, set_entries, slot_at, take_apart
from scmsim.fs.vsm.gaps import keep_tail
from scmsim.jit import subroutine


@subroutine
def due(s, arena, op, row, end):
    """Return whether the operation, with its last byte before `end`, outgrows the pages kept of the last superpage."""
    if arena[row + pmfs_state.KEPT] == 0:
        return False
    i = arena[row + pmfs_state.KEPT_AT]
    held = (i << s.shift) + (arena[row + pmfs_state.KEPT] << 12)
    if op.op == records.WRITE:
        return op.length > 0 and end > held and (op.offset > i << s.shift or end < (i + 1) << s.shift)
    if op.op == records.FALLOCATE:
        return op.length > 0 and not op.flag & records.PUNCH_HOLE and end > held
    return op.op == records.TRUNCATE and op.new_size > held


@subroutine
def swap(s, arena, out, old, new, pages):
    """Do step 2: swap the entries of `pages` pages of two superpages, by 2 MiB entries where the pages fill whole ones."""
    groups, rest = pages >> 9, pages & 511
    if groups > 0:
        s.reg[templates.PTES_AT] = s.page_table + (s.blocks + (old >> 9)) * templates.PTE
        s.reg[templates.FRESH_AT] = s.page_table + (s.blocks + (new >> 9)) * templates.PTE
        s.reg[templates.PTES], s.reg[templates.COUNT] = groups * templates.PTE, groups
        s.reg[templates.SPAN] = groups << 21
        s.reg[templates.VA], s.reg[templates.FRESH_VA] = old * tpl.BLOCK, new * tpl.BLOCK
        emit_template(s, out, templates.MOVE)
    if rest > 0:
        set_entries(s, old + (groups << 9), new + (groups << 9), rest)
        emit_template(s, out, templates.MOVE)
    s.swapped_pmds += groups
    s.swapped_ptes += rest


@subroutine
def relocate(s, arena, out, row, new):
    """Do steps 2 and 3: move the pages kept of the file's last superpage to the pages from `new` on; free the old pages."""
    i, pages = arena[row + pmfs_state.KEPT_AT], arena[row + pmfs_state.KEPT]
    old, rest = table.get(arena, row + pmfs_state.BLOCKS, i), pages & 511
    if rest > 0:
        take_apart(s, arena, out, old + pages - rest, rest)
        take_apart(s, arena, out, new + pages - rest, rest)
    open_log(s, 1 + (pages >> 9) + rest)
    emit_template(s, out, templates.MIGRATE)
    swap(s, arena, out, old, new, pages)
    s.reg[tpl.INODE], s.reg[templates.SLOT_AT] = inode_at(s, row), slot_at(s, arena, row, i)
    s.reg[templates.COUNT], s.reg[templates.SPAN] = 1, tpl.BLOCK
    emit_template(s, out, templates.MOVED)
    table.put(arena, row + pmfs_state.BLOCKS, i, new)
    first_fit.release(s, arena, old, pages)
    aligned_fit.freed(s, old)


@subroutine
def place_to_pack(s, arena, row):
    """Allocate the lowest free run for the pages that a closed file keeps and return its first page, or -1 if the pages stay.

    The run must precede the pages, in a superpage that is in use already: pages never move to the start of a
    superpage, which thus stays whole. Moving whole entries of 2 MiB needs aligned places, so only fewer than 512 pages move.
    """
    pages = arena[row + pmfs_state.KEPT]
    old = table.get(arena, row + pmfs_state.BLOCKS, arena[row + pmfs_state.KEPT_AT])
    if pages >= 512:
        return -1
    new = first_fit.allocate(s, arena, pages)
    if s.got == pages and new < old and new & (s.unit - 1) != 0:
        return new
    first_fit.release(s, arena, new, s.got)
    return -1


@subroutine
def migrate(s, arena, out, row):
    """Move the pages of a file that grows again to a fresh superpage."""
    pages = arena[row + pmfs_state.KEPT]
    relocate(s, arena, out, row, aligned_fit.allocate(s, arena, s.unit))
    s.data_blocks += s.unit - pages
    s.migrations += 1
    arena[row + pmfs_state.KEPT] = 0


@subroutine
def reclaim(s, arena, out, row):
    """Do step 1: at close, free the pages after the file's end and flag its inode; then move the rest if a run fits."""
    if keep_tail(s, arena, row) == 0:
        return
    s.reg[tpl.INODE] = inode_at(s, row)
    emit_template(s, out, templates.RECLAIM)
    new = place_to_pack(s, arena, row)
    if new >= 0:
        relocate(s, arena, out, row, new)
        s.packed_files += 1
