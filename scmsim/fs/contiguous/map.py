"""Mapping and unmapping of pages at a file's virtual addresses: the page table is the only index of a file's blocks.

A file's range of addresses is a power of two, doubled when the file outgrows it.  Each 2 MiB of a range (a piece) is
mapped by a page-table page of its own (its page of entries) or by one superpage.  Source: SCMFS superpage paper (2013),
III to IV; the sizes of ranges are an assumption.
"""

from scmsim.alloc import first_fit, two_zone
from scmsim.core.records import FETCH, FLUSH, INVALIDATE, MAP, PM, REMAP, UNMAP, pack
from scmsim.fs.contiguous import state, templates
from scmsim.fs.engine import file_row, ranges, table
from scmsim.fs.engine.events import emit_run, emit_template
from scmsim.jit import subroutine

# Virtual addresses: metadata is at its device offset above the start of Linux's vmalloc area, files' ranges 17 TiB
# above that.
METADATA = 0xFFFF_C900_0000_0000 - (1 << 64)
RANGES = METADATA + (17 << 40)
COPY_WINDOW = METADATA + (16 << 40) + (1 << 39)  # virtual address of a superpage that is being filled
NORMAL, SUPER = 12, 21  # log2 of the bytes of a page
PIECE = 512  # pages that one page of entries maps

MOST_PAGES = 1 << 31  # maximum number of pages of a file: 8 TiB, the largest range
TOO_FAR = 1 << 40  # arena words: more than the arena may have, so growing it ends the replay with an error
MAP_EVENTS = 48  # maximum number of events of one call of `fill`
UNMAP_EVENTS = 64  # maximum number of events of one call of `release_from`
METADATA_ORDER = NORMAL  # log2 of the bytes of a page of metadata
UPPER_TABLES = 0  # additional words of the table SUPERS, for page tables above the pages of entries
_TABLE = list(templates.SITES).index("page table")
# Events of site "page table".  A REMAP moves the mapping at `vaddr` to the virtual address `addr`.
FLUSH_ALL = pack(INVALIDATE, _TABLE, PM)
MAPS, UNMAPS, REMAPS = pack(MAP, _TABLE, PM), pack(UNMAP, _TABLE, PM), pack(REMAP, _TABLE, PM)


@subroutine
def play_at(s, out, template, shift, order):
    """Emit a template whose persistent memory is mapped `shift` bytes above its device offset, in pages of 2**order bytes."""
    first = s.emitted
    emit_template(s, out, template)
    for k in range(first, s.emitted):
        if out[k].space == PM and out[k].code <= FLUSH and out[k].code != FETCH:
            out[k].vaddr = out[k].addr + shift
            out[k].order = order


@subroutine
def place_metadata(s, out):
    """Map events on persistent memory that have no virtual address yet into the window of metadata."""
    for k in range(s.emitted):
        if out[k].space == PM and out[k].order == 0 and out[k].code <= FLUSH and out[k].code != FETCH:
            out[k].vaddr = out[k].addr + METADATA
            out[k].order = METADATA_ORDER


@subroutine
def table_event(s, out, what, block, address, pages, order):
    """Emit a MAP or UNMAP of `pages` pages of 4 KiB at a virtual address."""
    emit_run(s, out, what, block * templates.BLOCK, pages * templates.BLOCK)
    out[s.emitted - 1].vaddr = address
    out[s.emitted - 1].order = order


@subroutine
def address_of(arena, row, page):
    """Return the virtual address of a page of a file."""
    return RANGES + arena[row + state.RANGE] + page * templates.BLOCK


@subroutine
def order_at(arena, row, page):
    """Return log2 of the size of the page that maps page number `page` of a file."""
    if page < arena[row + state.HELD] * PIECE and table.get(arena, row + state.PTES, page // PIECE) == 0:
        return SUPER
    return NORMAL


@subroutine
def next_missing(arena, row, page, end):
    """Return the first unmapped page of a file in [page, end), or `end` or a later page if all are mapped."""
    while page < end:
        if order_at(arena, row, page) == SUPER:
            page = (page | (PIECE - 1)) + 1  # a superpage maps its whole piece
        elif table.get(arena, row + state.BLOCKS, page) != 0:
            page += 1
        else:
            break
    return page


@subroutine
def directory_at(arena, row, piece):
    """Return the device offset of the page-directory entry of a piece of a file."""
    return templates.TOP_TABLES + ((((arena[row + state.RANGE] >> SUPER) + piece) << 3) & (templates.TOP_BYTES - 1))


@subroutine
def words_for(arena, row, stop):
    """Return the maximum number of arena words that the tables of a file of `stop` pages need."""
    if stop > MOST_PAGES:
        return TOO_FAR
    pieces = (stop + PIECE - 1) // PIECE
    words = table.words_to_hold(arena, row + state.BLOCKS, pieces * PIECE) + ranges.NODE_WORDS
    return (
        words
        + table.words_to_hold(arena, row + state.PTES, pieces)
        + table.words_to_hold(arena, row + state.SUPERS, pieces + UPPER_TABLES)
    )


@subroutine
def reserve(s, arena, row, stop):
    """Extend a file's tables to the pages below `stop`; the arena must have room."""
    pieces = (stop + PIECE - 1) // PIECE
    table.reserve(s, arena, row + state.BLOCKS, pieces * PIECE)
    table.reserve(s, arena, row + state.PTES, pieces)
    if has_supers(s):
        table.reserve(s, arena, row + state.SUPERS, pieces + UPPER_TABLES)


@subroutine
def has_supers(s):
    """Return whether files have a table SUPERS."""
    return s.threshold > 0


@subroutine
def span(arena, row, first, stop):
    """Return the page range to map so that [first, stop) is mapped: by default the same range."""
    return first, stop


@subroutine
def whole_pieces(stop):
    """Return `stop` pages rounded up to whole pieces of 2 MiB, in pages."""
    return (stop + PIECE - 1) // PIECE * PIECE


@subroutine
def take_block(s, arena, want):
    """Allocate up to `want` adjacent normal blocks and set `s.got` to the number; a full zone borrows a superpage."""
    if s.free_blocks == 0:
        two_zone.lend(s, arena)
    return first_fit.allocate(s, arena, want)


@subroutine
def count_blocks(s, arena, row, blocks):
    """Add `blocks`, which may be negative, to the counter of the blocks that files or directories hold."""
    if arena[row + file_row.STATUS] & file_row.IS_DIR:
        s.dir_blocks += blocks
    else:
        s.data_blocks += blocks


@subroutine
def extends_supers(s, arena, row, piece):
    """Return whether a piece directly follows a file's superpages and may become the next one."""
    return arena[row + state.HELD] > 0 and s.whole and piece == arena[row + state.HELD]


@subroutine
def superpage_due(s, arena, row, piece, wanted):
    """Return whether a piece of a file, of which `wanted` pages are needed, must become a superpage."""
    if not extends_supers(s, arena, row, piece):
        return False
    if table.get(arena, row + state.PTES, piece) != 0:
        return False
    # the rest of the operation must still fit on the device
    if s.free_supers > 0 and two_zone.free_everywhere(s) - two_zone.SUPERPAGE >= s.owed - wanted:
        return True
    s.fallbacks += 1
    return False


@subroutine
def set_super(arena, row, piece):
    """Enter superpage number `piece` of a file into its list of blocks."""
    first = arena[arena[row + state.SUPERS] + piece]
    for k in range(PIECE):
        table.put(arena, row + state.BLOCKS, piece * PIECE + k, first + k)


@subroutine
def map_super(s, arena, out, row, piece):
    """Append a superpage to a file on superpages (nvmalloc_expand_superpage)."""
    held = arena[row + state.HELD]
    arena[row + state.HELD] = two_zone.nvmalloc_expand_superpage(s, arena, arena[row + state.SUPERS], held, held + 1)
    set_super(arena, row, piece)
    arena[row + file_row.MAPPED] += PIECE
    arena[row + state.PAGE_COUNT] = max(arena[row + state.PAGE_COUNT], (piece + 1) * PIECE)
    count_blocks(s, arena, row, PIECE)
    s.reg[templates.DIRECTORY], s.reg[templates.DIRECTORY_BYTES] = directory_at(arena, row, piece), 8
    s.reg[templates.COUNT] = 1
    emit_template(s, out, templates.NEW_SUPERS)
    block = table.get(arena, row + state.BLOCKS, piece * PIECE)
    table_event(s, out, MAPS, block, address_of(arena, row, piece * PIECE), PIECE, SUPER)


@subroutine
def freed(s, out, block, count):
    """Do nothing; a hook, called when `count` blocks from `block` on were freed."""


@subroutine
def taken(s, out, block, count):
    """Do nothing; a hook, called when `count` blocks from `block` on were allocated."""


@subroutine
def upper_tables(s, arena, out, row, piece):
    """Do nothing; a hook, which creates the page tables above the page of entries of a piece of a file."""


@subroutine
def new_table(s, arena, out, row, piece):
    """Allocate a page of page-table entries for a piece of a file."""
    upper_tables(s, arena, out, row, piece)
    block = take_block(s, arena, 1)
    table.put(arena, row + state.PTES, piece, block)
    s.table_blocks += 1
    s.owed -= 1
    taken(s, out, block, 1)
    s.reg[templates.TABLE], s.reg[templates.DIRECTORY] = block * templates.BLOCK, directory_at(arena, row, piece)
    emit_template(s, out, templates.NEW_TABLE)


@subroutine
def fill(s, arena, out, row, last):
    """Map the next run of missing pages from `resume_at` to at most `last`, within one piece."""
    page = s.resume_at
    last = span(arena, row, page, last + 1)[1] - 1
    page = next_missing(arena, row, page, last + 1)
    piece, stop = page // PIECE, min(last, page | (PIECE - 1))
    s.resume_at = page
    if page > last:
        return
    if superpage_due(s, arena, row, piece, stop - page + 1):
        s.owed -= stop - page + 1
        map_super(s, arena, out, row, piece)
        return
    if table.get(arena, row + state.PTES, piece) == 0:
        new_table(s, arena, out, row, piece)
    want = 1
    while page + want <= stop and table.get(arena, row + state.BLOCKS, page + want) == 0:
        want += 1
    block, count = take_block(s, arena, want), s.got
    for k in range(count):
        table.put(arena, row + state.BLOCKS, page + k, block + k)
    s.owed -= count
    s.resume_at = page + count
    arena[row + file_row.MAPPED] += count
    arena[row + state.PAGE_COUNT] = max(arena[row + state.PAGE_COUNT], page + count)
    count_blocks(s, arena, row, count)
    s.reg[templates.PTE_AT] = table.get(arena, row + state.PTES, piece) * templates.BLOCK + ((page & (PIECE - 1)) << 3)
    taken(s, out, block, count)
    s.reg[templates.PTE_BYTES], s.reg[templates.PAGES] = count << 3, count
    emit_template(s, out, templates.MAPPED)
    table_event(s, out, MAPS, block, address_of(arena, row, page), count, NORMAL)


@subroutine
def free_pages(s, arena, out, row, first, stop):
    """Free the blocks of the pages [first, stop), run by run; return the number of freed blocks."""
    page, gone = first, 0
    while page < stop:
        block = table.get(arena, row + state.BLOCKS, page)
        count = 1
        if block != 0:
            while page + count < stop and table.get(arena, row + state.BLOCKS, page + count) == block + count:
                count += 1
            first_fit.release(s, arena, block, count)
            for k in range(count):
                table.put(arena, row + state.BLOCKS, page + k, 0)
            freed(s, out, block, count)
            gone += count
        page += count
    count_blocks(s, arena, row, -gone)
    return gone


@subroutine
def unmap(s, arena, out, row, first, stop):
    """Unmap and free the normal pages [first, stop) of one piece; free its page of entries once no page is mapped."""
    piece = first // PIECE
    gone = free_pages(s, arena, out, row, first, stop)
    entries = table.get(arena, row + state.PTES, piece)
    if gone > 0:
        s.reg[templates.PTE_AT] = entries * templates.BLOCK + ((first & (PIECE - 1)) << 3)
        s.reg[templates.PTE_BYTES], s.reg[templates.PAGES] = (stop - first) << 3, gone
        emit_template(s, out, templates.UNMAPPED)
        table_event(s, out, UNMAPS, 0, address_of(arena, row, first), stop - first, NORMAL)
    if entries == 0:
        return gone
    # the page of entries stays while any of its pages is mapped
    for page in range(piece * PIECE, min((piece + 1) * PIECE, arena[row + state.PAGE_COUNT])):
        if table.get(arena, row + state.BLOCKS, page) != 0:
            return gone
    first_fit.release(s, arena, entries, 1)
    freed(s, out, entries, 1)
    table.put(arena, row + state.PTES, piece, 0)
    s.table_blocks -= 1
    s.reg[templates.DIRECTORY], s.reg[templates.DIRECTORY_BYTES] = directory_at(arena, row, piece), 8
    s.reg[templates.PAGES] = 1
    emit_template(s, out, templates.TABLE_GONE)
    return gone


@subroutine
def drop_spare(s, arena, out, row):
    """Unmap and free the spare pages of a file."""
    if arena[row + state.SPARE] == 0:
        return
    first = arena[row + state.SPARE_AT]
    gone = unmap(s, arena, out, row, first, first + arena[row + state.SPARE])
    arena[row + state.SPARE], arena[row + state.PAGE_COUNT] = 0, first
    s.spare_blocks -= gone
    s.reclaimed_blocks += gone


@subroutine
def drop_split(s, arena, row, wanted):
    """Free the page-table pages of a file's split superpages, from superpage number `wanted` on."""


@subroutine
def drop_supers(s, arena, out, row, wanted):
    """Free a file's superpages from number `wanted` on (nvmalloc_shrink_superpage)."""
    held = arena[row + state.HELD]
    if held <= wanted:
        return
    for page in range(wanted * PIECE, held * PIECE):
        table.put(arena, row + state.BLOCKS, page, 0)
    drop_split(s, arena, row, wanted)
    arena[row + state.HELD] = two_zone.nvmalloc_shrink_superpage(s, arena, arena[row + state.SUPERS], held, wanted)
    arena[row + file_row.MAPPED] -= (held - wanted) * PIECE
    count_blocks(s, arena, row, (wanted - held) * PIECE)
    s.reg[templates.DIRECTORY] = directory_at(arena, row, wanted)
    s.reg[templates.DIRECTORY_BYTES] = (held - wanted) << 3
    s.reg[templates.PAGES] = held - wanted
    emit_template(s, out, templates.TABLE_GONE)
    table_event(s, out, UNMAPS, 0, address_of(arena, row, wanted * PIECE), (held - wanted) * PIECE, SUPER)


@subroutine
def release_from(s, arena, out, row, first):
    """Unmap and free one more piece of a file's pages from `first` on, at `resume_at`; return True when all are free."""
    kept = (first + PIECE - 1) // PIECE
    drop_spare(s, arena, out, row)
    drop_supers(s, arena, out, row, kept)
    s.resume_at = max(s.resume_at, min(arena[row + state.HELD] * PIECE, kept * PIECE))
    if s.resume_at < arena[row + state.PAGE_COUNT]:
        stop = min(arena[row + state.PAGE_COUNT], (s.resume_at | (PIECE - 1)) + 1)
        arena[row + file_row.MAPPED] -= unmap(s, arena, out, row, s.resume_at, stop)
        s.resume_at = stop
        if stop < arena[row + state.PAGE_COUNT]:
            return False
    arena[row + state.PAGE_COUNT] = min(arena[row + state.PAGE_COUNT], max(first, arena[row + state.HELD] * PIECE))
    return True


@subroutine
def leave_tables(s, arena, row):
    """Free the range and tables of a file without pages."""
    if arena[row + state.RANGE_ORDER] != 0:
        ranges.give_range(s, arena, arena[row + state.RANGE], arena[row + state.RANGE_ORDER])
    for word in (state.BLOCKS, state.PTES, state.SUPERS, state.NEWER):
        table.drop(s, arena, row + word)
    for word in (
        state.RANGE,
        state.RANGE_ORDER,
        file_row.MAPPED,
        state.PAGE_COUNT,
        state.SPARE,
        state.SPARE_AT,
        state.HELD,
        state.FILLED,
    ):
        arena[row + word] = 0
