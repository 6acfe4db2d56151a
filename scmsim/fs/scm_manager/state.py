"""State of the SCM manager, FAT and ext2: rows of files, their units, directories, dirty lists, the NFTL; layout of the device.

Units: bytes; a *unit* is what files are made of: a 512-byte data object, a FAT cluster of one sector, an ext2 block of 1 KiB.
Source: SCM manager paper, sections 4.1 and 4.2; Linux 2.6.24 fs/fat, fs/ext2; mkdosfs and mke2fs for devices of 64 MiB.
"""

import numpy as np

from scmsim.alloc import buddy, first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine.events import HEADER, State, load_recipes, new_state
from scmsim.fs.engine.space import space_report
from scmsim.fs.scm_manager import recipes

# Words of a file's row.  BLOCKS: unit of the file -> device offset / 32 << 2 | CACHED | DIRTY; SLOTS: a directory's entries ->
# row of the owner + 1 (of the FAT's row: the NFTL's two words an erase unit, how often each page was written and the units in its
# chain); LEAVES, UPPERS: ext2's indirect blocks, as BLOCKS; SHORT: order + 1 of an only unit that is smaller than one (a small
# memory object that became a file); PARENT, SLOT: directory and entry of the newest name.
BLOCKS, SLOTS, LEAVES, UPPERS = range(file_row.OWN, file_row.OWN + 8, 2)
(
    END, PARENT, SLOT, NAMES, TOP, GAP, META, SHORT, CURSOR, DIRTY_UNITS, LOW, SINCE, NEXT, PREVIOUS,
) = range(file_row.OWN + 8, file_row.OWN + 22)  # fmt: skip
FILE_WORDS = file_row.OWN + 22
UNNAMED = 3  # rows behind those of files: a parent directory, FAT or bitmaps, inode table
MEMORY, SYSTEM = 4, 8  # STATUS bits: a memory object (too); FAT, bitmaps, inode table
DIRTY, CACHED = 1, 2  # bits of a unit
PLACE_SHIFT = 5  # a unit's device offset is kept in 32 bytes

# How far the operation at work is.
NEW, READY, EXTENDING, CLEARING, COPYING, FREEING, ENDING, EVICTING, FLUSHING = range(9)

STATE = np.dtype(
    (
        np.record,
        [
            *HEADER,
            *first_fit.FIELDS,
            *buddy.FIELDS,
            ("files", "i8"),  # arena offset of the file rows
            ("file_count", "i8"),
            ("nobody", "i8"),  # row of a parent directory that the trace does not name
            ("table", "i8"),  # row of the FAT, or of ext2's bitmaps
            ("inodes", "i8"),  # row of ext2's inode table
            ("shift", "i8"),  # log2 of a unit's bytes
            ("entry", "i8"),  # bytes of a directory's entry
            ("inode", "i8"),  # bytes of metadata that a file takes besides its entry
            ("capacity", "i8"),
            ("table_at", "i8"),  # device offset of the chain table, FAT or bitmaps
            ("table_bytes", "i8"),
            ("mirror", "i8"),  # distance of the second FAT, 0: none
            ("inodes_at", "i8"),
            ("first_objects", "i8"),  # units that a create allocates
            ("synchronous", "i8"),  # mounted so
            ("cold", "i8"),  # nothing stays in the page cache for reads
            ("longest", "i8"),  # units of one run
            ("most_written", "i8"),  # units of one run of a write-back
            ("replacements", "i8"),  # units that may replace an erase unit
            ("spare", "i8"),  # erase units that are not in use
            ("fold_cursor", "i8"),  # erase unit at which the search for one to fold goes on
            ("stage", "i8"),
            ("resume_at", "i8"),
            ("flushed", "i8"),  # rows that the fsync at work has written back
            ("directory", "i8"),  # row of the directory of the file at work
            ("silent", "i8"),  # a file from before the trace comes into being
            ("head", "i8"),  # rows with dirty units, the one that is dirty longest first
            ("tail", "i8"),
            ("now", "i8"),  # ns
            ("closes", "i8"),
            ("page_reads", "i8"),
            ("page_programs", "i8"),
            ("erases", "i8"),
            ("folds", "i8"),
            ("moved_bytes", "i8"),  # copied by conversions
        ],
    )
)

SMALLEST, LARGEST = 2 << 20, 1 << 50


def up(count: int, unit: int) -> int:
    """`count`, or the next multiple of `unit` above it."""
    return -(-count // unit) * unit


def build(
    params: dict, files: Files, table: str, made: dict[int, list], *, shift: int, entry: int, inode: int
) -> State:
    """State of a file system that knows the trace's `files`, whose areas on the device are still to be laid out.

    `table` names its costs, `made` are its recipes.  A unit has 2**`shift` bytes, an entry of a directory `entry`, and a file takes
    `inode` bytes of metadata besides.
    """
    rows = len(files) + UNNAMED
    areas = sum(params.get(name, 0) for name in ("boot", "mm", "fs"))
    least = areas + SMALLEST + 256 * rows
    if not least <= params["capacity"] <= LARGEST:
        raise UsageError(
            f"capacity {format_bytes(params['capacity'])} does not work; take a larger capacity: the driver's areas and the tables "
            f"need {format_bytes(least)}, and the model ends at 1PiB"
        )
    words = 64 + rows * FILE_WORDS + 2 * first_fit.arena_words(1 << 18) + buddy.arena_words(buddy.AT_ONCE)
    state = new_state(STATE, max(1 << 16, words + (1 << 14)), costs.load(table, recipes.COSTS, list(recipes.SITES)))
    load_recipes(state, dict(sorted(made.items())), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.shift, record.entry, record.inode = shift, entry, inode
    record.capacity = params["capacity"] // recipes.SECTOR * recipes.SECTOR
    record.table_at = up(areas, 1 << shift)
    record.synchronous, record.cold = params.get("mount") == "sync", params.get("page_cache") == "cold"
    record.longest = record.most_written = 64
    known = len(files)
    file_row.add(state, files, FILE_WORDS, UNNAMED)[known + 1 :, file_row.STATUS] = SYSTEM
    record.nobody, record.table, record.inodes = (int(record.files) + (known + i) * FILE_WORDS for i in range(3))
    return state


def add_blocks(state: State, origin: int, end: int) -> None:
    """The bytes [origin, end) of the device are blocks of one unit, first fit."""
    record = state.record[0]
    record.origin = origin
    first_fit.attach(state, 0, (end - origin) >> int(record.shift), 1 << 18)


def space(state: State) -> dict[str, int]:
    """Space report in bytes; units beyond a file's end count as `preallocated_bytes`, memory objects as allocated."""
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
