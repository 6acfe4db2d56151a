"""NOVA's state: per-file rows, log pages and write entries inside the arena.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes.  Sources: NOVA (Linux 5.1 lineage) fs/nova/{log.h,inode.h,
nova_def.h,journal.h}; FAST'16 NOVA nova.h, nova_def.h (40-byte entries, no page counters).
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.errors import UsageError
from scmsim.fs.parts import costs
from scmsim.fs.parts import nova_recipes as q
from scmsim.fs.parts.emit import HEADER, State, load_recipes, new_state
from scmsim.fs.parts.nova_recipes import BLOCK, LOG_BYTES, SITES
from scmsim.records import Files

# Words of a file's row in the arena; PAGES and LOG are tables (page -> write entry, index -> log page).
# LOG_SIZE is NOVA's own count of log pages (sih->log_pages): thorough GC adds the pages it asked for, not those it used, so it
# may lie above LOG_COUNT.  It sets the size of an extension.
SIZE, PAGES, LOG, LOG_COUNT, TAIL_PAGE, TAIL_BYTES, STATUS, TOP_PAGE, LINKS, NAME, LINK_ENTRY, FIRST, DENTRY_PAGE, LOG_SIZE = (
    0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
)  # fmt: skip
FILE_WORDS = 16
EXISTS, IS_DIR = 1, 2  # STATUS bits

# A log page in the arena: its block, its counters (entries | invalid << 32), then two words for each write entry:
# pgoff << 24 | pages, and block << 24 | reassigned << 23 | invalid pages.  `ref` names a write entry: arena offset of its log
# page << 8 | slot.
PAGE_BLOCK, PAGE_COUNTS, PAGE_ENTRIES = 0, 1, 2
REASSIGNED = 1 << 23
COUNT_MASK = (1 << 23) - 1
PAGES_MASK = (1 << 24) - 1
ENTRIES_MASK = (1 << 32) - 1
INVALID_ONE = 1 << 32
PLAIN_ENTRY = 1  # first word of an entry that maps no data (dentry, link change, setattr)

STATE = np.dtype(
    (
        np.record,
        [
            *HEADER,
            *first_fit.FIELDS,
            ("files", "i8"),  # arena offset of the file rows
            ("file_count", "i8"),
            ("inplace", "i8"),  # 1: data is overwritten in place
            ("counters", "i8"),  # 1: log pages keep entry counters (5.1 lineage), 0: FAST'16
            ("entry_bytes", "i8"),
            ("slots", "i8"),  # write entries a log page
            ("page_order", "i8"),  # arena order of a log page
            ("dentry_header", "i8"),
            ("inode_table", "i8"),  # device offset of the inode table
            ("gc_tail", "i8"),  # log pages before this one are due for thorough GC
            ("gc_blocks", "i8"),  # fresh pages that it asks for
            ("scanned_entries", "i8"),  # entries checked by log scans since the start
            ("scanned_pages", "i8"),
            ("copied_entries", "i8"),
            ("thorough_gcs", "i8"),
            ("log_pages", "i8"),  # log pages held by all files
            ("data_blocks", "i8"),
            ("largest_log", "i8"),  # most pages that one file's log ever had
        ],
    )
)

SMALLEST = 4 << 20
INODE_TABLE = 2 << 20
INODE_BYTES = 128
HEAP = 1 << 40  # KERNEL addresses: radix nodes, one slab area of 64 MiB per file
NODE_BYTES = 576


def start(params: dict[str, int], files: Files, *, inplace: bool, counters: bool, cost_table: str) -> State:
    """State of an empty NOVA of `params["capacity"]` bytes that knows the trace's `files`."""
    if params["capacity"] < SMALLEST:
        raise UsageError(f"capacity {params['capacity']} is too small; NOVA's inode table and a file need 4MiB or more")
    rows = len(files) + 1  # the last row stands for a parent directory that the trace does not name
    blocks = params["capacity"] // BLOCK
    words = 16 + rows * FILE_WORDS + first_fit.arena_words(blocks)
    state = new_state(STATE, max(1 << 16, words + (1 << 14)), costs.load(cost_table, q.COSTS, list(SITES)))
    if not params.get("tick", 1):
        state.record.cost[0, q.COSTS.index("timer_tick"), :3] = 0
    fence = bool(params.get("inode_fence", 0))
    recipes = q.data_recipes(inplace, counters, fence) | q.log_recipes(counters) | q.name_recipes(counters, fence)
    load_recipes(state, dict(sorted(recipes.items())), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.inplace, record.counters, record.entry_bytes = inplace, counters, 64 if counters else 40
    record.slots = LOG_BYTES // record.entry_bytes
    record.page_order = (PAGE_ENTRIES + 2 * int(record.slots) - 1).bit_length()
    record.dentry_header = 49 if counters else 29  # with the name's closing zero (5.1 lineage)
    record.inode_table = INODE_TABLE
    record.reg[q.JOURNAL] = q.JOURNAL_PAGE
    reserved = (INODE_TABLE + -(-rows * INODE_BYTES // (2 << 20)) * (2 << 20)) // BLOCK
    first_fit.attach(state, reserved, max(blocks, reserved + 1))
    record.files, record.file_count = record.arena_top, rows
    record.arena_top += rows * FILE_WORDS
    table = state.arena[record.files : record.arena_top].reshape(rows, FILE_WORDS)
    table[:-1, NAME] = [len(path.rsplit("/", 1)[-1].encode()) for path in files.path]
    table[-1, STATUS] = EXISTS | IS_DIR
    table[:-1, STATUS] = np.where(files.is_dir, IS_DIR, 0)
    table[:-1, FIRST] = np.maximum(files.first_size + 1, 0)  # 0: did not exist before the trace
    return state


def space(state: State) -> dict[str, int]:
    """Space report in bytes: live file bytes, allocated data, metadata (logs, inodes), waste by partly filled pages."""
    record = state.record[0]
    rows = state.arena[record.files : record.files + record.file_count * FILE_WORDS].reshape(-1, FILE_WORDS)
    files = rows[(rows[:, STATUS] & (EXISTS | IS_DIR)) == EXISTS]
    sizes = files[:, SIZE]
    return {
        "capacity_bytes": int(record.blocks) * BLOCK,
        "live_bytes": int(sizes.sum()),
        "allocated_bytes": int(record.data_blocks) * BLOCK,
        "metadata_bytes": int(record.log_pages) * BLOCK + int((rows[:, STATUS] & EXISTS).sum()) * INODE_BYTES,
        "waste_bytes": int((-sizes % BLOCK).sum()),
        "files": len(files),
        "log_pages": int(record.log_pages),
        "largest_log_pages": int(record.largest_log),
        "scanned_entries": int(record.scanned_entries),
        "scanned_pages": int(record.scanned_pages),
        "gc_copied_entries": int(record.copied_entries),
        "thorough_gcs": int(record.thorough_gcs),
    }
