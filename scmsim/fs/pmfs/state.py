"""Keep PMFS's state: file rows, block maps, tree nodes and directory blocks inside the arena.

Units: offsets and lengths in bytes, device blocks of 4096 bytes.
Source: PMFS fs/pmfs/{pmfs_def.h,pmfs.h,journal.h}.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scmsim.alloc import aligned_fit, first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state
from scmsim.fs.pmfs import templates
from scmsim.fs.pmfs.templates import BLOCK, INODE_BYTES, JOURNAL_AT, SITES

# Fields of a file's row after those of `file_row`; one arena word each unless stated otherwise:
BLOCKS = file_row.OWN  # table (2 words): data block of the file -> device block
LEAVES = BLOCKS + 2  # table (2 words): index -> device block of a tree node of level 1
MIDS = BLOCKS + 4  # table (2 words): index -> device block of a tree node of level 2
OLD = BLOCKS + 6  # table (2 words): data block of the file -> device block that the current copy-on-write replaces
DIRBLOCKS = BLOCKS + 8  # table (2 words): index -> arena offset of a directory block
TOP = BLOCKS + 10  # device block of the tree node of level 3
HEIGHT = TOP + 1  # levels of tree nodes
BLOCK_COUNT = TOP + 2  # data blocks up to the last one with a device block
PARENT = TOP + 3  # row of the directory with the newest name
PLACE = TOP + 4  # arena offset of the directory block with the newest name
DIRCOUNT = TOP + 5  # directory blocks
DIRENTS = TOP + 6  # entries of a directory
KEPT = TOP + 7  # pages that the file keeps of the virtual superpage at KEPT_AT; 0: all pages of the superpage
KEPT_AT = TOP + 8  # the file's data block that is a partly kept superpage
ALIGNED = TOP + 9  # 1: WineFS keeps the file on aligned extents
FILE_WORDS = TOP + 10
UNNAMED = 1  # extra rows after the files' rows: one for a parent directory that the trace does not name

# Fields of a directory block, one arena word each:
DIR_RECORDS = 0  # number of records
DIR_BLOCK = 1  # device block
DIR_GAP = 2  # upper bound of the largest gap, bytes
DIR_FIRST = 4  # first record's field: bytes | bytes that its name needs << 16 | file number + 1 << 32 (0: free)
DIR_ORDER = 9  # arena order of a directory block
DOT, MOVING = (1 << 30) + 1, (1 << 30) + 2  # owners of "." and ".."; owner of a name whose file is being renamed

# Progress of the current operation.
NEW, ADOPTING, READY, ALLOCATING, COPYING, SWAPPING, DOUBLING, ENDING, EVICTING = range(9)
RANGES = 8  # logged ranges that a commit writes back again; later ranges are written back at once


FIELDS = [
    *HEADER,
    *first_fit.FIELDS,
    *aligned_fit.FIELDS,
    *file_row.FIELDS,
    ("shift", "i8"),  # log2 of the data block's bytes
    ("unit", "i8"),  # device blocks per data block
    ("cow", "i8"),  # 1: overwrites go to fresh blocks
    ("whole_edge", "i8"),  # 1: the original PMFS, which clears a whole new edge block
    ("stage", "i8"),  # of the current operation, see NEW
    ("resume_at", "i8"),  # data block, page or byte at which the operation resumes
    ("fresh_root", "i8"),  # this operation created the tree's root
    ("edges", "i8"),  # bit 0: the write's first block is new or replaced; bit 1: its last block
    ("replacing", "i8"),  # 1: existing blocks are replaced
    ("singles", "i8"),  # single blocks that the operation allocates besides data blocks and nodes
    # Per level: node whose slots the transaction has logged, + 1; negative: the transaction created the node.
    ("saved", "i8", (4,)),
    ("entries", "i8"),  # journal entries of the transaction
    ("uncleaned", "i8"),  # journal entries since the last run of the cleaner
    ("journal_blocks", "i8"),
    ("ranges", "i8", (RANGES, 2)),
    ("range_count", "i8"),
    ("closes", "i8"),
    ("directories_made", "i8"),  # number of rows up to which all directories from before the trace have been made
    ("inode_table", "i8"),
    ("data_blocks", "i8"),  # device blocks that hold data
    ("nodes", "i8"),  # tree nodes
    ("dir_blocks", "i8"),
    ("largest_height", "i8"),
    ("scanned_dirents", "i8"),
    ("zeroed_bytes", "i8"),
    ("cleanings", "i8"),
    ("chunk", "i8"),  # pages of one run of copies
    ("lookup", "i8"),  # log2 of the pages that one look-up finds
    ("header_loads", "i8"),  # bytes of inodes that a block look-up loads
    ("journal_at", "i8"),  # device offset of the journal
]
STATE = np.dtype((np.record, FIELDS))

CHUNK = 64  # pages of one run of copies
SMALLEST, LARGEST = 16 << 20, 1 << 50


def attach_first_fit(state: State, first: int, blocks: int, table: int, count: int) -> None:
    """Lay out the free blocks from `first` on, without the `count` blocks of the inode table at block `table`."""
    first_fit.attach(state, first, blocks, first_fit.AT_ONCE)
    first_fit.claim(state.record[0], state.arena, table, count)


class Variant(NamedTuple):
    """Parts of PMFS that a file system built on it extends or replaces."""

    templates: Callable[[bool], dict[int, list]]  # all templates of the file system, PMFS's included
    costs: np.ndarray  # all cost rows, PMFS's first
    dtype: np.dtype = STATE  # record with FIELDS and the variant's own fields
    tail_bytes: int = 0  # bytes that the variant reserves at the device's end
    journals: int = 1
    journal_at: int = JOURNAL_AT
    attach: Callable[[State, int, int, int, int], None] = attach_first_fit  # allocator


def start(params: dict, files: Files, *, shift: int, variant: Variant | None = None) -> State:
    """Return the state of an empty PMFS with data blocks of 2**`shift` bytes and a row for each file of the trace."""
    variant = variant or Variant(templates.templates, costs.load("pmfs-5.13", templates.COSTS, list(SITES)))
    smallest = max(SMALLEST, 2 << shift)
    if not smallest <= params["capacity"] <= LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} is out of range; give {format_bytes(smallest)} (the journal, the inode "
            "table and a data block) to 1PiB"
        )
    journals = params["journal"] * variant.journals
    if not 64 << 10 <= params["journal"] <= journals <= params["capacity"] // 4:
        raise UsageError(
            f"journal {format_bytes(params['journal'])} is out of range; give 64KiB to a quarter of the capacity"
        )
    rows = len(files) + 1  # the last row is a parent directory that the trace does not name
    blocks = (params["capacity"] - variant.tail_bytes) // BLOCK
    words = 16 + rows * FILE_WORDS + first_fit.arena_words(min(blocks, 2 * first_fit.AT_ONCE))
    state = new_state(variant.dtype, max(1 << 16, words + (1 << 14)), variant.costs)
    dax = params["version"] == "dax"
    load_templates(state, dict(sorted(variant.templates(dax).items())), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.shift, record.unit, record.cow = shift, 1 << (shift - 12), params["data_path"] == "cow"
    record.whole_edge, record.chunk = not dax, CHUNK
    if params.get("lookup") == "block":
        record.lookup, record.chunk = shift - 12, max(CHUNK, 512)
    record.journal_blocks = params["journal"] // BLOCK
    record.reg[templates.JOURNAL] = record.journal_at = variant.journal_at
    record.header_loads = templates.TABLE_LOADS
    # The inode table is the first block of 2 MiB (pmfs_init_inode_table); the blocks between it and the journal stay free.
    first = -(-(variant.journal_at + journals) // BLOCK)
    table, count = -(-first // 512) * 512, -(-rows * INODE_BYTES // (2 << 20)) * 512
    record.inode_table = table * BLOCK
    variant.attach(state, first, max(blocks, table + count + 1), table, count)
    _note_parents(files, file_row.add(state, files, FILE_WORDS), int(record.files))
    return state


def _note_parents(files: Files, rows: np.ndarray, at: int) -> None:
    """Store the parent of each directory from before the trace: the unnamed directory if the trace does not name it."""
    made = {files.path[i]: i for i in np.flatnonzero(files.is_dir & (files.first_size >= 0))}
    for path, i in made.items():
        parent = made.get(path.rpartition("/")[0], len(files))
        rows[i, PARENT] = at + (parent if parent != i else len(files)) * FILE_WORDS


def data_files(state: State) -> np.ndarray:
    """Return the rows of the existing files."""
    rows = file_row.of(state, FILE_WORDS)
    return rows[file_row.is_file(rows)]


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `live_bytes` counts bytes in existing blocks, not holes."""
    record = state.record[0]
    rows = file_row.of(state, FILE_WORDS)
    return file_row.space(
        rows,
        1 << int(record.shift),
        capacity=record.blocks * BLOCK,
        allocated=record.data_blocks * BLOCK,
        metadata=(record.nodes + record.dir_blocks) * BLOCK + file_row.existing(rows) * INODE_BYTES,
        tree_nodes=record.nodes,
        largest_tree_height=record.largest_height,
        directory_blocks=record.dir_blocks,
        scanned_dirents=record.scanned_dirents,
        journal_cleanings=record.cleanings,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns of one row per file: object id, length, allocated and wasted bytes."""
    return file_row.by_file(file_row.of(state, FILE_WORDS), 1 << int(state.record[0].shift))


def extents(state: State) -> np.ndarray:
    """Return the extents of all files, in whole data blocks."""
    return x.of_table(state, FILE_WORDS, BLOCKS, 1 << int(state.record[0].shift))
