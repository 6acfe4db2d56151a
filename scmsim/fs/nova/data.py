"""Model NOVA's data path: copy-on-write and in-place writes, reads, and the radix tree from pages to write entries.

Source: NOVA (Linux 5.1 lineage) fs/nova/file.c (do_nova_cow_file_write, do_dax_mapping_read), dax.c
(do_nova_inplace_file_write, nova_handle_head_tail_blocks), log.c (nova_assign_write_entry, nova_free_old_entry).
"""

from scmsim.alloc import cpu_lists
from scmsim.fs.engine import file_row, slab, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.nova import state, templates
from scmsim.fs.nova.log import (
    append_entry,
    begin_transaction,
    entry_fits,
    inode_of,
    request_collection,
    used_bytes,
    words_of,
)
from scmsim.jit import subroutine


@subroutine
def locate(s, arena, ref, page):
    """Return the device offset of `page`, which entry `ref` maps; set register ENTRY to the entry's device offset."""
    at = words_of(s, ref)
    s.reg[templates.ENTRY] = arena[(ref >> 9) + state.PAGE_BLOCK] * state.BLOCK + ((ref & 511) << 3)
    return ((arena[at + 1] >> 24) + page - (arena[at] >> 24)) * state.BLOCK


@subroutine
def copy_in(s, out, op, target, low, high):
    """Copy the file's bytes [low, high) from the caller's buffer to the device offset `target` (__copy_user_nocache).

    Edges that are not 8-byte aligned use cached stores, which NOVA does not write back. One fence follows.
    """
    length = high - low
    head = min(-target & 7, length)
    body = (length - head) & ~7
    s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + low - op.offset
    s.reg[templates.TO], s.reg[templates.HEAD] = target, head
    s.reg[templates.BODY_AT], s.reg[templates.BODY] = target + head, body
    s.reg[templates.EDGE_AT], s.reg[templates.EDGE] = target + head + body, length - head - body
    s.reg[templates.BYTES], s.reg[templates.LINES] = length, (length + 63) >> 6
    emit_template(s, out, templates.COPY)


@subroutine
def fill_end(s, arena, out, row, page, span):
    """Fill a part of a partly written block from the old block, or with zeroes.

    `span` is (device offset of the new block, first byte in it, end of the bytes).
    """
    block, low, high = span
    ref = table.get(arena, row + state.PAGES, page)
    if ref != 0:
        s.reg[templates.FROM] = locate(s, arena, ref, page) + low
    s.reg[templates.TO], s.reg[templates.BYTES] = block + low, high - low
    s.reg[templates.LINES] = (high - low + 63) >> 6
    emit_template(s, out, templates.FILL_OLD if ref != 0 else templates.FILL_ZERO)


@subroutine
def invalidate_entry(s, arena, out, ref, page, count):
    """Invalidate `count` pages from `page` on of the old entry `ref` and free their blocks (nova_free_old_entry)."""
    block = locate(s, arena, ref, page) >> 12
    at = words_of(s, ref)
    arena[at + 1] = (arena[at + 1] | state.REASSIGNED) + count
    s.reg[templates.OLD] = s.reg[templates.ENTRY]
    s.reg[templates.DEAD] = 0
    # The last valid page of the entry is gone: the entry is dead, and its log page counts it.
    if (arena[at + 1] & state.COUNT_MASK) == (arena[at] & state.PAGES_MASK):
        arena[(ref >> 9) + state.PAGE_COUNTS] += state.INVALID_ONE
        s.reg[templates.OLD_PAGE] = arena[(ref >> 9) + state.PAGE_BLOCK] * state.BLOCK
        s.reg[templates.DEAD] = 4
    emit_template(s, out, templates.FREE_OLD)
    cpu_lists.release(s, arena, block, count)
    s.data_blocks -= count


@subroutine
def reserve_pages(s, arena, row, first, stop):
    """Extend the file's tables and radix nodes to cover pages [first, stop); return False if the arena must grow."""
    groups = (stop - 1 >> state.NODE_SHIFT) + 1
    added = groups - (first >> state.NODE_SHIFT)
    words = table.words_to_hold(arena, row + state.PAGES, stop) + table.words_to_hold(arena, row + state.NODES, groups)
    words += slab.words_to_hold(s, arena, added)
    if words > 0:
        if not has_room(s, arena, words):
            return False
        table.reserve(s, arena, row + state.PAGES, stop)
        table.reserve(s, arena, row + state.NODES, groups)
        slab.reserve(s, arena, added)
    return True


@subroutine
def ensure_node(s, arena, row, page):
    """Allocate the radix node of `page` if it is missing; return whether it was allocated."""
    at = arena[row + state.NODES] + (page >> state.NODE_SHIFT)
    if arena[at] != 0:
        return False
    arena[at] = slab.allocate(s, arena)
    return True


@subroutine
def free_nodes(s, arena, row, first):
    """Free the radix nodes after page `first`'s node; free its own node too if it maps no page before `first`."""
    group, stop = first >> state.NODE_SHIFT, (arena[row + state.PAGE_COUNT] + 63) >> state.NODE_SHIFT
    for page in range(group << state.NODE_SHIFT, min(first, arena[row + state.PAGE_COUNT])):
        if arena[arena[row + state.PAGES] + page] != 0:
            group += 1
            break
    for i in range(arena[row + state.NODES] + group, arena[row + state.NODES] + stop):
        if arena[i] != 0:
            slab.free(s, arena, arena[i])
            arena[i] = 0


@subroutine
def node_of(arena, row, page):
    """Return the address of the radix node of `page`; all pages without a node share one address."""
    number = table.get(arena, row + state.NODES, page >> state.NODE_SHIFT)
    return state.HEAP + slab.address(number, state.NODE_BYTES, state.NODE_SLAB)


@subroutine
def assign_entry(s, arena, out, row, ref):
    """Point the radix tree's slots at entry `ref`; invalidate each run of pages in its older entry and free the blocks.

    FAST'16 frees page by page (inode.c: nova_assign_write_entry).
    """
    word = arena[words_of(s, ref)]
    first, count = word >> 24, word & state.PAGES_MASK
    inserted, nodes, old, old_first = 0, 0, 0, 0
    for page in range(first, first + count):
        before = arena[arena[row + state.PAGES] + page]
        if before != old or (before != 0 and not s.counters):
            if old != 0:
                invalidate_entry(s, arena, out, old, old_first, page - old_first)
            old = before
            old_first = page
        if before == 0:
            nodes += ensure_node(s, arena, row, page)
            inserted += 1
        arena[arena[row + state.PAGES] + page] = ref
    if old != 0:
        invalidate_entry(s, arena, out, old, old_first, first + count - old_first)
    locate(s, arena, ref, first)
    s.reg[templates.NODE] = node_of(arena, row, first)
    s.reg[templates.INSERTED], s.reg[templates.REPLACED], s.reg[templates.NODES] = inserted, count - inserted, nodes
    emit_template(s, out, templates.ASSIGN)
    arena[row + file_row.MAPPED] += inserted
    arena[row + state.PAGE_COUNT] = max(arena[row + state.PAGE_COUNT], first + count)


@subroutine
def extent_run(s, arena, row, page, pages):
    """Return how many pages from `page` (at most `pages`) share a write entry or a hole (nova_check_existing_entry)."""
    ref = table.get(arena, row + state.PAGES, page)
    if ref == 0:
        count = 1
        while count < pages and table.get(arena, row + state.PAGES, page + count) == 0:
            count += 1
        return count
    at = words_of(s, ref)
    # Newer entries map some pages of a reassigned entry, so NOVA handles the entry page by page.
    if arena[at + 1] & state.REASSIGNED:
        return 1
    return min(pages, (arena[at] & state.PAGES_MASK) - (page - (arena[at] >> 24)))


@subroutine
def write_extent(s, arena, out, op, row, page):
    """Write one extent of a write, starting at `page`: in place, or to fresh blocks with a new log entry.

    Return the number of pages covered; `fresh` counts the new write entries.
    """
    end = op.offset + op.length
    count = ((end - 1) >> 12) - page + 1
    low = max(op.offset, page * state.BLOCK)
    if s.inplace:
        count = extent_run(s, arena, row, page, count)
        emit_template(s, out, templates.FIND)
        ref = table.get(arena, row + state.PAGES, page)
        if ref != 0:
            copy_in(s, out, op, locate(s, arena, ref, page) + (low & 4095), low, min(end, (page + count) * state.BLOCK))
            emit_template(s, out, templates.FOUND)
            # An overwrite in place adds no write entry: the existing entry is updated under the journal.
            begin_transaction(s, out, s.reg[templates.ENTRY], templates.ENTRY_RECORDS)
            emit_template(s, out, templates.UPDATE)
            emit_template(s, out, templates.RELEASE)
            return count
    block = cpu_lists.allocate(s, arena, count)
    count = s.got
    s.data_blocks += count
    emit_template(s, out, templates.ALLOCATE)
    high = min(end, (page + count) * state.BLOCK)
    if low & 4095:
        fill_end(s, arena, out, row, page, (block * state.BLOCK, 0, low & 4095))
    if high & 4095:
        fill_end(
            s, arena, out, row, high >> 12, ((block + (high >> 12) - page) * state.BLOCK, high & 4095, state.BLOCK)
        )
    copy_in(s, out, op, block * state.BLOCK + (low & 4095), low, high)
    ref = append_entry(s, arena, out, row, s.entry_bytes)
    at = words_of(s, ref)
    arena[at], arena[at + 1] = page << 24 | count, block << 24
    emit_template(s, out, templates.APPEND)
    s.fresh += 1
    return count


@subroutine
def assign_fresh(s, arena, out, row):
    """Insert the log's last `fresh` entries into the radix tree, oldest first; return False if the buffer is full."""
    # Walk back from the log's tail to the page with the oldest fresh entry; `older` entries precede that entry on its
    # page.
    index = arena[row + state.TAIL_PAGE]
    page = arena[arena[row + state.LOG] + index]
    older = (arena[page + state.PAGE_COUNTS] & state.ENTRIES_MASK) - s.fresh
    while older < 0:
        index -= 1
        page = arena[arena[row + state.LOG] + index]
        older += arena[page + state.PAGE_COUNTS] & state.ENTRIES_MASK
    stop = used_bytes(s, arena, page)
    at = stop - ((arena[page + state.PAGE_COUNTS] & state.ENTRIES_MASK) - older) * s.entry_bytes
    while s.fresh > 0:
        if at == stop:
            index += 1
            page = arena[arena[row + state.LOG] + index]
            stop = used_bytes(s, arena, page)
            at = 0
        ref = page << 9 | at >> 3
        if not reserve_events(s, out, 16 + 8 * (arena[words_of(s, ref)] & state.PAGES_MASK)):
            return False
        assign_entry(s, arena, out, row, ref)
        s.fresh -= 1
        at += s.entry_bytes
    return True


@subroutine
def write_file(s, arena, out, op, row):
    """Model write(): write the extents one by one, commit the log's tail once, then update the radix tree.

    Return False if the event buffer or the arena is full.
    """
    s.reg[templates.INODE] = inode_of(s, op.file)
    if s.stage == state.READY:
        emit_template(s, out, templates.WRITE)
        s.stage, s.resume_at, s.fresh, s.uncommitted = state.AT_WORK, op.offset >> 12, 0, 0
    while s.stage == state.AT_WORK:
        if not entry_fits(s, arena, out, row):
            return False
        s.resume_at += write_extent(s, arena, out, op, row, s.resume_at)
        if s.resume_at * state.BLOCK >= op.offset + op.length:
            arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], op.offset + op.length)
            if s.fresh > 0:
                emit_template(s, out, templates.COMMIT)
            s.stage = state.ASSIGNING
        if request_collection(s):
            return False
    return s.fresh == 0 or assign_fresh(s, arena, out, row)


@subroutine
def read_file(s, arena, out, op, row):
    """Model read(): copy once per write entry, or per page where the entry was reassigned; clear the buffer for a hole.

    Return False if the event buffer is full.
    """
    if s.stage == state.READY:
        emit_template(s, out, templates.READ)
        s.stage, s.resume_at = state.AT_WORK, op.offset
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    while s.resume_at < end:
        if not reserve_events(s, out, 8):
            return False
        at = s.resume_at
        page = at >> 12
        ref = table.get(arena, row + state.PAGES, page)
        stop = min(end, (page + extent_run(s, arena, row, page, ((end - 1) >> 12) - page + 1)) * state.BLOCK)
        s.reg[templates.HAS], s.reg[templates.EDGE] = 0, 0
        if ref != 0:
            s.reg[templates.FROM] = locate(s, arena, ref, page) + (at & 4095)
            s.reg[templates.HAS], s.reg[templates.EDGE] = 21, stop - at
        s.reg[templates.NODE] = node_of(arena, row, page)
        s.reg[templates.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        s.reg[templates.BYTES], s.reg[templates.LINES] = stop - at, (stop - at + 63) >> 6
        emit_template(s, out, templates.READ_EXTENT)
        s.resume_at = stop
    return True
