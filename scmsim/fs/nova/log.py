"""NOVA's per-inode log: append, extension with its scan, and garbage collection.

Source: NOVA fs/nova/log.c (nova_append_log_entry, nova_get_append_head, nova_extend_inode_log), gc.c
(nova_inode_log_fast_gc, nova_inode_log_thorough_gc).
"""

from scmsim.alloc import first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import give, has_room, take
from scmsim.fs.engine.events import has_events, play
from scmsim.fs.nova import recipes as q
from scmsim.fs.nova import state as n
from scmsim.jit import part

EXTEND_THRESHOLD = 256  # log pages added by one extension at the most
EXTENT_EVENTS = 64  # of one extent of a write, without an extension of the log


@part
def words_of(s, ref):
    """Arena offset of the two words of write entry `ref`."""
    return (ref >> 9) + n.PAGE_ENTRIES + 2 * ((ref & 511) << 3 >> s.entry_shift)


@part
def used_bytes(s, arena, page):
    """Bytes of a log page that hold entries."""
    counts = arena[page + n.PAGE_COUNTS]
    plain = counts >> n.PLAIN_SHIFT & n.ENTRIES_MASK
    return (counts >> n.BYTES_SHIFT) + ((counts & n.ENTRIES_MASK) - plain) * s.entry_bytes


@part
def log_growth(s, arena, row, length):
    """Log pages that appending entries of `length` bytes together (less than a page) may take; mostly 0."""
    count = arena[row + n.LOG_COUNT]
    if count == 0:
        return 1
    if arena[row + n.TAIL_BYTES] + length <= n.LOG_BYTES or count - arena[row + n.TAIL_PAGE] >= 2:
        return 0
    return min(2 * arena[row + n.LOG_SIZE], 2 * EXTEND_THRESHOLD) + 4


@part
def entry_fits(s, arena, out, row):
    """Whether an extent's events and its write entry surely fit into the buffer and the arena; notes the needs if not."""
    pages = log_growth(s, arena, row, s.entry_bytes)
    if pages == 0:
        return has_events(s, out, EXTENT_EVENTS)
    logs = pages + arena[row + n.LOG_COUNT]
    return has_events(s, out, EXTENT_EVENTS + 8 * logs) and has_room(s, arena, (pages << s.page_order) + 8 * logs)


@part
def add_pages(s, arena, out, row, count):
    """Append `count` fresh log pages to the file's log: each page's tail is initialised and written back.

    The caller has made sure that the device has the blocks (see nova_emit.room).
    """
    table.reserve(s, arena, row + n.LOG, arena[row + n.LOG_COUNT] + count)
    left = count
    while left > 0:
        block = first_fit.allocate(s, arena, left)
        s.reg[q.TO] = block * n.BLOCK
        s.reg[q.BYTES] = s.got * n.BLOCK
        s.reg[q.COUNT] = s.got
        play(s, out, q.LOG_PAGES)
        for i in range(s.got):
            page = take(s, arena, s.page_order)
            arena[page + n.PAGE_BLOCK] = block + i
            arena[arena[row + n.LOG] + arena[row + n.LOG_COUNT]] = page
            arena[row + n.LOG_COUNT] += 1
        left -= s.got
    s.log_pages += count
    arena[row + n.LOG_SIZE] += count
    s.largest_log = max(s.largest_log, arena[row + n.LOG_COUNT])


@part
def sweep_log(s, arena, out, row):
    """Fast GC: look at every page before the tail page, drop those without valid entries; returns (valid, all) entries.

    The loads of pages in neighbouring blocks make one event.
    """
    tail = arena[row + n.TAIL_PAGE]
    entries, valid, keep, first, length = 0, 0, 0, 0, 0
    for i in range(arena[row + n.LOG_COUNT]):
        page = arena[arena[row + n.LOG] + i]
        block = arena[page + n.PAGE_BLOCK]
        if length > 0 and (i >= tail or block != first + length):
            s.reg[q.FROM] = first * n.BLOCK
            s.reg[q.BYTES] = length * n.BLOCK
            play(s, out, q.LOG_SCAN)
            length = 0
        if i < tail:
            first = block if length == 0 else first
            length += 1
            count = arena[page + n.PAGE_COUNTS] & n.ENTRIES_MASK
            dead = arena[page + n.PAGE_COUNTS] >> n.INVALID_SHIFT & n.ENTRIES_MASK
            if count == dead:
                if keep > 0:
                    s.reg[q.PAGE] = arena[arena[arena[row + n.LOG] + keep - 1] + n.PAGE_BLOCK] * n.BLOCK
                    play(s, out, q.LOG_DROP)
                first_fit.release(s, arena, block, 1)
                give(s, arena, page, s.page_order)
                continue
            entries += count
            valid += count - dead
        elif i == tail:
            arena[row + n.TAIL_PAGE] = keep
        arena[arena[row + n.LOG] + keep] = page
        keep += 1
    s.log_pages -= arena[row + n.LOG_COUNT] - keep
    arena[row + n.LOG_SIZE] -= arena[row + n.LOG_COUNT] - keep
    arena[row + n.LOG_COUNT] = keep
    return valid, entries


@part
def extend_log(s, arena, out, row):
    """Add pages behind a full log, always scan it, drop dead pages; if less than half is live, thorough GC is due."""
    tail = arena[row + n.TAIL_PAGE]
    tail_block = arena[arena[arena[row + n.LOG] + tail] + n.PAGE_BLOCK]
    add_pages(s, arena, out, row, min(arena[row + n.LOG_SIZE], EXTEND_THRESHOLD))
    play(s, out, q.LOG_EXTEND)
    valid, entries = sweep_log(s, arena, out, row)
    s.scanned_pages += tail
    s.reg[q.COUNT] = tail
    s.reg[q.ENTRIES] = tail * s.slots
    if not s.counters:
        s.scanned_entries += tail * s.slots
    play(s, out, q.LOG_SCANNED)
    s.reg[q.PAGE] = tail_block * n.BLOCK
    play(s, out, q.LOG_LINK)
    checked = arena[row + n.TAIL_PAGE]
    if s.gc_row == row:
        s.gc_row = 0
    if entries == 0 or arena[row + file_row.STATUS] & file_row.IS_DIR:
        return  # a directory's dentries are not tracked one by one, so its log is never compacted here
    blocks = (valid * checked + entries - 1) // entries
    if not s.counters:
        blocks = (valid * s.entry_bytes + n.LOG_BYTES - 1) // n.LOG_BYTES
    if blocks > 0 and 2 * blocks < checked:
        s.gc_row = row
        s.gc_tail = checked
        s.gc_blocks = blocks


@part
def append_entry(s, arena, out, row, length):
    """Room for an entry of `length` bytes at the tail of the log (register INODE: its inode); sets ENTRY and PAGE.

    Returns the ref of the entry, counted but not filled in.  The caller has made sure of room with `log_growth`.
    """
    if arena[row + n.LOG_COUNT] == 0:
        add_pages(s, arena, out, row, 1)
        play(s, out, q.LOG_START)
    page = arena[arena[row + n.LOG] + arena[row + n.TAIL_PAGE]]
    if arena[row + n.TAIL_BYTES] + length > n.LOG_BYTES:
        s.reg[q.PAGE] = arena[page + n.PAGE_BLOCK] * n.BLOCK
        s.reg[q.ENTRY] = s.reg[q.PAGE] + arena[row + n.TAIL_BYTES]
        s.reg[q.HAS] = q.LINE if arena[row + n.TAIL_BYTES] < n.LOG_BYTES else 0
        play(s, out, q.NEXT_PAGE)
        if arena[row + n.TAIL_PAGE] + 1 == arena[row + n.LOG_COUNT]:
            extend_log(s, arena, out, row)
        arena[row + n.TAIL_PAGE] += 1
        arena[row + n.TAIL_BYTES] = 0
        page = arena[arena[row + n.LOG] + arena[row + n.TAIL_PAGE]]
    at = arena[row + n.TAIL_BYTES]
    s.reg[q.PAGE] = arena[page + n.PAGE_BLOCK] * n.BLOCK
    s.reg[q.ENTRY] = s.reg[q.PAGE] + at
    arena[page + n.PAGE_COUNTS] += 1
    arena[row + n.TAIL_BYTES] += length
    return page << 9 | at >> 3


@part
def append_record(s, arena, out, row, record):
    """Append an entry that maps no data, `record` = (recipe, its bytes, those of its fields); returns its ref."""
    recipe, length, fields = record
    s.reg[q.INODE] = s.inode_table + (row - s.files) // n.FILE_WORDS * n.INODE_BYTES
    ref = append_entry(s, arena, out, row, length)
    arena[(ref >> 9) + n.PAGE_COUNTS] += n.PLAIN_ONE + length * n.PLAIN_BYTE
    s.reg[q.BYTES] = length
    s.reg[q.FIELDS] = fields
    play(s, out, recipe)
    return ref


@part
def begin_transaction(s, out, source, records):
    """Save `records` words from device address `source` on in the journal, which goes on; RELEASE ends the transaction."""
    first = min(records, (q.JOURNAL_PAGE + n.BLOCK - s.reg[q.JOURNAL]) // q.RECORD_BYTES)
    rest = records - first
    s.reg[q.FROM], s.reg[q.FIELDS] = source, 8 * records
    s.reg[q.BYTES], s.reg[q.LINES] = first * q.RECORD_BYTES, rest * q.RECORD_BYTES
    s.reg[q.ENTRIES], s.reg[q.CHECKED] = first * q.CHECKED_BYTES, rest * q.CHECKED_BYTES
    play(s, out, q.TRANSACTION)
    s.reg[q.JOURNAL] += s.reg[q.BYTES]
    if s.reg[q.JOURNAL] == q.JOURNAL_PAGE + n.BLOCK:
        s.reg[q.JOURNAL] = q.JOURNAL_PAGE + s.reg[q.LINES]
