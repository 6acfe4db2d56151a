"""State of the file systems whose files are contiguous in virtual memory: rows, page lists and pages of entries in the arena.

Units: offsets and lengths in bytes, device blocks of 4096 bytes; virtual addresses in bytes above the start of the area
(`ranges`).
Sources: SCMFS superpage paper (2013); where it is silent, docs/models/scmfs.md marks an assumption.
"""

from typing import NamedTuple

import numpy as np

from scmsim.alloc import two_zone
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.contiguous import templates
from scmsim.fs.engine import costs, file_row, ranges
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state

# A file's row after the fields of `file_row`, one word each unless said otherwise:
BLOCKS = file_row.OWN  # table (2 words): page -> device block
PTES = BLOCKS + 2  # table (2 words): piece of 2 MiB -> block of its page of page-table entries
SUPERS = BLOCKS + 4  # table (2 words): piece of 2 MiB -> its superpage; the first HELD pieces have one
NEWER = BLOCKS + 6  # table (2 words): index -> superpage that a migration is filling
RANGE = BLOCKS + 8  # virtual address of the file's range, bytes from the start of the area
RANGE_ORDER = RANGE + 1  # log2 of the range's bytes, 0: none
PAGE_COUNT = RANGE + 2  # pages up to the last one that is mapped
SPARE_AT = RANGE + 3  # first page that is mapped but not used
SPARE = RANGE + 4  # number of such pages, from SPARE_AT on
HELD = RANGE + 5  # number of superpages in SUPERS
FILLED = RANGE + 6  # number of superpages in NEWER
DIRENTS = RANGE + 7  # number of entries of a directory
PLACE = RANGE + 8  # offset of the newest name in its directory, bytes
PARENT = RANGE + 9  # row of the directory with the newest name, 0: unknown
WRITTEN = RANGE + 10  # time of the last write, ns
NEXT = RANGE + 11  # next row of the migration queue or next null file, 0: none
FILE_WORDS = RANGE + 12
UNNAMED = 1  # number of extra rows after the files' rows: one for a parent directory that the trace does not name
QUEUED = 4  # STATUS bit

# An unused file (null file) is a row in its own block of the arena; NEXT is the next null file.
NULL_ORDER = 5

# Stages of the current operation.
NEW, ADOPTING, READY, MAPPING, COPYING, RELEASING, ENDING, EVICTING = range(8)

# Work for `collect` (the state's `need_collect`).
NOTHING, MIGRATE, SETTLE, TIDY = range(4)

FIELDS = [
    *HEADER,
    *two_zone.FIELDS,
    *ranges.FIELDS,
    *file_row.FIELDS,
    ("inode_table", "i8"),
    ("stage", "i8"),  # stage of the current operation, NEW to EVICTING
    ("resume_at", "i8"),  # page or byte at which the operation resumes
    ("owed", "i8"),  # blocks that the operation may still need
    ("edges", "i8"),  # flags, 1: the page of the operation's first byte is new, 2: the page of its last byte is new
    ("old_size", "i8"),  # length of the file before the operation
    ("closes", "i8"),
    ("now", "i8"),  # time of the current operation, ns
    ("spare", "i8"),  # spare pages that a growing file gets
    ("null_limit", "i8"),
    ("nulls", "i8"),  # first unused file in the arena
    ("null_count", "i8"),
    ("tidy_above", "i8"),  # spare pages above which the collector runs
    ("tidy_every", "i8"),
    ("tidied", "i8"),  # time when the collector last ran
    ("tidy_from", "i8"),  # `reclaimed_blocks` when the collector began; it may need several buffers
    ("threshold", "i8"),  # mapped pages beyond which a file is due for superpages, 0 = never
    ("whole", "i8"),  # 1: the rest after the last whole superpage also goes to a superpage
    ("quiet", "i8"),  # ns without a write after which an open file counts as idle
    ("copy_rate", "i8"),  # bytes per second that the migration thread copies
    ("looked", "i8"),  # number of operations for which the queue was examined (once each)
    ("queue", "i8"),  # first and last file in the migration queue
    ("queue_end", "i8"),
    ("moving", "i8"),  # row of the file that is being migrated, 0 = none
    ("moved_at", "i8"),  # time when the copy of the `moving` file is finished, ns
    ("copy_at", "i8"),  # next page to copy
    ("wanted", "i8"),  # last page that the operation maps, or end of the pages to migrate
    ("data_blocks", "i8"),  # blocks that files hold, including spare ones and superpages
    ("dir_blocks", "i8"),
    ("table_blocks", "i8"),  # blocks that are pages of page-table entries
    ("spare_blocks", "i8"),  # blocks mapped after the ends of files, or in null files
    ("migrations", "i8"),
    ("migrated_bytes", "i8"),
    ("refused_migrations", "i8"),  # migrations without enough superpages
    ("fallbacks", "i8"),  # times that a file on superpages grew by normal pages
    ("waited_writes", "i8"),
    ("waited_ns", "i8"),
    ("range_moves", "i8"),
    ("null_reuses", "i8"),
    ("reclaimed_blocks", "i8"),
    ("zeroed_bytes", "i8"),
    ("scanned_bytes", "i8"),
]
STATE = np.dtype((np.record, FIELDS))

SMALLEST, LARGEST = 8 << 20, 16 << 40


class Variant(NamedTuple):
    """Parts of the model that a file system built on this module supplies."""

    templates: dict[int, list]
    costs: np.ndarray
    dtype: np.dtype = STATE  # record with FIELDS and the file system's own fields
    normal_percent: int = 100  # share of the device for normal pages


def start(params: dict, files: Files, variant: Variant | None = None) -> State:
    """Return the state of an empty file system of `params["capacity"]` bytes that knows the trace's `files`."""
    variant = variant or Variant(templates.templates(), costs.load("scmfs", templates.COSTS, list(templates.SITES)))
    capacity, rows = params["capacity"], len(files) + 1  # the last row: a parent directory that the trace does not name
    blocks = capacity // templates.BLOCK
    reserved = (templates.INODE_TABLE + -(-rows * templates.INODE_BYTES // (2 << 20)) * (2 << 20)) // templates.BLOCK
    if not SMALLEST <= capacity <= LARGEST or blocks <= reserved:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is out of range; give "
            f"{format_bytes(max(SMALLEST, (reserved + 1) * templates.BLOCK))} (the tables and a file) to 16TiB"
        )
    percent = params.get("normal_percent", variant.normal_percent)
    if not 1 <= percent <= 100:
        raise UsageError(f"normal_percent = {percent}; use 1 to 100, the share of the device for normal pages")
    boundary = two_zone.boundary_of(reserved, blocks, percent)
    words = 16 + rows * FILE_WORDS + two_zone.arena_words(blocks, boundary)
    state = new_state(variant.dtype, max(1 << 16, words + (1 << 14)), variant.costs)
    load_templates(state, dict(sorted(variant.templates.items())))
    two_zone.attach(state, reserved, blocks, boundary)
    record = state.record[0]
    record.inode_table = templates.INODE_TABLE
    if "preallocate" in params:
        _keep(record, params)
    if "threshold" in params:
        record.threshold, record.whole = max(params["threshold"] // templates.BLOCK, 1), params["tail"] == "superpage"
        record.quiet, record.copy_rate = params["quiet"], max(params["copy_rate"], 1)
    file_row.add(state, files, FILE_WORDS)[:, WRITTEN] = -(1 << 62)
    return state


def _keep(record: np.record, params: dict) -> None:
    """Set the parameters of pages that stay mapped without being used."""
    if params["preallocate"] > 2 << 20:
        raise UsageError(f"preallocate = {format_bytes(params['preallocate'])}; use 2MiB or less")
    record.spare = params["preallocate"] // templates.BLOCK
    record.null_limit, record.tidy_above = params["null_files"], params["collect_above"] // templates.BLOCK
    record.tidy_every = params["collect_every"]


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; holes are not live, pages mapped after a file's end are preallocated, not allocated.

    `waste_bytes` are the unused ends of last pages and last superpages; `superpage_waste_bytes` those of superpages
    alone.
    """
    record = state.record[0]
    rows = file_row.of(state, FILE_WORDS)
    files = rows[file_row.is_file(rows)]
    sizes, mapped = files[:, file_row.SIZE], files[:, file_row.MAPPED]
    over = np.maximum(files[:, HELD] * two_zone.SUPERPAGE * templates.BLOCK - sizes, 0)
    return file_row.space(
        rows,
        templates.BLOCK,
        capacity=record.device_blocks * templates.BLOCK,
        allocated=(record.data_blocks - record.spare_blocks) * templates.BLOCK,
        metadata=record.dir_blocks * templates.BLOCK + file_row.existing(rows) * templates.INODE_BYTES,
        waste_bytes=np.maximum(over, np.where(mapped > 0, -sizes % templates.BLOCK, 0)).sum(),
        preallocated_bytes=record.spare_blocks * templates.BLOCK,
        page_table_bytes=record.table_blocks * templates.BLOCK,
        null_files=record.null_count,
        null_file_reuses=record.null_reuses,
        reclaimed_bytes=record.reclaimed_blocks * templates.BLOCK,
        range_moves=record.range_moves,
        superpage_region_bytes=record.supers * two_zone.SUPERPAGE * templates.BLOCK,
        superpage_bytes=(record.supers - record.free_supers - record.lent) * two_zone.SUPERPAGE * templates.BLOCK,
        superpage_waste_bytes=over.sum(),
        lent_superpages=record.lent,
        superpage_fallbacks=record.fallbacks,
        migrations=record.migrations,
        migrated_bytes=record.migrated_bytes,
        refused_migrations=record.refused_migrations,
        migrations_in_flight=record.moving != 0,
        waited_writes=record.waited_writes,
        waited_ns=record.waited_ns,
    )


def extents(state: State) -> np.ndarray:
    """Return the extents of all files, with the pages that are mapped after their ends."""
    return x.of_table(state, FILE_WORDS, BLOCKS, templates.BLOCK)
