"""State of DaxFS: file rows with the pages of each file, the bitmap of used buckets, the pool's end; its space report.

Units: offsets and lengths in bytes, pages of 4 KiB.
Source: include/daxfs_format.h (struct daxfs_super, daxfs_overlay_header, daxfs_overlay_bucket), tools/mkdaxfs.c
(write_empty_image): a superblock, a header, the buckets, then a pool from which all entries and pages come.
"""

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.daxfs import templates as t
from scmsim.fs.engine import costs, file_row, table
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state

# A file's row after the fields of `file_row`, one word each unless said otherwise; MAPPED counts its pages.
PAGES = file_row.OWN  # table (2 words): page -> word with the bits that are defined below
INO = PAGES + 2  # inode number; 0 if none yet
ENTRY = PAGES + 3  # device offset of its inode entry + 1; 0 if none
ENTRY_DISTANCE = PAGES + 4  # buckets between the home of the inode's key and its bucket
DIRENT = PAGES + 5  # device offset of the directory entry that names it + 1; 0 if none
LIST = PAGES + 6  # of a directory: device offset of the head of its list of entries + 1; 0 if none
LIST_DISTANCE = PAGES + 7
LISTED = PAGES + 8  # of a directory: number of entries on its list, including tombstones
NAMED = PAGES + 9  # first row with the path that names this file now; -1 if the trace does not have that path
OF_NAME = PAGES + 10  # of the first row with a path: device offset of that name's entry + 1; 0 if none
NAME_DISTANCE = PAGES + 11
PATH = PAGES + 12  # first row with the path that the file is created with
FILE_WORDS = PAGES + 13
UNNAMED = 1  # number of extra rows after the files' rows: one for a parent directory that the trace does not name

# A value of the table PAGES: page of the pool + 1, then flags and the distance of the key's bucket from its home bucket.
PLACE = (1 << 33) - 1
KEYED = 1 << 33  # the table has a bucket for its key
CACHED = 1 << 34  # the kernel's own map of the inode (ovl_pages) has the page
DISTANCE = 35
MOST_DISTANCE = (1 << 27) - 1

# Progress of the current operation.
NEW, READY, COPYING, ENDING, EVICTING = range(5)
LARGEST = 16 << 40
MOST_BUCKETS = 1 << 31  # overlay_bucket_count has 32 bits
LAST_PAGE = 0xFFFFD  # DAXFS_OVL_MAX_PGOFF

FIELDS = [
    *HEADER,
    *file_row.FIELDS,
    ("stage", "i8"),  # stage of the current operation, NEW to EVICTING
    ("resume_at", "i8"),  # byte or page at which the operation resumes
    ("closes", "i8"),
    ("filled", "i8"),  # 1: gaps = filled
    ("used", "i8"),  # arena offset of the bitmap of used buckets
    ("bucket_count", "i8"),
    ("entries", "i8"),  # used buckets
    ("pool_at", "i8"),  # device offset of the pool
    ("pool_size", "i8"),
    ("pool_alloc", "i8"),  # allocated bytes of the pool, all at its start (bump allocator)
    ("stack", "i8"),  # arena offset of the handle of the table of freed pages
    ("freed", "i8"),  # pages on the free list
    ("spare_at", "i8"),  # gaps = filled: device offset in a freed page that entries use when the pool's end is reached
    ("spare_left", "i8"),  # bytes left in that page
    ("free_blocks", "i8"),  # pages that can still be allocated
    ("next_ino", "i8"),
    ("unknown_names", "i8"),  # names that the trace does not have
    ("data_pages", "i8"),  # pages of files, including those of unlinked files
    ("lost_pages", "i8"),  # pages in data_pages that belong to unlinked files: DaxFS never frees them
    ("refused_calls", "i8"),  # fallocates and links
    ("too_far", "i8"),  # calls that request pages beyond the last page that a file can have
    ("cut_reads", "i8"),  # reads that ended at a hole
]
STATE = np.dtype((np.record, FIELDS))


def start(params: dict, files: Files) -> State:
    """Return the state of an empty DaxFS (mkdaxfs --empty) of `params["capacity"]` bytes that knows the trace's `files`."""
    capacity, buckets = params["capacity"], _buckets(params["capacity"], params["buckets"])
    pool_at = t.TABLE + -(-buckets * t.BUCKET // t.PAGE) * t.PAGE
    if capacity > LARGEST or capacity < pool_at + 4 * t.PAGE:
        least = format_bytes(pool_at + 4 * t.PAGE)
        raise UsageError(
            f"capacity {format_bytes(capacity)} is out of range; give {least} (two pages, {buckets} buckets, a small file) to 16TiB"
        )
    words = 64 + (len(files) + 1) * FILE_WORDS + buckets // 64
    state = new_state(STATE, max(1 << 14, 2 * words), costs.load("daxfs", t.COSTS, list(t.SITES)))
    load_templates(state, t.templates(), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.filled = params["gaps"] == "filled"
    record.bucket_count, record.pool_at, record.pool_size = buckets, pool_at, capacity - pool_at
    record.used, record.stack = record.arena_top, record.arena_top + buckets // 64
    record.arena_top += buckets // 64 + table.HANDLE_WORDS
    rows = file_row.add(state, files, FILE_WORDS)
    first: dict[str, int] = {}
    rows[: len(files), PATH] = [first.setdefault(path, row) for row, path in enumerate(files.path)]
    rows[: len(files), NAMED] = rows[: len(files), PATH]
    # write_empty_image: the root directory has inode 1, whose entry is the first of the pool
    rows[len(files), INO], rows[len(files), ENTRY], record.next_ino = 1, pool_at + 1, 2
    record.pool_alloc, record.entries = t.INODE_BYTES, 1
    home = (1 << 20) + 0xFFFFF & buckets - 1
    state.arena[record.used + (home >> 6)] = np.int64(1) << (home & 63)
    record.free_blocks = record.pool_size // t.PAGE - 1
    return state


def _buckets(capacity: int, asked: int) -> int:
    """Return the number of buckets of the hash table; raise UsageError if mkdaxfs refuses the number `asked`."""
    if asked == 0:
        return min(1 << max((4 * capacity // t.PAGE - 1).bit_length(), 6), MOST_BUCKETS)
    if asked < 64 or asked & (asked - 1) or asked > MOST_BUCKETS:
        raise UsageError(f"buckets = {asked} is not allowed; give a power of two from 64 to {MOST_BUCKETS}, or 0")
    return asked


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `unreachable_bytes` counts the pages of unlinked files, which nothing frees.

    Entries of files and names, and the bytes that their alignment leaves unused, are metadata.
    """
    record, rows = state.record[0], file_row.of(state, FILE_WORDS)
    files = rows[file_row.is_file(rows)]
    pages = record.data_pages + record.freed
    return file_row.space(
        rows,
        t.PAGE,
        capacity=record.pool_at + record.pool_size,
        allocated=(record.data_pages - record.lost_pages) * t.PAGE,
        metadata=record.pool_at + record.pool_alloc - pages * t.PAGE,
        waste_bytes=np.maximum(files[:, file_row.MAPPED] * t.PAGE - files[:, file_row.SIZE], 0).sum(),
        free_bytes=record.free_blocks * t.PAGE,
        unreachable_bytes=record.lost_pages * t.PAGE,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns of one row per file: object id, length, allocated and wasted bytes."""
    columns = file_row.by_file(file_row.of(state, FILE_WORDS), t.PAGE)
    return columns | {"waste_bytes": np.maximum(columns["allocated_bytes"] - columns["file_bytes"], 0)}


def extents(state: State) -> np.ndarray:
    """Return the extents of all files, in whole pages, then those of free pages."""
    parts = []
    for file, row in x.data_rows(state, FILE_WORDS):
        pages = x.table_of(state, row, PAGES) & PLACE
        held = np.flatnonzero(pages)
        parts.append(x.of_file(file, held, int(state.record[0].pool_at) + (pages[held] - 1) * t.PAGE, t.PAGE))
    return x.gathered([*parts, _free(state)])


def _free(state: State) -> np.ndarray:
    """Return the extents of the free pages: pages on the free list, and all pages after the allocated part of the pool."""
    record = state.record[0]
    freed = np.sort(x.table_of(state, state.arena, int(record.stack))[: int(record.freed)])
    ahead = int(record.free_blocks) - len(freed)
    found = x.of_file(x.FREE, freed, int(record.pool_at) + freed * t.PAGE, t.PAGE)
    after = np.zeros(int(ahead > 0), x.EXTENT)
    after["file"] = x.FREE
    after["physical"] = int(record.pool_at + record.pool_size) // t.PAGE * t.PAGE - ahead * t.PAGE
    after["length"] = ahead * t.PAGE
    found["logical"] = 0
    return np.concatenate([found, after])


def remarks(state: State) -> list[str]:
    """Return remarks on the calls that DaxFS refuses or cuts short."""
    record, lines = state.record[0], []
    fill = "; --set daxfs.gaps=filled replays what doing so would cost"
    if count := int(record.refused_calls):
        lines.append(f"refused fallocates and links: {count:,}; DaxFS has neither{fill}")
    if count := int(record.too_far):
        lines.append(
            f"calls beyond 4 GiB of a file, refused as if the device were full: {count:,}; DaxFS has 20 bits for a page{fill}"
        )
    if count := int(record.cut_reads):
        lines.append(f"reads that ended at a hole: {count:,}; DaxFS returns the bytes before it{fill}")
    if count := int(record.lost_pages):
        lines.append(f"pages of unlinked files: {count:,}; DaxFS frees no page, so the device fills up{fill}")
    return lines
