"""Model multi-grained copy-on-write (MCoW): a write over existing bytes of a file of virtual superpages.

A superpage that the write covers as a whole is replaced in the file's index. Of a superpage that the write covers in
part, the touched 4 KiB pages are written to fresh pages, and then old and fresh pages swap page-table entries. A
superpage that fills a hole is entered into the index by the same log.
Source: VSM paper (2020), III.B, steps 1 to 6.
"""

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core.records import MAP, PM, pack
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import emit_run, emit_template, reserve_events
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.pmfs.copy import device, inode_at, set_copy, set_copy_within, set_find
from scmsim.fs.pmfs.journal import begin, commit, log
from scmsim.fs.pmfs.tree import FILL_EVENTS, grow, hang, node, release
from scmsim.fs.vsm import templates
from scmsim.fs.vsm.gaps import after_end, round_up, wipe
from scmsim.jit import subroutine

WHOLE, FINE, IN_PLACE = 1, 2, 3  # how a write replaces a 4 KiB page: with its superpage, alone, or not at all
HOLE = -1  # in the table of replaced superpages: the file had a hole
PIECE_EVENTS = 48
_MAPPED = pack(MAP, 0, PM)


@subroutine
def mount(s, out):
    """Emit the mapping of the whole device, by entries of one size, before the first operation."""
    if s.mounted:
        return
    emit_run(s, out, _MAPPED + (s.leaf << 24), 0, s.log_start)
    s.mounted = 1


@subroutine
def fine_stop(s, arena, op, row, i):
    """Return the page after the last 4 KiB page of superpage `i` that the write must copy.

    Later pages hold no byte of the file or come after the write.
    """
    end = min(op.offset + op.length, round_up(arena[row + file_row.SIZE]))
    return min((end + 4095) >> 12, (i + 1) << s.shift - 12)


@subroutine
def covers(s, op, i):
    """Return whether the write covers superpage `i`."""
    return op.offset <= i << s.shift and (i + 1) << s.shift <= op.offset + op.length


@subroutine
def grain(s, arena, op, row, page):
    """Return how the write replaces the file's 4 KiB page `page`: WHOLE, FINE or IN_PLACE."""
    i = page >> s.shift - 12
    if (
        table.get(arena, row + pmfs_state.OLD, i) != 0
        or table.get(arena, row + pmfs_state.BLOCKS, i) == 0
        or covers(s, op, i)
    ):
        return WHOLE
    if page < fine_stop(s, arena, op, row, i):
        return FINE
    return IN_PLACE


@subroutine
def count_needs(s, arena, op, row, first, stop):
    """Return how many superpages the write allocates; add the number of single pages to `singles`."""
    whole = 0
    for i in range(first, stop):
        if table.get(arena, row + pmfs_state.BLOCKS, i) == 0 or covers(s, op, i):
            whole += 1
        else:
            s.singles += max(fine_stop(s, arena, op, row, i) - max(op.offset >> 12, i << s.shift - 12), 0)
    return whole


@subroutine
def set_entries(s, block, fresh, count):
    """Set the registers for the page-table entries of two runs of `count` pages, which start at `block` and at `fresh`."""
    s.reg[templates.PTES_AT] = s.page_table + block * templates.PTE
    s.reg[templates.FRESH_AT] = s.page_table + fresh * templates.PTE
    s.reg[templates.PTES], s.reg[templates.COUNT] = count * templates.PTE, count
    s.reg[templates.SPAN] = count * tpl.BLOCK
    s.reg[templates.VA], s.reg[templates.FRESH_VA] = block * tpl.BLOCK, fresh * tpl.BLOCK


@subroutine
def take_apart(s, arena, out, block, count):
    """Replace entries of 2 MiB that map some of the pages from `block` on by entries of 4 KiB."""
    if s.leaf == 12:
        return
    for g in range(block >> 9, ((block + count - 1) >> 9) + 1):
        if arena[s.split + (g >> 5)] >> (g & 31) & 1 == 0:
            arena[s.split + (g >> 5)] |= 1 << (g & 31)
            s.split_superpages += 1
            s.reg[templates.PTES_AT], s.reg[templates.VA] = s.page_table + (g << 12), g << 21
            s.reg[templates.PMD_AT] = s.page_table + s.blocks * templates.PTE + g * templates.PTE
            emit_template(s, out, templates.SPLIT)


@subroutine
def open_log(s, entries):
    """Reserve the next transactional log of `entries` entries and set its registers."""
    length = templates.HEADER_BYTES + entries * templates.ENTRY_BYTES
    if s.log_at + length > s.log_bytes:
        s.log_at = 0
    s.reg[templates.LOG_AT], s.reg[templates.LOG_BYTES] = s.log_start + s.log_at, length
    s.reg[templates.ENTRIES] = entries
    s.log_at += (length + 63) & ~63


@subroutine
def ready_index(s, arena, out, op, row):
    """Create the index nodes that the write needs, in a separate transaction; empty nodes do not change the file."""
    first, last = op.offset >> s.shift, (op.offset + op.length - 1) >> s.shift
    height = arena[row + pmfs_state.HEIGHT]
    lacks = last >> 9 * height != 0
    for i in range(first >> 9, (last >> 9) + 1):
        lacks = lacks or (height > 0 and node(arena, row, 1, i) == 0)
    if not lacks:
        return
    begin(s, out)
    log(s, out, s.reg[tpl.INODE], tpl.LOG_DATA)
    grow(s, arena, out, row, last)
    height = arena[row + pmfs_state.HEIGHT]
    for i in range(first >> 9, (last >> 9) + 1):
        if height == 3:
            hang(s, arena, out, row, 2, i >> 9, last >> 18)
        if height >= 2:
            hang(s, arena, out, row, 1, i, last >> 9)
    commit(s, out)


@subroutine
def take_superpage(s, arena, row, i):
    """Allocate a superpage to replace the file's `i`-th; record the old one, or HOLE."""
    old = table.get(arena, row + pmfs_state.BLOCKS, i)
    table.put(arena, row + pmfs_state.OLD, i, old if old != 0 else HOLE)
    table.put(arena, row + pmfs_state.BLOCKS, i, aligned_fit.allocate(s, arena, s.unit))
    arena[row + file_row.MAPPED] += old == 0
    arena[row + pmfs_state.BLOCK_COUNT] = max(arena[row + pmfs_state.BLOCK_COUNT], i + 1)
    s.data_blocks += s.unit
    s.superpages += 1


@subroutine
def take_pages(s, arena, out, row, page, want):
    """Allocate fresh pages for up to `want` pages of the file from `page` on; return their number."""
    fresh = first_fit.allocate(s, arena, want)
    count = s.got
    for k in range(count):
        table.put(arena, s.fresh, s.pages + k, fresh + k)
    block = device(s, arena, row, page << 12) >> 12
    take_apart(s, arena, out, block, count)
    take_apart(s, arena, out, fresh, count)
    set_entries(s, block, fresh, count)
    emit_template(s, out, templates.TAKE_PAGES)
    s.superpages += 1
    s.pages += count
    s.data_blocks += count
    return count


@subroutine
def take_piece(s, arena, out, op, row):
    """Do steps 1 and 2 from the page `resume_at` on, for a superpage or for pages that share an entry of 2 MiB."""
    page, end = s.resume_at, (op.offset + op.length + 4095) >> 12
    i = page >> s.shift - 12
    grain_of = grain(s, arena, op, row, page)
    if grain_of == FINE:
        want = min(fine_stop(s, arena, op, row, i), (page | 511) + 1) - page
        s.resume_at += take_pages(s, arena, out, row, page, want)
        return
    if grain_of == WHOLE:
        take_superpage(s, arena, row, i)
        emit_template(s, out, templates.TAKE_SUPER)
    s.resume_at = min(end, (i + 1) << s.shift - 12)


@subroutine
def fresh_run(s, arena, limit):
    """Return how many fresh pages from `piece` on, at most `limit`, are contiguous."""
    fresh, count = table.get(arena, s.fresh, s.piece), 1
    while count < limit and table.get(arena, s.fresh, s.piece + count) == fresh + count:
        count += 1
    return count


@subroutine
def rest_of_pages(s, arena, out, op, row):
    """Fill the rest of the write's first and last 4 KiB page, and of superpages that fill holes."""
    end, mask = op.offset + op.length, (1 << s.shift) - 1
    first, last = op.offset >> 12, (end - 1) >> 12
    if op.offset & 4095 and grain(s, arena, op, row, first) == FINE:
        old, fresh = device(s, arena, row, first << 12), table.get(arena, s.fresh, 0) * tpl.BLOCK
        set_copy_within(s, old, fresh, op.offset & 4095)
        emit_template(s, out, templates.COPY_EDGE)
    if op.offset & mask and table.get(arena, row + pmfs_state.OLD, op.offset >> s.shift) == HOLE:
        wipe(s, arena, out, row, op.offset & ~mask, op.offset)
    if end & 4095 and grain(s, arena, op, row, last) == FINE:
        old = device(s, arena, row, end)
        fresh = table.get(arena, s.fresh, s.pages - 1) * tpl.BLOCK + (end & 4095)
        set_copy_within(s, old, fresh, tpl.BLOCK - (end & 4095))
        emit_template(s, out, templates.COPY_EDGE)
    if end & mask and grain(s, arena, op, row, last) != FINE:
        after_end(s, arena, out, row, end, table.get(arena, row + pmfs_state.OLD, (end - 1) >> s.shift) == HOLE)


@subroutine
def copy_piece(s, arena, out, op, row):
    """Do step 4: copy the caller's bytes from `resume_at` on, as far as their new place is contiguous."""
    at, page = s.resume_at, s.resume_at >> 12
    i = page >> s.shift - 12
    stop = min(op.offset + op.length, (i + 1) << s.shift, (page + s.chunk) << 12)
    target = device(s, arena, row, at)
    if grain(s, arena, op, row, page) == FINE:
        count = fresh_run(s, arena, min(fine_stop(s, arena, op, row, i), page + s.chunk) - page)
        target = table.get(arena, s.fresh, s.piece) * tpl.BLOCK + (at & 4095)
        stop = min(stop, (page + count) << 12)
        s.piece += count
    set_find(s, arena, row, page, 1)
    emit_template(s, out, tpl.FIND)
    set_copy(s, op, target, at, stop)
    emit_template(s, out, templates.COPY)
    s.resume_at = stop


@subroutine
def swap_piece(s, arena, out, op, row):
    """Do step 5 from the page `resume_at` on, for slots in one leaf of the index or page-table entries of one run."""
    page, end = s.resume_at, (op.offset + op.length + 4095) >> 12
    i, grain_of = page >> s.shift - 12, grain(s, arena, op, row, page)
    if grain_of == FINE:
        count = fresh_run(s, arena, min(fine_stop(s, arena, op, row, i), (page | 511) + 1) - page)
        set_entries(s, device(s, arena, row, page << 12) >> 12, table.get(arena, s.fresh, s.piece), count)
        emit_template(s, out, templates.SWAP)
        s.piece += count
        s.swapped_ptes += count
        s.resume_at += count
        return
    stop = i + 1
    if grain_of == WHOLE:
        last = min(i | 511, (op.offset + op.length - 1) >> s.shift)
        while stop <= last and table.get(arena, row + pmfs_state.OLD, stop) != 0:
            stop += 1
        s.reg[templates.SLOT_AT] = slot_at(s, arena, row, i)
        s.reg[templates.SLOTS], s.reg[templates.COUNT] = (stop - i) * 8, stop - i
        s.replaced_superpages += stop - i
        emit_template(s, out, templates.INDEX)
    s.resume_at = min(end, stop << s.shift - 12)


@subroutine
def slot_at(s, arena, row, i):
    """Return the device offset of the index's slot for superpage `i`: in a leaf, or the root in the inode."""
    leaf = node(arena, row, 1, i >> 9)
    return leaf * tpl.BLOCK + ((i & 511) << 3) if arena[row + pmfs_state.HEIGHT] > 0 else inode_at(s, row)


@subroutine
def close_log(s, arena, out, op, row):
    """End step 5 and complete the log; do step 6: free the replaced superpages and pages."""
    end = op.offset + op.length
    s.reg[templates.GROWN] = 8 * (end > arena[row + file_row.SIZE])
    s.reg[templates.SPAN] = tpl.BLOCK * (s.pages > 0)
    emit_template(s, out, templates.COMPLETE)
    arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], end)
    s.reg[templates.COUNT] = s.superpages  # number of runs of pages and of superpages
    # After the exchange of entries the fresh pages' addresses map the old data, so they are freed.
    for k in range(s.pages):
        fresh = table.get(arena, s.fresh, k)
        first_fit.release(s, arena, fresh, 1)
        aligned_fit.freed(s, fresh)
    s.data_blocks -= s.pages
    for i in range(op.offset >> s.shift, ((end - 1) >> s.shift) + 1):
        old = table.get(arena, row + pmfs_state.OLD, i)
        if old > 0:
            release(s, arena, row, i, old)
        s.reg[templates.COUNT] -= old == HOLE
        if old != 0:
            table.put(arena, row + pmfs_state.OLD, i, 0)
    emit_template(s, out, templates.FREED)


@subroutine
def overwrite(s, arena, out, op, row):
    """Model write() over existing bytes; return False if `out` or the arena must grow first."""
    end, first = op.offset + op.length, op.offset >> 12
    last = (end + 4095) >> 12
    if s.stage == pmfs_state.READY:
        leaves = ((end - 1) >> s.shift >> 9) - (op.offset >> s.shift >> 9) + 1
        if not reserve_events(s, out, FILL_EVENTS * (leaves + 1)):
            return False
        set_find(s, arena, row, first, 1)
        emit_template(s, out, tpl.WRITE)
        emit_template(s, out, templates.OPEN)
        ready_index(s, arena, out, op, row)
        s.superpages, s.pages, s.piece = 0, 0, 0
        s.stage, s.resume_at = pmfs_state.ALLOCATING, first
    if s.stage == pmfs_state.ALLOCATING:
        while s.resume_at < last:
            if not reserve_events(s, out, PIECE_EVENTS):
                return False
            take_piece(s, arena, out, op, row)
        if not reserve_events(s, out, PIECE_EVENTS):
            return False
        open_log(s, s.superpages + s.pages)
        emit_template(s, out, templates.OPEN_LOG)
        rest_of_pages(s, arena, out, op, row)
        s.stage, s.resume_at = pmfs_state.COPYING, op.offset
    return swap_after_copy(s, arena, out, op, row)


@subroutine
def swap_after_copy(s, arena, out, op, row):
    """Do steps 4 to 6; return False if `out` or the arena must grow first."""
    end = op.offset + op.length
    while s.stage == pmfs_state.COPYING and s.resume_at < end:
        if not reserve_events(s, out, PIECE_EVENTS):
            return False
        copy_piece(s, arena, out, op, row)
    if not reserve_events(s, out, PIECE_EVENTS):
        return False
    if s.stage == pmfs_state.COPYING:
        # Once the data is durable, the recovery repeats the log's replacements instead of dropping the log.
        emit_template(s, out, templates.COMMIT)
        s.stage, s.resume_at, s.piece = pmfs_state.SWAPPING, op.offset >> 12, 0
    while s.resume_at < (end + 4095) >> 12:
        if not reserve_events(s, out, PIECE_EVENTS):
            return False
        swap_piece(s, arena, out, op, row)
    if not reserve_events(s, out, PIECE_EVENTS):
        return False
    close_log(s, arena, out, op, row)
    return True
