"""Keep the state of the SCM manager, FAT and ext2: rows of files, units, directories, dirty lists, the NFTL, device layout.

Units: bytes; a *unit* is the allocation unit of files: a 512-byte data object, a FAT cluster of one sector, an ext2
block of 1 KiB.
Source: SCM manager paper, sections 4.1 and 4.2; Linux 2.6.24 fs/fat, fs/ext2; mkdosfs and mke2fs for devices of 64 MiB.
"""

import numpy as np

from scmsim.alloc import buddy, first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state
from scmsim.fs.engine.space import space_report
from scmsim.fs.scm_manager import templates

# A file's row after the fields of `file_row`, one word each unless said otherwise:
BLOCKS = file_row.OWN  # table (2 words): unit of the file -> device offset / 32 << 2 | CACHED | DIRTY
SLOTS = BLOCKS + 2  # table (2 words): entry of a directory -> row of its owner + 1; FAT: see nftl.py
LEAVES = BLOCKS + 4  # table (2 words): index -> indirect block of ext2, encoded like BLOCKS
UPPERS = BLOCKS + 6  # table (2 words): index -> block of pointers to those in LEAVES, encoded like BLOCKS
UNIT_COUNT = BLOCKS + 8  # units up to the last one
PARENT = UNIT_COUNT + 1  # row of the directory with the newest name
SLOT = UNIT_COUNT + 2  # entry of the newest name in that directory, -1: none
NAMES = UNIT_COUNT + 3  # names in a directory
TOP = UNIT_COUNT + 4  # entries of a directory up to the last one in use
GAP = UNIT_COUNT + 5  # entry of a directory; none before it is free
META = UNIT_COUNT + 6  # device offset of the metadata object, 0: none
SHORT = UNIT_COUNT + 7  # order + 1 of the file's only unit, a memory object smaller than a unit; 0: whole units
CURSOR = UNIT_COUNT + 8  # unit that was used last, where a search of the chain may begin
DIRTY_UNITS = UNIT_COUNT + 9  # number of dirty units
FIRST_DIRTY_UNIT = UNIT_COUNT + 10  # unit; none before it is dirty
DIRTY_SINCE_NS = UNIT_COUNT + 11  # ns: time when the row entered the list of dirty rows
NEXT = UNIT_COUNT + 12  # next row in the list of dirty rows, 0: none
PREVIOUS = UNIT_COUNT + 13  # row before this one in the list of dirty rows, 0: none
FILE_WORDS = UNIT_COUNT + 14
UNNAMED = 3  # number of extra rows after the files' rows: unnamed parent directory, FAT or bitmaps, inode table
MEMORY, SYSTEM = 4, 8  # STATUS bits: the row is (also) a memory object; FAT, bitmaps or inode table
DIRTY, CACHED = 1, 2  # bits of a unit
PLACE_SHIFT = 5  # log2 of the bytes in which a unit's device offset is counted

# Progress of the current operation.
NEW, READY, EXTENDING, CLEARING, COPYING, FREEING, ENDING, EVICTING, FLUSHING = range(9)

STATE = np.dtype(
    (
        np.record,
        [
            *HEADER,
            *first_fit.FIELDS,
            *buddy.FIELDS,
            *file_row.FIELDS,
            ("nobody", "i8"),  # row of a parent directory that the trace does not name
            ("table", "i8"),  # row of the FAT, or of ext2's bitmaps
            ("inodes", "i8"),  # row of ext2's inode table
            ("shift", "i8"),  # log2 of a unit's bytes
            ("entry", "i8"),  # bytes of a directory entry
            ("inode", "i8"),  # bytes of metadata per file in addition to its entry
            ("capacity", "i8"),
            ("table_at", "i8"),  # device offset of the chain table, FAT or bitmaps
            ("table_bytes", "i8"),
            ("mirror", "i8"),  # bytes from the first FAT to the second one; 0: there is no second one
            ("inodes_at", "i8"),
            ("first_objects", "i8"),  # units that a create allocates
            ("synchronous", "i8"),  # 1: mounted with -o sync
            ("cold", "i8"),  # 1: reads leave nothing in the page cache
            ("longest", "i8"),  # maximum number of units of one run
            ("most_written", "i8"),  # maximum number of units of one run of a write-back
            ("replacements", "i8"),  # maximum number of units that may replace an erase unit
            ("spare", "i8"),  # unused erase units
            ("fold_cursor", "i8"),  # erase unit at which the search for a chain to fold continues
            ("stage", "i8"),
            ("resume_at", "i8"),
            ("flushed", "i8"),  # rows that the current fsync has written back
            ("directory", "i8"),  # row of the directory of the operation's file
            ("silent", "i8"),  # 1: a file from before the trace is being created
            ("head", "i8"),  # rows with dirty units, oldest first
            ("tail", "i8"),
            ("now", "i8"),  # ns
            ("closes", "i8"),
            ("page_reads", "i8"),
            ("page_programs", "i8"),
            ("erases", "i8"),
            ("folds", "i8"),
            ("moved_bytes", "i8"),  # bytes copied by conversions
        ],
    )
)

SMALLEST, LARGEST = 2 << 20, 1 << 50


def up(count: int, unit: int) -> int:
    """Return `count`, rounded up to a multiple of `unit`."""
    return -(-count // unit) * unit


def build(
    params: dict, files: Files, table: str, made: dict[int, list], *, shift: int, entry: int, inode: int
) -> State:
    """Return the state of a file system with a row per file of the trace; its areas on the device are not laid out yet.

    `table` names the cost table, `made` has the templates. A unit has 2**`shift` bytes, a directory entry `entry` bytes,
    and a file has `inode` bytes of metadata in addition to its entry.
    """
    rows = len(files) + UNNAMED
    areas = sum(params.get(name, 0) for name in ("boot", "mm", "fs"))
    least = areas + SMALLEST + 256 * rows
    if not least <= params["capacity"] <= LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} is out of range; give {format_bytes(least)} (the driver's areas and the "
            "tables) to 1PiB"
        )
    words = 64 + rows * FILE_WORDS + 2 * first_fit.arena_words(1 << 18) + buddy.arena_words(buddy.AT_ONCE)
    state = new_state(STATE, max(1 << 16, words + (1 << 14)), costs.load(table, templates.COSTS, list(templates.SITES)))
    load_templates(state, dict(sorted(made.items())), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.shift, record.entry, record.inode = shift, entry, inode
    record.capacity = params["capacity"] // templates.SECTOR * templates.SECTOR
    record.table_at = up(areas, 1 << shift)
    record.synchronous, record.cold = params.get("mount") == "sync", params.get("page_cache") == "cold"
    record.longest = record.most_written = 64
    known = len(files)
    file_row.add(state, files, FILE_WORDS, UNNAMED)[known + 1 :, file_row.STATUS] = SYSTEM
    record.nobody, record.table, record.inodes = (int(record.files) + (known + i) * FILE_WORDS for i in range(3))
    return state


def add_blocks(state: State, origin: int, end: int) -> None:
    """Divide the bytes [origin, end) of the device into blocks of one unit for first-fit allocation."""
    record = state.record[0]
    record.origin = origin
    first_fit.attach(state, 0, (end - origin) >> int(record.shift), 1 << 18)


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes.

    Units beyond a file's end count as `preallocated_bytes`, memory objects as allocated.
    """
    record = state.record[0]
    unit = 1 << int(record.shift)
    rows = file_row.of(state, FILE_WORDS)
    status, sizes, mapped = rows[:, file_row.STATUS], rows[:, file_row.SIZE], rows[:, file_row.MAPPED]
    is_file, is_dir = file_row.is_file(rows), (status & file_row.IS_DIR) != 0
    is_object = (status & (file_row.EXISTS | MEMORY)) == MEMORY
    used = is_file | is_object
    short = np.where(rows[:, SHORT] > 0, unit - (1 << np.maximum(rows[:, SHORT] - 1 + PLACE_SHIFT, 0)), 0)
    wanted = np.minimum(mapped, -(-sizes // unit))
    return space_report(
        sizes[used],
        mapped[used],
        unit,
        capacity=record.capacity,
        allocated=(wanted * unit - short)[used].sum(),
        metadata=(mapped * unit)[is_dir].sum() + record.table_bytes + record.mirror + record.inode * is_file.sum(),
        file_bytes=sizes[is_file].sum(),
        waste_bytes=(-sizes % unit - short)[used & (mapped > 0)].sum(),
        files=is_file.sum(),
        preallocated_bytes=((mapped - wanted) * unit)[used].sum(),
        memory_objects=is_object.sum(),
        memory_object_bytes=sizes[is_object].sum(),
        moved_bytes=record.moved_bytes,
        dirty_bytes=rows[:, DIRTY_UNITS].sum() * unit,
        nand_page_reads=record.page_reads,
        nand_page_programs=record.page_programs,
        nand_erases=record.erases,
        nand_folds=record.folds,
    )


def extents(state: State) -> np.ndarray:
    """Return the extents of all files and memory objects; the only unit of a small memory object is shorter."""
    unit, parts = 1 << int(state.record[0].shift), []
    for file, row in x.data_rows(state, FILE_WORDS):
        if row[file_row.STATUS] & SYSTEM:
            continue
        entries = x.table_of(state, row, BLOCKS) >> 2
        pages = np.flatnonzero(entries)
        length = 1 << int(row[SHORT]) - 1 + PLACE_SHIFT if row[SHORT] else unit
        parts.append(x.of_file(file, pages, entries[pages] << PLACE_SHIFT, length))
    return x.gathered(parts)
