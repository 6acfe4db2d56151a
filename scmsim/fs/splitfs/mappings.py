"""Model the library's mappings: staging files and logs, always mapped, and pieces of files, mapped at first use.

A piece is one mapping of fs/mapping (MAP_SHARED, MAP_POPULATE): the mmap maps its pages for loads, and the first store
to each page faults. Page faults follow fs/mapping/dax.py, with the costs of ext4-dax. Appended data stays at its address
in the staging file after the relink, until the file is truncated or unlinked.

Units: bytes, pages of 4096 bytes.
Source: utsaslab/SplitFS splitfs/fileops_nvp.c (nvp_get_mmap_address, create_dr_mmap, nvp_free_btree), bg_clear_mmap.h,
tbl_mmaps.c. Simplified: the partial last piece of a file is mapped too; the library would access it by pread and
pwrite. An address in a staging file is its device offset plus AREA.
"""

from scmsim.core import records as r
from scmsim.fs.engine import table
from scmsim.fs.engine.arena import give, has_room, order_of, take
from scmsim.fs.engine.events import reserve_events
from scmsim.fs.linux import state as e
from scmsim.fs.linux.blocks import page_word
from scmsim.fs.mapping import tables
from scmsim.fs.mapping import words as w
from scmsim.fs.mapping.calls import address_for, new_mapping, remove
from scmsim.fs.mapping.dax import dax_fault
from scmsim.fs.mapping.length import forget_given
from scmsim.fs.mapping.mechanisms import (
    FAULT_SITE,
    LARGE_ENTRY_COST,
    LARGE_LOAD_COST,
    LARGE_STORE_COST,
    MMAP_COST,
    MUNMAP_COST,
)
from scmsim.fs.mapping.touch import run_length
from scmsim.fs.splitfs import state as n
from scmsim.jit import subroutine

FAULT_EVENTS = 24  # maximum number of events of a fault
# Start of staging files and logs in the program's address space, below mappings (words.AREA); log2 of the bytes of their pages.
AREA, ORDER = 1 << 45, 21
ALL = r.NEVER >> 13  # a page number after the last page of any file


@subroutine
def words_of(s, arena, f):
    """Return the arena offset of the fields of a file's mappings; create them if they are missing."""
    if arena[f + n.MAPS] == 0:
        arena[f + n.MAPS] = take(s, arena, n.MAPS_ORDER)
    return arena[f + n.MAPS]


@subroutine
def is_in_staging(arena, f, page):
    """Return whether the library accesses a page (which has a block) at its address in a staging file."""
    maps = arena[f + n.MAPS]
    if maps == 0 or page_word(arena, f, page) == 0:
        return False
    return table.get(arena, maps + n.IN_STAGING, page >> 5) >> (page & 31) & 1 != 0


@subroutine
def same_side(arena, f, page, count):
    """Return the length of the run from `page` on, at most `count` pages, that is either all in staging files or all not."""
    if count == 1 or arena[f + n.MAPS] == 0:
        return count
    side, k = is_in_staging(arena, f, page), 1
    while k < count and is_in_staging(arena, f, page + k) == side:
        k += 1
    return k


@subroutine
def put_in_staging(s, arena, f, page, count):
    """Record that `count` pages from `page` on were written to a staging file."""
    handle = words_of(s, arena, f) + n.IN_STAGING
    table.reserve(s, arena, handle, (page + count + 31) >> 5)
    for at in range(page, page + count):
        arena[arena[handle] + (at >> 5)] |= 1 << (at & 31)


@subroutine
def has_words(s, arena, f, first, last, more):
    """Return whether the arena surely has room for faults on the pages [first, last], for `put_in_staging`, and `more` words."""
    maps, words = arena[f + n.MAPS], (1 << n.MAPS_ORDER) + 2 * w.FAN * ((last >> 9) - (first >> 9) + 1) + more
    if s.arena_top + words + (last >> 3) + 8 <= arena.size:  # nearly always true; the exact count follows
        return True
    bits, regions = (last >> 5) + 1, (last >> 9) + 1
    if maps == 0:
        words += (1 << order_of(bits)) + (1 << order_of(regions))
    else:
        words += table.words_to_hold(arena, maps + n.IN_STAGING, bits) + table.words_to_hold(
            arena, maps + w.TREE, regions
        )
    return has_room(s, arena, words)


@subroutine
def piece_of(s, arena, f, page):
    """Return the mapping of the piece of a page, or 0 if there is none."""
    maps = arena[f + n.MAPS]
    return table.get(arena, maps + n.PIECES, page >> s.piece_shift) if maps else 0


@subroutine
def is_mapped(s, arena, f, at):
    """Return whether a page of a piece is mapped for a load or store; at = (page, whether it is a store)."""
    page, word, need = at[0], page_word(arena, f, at[0]), w.PRESENT | (w.WRITABLE if at[1] else 0)
    entry = arena[tables.entry_at(arena, piece_of(s, arena, f, page), page)]
    return entry & need == need and not (entry & w.ZERO and word and not word & e.IS_UNWRITTEN)


@subroutine
def fault_in(s, arena, out, row, at):
    """Fault in a page of a piece if it is not mapped; at = (page, whether it is a store). The caller has reserved space."""
    f = arena[row + e.ROW_RECORD]
    if not is_mapped(s, arena, f, at):
        dax_fault(s, arena, out, piece_of(s, arena, f, at[0]), row, at)


@subroutine
def map_page(s, arena, out, row, page):
    """Make a page of a piece readable; return False if `out` or the arena must grow for its fault."""
    f = arena[row + e.ROW_RECORD]
    if is_mapped(s, arena, f, (page, 0)):
        return True
    if not reserve_events(s, out, FAULT_EVENTS) or not has_words(s, arena, f, page, page, 0):
        return False
    fault_in(s, arena, out, row, (page, 0))
    return True


@subroutine
def add_piece(s, arena, out, f, page):
    """Map the piece of a page with mmap; return False if `out` or the arena must grow."""
    piece, pages = page >> s.piece_shift, 1 << s.piece_shift
    if not reserve_events(s, out, 1) or not has_room(s, arena, 2 * piece + (pages >> 7) + 64):
        return False
    maps = words_of(s, arena, f)
    table.reserve(s, arena, maps + n.PIECES, piece + 1)
    first = piece << s.piece_shift
    mapping = new_mapping(s, arena, maps, first, pages, address_for(s, arena, first, pages))
    arena[mapping + w.FLAGS], arena[mapping + w.THREAD] = r.WRITABLE_SHARED, -1
    table.put(arena, maps + n.PIECES, piece, mapping)
    tables.charge(s, arena, out, MMAP_COST, 1)
    s.populating = first + 1
    return True


@subroutine
def map_piece(s, arena, out, row, page):
    """Map the piece of a page and populate it up to the file's end; return False if work is left."""
    f = arena[row + e.ROW_RECORD]
    if piece_of(s, arena, f, page) == 0 and not add_piece(s, arena, out, f, page):
        return False
    while s.populating:
        at = s.populating - 1
        if at << 12 < arena[f + e.SIZE] and not map_page(s, arena, out, row, at):
            return False
        is_over = at << 12 >= arena[f + e.SIZE] or (at + 1) & (1 << s.piece_shift) - 1 == 0
        s.populating = 0 if is_over else at + 2
    return True


@subroutine
def map_read(s, arena, out, row, at, end):
    """Map all pages that a read of the bytes [at, end) needs; return False if work is left."""
    f, page = arena[row + e.ROW_RECORD], at >> 12
    end = min(end, arena[f + e.SIZE])
    while at < end and page << 12 < end:
        if not is_in_staging(arena, f, page):
            if not map_piece(s, arena, out, row, page) or not map_page(s, arena, out, row, page):
                return False
        page += 1
    return True


@subroutine
def first_unmapped(s, arena, f, page, count):
    """Return the first of `count` pages from `page` on that is in no piece and in no staging file, or -1."""
    for at in range(page, page + count):
        if not is_in_staging(arena, f, at) and piece_of(s, arena, f, at) == 0:
            return at
    return -1


@subroutine
def reach(s, arena, out, row, span):
    """Return (entry, address, end of the run) of bytes in the file's own mapping; span = (from, to, whether it is a store).

    The caller has mapped bytes to read, and has reserved space for the fault of a store.
    """
    at, stop, write = span
    f, page = arena[row + e.ROW_RECORD], at >> 12
    mapping = piece_of(s, arena, f, page)
    if write:
        fault_in(s, arena, out, row, (page, write))
    entry = arena[tables.entry_at(arena, mapping, page)]
    address = tables.address_of(arena, mapping, page) + (at & 4095)
    length = run_length(arena, tables.entry_at(arena, mapping, page), entry, address, address + stop - at)
    return entry, address, at + length


@subroutine
def put_at(s, out, first, moved, order):
    """Set the program's addresses of the events from `first` on: device address + `moved`, in pages of 2**order bytes."""
    for i in range(first, s.emitted):
        event = out[i & 0x7FFFFFFF]
        if event.space == r.PM and event.code != r.FENCE:
            event.vaddr, event.order = event.addr + moved, order


@subroutine
def grow_staging(s, arena, out, at, length):
    """Emit a load fault and a store fault for each 2 MiB of a staging file that starts in the `length` bytes from `at` on."""
    begun = s.staging_grown + w.HUGE_PAGE - 1 >> 21
    s.staging_grown += length
    for _ in range((s.staging_grown + w.HUGE_PAGE - 1 >> 21) - begun):
        what = tables.what_of(s, arena, r.MAP, FAULT_SITE, r.USER)
        for how in (w.FAULT, w.FAULT | w.WRITES | w.PROTECTED):
            tables.emit_at(s, out, what, 0, w.HUGE_PAGE, AREA + (at & -w.HUGE_PAGE), ORDER)
            out[s.emitted - 1].fault_flags = how
        tables.charge(s, arena, out, LARGE_LOAD_COST, 1)
        tables.charge(s, arena, out, LARGE_STORE_COST, 1)
        tables.charge(s, arena, out, LARGE_ENTRY_COST, 1)
        at += w.HUGE_PAGE


@subroutine
def shrink(s, arena, out, op, f):
    """Unmap the file's pages in the kernel after truncate or for a hole (dax_layout_busy_page); return False if work is left.

    After a truncate the library forgets which pages are in staging files (clear_tbl_mmap_entry).
    """
    maps, low, high = arena[f + n.MAPS], op.offset + w.PAGE - 1 >> 12, op.offset + op.length >> 12
    if op.op == r.TRUNCATE:
        low, high = max(op.new_size + w.PAGE - 1 >> 12, 0), ALL
    s.unmapping = s.unmapping if s.unmapping else arena[maps + w.HEAD]
    while s.unmapping > 0:
        if not reserve_events(s, out, 8):
            return False
        tables.zap(s, arena, out, s.unmapping, 0, ALL)
        tables.zap(s, arena, out, s.unmapping, low, high)
        s.unmapping = arena[s.unmapping + w.NEXT]
    s.unmapping = -1
    if op.op == r.TRUNCATE:
        table.drop(s, arena, maps + n.IN_STAGING)
        arena[maps + w.LAST_GIVEN] = min(arena[maps + w.LAST_GIVEN], max(low - 1, 0))
    forget_given(s, arena, maps, low, high)
    return True


@subroutine
def forget(s, arena, out, f):
    """Unmap a file in the library; return False if work is left."""
    maps = arena[f + n.MAPS]
    while arena[maps + w.HEAD]:
        mapping = arena[maps + w.HEAD]
        if not reserve_events(s, out, 8):
            return False
        tables.charge(s, arena, out, MUNMAP_COST, 1)
        tables.zap(s, arena, out, mapping, 0, ALL)
        remove(s, arena, out, mapping)
    forget_given(s, arena, maps, 0, ALL)
    for handle in (w.TREE, n.PIECES, n.IN_STAGING):
        table.drop(s, arena, maps + handle)
    give(s, arena, maps, n.MAPS_ORDER)
    arena[f + n.MAPS] = 0
    return True
