"""State of Linux's file systems in the arena (file records, packed page words, metadata bitmaps, lists), and the space report.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes.  Sources: Linux
fs/ext4/{ext4.h,ext4_extents.h,mballoc.c}, include/linux/jbd2.h; mke2fs (e2fsprogs) for the layout that ext4 and ext2 share.
"""

from collections.abc import Mapping

import numpy as np

from scmsim.alloc import first_fit, mballoc
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State
from scmsim.fs.engine.space import space_columns, space_report
from scmsim.fs.linux import descriptors, mke2fs
from scmsim.fs.linux.templates import BLOCK, FRAMES

GROUP_BLOCKS, INODES_PER_BLOCK = mke2fs.GROUP_BLOCKS, mke2fs.INODES_PER_BLOCK
DESCRIPTORS_PER_BLOCK = 64  # 64-byte group descriptors
FLUSH_PAGES = 2048  # pages of one step of write-back (MAX_WRITEPAGES_EXTENT_LEN)
FLUSHER_PERIOD = 5 * 10**9  # dirty_writeback_centisecs = 500
ROOT_INODE, FIRST_INODE = 2, 12  # 11 is lost+found

# Fields of a file's record, one arena word each unless stated otherwise:
SIZE = 0  # bytes
PAGES = 1  # table (2 words): page -> packed word of the page
PAGE_COUNT = 3  # pages up to the last one with a packed word
MAPPED = 4  # pages with a block, allocated or promised
INODE = 5  # inode number
LINKS = 6  # names
OPENS = 7  # open descriptors
DIRTY = 8  # dirty pages
FIRST_DIRTY_PAGE = 9  # page; all pages before it are clean
DIRTY_SINCE_NS = 10  # ns: time when the file entered the queue of dirty files
OLDER = 11  # row of the file before this one in the queue of dirty files; -1 if none
NEWER = 12  # row of the file after this one in the queue of dirty files; -1 if none
TID = 13  # last transaction that changed the inode
DATA_TID = 14  # last transaction that an fdatasync must commit
STAMP = 15  # time stamp of the last write, see `transfer.time_stamp`; -1 if none
IS_DIR = 16  # 1: a directory
PREALLOCATIONS = 17  # arena offset of the preallocation used last, see `preallocation`; 0: none
LAST_GROUP = 18  # 1 + group in which a directory's newest file got its inode, see `orlov`; 0: none
EXTENTS = 19  # number of extents
LEAVES = 20  # table (2 words): index -> block of an extent leaf or of a pointer block
LEAF_COUNT = 22  # entries of LEAVES in use
PARENT = 23  # row of the directory with the newest name
FRESH = 24  # 1: no fsync has stored the file's entry yet
ENTRIES = 25  # bytes of a directory's entries
SLOT = 26  # place of the file's entry in its directory
SLOTS = 27  # places of a directory that are in use or left as gaps
LIVE = 28  # entries of a directory
FIRST_ENTRY_SLOT = 29  # lower bound of the places of a directory's entries
GAP = 30  # place of a directory's first gap
READ_STAMP = 31  # time stamp of the access time, in the unit of STAMP
RECORD_ORDER = 5

# Fields of a row of the file table, one arena word each:
ROW_RECORD = 0  # arena offset of the file's record; 0: the trace has not used the file yet
ROW_SIZE = 1  # bytes before the trace; -1 if the file did not exist, REMOVED if the file and its name are gone
ROW_NAME = 2  # bytes of the name
ROW_DIR = 3  # 1: a directory
ROW_WORDS = 4
REMOVED = -2

# A page's packed word: block << 28 | page-cache frame << 4 | flags; 0 = hole.  A dirty page without a block is allocated at
# write-back.
IS_DIRTY, IS_CACHED, IS_UNWRITTEN = 1, 2, 4
IS_TAIL = 8  # page cache: the page belongs to the same folio as the page before it
FRAME_SHIFT, FRAME_MASK = 4, (1 << 23) - 1  # frame numbers repeat after 32 GiB
IS_PROMISED = 1 << 27  # page cache: a fallocate gave an unwritten block to a dirty page that was promised one
ONE_FRAME = 1 << FRAME_SHIFT
BLOCK_SHIFT = 28
ONE_BLOCK = 1 << BLOCK_SHIFT
# Which bits of a page's packed word identify its place, and how a place maps to an address; see `key` in STATE.
DAX_PAGES = {"key": ~0, "key_step": ONE_BLOCK, "key_shift": BLOCK_SHIFT, "key_mask": (1 << 35) - 1, "key_base": 0}
CACHED_PAGES = {
    "key": FRAME_MASK << FRAME_SHIFT | IS_CACHED,
    "key_step": ONE_FRAME,
    "key_shift": FRAME_SHIFT,
    "key_mask": FRAME_MASK,
    "key_base": FRAMES,
}
SLICE_PAGES = 4096  # a read or write runs in slices of 16 MiB (DIO_MAX_BLOCKS, a handle of iomap)
SUPERBLOCK = 0
ENTRY_REMOVED, ENTRY_ADDED, ENTRY_RENAMED = 0, 1, 2  # changes of a directory entry
ROOM = 64  # events that each operation may need
HASH_FACTOR = 2654435761  # spreads a directory's entries over its leaves
LARGEST = 16 << 40  # bytes
MOST_PAGES = 0xFFFFFFFF  # page after the last one of any file (EXT_MAX_BLOCKS)

STATE = np.dtype(
    (
        np.record,
        [
            *HEADER,
            *first_fit.FIELDS,
            ("dax", "i8"),
            ("page_bits", "i8"),  # flags in the word of a page that gets a block
            ("now", "i8"),  # time of the current operation, ns
            ("needs_slow_path", "i8"),  # set when the fast path leaves something to the slow path
            ("slow_path_blocked", "i8"),  # set when the slow path needs a larger event buffer or arena
            ("want_checkpoint", "i8"),  # set when the log has no room for the running transaction
            ("new_pages", "i8"),  # pages that entered the cache in this slice
            ("new_pointers", "i8"),  # pointer blocks that the last allocation added to a file
            ("changed", "i8"),  # extents changed in this slice or step of write-back
            ("reading", "i8"),  # 1: the current operation is a read
            ("relatime", "i8"),  # the first read after a change sets the access time
            ("pages_dirtied", "i8"),  # pages that became dirty in this slice
            ("settled", "i8"),  # set once the kernel's threads have run before the current operation
            ("progress", "i8"),  # bytes of the current read or write that are already transferred
            # Pages form one run if their words, masked by `key`, count up by `key_step`; a page's address is
            # key_base + 4096 * (word >> key_shift & key_mask): in persistent memory with DAX, else in the page cache.
            ("key", "i8"),
            ("key_step", "i8"),
            ("key_shift", "i8"),
            ("key_mask", "i8"),
            ("key_base", "i8"),
            ("rows", "i8"),  # arena offset of the file table
            ("row_count", "i8"),  # rows of the file table; the last is the root directory's
            ("reserved", "i8"),  # blocks promised to dirty pages that have none yet (delayed allocation)
            ("frame", "i8"),  # next page-cache frame
            ("folio_order", "i8"),  # log2 of the pages of the largest folio that a write allocates
            # set if a file that grows gets its last block cleared (DAX: xfs_zero_range; from Linux 7.3 on, ext4_block_zero_eof)
            ("clears_end", "i8"),
            ("stops_at_end", "i8"),  # set if a write visits no buffer after its last byte (from Linux 7.3 on)
            ("whole", "i8"),  # memory: the pages of the current operation may be allocated as huge pages
            ("huge", "i8"),  # memory: which pieces of 2 MiB may become huge pages (fs/tmpfs/state.py: HUGE)
            ("advice", "i8"),  # memory: advice of the mapping of the current fault (fs/mapping/words.py)
            ("by_page", "i8"),  # memory: fallocate and truncation go page by page even in huge pages
            # set if a punched hole never extends past the file's last page, and its look-up is remembered (from Linux 6.12.118 on)
            ("exact_holes", "i8"),
            # set if a hole that ends at the file's size frees the file's last page (Linux 7.3)
            ("frees_last_page", "i8"),
            # set if write-back's request for blocks ends with its folio if it follows another request in this folio (Linux 7.3)
            ("maps_by_folio", "i8"),
            ("windowed", "i8"),  # unused blocks of all preallocations
            # last page of the current request before it was shortened to fit the device; -1 if it was not shortened
            ("uncut_page", "i8"),
            ("last_page", "i8"),  # last page of the current write if its block requests go past the slice; else 0
            ("fixed_blocks", "i8"),  # blocks that mke2fs uses
            ("group_count", "i8"),
            ("flex_shift", "i8"),  # log2 of the groups of a flex group, whose metadata is in its first group
            ("backup_blocks", "i8"),  # blocks of a superblock and its group descriptors
            ("inode_blocks", "i8"),  # blocks of a group's inode table
            ("group_inodes", "i8"),
            ("inode_count", "i8"),
            ("journal_at", "i8"),  # first block of the journal
            ("journal_blocks", "i8"),
            # Blocks that the running transaction stores in the log (without a journal: dirty blocks, stored in place):
            ("txn_length", "i8"),  # entries of the list of these blocks
            ("txn_blocks", "i8"),  # number of these blocks
            ("txn_since", "i8"),  # ns: time of the first of these blocks
            ("txn_limit", "i8"),  # number of entries above which the transaction must be committed
            ("tid", "i8"),  # number of the running transaction
            ("checkpoint_blocks", "i8"),  # logged blocks not yet written in place
            ("checkpoint_since", "i8"),  # ns: time of the commit that logged the first of these blocks
            ("oldest", "i8"),  # row of the first file in the queue of dirty files; -1 if none
            ("newest", "i8"),  # row of the last file in this queue; -1 if none
            ("next_tick", "i8"),  # ns: time of the next periodic write-back
            ("commit_interval", "i8"),  # ns
            ("dirty_expire", "i8"),  # ns: age from which dirty data is written back
            ("timestamp_tick", "i8"),  # ns: clock tick of the files' times; 0 if the clock has no ticks
            ("stamped_at", "i8"),  # ns: time of the last operation that compared file times
            ("free_inodes", "i8"),  # stack of freed inode numbers
            ("free_inode_count", "i8"),
            ("next_inode", "i8"),
            ("closes", "i8"),  # close operations seen
            ("data_blocks", "i8"),
            ("meta_blocks", "i8"),  # directory blocks and extent leaves
            ("commits", "i8"),
            ("ignored", "i8"),
        ],
    )
)

# Additional fields of file systems with metadata blocks on a device, as `build` sets them.
ON_DEVICE = np.dtype(
    (
        np.record,
        [
            *STATE.descr,
            *mballoc.FIELDS,
            *descriptors.FIELDS,
            ("kept_blocks", "i8"),  # free blocks that only index blocks may take (s_resv_clusters)
            ("lent", "i8"),  # kept blocks that the operation `lent_to` may take for data
            ("lent_to", "i8"),  # number of that operation, see `seen`
            ("locality_lists", "i8"),  # arena offset of the lists of the locality group's preallocations
            ("joined", "i8"),  # bitmap over all blocks: in the running transaction (no journal: dirty)
            # bitmap over all blocks: committed to the log, not yet written in place (no journal: in the list `txn`)
            ("logged", "i8"),
            # list of the running transaction's blocks; `txn_blocks` does not count stale entries, whose bit in `joined` is clear
            ("txn", "i8"),
            ("revokes", "i8"),
        ],
    )
)

PREALLOCATION_ORDER = 3  # log2 of the words of a preallocation, see `preallocation`
LOCALITY_LISTS = 10  # lists of the locality group's preallocations (PREALLOC_TB_SIZE)
INODE_OBJECT = 1088  # bytes of an ext4_inode_info in its slab
LARGEST_FOLIO = 9  # log2 of pages: 2 MiB (MAX_PAGECACHE_ORDER)


def largest_folio(params: Mapping[str, int], by_default: bool) -> int:
    """Return log2 of the pages of the largest folio that a write allocates, from the parameter `folios`.

    `by_default`: the kernel's page cache has large folios if the parameter is "kernel".
    """
    folios = params.get("folios")
    return LARGEST_FOLIO if folios == "always" or (by_default and folios != "never") else 0


def check_capacity(capacity: int) -> None:
    """Raise UsageError for a device (bytes) that is too large for the models."""
    if capacity > LARGEST:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is too large for the ext4 models, which keep three bits per block; "
            f"give {format_bytes(LARGEST)} or less"
        )


def known_folders(files: Files) -> list[int]:
    """Return the table rows of the directories that existed before the trace, the root's first."""
    return [len(files), *np.flatnonzero(files.is_dir & (files.first_size >= 0)).tolist()]


def lay_out(state: State, files: Files, lists: dict[str, int], fields: dict[str, int]) -> None:
    """Place the file table and `lists` (name -> arena words) in the arena, set `fields` of the state record, fill the table."""
    record, rows = state.record[0], len(files) + 1
    for name, count in {"rows": rows * ROW_WORDS, **lists}.items():
        record[name] = record.arena_top
        record.arena_top += count
    for name, value in ({"row_count": rows, "oldest": -1, "newest": -1, "uncut_page": -1} | fields).items():
        record[name] = value
    table = file_table(state)
    table[:-1, ROW_SIZE], table[:-1, ROW_DIR], table[-1, ROW_DIR] = files.first_size, files.is_dir, 1
    table[:-1, ROW_NAME] = [len(path.rpartition("/")[2].encode()) for path in files.path]


def file_table(state: State) -> np.ndarray:
    """Return the file table as a view with one row per file; the last row is the root directory's."""
    record = state.record[0]
    return state.arena[record.rows : record.rows + record.row_count * ROW_WORDS].reshape(-1, ROW_WORDS)


def add_folder(state: State, row: int, inode: int) -> int:
    """Create the record of a directory that existed before the trace; return its arena offset."""
    record, arena = state.record[0], state.arena
    f = int(record.arena_top)
    record.arena_top += 1 << RECORD_ORDER
    arena[record.rows + row * ROW_WORDS] = f
    arena[f + IS_DIR], arena[f + LINKS], arena[f + STAMP], arena[f + INODE] = 1, 1, -1, inode
    arena[f + PARENT] = record.rows + (record.row_count - 1) * ROW_WORDS
    return f


def known_files(state: State) -> tuple[np.ndarray, np.ndarray]:
    """Return the object ids and record offsets of the files that have a record; directories are left out."""
    at = file_table(state)[:, ROW_RECORD]
    file = np.flatnonzero((at > 0) & (state.arena[at + IS_DIR] == 0))
    return file, at[file]


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `live_bytes` counts bytes in pages with an allocated or reserved block, not holes."""
    record, arena = state.record[0], state.arena
    _, at = known_files(state)
    allocated = int(record.data_blocks + record.reserved)
    return space_report(
        arena[at + SIZE],
        arena[at + MAPPED],
        BLOCK,
        capacity=record.blocks * BLOCK,
        allocated=allocated * BLOCK,
        metadata=(record.fixed_blocks + record.meta_blocks) * BLOCK,
        journal_bytes=record.journal_blocks * BLOCK,
        preallocated_bytes=record.windowed * BLOCK,
        promised_bytes=record.reserved * BLOCK,
        page_count=allocated,
        dirty_bytes=arena[at + DIRTY].sum() * BLOCK,
        uncommitted_bytes=record.txn_blocks * BLOCK,
        commits=record.commits,
        ignored_operations=record.ignored,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns with one row per file: object id, length, allocated and wasted bytes."""
    file, at = known_files(state)
    return space_columns(file, state.arena[at + SIZE], state.arena[at + MAPPED], BLOCK)


def extents(state: State) -> np.ndarray:
    """Return the extents of all files; dirty pages without an allocated block are left out."""
    parts = []
    for file, at in zip(*known_files(state), strict=True):
        pages = int(state.arena[at + PAGES])
        words = state.arena[pages : pages + int(state.arena[at + PAGE_COUNT])] if pages else state.arena[:0]
        page = np.flatnonzero(words >> BLOCK_SHIFT)
        words = words[page]
        parts.append(x.of_file(file, page, words >> BLOCK_SHIFT << 12, BLOCK, words & IS_UNWRITTEN != 0))
    return x.gathered(parts)
