"""Model SIMFS's page tables (each file has its own, below the kernel's top table) and the list of its free pages.

A file's tables are linked into the kernel's top table while the file is open.
Sources: SIMFS pgtable.c, balloc.c.
"""

from scmsim.alloc import first_fit
from scmsim.fs.contiguous import map as page_map
from scmsim.fs.contiguous import state as contiguous_state
from scmsim.fs.contiguous import templates as tpl
from scmsim.fs.engine import table
from scmsim.fs.engine.events import emit_template
from scmsim.fs.simfs import templates
from scmsim.jit import subroutine


@subroutine
def freed(s, out, block, count):
    """Clear freed pages and link them into the free list."""
    s.reg[tpl.AT] = block * tpl.BLOCK
    s.reg[tpl.BYTES] = count * tpl.BLOCK
    s.reg[tpl.COUNT] = count << 4
    s.zeroed_bytes += count * tpl.BLOCK
    emit_template(s, out, templates.PAGE_FREED)


@subroutine
def taken(s, out, block, count):
    """Unlink pages from the free list, in which each page holds the address of the next page."""
    s.reg[tpl.AT] = block * tpl.BLOCK
    s.reg[tpl.BYTES] = count * tpl.BLOCK
    s.reg[tpl.PTE_BYTES] = count << 3
    emit_template(s, out, templates.PAGE_TAKEN)


@subroutine
def has_supers(s):
    """Return True: every file has upper tables of its own."""
    return True


@subroutine
def upper_table(s, arena, out, row, k):
    """Allocate upper table `k` of a file if it is missing."""
    if table.get(arena, row + contiguous_state.SUPERS, k) != 0:
        return
    block = page_map.take_block(s, arena, 1)
    table.put(arena, row + contiguous_state.SUPERS, k, block)
    s.table_blocks += 1
    s.owed -= 1
    taken(s, out, block, 1)
    s.reg[tpl.TABLE] = block * tpl.BLOCK
    s.reg[tpl.DIRECTORY] = page_map.directory_at(arena, row, 0)
    emit_template(s, out, tpl.NEW_TABLE)


@subroutine
def upper_tables(s, arena, out, row, piece):
    """Allocate the missing upper tables that lead to the page-table entries of piece `piece` of a file."""
    upper_table(s, arena, out, row, 0)
    upper_table(s, arena, out, row, 1 + (piece >> 9))


@subroutine
def drop_upper(s, arena, out, row):
    """Free the upper tables of a removed file."""
    for k in range(
        (1 << arena[row + contiguous_state.SUPERS + table.ORDER]) if arena[row + contiguous_state.SUPERS] != 0 else 0
    ):
        block = table.get(arena, row + contiguous_state.SUPERS, k)
        if block != 0:
            first_fit.release(s, arena, block, 1)
            s.table_blocks -= 1
            freed(s, out, block, 1)


@subroutine
def set_attached(s, arena, row):
    """Set the registers for a file's entries in the kernel's top table, one entry per GiB."""
    s.reg[tpl.DIRECTORY] = page_map.directory_at(arena, row, 0)
    s.reg[tpl.DIRECTORY_BYTES] = max((arena[row + contiguous_state.PAGE_COUNT] + (1 << 18) - 1) >> 18, 1) << 3


@subroutine
def attach(s, arena, out, row):
    """Link a file's page tables into the kernel's top table."""
    set_attached(s, arena, row)
    emit_template(s, out, templates.ATTACHED)


@subroutine
def detach(s, arena, out, row):
    """Unlink a file's page tables from the kernel's top table, and flush every TLB."""
    set_attached(s, arena, row)
    emit_template(s, out, templates.DETACHED)
    page_map.table_event(s, out, page_map.FLUSH_ALL, 0, page_map.address_of(arena, row, 0), 1 << 18, page_map.NORMAL)


@subroutine
def visit(s, arena, out, row):
    """Map a directory or file for one lookup, then unmap it."""
    attach(s, arena, out, row)
    detach(s, arena, out, row)
