"""Hooks by which Linux's file systems serve page faults on mappings of their files (see `scmsim.fs.mapping.hooks`).

`f` is a file's row of the file table.  Source: Linux 5.13 fs/ext4/{inode.c: ext4_page_mkwrite, ext4_iomap_begin; file.c:
ext4_dax_huge_fault}, fs/dax.c, mm/filemap.c: filemap_fault, do_sync_mmap_readahead.  Simplified: a load of a hole in the page cache
maps zeros and caches no page; the page cache reads 32 pages around a missing page, without readahead marks.
"""

from scmsim.core import records as r
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.linux import metadata, transfer
from scmsim.fs.linux import state as e
from scmsim.fs.linux import templates as q
from scmsim.fs.linux.blocks import PREALLOCATION, blocks_left, blocks_needed, page_word, reserve_besides
from scmsim.fs.linux.files import dirty_inode
from scmsim.fs.linux.folios import folio_of
from scmsim.fs.linux.pages import note_change
from scmsim.fs.linux.transfer import add_zeroed, cache_page, mark_dirty, set_access_time, time_stamp
from scmsim.fs.mapping.words import FAULT_WORDS, UNWRITTEN, WAS_READ, WAS_THERE
from scmsim.jit import subroutine

READ_AROUND = 32  # pages: 128 KiB (VM_READAHEAD_PAGES)
FILL_EVENTS = 3  # maximum number of events of reading one page into the cache


@subroutine
def begin(s, op):
    """Set the time of the operation."""
    s.now = op.time_ns


@subroutine
def has_background_work(s):
    """Return whether a commit or a write-back is due (see `run_background_work` of a family)."""
    old = s.now - s.txn_since >= s.commit_interval or s.txn_length > s.txn_limit
    return s.now >= s.next_tick or (s.txn_length > 0 and old)


@subroutine
def find(s, arena, file):
    """Return a file's row if the file has a record, else 0."""
    row = s.rows + file * e.ROW_WORDS
    return row if arena[row + e.ROW_RECORD] else 0


@subroutine
def length(s, arena, f):
    """Return the file's length in bytes."""
    return arena[arena[f + e.ROW_RECORD] + e.SIZE]


@subroutine
def word_of(arena, f, page):
    """Return the entry of a page in the file's table of pages: its block and flags in one word."""
    return page_word(arena, arena[f + e.ROW_RECORD], page)


@subroutine
def block(s, arena, f, page):
    """Return the address of a page's block, without a page cache; 0 for a hole."""
    word = word_of(arena, f, page)
    if word >> e.BLOCK_SHIFT == 0:
        return 0
    return s.key_base + (word >> e.BLOCK_SHIFT << 12) + (UNWRITTEN if word & e.IS_UNWRITTEN else 0)


@subroutine
def frame(s, arena, f, page):
    """Return the address of a page's frame in the page cache; 0 if it is not cached."""
    word = word_of(arena, f, page)
    return q.FRAMES + ((word >> e.FRAME_SHIFT & e.FRAME_MASK) << 12) if word & e.IS_CACHED else 0


@subroutine
def reserve_for_fault(s, record, arena, last):
    """Make room for page `last` in a file's tables, and for the fault itself; return False if the arena must grow."""
    return reserve_besides(s, arena, record, last, FAULT_WORDS + (last >> 8))


@subroutine
def give_blocks(s, arena, out, f, page, count):
    """DAX: give cleared blocks to the first of `count` pages, in a separate transaction; return (outcome, pages with blocks).

    The pages are all holes or all unwritten.
    """
    record, last = arena[f + e.ROW_RECORD], page + count - 1
    if not reserve_events(s, out, e.ROOM) or not has_room(s, arena, FAULT_WORDS + (last >> 8) + PREALLOCATION * count):
        return NO_ROOM, 0
    if not reserve_for_fault(s, record, arena, last):
        return NO_ROOM, 0
    if blocks_needed(arena, record, page, last) > blocks_left(s):
        return FULL, 0
    count = add_zeroed(s, arena, out, record, page, count)
    note_change(s, arena, out, record)
    metadata.charge_joins(s, out)
    return DONE, count


@subroutine
def note_write(s, arena, out, f):
    """Set the file's times at a fault for a store (file_update_time)."""
    record, stamp = arena[f + e.ROW_RECORD], time_stamp(s)
    if stamp != arena[record + e.STAMP]:
        arena[record + e.STAMP] = stamp
        emit_template(s, out, q.TIMES)
        dirty_inode(s, arena, out, record)
        arena[record + e.TID] = s.tid
        metadata.charge_joins(s, out)


@subroutine
def note_access(s, arena, out, f):
    """Set the access time at mmap, as a read does (file_accessed)."""
    record = arena[f + e.ROW_RECORD]
    before = arena[record + e.READ_STAMP]
    set_access_time(s, arena, out, record)
    if arena[record + e.READ_STAMP] != before:
        metadata.charge_joins(s, out)


@subroutine
def must_sync(s, arena, f):
    """Return whether the running transaction holds a change of the file's blocks."""
    return arena[arena[f + e.ROW_RECORD] + e.DATA_TID] == s.tid and s.txn_length > 0


@subroutine
def pin(s, arena, f, change):
    """Count a mapping (`change` 1: added, -1: removed) as an open descriptor; return whether its file must be freed."""
    record = arena[f + e.ROW_RECORD]
    if change < 0 and arena[record + e.LINKS] <= 0 and arena[record + e.OPENS] <= 1:
        return True
    arena[record + e.OPENS] = max(arena[record + e.OPENS] + change, 0)
    return False


@subroutine
def read_in(s, arena, out, f, page):
    """Page cache: read an uncached page with a block, and pages around it; return (outcome, WAS_READ or WAS_THERE)."""
    word = word_of(arena, f, page)
    if word == 0 or word & e.IS_CACHED:
        return DONE, WAS_THERE
    if not reserve_events(s, out, FILL_EVENTS * READ_AROUND + 3 * e.ROOM):  # with events for a store that may follow
        return NO_ROOM, WAS_THERE
    record, first = arena[f + e.ROW_RECORD], max(page - READ_AROUND // 2, 0)
    for at in range(first, min(first + READ_AROUND, arena[record + e.PAGE_COUNT])):
        around = arena[arena[record + e.PAGES] + at]
        if around and not around & e.IS_CACHED:
            cache_page(s, arena, out, record, at, True)
    return DONE, WAS_READ


@subroutine
def make_dirty(s, arena, out, f, page):
    """Page cache: make a page and its whole folio dirty, and reserve a block if it has none; return the outcome.

    Source: Linux 6.16 fs/buffer.c: block_page_mkwrite.
    """
    record = arena[f + e.ROW_RECORD]
    if not reserve_events(s, out, e.ROOM) or not reserve_for_fault(s, record, arena, page):
        return NO_ROOM
    if blocks_needed(arena, record, page, page) > blocks_left(s):
        return FULL
    if not word_of(arena, f, page) & e.IS_CACHED:
        cache_page(s, arena, out, record, page, False)
    transfer.allocate_now(s, arena, out, record, page, 1)
    first, count = folio_of(arena, record, page)
    mark_dirty(s, arena, f, record, first, count)
    metadata.charge_joins(s, out)
    return DONE


@subroutine
def folio(s, arena, f, page):
    """Page cache: return the folio of a page as (first page, pages)."""
    if not word_of(arena, f, page) & e.IS_CACHED:
        return page, 1
    return folio_of(arena, arena[f + e.ROW_RECORD], page)


@subroutine
def is_dirty(s, arena, f, page):
    """Page cache: return whether a page is dirty."""
    return word_of(arena, f, page) & e.IS_DIRTY != 0


_EVERY = {
    "begin": begin,
    "has_background_work": has_background_work,
    "find": find,
    "length": length,
    "pin": pin,
    "note_access": note_access,
}
DAX = {
    **_EVERY, "MAY_BE_LARGE": True, "place": block, "give_blocks": give_blocks,
    "note_write": note_write, "must_sync": must_sync,
}  # fmt: skip
CACHED = {
    **_EVERY, "DAX": False, "SPACE": r.KERNEL, "AROUND": 16, "place": frame, "read_in": read_in, "make_dirty": make_dirty,
    "is_dirty": is_dirty, "note_write": note_write,
}  # fmt: skip
LARGE_FOLIOS = CACHED | {"MAY_BE_LARGE": True, "folio": folio}
IN_MEMORY = {
    **_EVERY, "DAX": False, "SPACE": r.KERNEL, "AROUND": 16, "KEEPS_CLEAN": False, "MAY_BE_LARGE": True, "place": block,
}  # fmt: skip
