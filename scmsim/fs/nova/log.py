"""Model NOVA's per-inode log: append, extension with its scan, and garbage collection.

Source: NOVA fs/nova/log.c (nova_append_log_entry, nova_get_append_head, nova_extend_inode_log), gc.c
(nova_inode_log_fast_gc, nova_inode_log_thorough_gc).
"""

from scmsim.alloc import cpu_lists
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import give, has_room, take
from scmsim.fs.engine.events import emit_template, reserve_events
from scmsim.fs.nova import state, templates
from scmsim.jit import subroutine

EXTEND_THRESHOLD = 256  # maximum number of log pages that one extension adds
EXTENT_EVENTS = 64  # maximum number of events of one extent of a write, without an extension of the log


@subroutine
def inode_of(s, number):
    """Return the device address of file `number`'s inode; the CPUs' tables take turns (nova_new_nova_inode)."""
    return s.table_of[number % s.cpus] + number // s.cpus * state.INODE_BYTES


@subroutine
def words_of(s, ref):
    """Return the arena offset of the first of write entry `ref`'s two fields."""
    return (ref >> 9) + state.PAGE_ENTRIES + 2 * ((ref & 511) << 3 >> s.entry_shift)


@subroutine
def used_bytes(s, arena, page):
    """Return how many bytes of a log page hold entries."""
    counts = arena[page + state.PAGE_COUNTS]
    plain = counts >> state.PLAIN_SHIFT & state.ENTRIES_MASK
    return (counts >> state.BYTES_SHIFT) + ((counts & state.ENTRIES_MASK) - plain) * s.entry_bytes


@subroutine
def log_growth(arena, row, length):
    """Return an upper bound of the log pages that appending `length` bytes (less than a page) adds; mostly 0."""
    count = arena[row + state.LOG_COUNT]
    if count == 0:
        return 1
    if arena[row + state.TAIL_BYTES] + length <= state.LOG_BYTES or count - arena[row + state.TAIL_PAGE] >= 2:
        return 0
    return min(2 * arena[row + state.LOG_SIZE], 2 * EXTEND_THRESHOLD) + 4


@subroutine
def entry_fits(s, arena, out, row):
    """Return whether an extent's events and write entry fit in the buffer and arena; if not, request more space."""
    pages = log_growth(arena, row, s.entry_bytes)
    if pages == 0:
        return reserve_events(s, out, EXTENT_EVENTS)
    logs = pages + arena[row + state.LOG_COUNT]
    return reserve_events(s, out, EXTENT_EVENTS + 8 * logs) and has_room(s, arena, (pages << s.page_order) + 8 * logs)


@subroutine
def add_pages(s, arena, out, row, count):
    """Append `count` fresh log pages to the file's log; initialise and write back the tail of each page.

    The caller has checked that the device has enough free blocks (see `operations.admit`).
    """
    table.reserve(s, arena, row + state.LOG, arena[row + state.LOG_COUNT] + count)
    left = count
    while left > 0:
        block = cpu_lists.allocate_log(s, arena, left)
        s.reg[templates.TO] = block * state.BLOCK
        s.reg[templates.BYTES] = s.got * state.BLOCK
        s.reg[templates.COUNT] = s.got
        emit_template(s, out, templates.LOG_PAGES)
        for i in range(s.got):
            page = take(s, arena, s.page_order)
            arena[page + state.PAGE_BLOCK] = block + i
            arena[arena[row + state.LOG] + arena[row + state.LOG_COUNT]] = page
            arena[row + state.LOG_COUNT] += 1
        left -= s.got
    s.log_pages += count
    arena[row + state.LOG_SIZE] += count
    s.largest_log = max(s.largest_log, arena[row + state.LOG_COUNT])


@subroutine
def sweep_log(s, arena, out, row, tail):
    """Run fast GC: drop the pages before page `tail` that have no valid entry; return (valid, all) entries.

    One event covers the loads of all pages in a run of adjacent blocks.
    """
    entries, valid, keep, first, length = 0, 0, 0, 0, 0
    for i in range(arena[row + state.LOG_COUNT]):
        page = arena[arena[row + state.LOG] + i]
        block = arena[page + state.PAGE_BLOCK]
        if length > 0 and (i >= tail or block != first + length):
            s.reg[templates.FROM] = first * state.BLOCK
            s.reg[templates.BYTES] = length * state.BLOCK
            emit_template(s, out, templates.LOG_SCAN)
            length = 0
        if i < tail:
            first = block if length == 0 else first
            length += 1
            count = arena[page + state.PAGE_COUNTS] & state.ENTRIES_MASK
            dead = arena[page + state.PAGE_COUNTS] >> state.INVALID_SHIFT & state.ENTRIES_MASK
            if count == dead:
                if keep > 0:
                    s.reg[templates.PAGE] = (
                        arena[arena[arena[row + state.LOG] + keep - 1] + state.PAGE_BLOCK] * state.BLOCK
                    )
                    emit_template(s, out, templates.LOG_DROP)
                cpu_lists.release(s, arena, block, 1)
                give(s, arena, page, s.page_order)
                continue
            entries += count
            valid += count - dead
        arena[arena[row + state.LOG] + keep] = page
        keep += 1
    s.log_pages -= arena[row + state.LOG_COUNT] - keep
    arena[row + state.TAIL_PAGE] -= arena[row + state.LOG_COUNT] - keep
    arena[row + state.LOG_SIZE] -= arena[row + state.LOG_COUNT] - keep
    arena[row + state.LOG_COUNT] = keep
    return valid, entries


@subroutine
def extend_log(s, arena, out, row):
    """Add pages to a full log, scan it, drop its dead pages; mark it for thorough GC if less than half is live."""
    tail_block = arena[arena[arena[row + state.LOG] + arena[row + state.TAIL_PAGE]] + state.PAGE_BLOCK]
    # The scan ends at the committed tail (nova_inode_log_fast_gc), not at the entries that the operation added after it.
    tail = arena[row + state.TAIL_PAGE] - s.uncommitted
    add_pages(s, arena, out, row, min(arena[row + state.LOG_SIZE], EXTEND_THRESHOLD))
    emit_template(s, out, templates.LOG_EXTEND)
    valid, entries = sweep_log(s, arena, out, row, tail)
    s.scanned_pages += tail
    s.reg[templates.COUNT] = tail
    s.reg[templates.ENTRIES], s.reg[templates.ASSIGNED] = tail * s.slots, valid
    if not s.counters:
        s.scanned_entries += tail * s.slots
    emit_template(s, out, templates.LOG_SCANNED)
    s.reg[templates.PAGE] = tail_block * state.BLOCK
    emit_template(s, out, templates.LOG_LINK)
    checked = arena[row + state.TAIL_PAGE] - s.uncommitted
    if s.gc_row == row:
        s.gc_row = 0
    if entries == 0 or arena[row + file_row.STATUS] & (file_row.IS_DIR | state.HOLDS_NAMES):
        return  # a directory's dentries are not tracked one by one, so the model never compacts its log
    # Estimate the pages that the live entries fill: the 5.1 lineage scales the page count by the share of valid entries,
    # FAST'16 divides the bytes of the valid entries by a page's bytes.
    blocks = (valid * checked + entries - 1) // entries
    if not s.counters:
        blocks = (valid * s.entry_bytes + state.LOG_BYTES - 1) // state.LOG_BYTES
    if blocks > 0 and 2 * blocks < checked:
        s.gc_row = row
        s.gc_tail = checked
        s.gc_blocks = blocks


@subroutine
def add_dots(s, arena, row):
    """Count the entries "." and ".." in the first log page of a directory."""
    arena[arena[arena[row + state.LOG]] + state.PAGE_COUNTS] += 2 * (
        1 + state.PLAIN_ONE + s.dot_bytes * state.PLAIN_BYTE
    )
    arena[row + state.TAIL_BYTES] = 2 * s.dot_bytes


@subroutine
def open_log(s, arena, row):
    """Build the log of a directory from before the trace, whose first page the device has already."""
    table.reserve(s, arena, row + state.LOG, 1)
    page = take(s, arena, s.page_order)
    arena[page + state.PAGE_BLOCK] = arena[row + state.LOG_BLOCK]
    arena[arena[row + state.LOG]] = page
    arena[row + state.LOG_COUNT], arena[row + state.LOG_SIZE], arena[row + state.LOG_BLOCK] = 1, 1, 0
    s.largest_log = max(s.largest_log, 1)
    add_dots(s, arena, row)


@subroutine
def append_entry(s, arena, out, row, length):
    """Reserve `length` bytes at the tail of the log, set registers ENTRY and PAGE, and return the entry's ref.

    The entry is counted but not filled in. Register INODE must hold the inode's address. The caller must have reserved
    space for the pages that `log_growth` returns.
    """
    if arena[row + state.LOG_BLOCK] != 0:
        open_log(s, arena, row)
    if arena[row + state.LOG_COUNT] == 0:
        add_pages(s, arena, out, row, 1)
        emit_template(s, out, templates.LOG_START)
    page = arena[arena[row + state.LOG] + arena[row + state.TAIL_PAGE]]
    if arena[row + state.TAIL_BYTES] + length > state.LOG_BYTES:
        s.reg[templates.PAGE] = arena[page + state.PAGE_BLOCK] * state.BLOCK
        s.reg[templates.ENTRY] = s.reg[templates.PAGE] + arena[row + state.TAIL_BYTES]
        s.reg[templates.HAS] = templates.LINE if arena[row + state.TAIL_BYTES] < state.LOG_BYTES else 0
        emit_template(s, out, templates.NEXT_PAGE)
        if arena[row + state.TAIL_PAGE] + 1 == arena[row + state.LOG_COUNT]:
            extend_log(s, arena, out, row)
        arena[row + state.TAIL_PAGE] += 1
        s.uncommitted += 1
        arena[row + state.TAIL_BYTES] = 0
        page = arena[arena[row + state.LOG] + arena[row + state.TAIL_PAGE]]
    at = arena[row + state.TAIL_BYTES]
    s.reg[templates.PAGE] = arena[page + state.PAGE_BLOCK] * state.BLOCK
    s.reg[templates.ENTRY] = s.reg[templates.PAGE] + at
    arena[page + state.PAGE_COUNTS] += 1
    arena[row + state.TAIL_BYTES] += length
    return page << 9 | at >> 3


@subroutine
def request_collection(s):
    """Request the thorough GC that is due, if any; return whether the operation must stop for it.

    NOVA collects inside the append (nova_extend_inode_log), so before the operation's next allocation or release.
    """
    if s.gc_row == 0 or not s.collects:
        return False
    s.need_collect, s.gc_row = s.gc_row, 0
    return True


@subroutine
def append_record(s, record, arena, out, row):
    """Append an entry that maps no data and return its ref; `record` = (template, entry bytes, bytes of its fields)."""
    template, length, fields = record
    s.reg[templates.INODE] = inode_of(s, (row - s.files) // state.FILE_WORDS)
    s.uncommitted = 0
    ref = append_entry(s, arena, out, row, length)
    arena[(ref >> 9) + state.PAGE_COUNTS] += state.PLAIN_ONE + length * state.PLAIN_BYTE
    s.reg[templates.BYTES] = length
    s.reg[templates.FIELDS] = fields
    emit_template(s, out, template)
    return ref


@subroutine
def begin_transaction(s, out, source, records):
    """Save `records` 8-byte values from device address `source` on in the journal.

    The journal's page is a ring buffer. Template RELEASE ends the transaction.
    """
    # Records that do not fit before the end of the journal's page wrap to its start.
    page = s.reg[templates.JOURNAL_PAGE]
    first = min(records, (page + state.BLOCK - s.reg[templates.JOURNAL]) // templates.RECORD_BYTES)
    rest = records - first
    s.reg[templates.FROM], s.reg[templates.FIELDS] = source, 8 * records
    s.reg[templates.BYTES], s.reg[templates.LINES] = first * templates.RECORD_BYTES, rest * templates.RECORD_BYTES
    s.reg[templates.ENTRIES], s.reg[templates.CHECKED] = first * templates.CHECKED_BYTES, rest * templates.CHECKED_BYTES
    emit_template(s, out, templates.TRANSACTION)
    s.reg[templates.JOURNAL] += s.reg[templates.BYTES]
    if s.reg[templates.JOURNAL] == page + state.BLOCK:
        s.reg[templates.JOURNAL] = page + s.reg[templates.LINES]
