"""Keep NOVA's state: file rows, log pages and write entries inside the arena.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes.
Sources: NOVA (Linux 5.1 lineage) fs/nova/{log.h,inode.h,nova_def.h,journal.h}; FAST'16 NOVA nova.h, nova_def.h (40-byte
entries, no page counters).
"""

import numpy as np

from scmsim.alloc import cpu_lists
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row, slab
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state
from scmsim.fs.nova import templates
from scmsim.fs.nova.layout import INODE_BYTES, layout
from scmsim.fs.nova.name_templates import name_templates
from scmsim.fs.nova.templates import BLOCK, LOG_BYTES, SITES

# Fields of a file's row after those of `file_row`, one arena word each unless stated otherwise:
PAGES = file_row.OWN  # table (2 words): page -> `ref` of its write entry
LOG = PAGES + 2  # table (2 words): index -> arena offset of a log page
LOG_COUNT = LOG + 2  # number of log pages
TAIL_PAGE = LOG_COUNT + 1  # index of the log page with the tail
TAIL_BYTES = LOG_COUNT + 2  # bytes of that page before the tail
PAGE_COUNT = LOG_COUNT + 3  # pages up to the last one with a write entry
LINK_ENTRY = LOG_COUNT + 4  # 1: the log has a link-change entry
DENTRY = LOG_COUNT + 5  # `ref` of the newest name's dentry
# LOG_SIZE is NOVA's own count of log pages (sih->log_pages) and sets the size of an extension.  Thorough GC adds the
# pages that it allocated, not those that it used, so LOG_SIZE may exceed LOG_COUNT.
LOG_SIZE = LOG_COUNT + 6  # log pages
DIRECTORY = LOG_COUNT + 7  # row of the directory with the newest name, 0: unknown
NODES = LOG_COUNT + 8  # table (2 words): page / 64 -> radix node
LOG_BLOCK = NODES + 2  # device block of the first log page while this page is not in LOG yet; 0: none
FILE_WORDS = NODES + 3
HOLDS_NAMES = 4  # STATUS bit: the log holds dentries, even if the trace treats the row as a file
UNNAMED = 1  # number of extra rows after the files' rows: one for a parent directory that the trace does not name

# A `ref` names a write entry: arena offset of its log page << 9 | its offset in the page / 8.  The entry's fields have
# the number offset >> entry_shift: no two write entries share one, because an entry is at least 1 << entry_shift bytes
# long.
# A log page, one word each unless said otherwise:
PAGE_BLOCK = 0  # device block
PAGE_COUNTS = 1  # entries | plain entries (dentry, link change, setattr) << 16 | invalid << 32 | bytes of plain << 48
PAGE_ENTRIES = 2  # 2 words for each entry: pgoff << 24 | pages, and block << 24 | reassigned << 23 | invalid pages
REASSIGNED = 1 << 23
COUNT_MASK = (1 << 23) - 1
PAGES_MASK = (1 << 24) - 1
ENTRIES_MASK = (1 << 16) - 1
PLAIN_ONE, INVALID_ONE, PLAIN_BYTE = 1 << 16, 1 << 32, 1 << 48
PLAIN_SHIFT, INVALID_SHIFT, BYTES_SHIFT = 16, 32, 48

# Progress of the current operation: not begun; building its file, which existed before the trace; ready to run; processing
# its pages; inserting its new log entries into the radix tree; the call itself is done; freeing a file that lost its last
# name. The operation can stop at each stage when room runs out and resume with the next buffer.
NEW, ADOPTING, READY, AT_WORK, ASSIGNING, ENDING, EVICTING = range(7)

STATE = np.dtype(
    (
        np.record,
        [
            *HEADER,
            *cpu_lists.FIELDS,
            *slab.FIELDS,  # of radix nodes, shared by all files
            *file_row.FIELDS,
            ("inplace", "i8"),  # 1: data is overwritten in place
            ("counters", "i8"),  # 1: log pages keep entry counters (5.1 lineage), 0: FAST'16
            ("entry_bytes", "i8"),
            ("slots", "i8"),  # write entries per log page
            ("entry_shift", "i8"),
            ("setattr_bytes", "i8"),  # bytes of each kind of log entry without data
            ("link_bytes", "i8"),
            ("dot_bytes", "i8"),
            ("setattr_fields", "i8"),  # bytes of the fields of each log entry without data; a dentry's without its name
            ("link_fields", "i8"),
            ("dentry_fields", "i8"),
            ("stage", "i8"),  # of the current operation, see NEW
            ("resume_at", "i8"),  # page (read: byte) at which the current operation resumes
            ("fresh", "i8"),  # write entries of the current operation that are not yet in the radix tree
            ("freed", "i8"),  # pages that the current operation freed
            ("uncommitted", "i8"),  # log pages that the current operation began after the one with the committed tail
            ("collects", "i8"),  # 1: thorough GC runs during the current operation, 0: after it
            ("closes", "i8"),  # close operations seen
            ("gc_row", "i8"),  # file whose log is due for thorough GC after the operation, 0 = none
            ("page_order", "i8"),  # arena order of a log page
            ("dentry_header", "i8"),
            ("device_blocks", "i8"),  # including reserved blocks
            ("table_of", "i8", (cpu_lists.MOST_CPUS,)),  # device offset of each CPU's inode table
            ("journal_at", "i8"),  # device offset of the first CPU's journal page
            ("pointers_at", "i8"),  # device offset of the first CPU's pair of journal pointers
            ("tails", "i8", (cpu_lists.MOST_CPUS,)),  # next position of each other CPU's journal
            ("gc_tail", "i8"),  # log pages before this one are due for thorough GC
            ("gc_blocks", "i8"),  # fresh pages that the thorough GC allocates
            ("scanned_entries", "i8"),  # entries checked by log scans since the start
            ("scanned_pages", "i8"),
            ("copied_entries", "i8"),
            ("thorough_gcs", "i8"),
            ("log_pages", "i8"),  # log pages held by all files
            ("data_blocks", "i8"),
            ("largest_log", "i8"),  # maximum number of log pages that one file ever had
        ],
    )
)

STATISTICS = ("closes", "scanned_entries", "scanned_pages", "copied_entries", "thorough_gcs")  # see pipeline/periods.py
SMALLEST, LARGEST = 4 << 20, 1 << 50
LARGEST_OF_CPUS = 16 << 40  # limit with several CPUs: the model keeps one bit per block in memory
HEAP = 1 << 40  # KERNEL address at which the slabs of radix nodes start
# A radix node, and a slab of 28 of them (Linux 5.13: struct xa_node; /proc/slabinfo has "radix_tree_node ... 576 28 4").
NODE_BYTES, NODE_SLAB = 576, 16 << 10
NODE_SHIFT = 6  # log2 of the pages that a node covers


def start(
    params: dict[str, int], files: Files, *, inplace: bool, counters: bool, entry_bytes: int, cost_table: str
) -> State:
    """Return the state of an empty NOVA of `params["capacity"]` bytes with a row for each of the trace's `files`.

    `entry_bytes` is the length of a write entry.
    """
    if not SMALLEST <= params["capacity"] <= LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} is out of range; give 4MiB (NOVA's inode table and a file) "
            "to 1PiB"
        )
    cpus = params.get("cpus", 1)
    if not 1 <= cpus <= cpu_lists.MOST_CPUS or (cpus > 1 and params["capacity"] > LARGEST_OF_CPUS):
        raise UsageError(
            f"cpus = {cpus} with a capacity of {format_bytes(params['capacity'])}: give 1 to {cpu_lists.MOST_CPUS} CPUs; more than "
            "one needs a capacity of 16TiB or less"
        )
    rows = len(files) + 1  # the last row is a parent directory that the trace does not name
    blocks = params["capacity"] // BLOCK
    from_before = np.flatnonzero(files.is_dir & (files.first_size >= 0))
    places = layout(blocks, cpus, rows, len(from_before), fast16=not counters)
    words = 16 + rows * FILE_WORDS + cpu_lists.arena_words(places.lists)
    state = new_state(STATE, max(1 << 16, words + (1 << 14)), costs.load(cost_table, templates.COSTS, list(SITES)))
    if not params.get("tick", 1):
        state.record.cost[0, templates.COSTS.index("timer_tick"), :3] = 0
    fence = bool(params.get("inode_fence", 0))
    table = (
        templates.data_templates(inplace, counters, entry_bytes, fence)
        | templates.log_templates(counters, entry_bytes, fence)
        | name_templates(counters, fence)
    )
    load_templates(state, dict(sorted(table.items())), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.inplace, record.counters, record.entry_bytes = inplace, counters, entry_bytes
    record.slots, record.entry_shift = LOG_BYTES // entry_bytes, entry_bytes.bit_length() - 1
    record.page_order = (PAGE_ENTRIES + 2 * (LOG_BYTES >> int(record.entry_shift)) - 1).bit_length()
    record.setattr_bytes, record.link_bytes, record.dot_bytes = (
        (templates.SETATTR_BYTES, templates.LINK_BYTES, templates.DOT_BYTES)
        if counters
        else (templates.FAST16_BYTES, templates.FAST16_BYTES, templates.FAST16_BYTES)
    )
    # log.c: nova_update_setattr_entry, nova_update_link_change_entry, nova_update_new_dentry.
    record.setattr_fields, record.link_fields, record.dentry_fields = (
        (49, 32, 35) if counters else (templates.FAST16_BYTES - 10, templates.FAST16_BYTES - 10, 0)
    )
    record.dentry_header = 49 if counters else 29  # with the name's closing zero (5.1 lineage)
    record.device_blocks = max(blocks, places.lists[-1][1])
    record.table_of[:cpus] = np.multiply(places.tables, BLOCK)
    record.journal_at, record.pointers_at = places.journal * BLOCK, places.pointers * BLOCK
    record.reg[templates.JOURNAL_PAGE] = record.reg[templates.JOURNAL] = record.journal_at
    record.reg[templates.POINTERS] = record.pointers_at
    dead_zone = cpu_lists.DEAD_ZONE if counters else 0
    cpu_lists.attach(state, places.lists, places.list_blocks, aligned=counters, dead_zone=dead_zone)
    slab.attach(state)
    logs = file_row.add(state, files, FILE_WORDS)[:, LOG_BLOCK]
    logs[-1], logs[from_before] = places.logs, places.logs + 1 + np.arange(len(from_before))
    record.log_pages = 1 + len(from_before)
    return state


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `live_bytes` counts bytes in pages that have a block, not holes."""
    record = state.record[0]
    rows = file_row.of(state, FILE_WORDS)
    return file_row.space(
        rows,
        BLOCK,
        capacity=record.device_blocks * BLOCK,
        allocated=record.data_blocks * BLOCK,
        metadata=record.log_pages * BLOCK + file_row.existing(rows) * INODE_BYTES,
        log_pages=record.log_pages,
        largest_log_pages=record.largest_log,
        scanned_entries=record.scanned_entries,
        scanned_pages=record.scanned_pages,
        gc_copied_entries=record.copied_entries,
        thorough_gcs=record.thorough_gcs,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns of one row per file: object id, length, allocated and wasted bytes."""
    return file_row.by_file(file_row.of(state, FILE_WORDS), BLOCK)


def extents(state: State) -> np.ndarray:
    """Return the extents of all files; the write entry of each page gives its place (see `nova.data.locate`)."""
    shift, parts = int(state.record[0].entry_shift), []
    for file, row in x.data_rows(state, FILE_WORDS):
        refs = x.table_of(state, row, PAGES)
        page = np.flatnonzero(refs)
        at = (refs[page] >> 9) + PAGE_ENTRIES + 2 * ((refs[page] & 511) << 3 >> shift)
        places = (state.arena[at + 1] >> 24) + page - (state.arena[at] >> 24)
        parts.append(x.of_file(file, page, places * BLOCK, BLOCK))
    return x.gathered(parts)
