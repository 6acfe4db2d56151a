"""NOVA's data path: copy-on-write and in-place writes, reads, and the radix tree that maps pages to write entries.

Source: NOVA (Linux 5.1 lineage) fs/nova/file.c (do_nova_cow_file_write, do_dax_mapping_read), dax.c
(do_nova_inplace_file_write, nova_handle_head_tail_blocks), log.c (nova_assign_write_entry, nova_free_old_entry).
"""

from scmsim.alloc import first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.nova import recipes as q
from scmsim.fs.nova import state as n
from scmsim.fs.nova.log import append_entry, begin_transaction, entry_fits, used_bytes, words_of
from scmsim.jit import part


@part
def locate(s, arena, ref, page):
    """Device offset of file page `page`, which entry `ref` maps; sets register ENTRY to the entry's own device offset."""
    at = words_of(s, ref)
    s.reg[q.ENTRY] = arena[(ref >> 9) + n.PAGE_BLOCK] * n.BLOCK + ((ref & 511) << 3)
    return ((arena[at + 1] >> 24) + page - (arena[at] >> 24)) * n.BLOCK


@part
def copy_in(s, out, target, low, high):
    """Copy bytes [low, high) of the caller's buffer to the device offset `target` (__copy_user_nocache).

    Cached stores at edges that are not 8-byte aligned, which NOVA does not write back; one fence.
    """
    length = high - low
    head = min(-target & 7, length)
    body = (length - head) & ~7
    s.reg[q.TO], s.reg[q.HEAD] = target, head
    s.reg[q.BODY_AT], s.reg[q.BODY] = target + head, body
    s.reg[q.EDGE_AT], s.reg[q.EDGE] = target + head + body, length - head - body
    s.reg[q.BYTES], s.reg[q.LINES] = length, (length + 63) >> 6
    play(s, out, q.COPY)


@part
def fill_end(s, arena, out, row, page, span):
    """Fill the bytes [low, high) of a partly written block: `span` = (device offset of the new block, low, high)."""
    block, low, high = span
    ref = table.get(arena, row + n.PAGES, page)
    if ref != 0:
        s.reg[q.FROM] = locate(s, arena, ref, page) + low
    s.reg[q.TO], s.reg[q.BYTES], s.reg[q.LINES] = block + low, high - low, (high - low + 63) >> 6
    play(s, out, q.FILL_OLD if ref != 0 else q.FILL_ZERO)


@part
def free_old(s, arena, out, ref, page, count):
    """Invalidate `count` pages from `page` on of the old entry `ref` and free their blocks (nova_free_old_entry)."""
    block = locate(s, arena, ref, page) >> 12
    at = words_of(s, ref)
    arena[at + 1] = (arena[at + 1] | n.REASSIGNED) + count
    s.reg[q.OLD] = s.reg[q.ENTRY]
    s.reg[q.DEAD] = 0
    if (arena[at + 1] & n.COUNT_MASK) == (arena[at] & n.PAGES_MASK):
        arena[(ref >> 9) + n.PAGE_COUNTS] += n.INVALID_ONE
        s.reg[q.OLD_PAGE] = arena[(ref >> 9) + n.PAGE_BLOCK] * n.BLOCK
        s.reg[q.DEAD] = 4
    play(s, out, q.FREE_OLD)
    first_fit.release(s, arena, block, count)
    s.data_blocks -= count


@part
def starts_node(arena, row, page):
    """Whether inserting `page` allocates a radix node: nothing else is mapped in its group of 64 pages."""
    pages = arena[row + n.PAGES]
    if page & 63 and arena[pages + page - 1] != 0:
        return False
    group = pages + (page & ~63)
    for i in range(group, min(group + 64, pages + (1 << arena[row + n.PAGES + 1]))):
        if arena[i] != 0:
            return False
    return True


@part
def assign_entry(s, arena, out, row, ref):
    """Point the radix tree's slots at entry `ref`; each run of pages that had an older entry is freed from it."""
    word = arena[words_of(s, ref)]
    first, count = word >> 24, word & n.PAGES_MASK
    inserted, nodes, old, old_first = q.ZERO, q.ZERO, q.ZERO, q.ZERO
    for page in range(first, first + count):
        before = arena[arena[row + n.PAGES] + page]
        if before != old:
            if old != 0:
                free_old(s, arena, out, old, old_first, page - old_first)
            old = before
            old_first = page
        if before == 0:
            nodes += starts_node(arena, row, page)
            inserted += 1
        arena[arena[row + n.PAGES] + page] = ref
    if old != 0:
        free_old(s, arena, out, old, old_first, first + count - old_first)
    locate(s, arena, ref, first)
    s.reg[q.NODE] = n.HEAP + ((row - s.files) // n.FILE_WORDS << 26) + (first >> 6) * n.NODE_BYTES
    s.reg[q.INSERTED], s.reg[q.REPLACED], s.reg[q.NODES] = inserted, count - inserted, nodes
    play(s, out, q.ASSIGN)
    arena[row + file_row.MAPPED] += inserted
    arena[row + n.TOP_PAGE] = max(arena[row + n.TOP_PAGE], first + count)


@part
def extent_run(s, arena, row, page, pages):
    """Pages from `page` on (at most `pages`) that one in-place write, hole or read covers (nova_check_existing_entry)."""
    ref = table.get(arena, row + n.PAGES, page)
    if ref == 0:
        count = 1
        while count < pages and table.get(arena, row + n.PAGES, page + count) == 0:
            count += 1
        return count
    at = words_of(s, ref)
    if arena[at + 1] & n.REASSIGNED:
        return 1
    return min(pages, (arena[at] & n.PAGES_MASK) - (page - (arena[at] >> 24)))


@part
def write_extent(s, arena, out, op, row, page):
    """One extent of a write from `page` on: overwritten in place, or freshly allocated, filled, copied and logged.

    Returns the pages covered; `fresh` counts the new write entries.
    """
    end = op.offset + op.length
    count = ((end - 1) >> 12) - page + 1
    low = max(op.offset, page * n.BLOCK)
    if s.inplace:
        count = extent_run(s, arena, row, page, count)
        play(s, out, q.FIND)
        ref = table.get(arena, row + n.PAGES, page)
        if ref != 0:
            copy_in(s, out, locate(s, arena, ref, page) + (low & 4095), low, min(end, (page + count) * n.BLOCK))
            play(s, out, q.FOUND)
            begin_transaction(s, out, s.reg[q.ENTRY], q.ENTRY_RECORDS)
            play(s, out, q.UPDATE)
            play(s, out, q.RELEASE)
            return count
    block = first_fit.allocate(s, arena, count)
    count = s.got
    s.data_blocks += count
    play(s, out, q.ALLOCATE)
    high = min(end, (page + count) * n.BLOCK)
    if low & 4095:
        fill_end(s, arena, out, row, page, (block * n.BLOCK, q.ZERO, low & 4095))
    if high & 4095:
        fill_end(s, arena, out, row, high >> 12, ((block + (high >> 12) - page) * n.BLOCK, high & 4095, n.BLOCK))
    copy_in(s, out, block * n.BLOCK + (low & 4095), low, high)
    ref = append_entry(s, arena, out, row, s.entry_bytes)
    at = words_of(s, ref)
    arena[at], arena[at + 1] = page << 24 | count, block << 24
    play(s, out, q.APPEND)
    s.fresh += 1
    return count


@part
def assign_fresh(s, arena, out, row):
    """Put the last `fresh` entries of the log into the radix tree, oldest first; False: no room for the next one's events."""
    index = arena[row + n.TAIL_PAGE]
    page = arena[arena[row + n.LOG] + index]
    older = (arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK) - s.fresh
    while older < 0:
        index -= 1
        page = arena[arena[row + n.LOG] + index]
        older += arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK
    stop = used_bytes(s, arena, page)
    at = stop - ((arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK) - older) * s.entry_bytes
    while s.fresh > 0:
        if at == stop:
            index += 1
            page = arena[arena[row + n.LOG] + index]
            stop = used_bytes(s, arena, page)
            at = 0
        ref = page << 9 | at >> 3
        if not has_events(s, out, 16 + 8 * (arena[words_of(s, ref)] & n.PAGES_MASK)):
            return False
        assign_entry(s, arena, out, row, ref)
        s.fresh -= 1
        at += s.entry_bytes
    return True


@part
def write_file(s, arena, out, op, row):
    """One write(): extents one by one, then one commit of the log's tail, then the radix tree; False: no room to go on."""
    s.reg[q.INODE] = s.inode_table + op.file * n.INODE_BYTES
    s.reg[q.USER_AT] = (op.thread << 36) + op.buffer
    if s.stage == n.READY:
        play(s, out, q.WRITE)
        s.stage, s.resume_at, s.fresh = n.AT_WORK, op.offset >> 12, 0
    while s.stage == n.AT_WORK:
        if not entry_fits(s, arena, out, row):
            return False
        s.resume_at += write_extent(s, arena, out, op, row, s.resume_at)
        if s.resume_at * n.BLOCK >= op.offset + op.length:
            arena[row + file_row.SIZE] = max(arena[row + file_row.SIZE], op.offset + op.length)
            if s.fresh > 0:
                play(s, out, q.COMMIT)
            s.stage = n.ASSIGNING
    return s.fresh == 0 or assign_fresh(s, arena, out, row)


@part
def read_file(s, arena, out, op, row):
    """One read(): one copy per write entry, or per page where the entry was reassigned; a hole is cleared.

    False: no room to go on.
    """
    if s.stage == n.READY:
        play(s, out, q.READ)
        s.stage, s.resume_at = n.AT_WORK, op.offset
    end = min(op.offset + op.length, arena[row + file_row.SIZE])
    while s.resume_at < end:
        if not has_events(s, out, 8):
            return False
        at = s.resume_at
        page = at >> 12
        ref = table.get(arena, row + n.PAGES, page)
        stop = min(end, (page + extent_run(s, arena, row, page, ((end - 1) >> 12) - page + 1)) * n.BLOCK)
        s.reg[q.HAS], s.reg[q.EDGE] = 0, 0
        if ref != 0:
            s.reg[q.FROM] = locate(s, arena, ref, page) + (at & 4095)
            s.reg[q.HAS], s.reg[q.EDGE] = 21, stop - at
        s.reg[q.NODE] = n.HEAP + (op.file << 26) + (page >> 6) * n.NODE_BYTES
        s.reg[q.USER_AT] = (op.thread << 36) + op.buffer + at - op.offset
        s.reg[q.BYTES], s.reg[q.LINES] = stop - at, (stop - at + 63) >> 6
        play(s, out, q.READ_EXTENT)
        s.resume_at = stop
    return True
