"""State of famfs: file rows with the units of each file, the log's entries and a bitmap of units; its space report.

Units: offsets and lengths in bytes, units of 2 MiB.
Source: famfs src/famfs_meta.h (superblock, log, entries), src/famfs_alloc.c (bitmap of units, buckets), src/mkfs.famfs.c.
mkfs.famfs refuses devices below 4 GiB; the model takes smaller ones.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state
from scmsim.fs.famfs import templates as t

# A file's row after the fields of `file_row`, one word each unless said otherwise; MAPPED counts its units.
UNITS = file_row.OWN  # table (2 words): unit of the file -> unit of the device
EXTENTS = UNITS + 2  # number of extents in its map; of strips if the map is interleaved
CHUNK = UNITS + 3  # units per chunk of an interleaved map; 0 for a simple map
ENTRY = UNITS + 4  # slot of its entry in the log + 1; 0: none
FILE_WORDS = UNITS + 5
UNNAMED = 1  # number of extra rows after the files' rows: one for a parent directory that the trace does not name
HAS_MAP = 4  # STATUS bit: the kernel has the file's map

# Progress of the current operation.
NEW, READY, COPYING, ENDING, EVICTING = range(5)
STRIPE, LIST, SHIFT = range(3)
LOOKUPS = {"stripe": STRIPE, "list": LIST, "shift": SHIFT}

LARGEST = 16 << 40
MOST_STRIPS, MOST_BUCKETS, SMALLEST_BUCKET = 16, 64, 1 << 30
LOG_SMALLEST = 8 << 20

FIELDS = [
    *HEADER,
    *first_fit.FIELDS,
    ("origin", "i8"),  # device offset of the bitmap's first block: 0 (see alloc.contiguity)
    ("shift", "i8"),  # log2 of the bytes of a block of the bitmap
    *file_row.FIELDS,
    ("stage", "i8"),  # stage of the current operation, NEW to EVICTING
    ("resume_at", "i8"),  # byte at which the operation resumes
    ("closes", "i8"),
    ("grows", "i8"),  # 1: growth = logged
    ("strips", "i8"),
    ("bucket_count", "i8"),
    ("chunk_units", "i8"),
    ("buckets", "i8", (MOST_BUCKETS,)),  # order in which the file's strips try the buckets
    ("random", "i8"),  # state of the shuffle of buckets
    ("lookup", "i8"),
    ("chase", "i8"),
    ("scans", "i8"),  # 1: tool = creat
    ("log_entries", "i8"),  # entries that the log holds
    ("logged", "i8"),  # entries appended so far
    ("live_entries", "i8"),
    ("sized", "i8"),  # the current operation changes the file's length or map, so that it logs an entry
    ("data_units", "i8"),  # units of files, including those of unlinked files
    ("lost_units", "i8"),  # units in data_units that belong to unlinked files: famfs never frees them
    ("beyond", "i8"),  # writes that reach beyond the preallocated end of their file
    ("unsupported", "i8"),  # truncates and fallocates of a preallocated file
    ("unlinked", "i8"),  # files whose entries stay in the log
]
STATE = np.dtype((np.record, FIELDS))


def start(params: dict, files: Files) -> State:
    """Return the state of an empty famfs of `params["capacity"]` bytes that knows the trace's `files`."""
    capacity, log = params["capacity"], params["log"]
    units, reserved = capacity >> t.UNIT_SHIFT, 1 + (log >> t.UNIT_SHIFT)
    if log < LOG_SMALLEST or log % t.UNIT:
        raise UsageError(f"log = {format_bytes(log)} is not allowed; give a multiple of 2MiB, at least 8MiB")
    if units <= reserved or capacity > LARGEST:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is out of range; give {format_bytes((reserved + 1) << t.UNIT_SHIFT)} (superblock, "
            "log and one file) to 16TiB"
        )
    _check_strips(params)
    words = 64 + (len(files) + 1) * FILE_WORDS + first_fit.arena_words(units)
    state = new_state(STATE, max(1 << 14, 2 * words), costs.load("famfs", t.COSTS, list(t.SITES)))
    load_templates(state, t.templates(log, params["form"] == "fuse"), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.shift, record.grows = t.UNIT_SHIFT, params["growth"] == "logged"
    record.strips, record.bucket_count = params["strips"], params["buckets"]
    record.chunk_units = params["chunk"] >> t.UNIT_SHIFT
    record.lookup, record.chase, record.scans = LOOKUPS[params["lookup"]], params["chase"], params["tool"] == "creat"
    record.log_entries = (log - t.LOG_HEADER) // t.ENTRY_BYTES
    record.reg[t.LOG_BYTES] = log
    first_fit.attach(state, reserved, units)
    file_row.add(state, files, FILE_WORDS)
    return state


def _check_strips(params: dict) -> None:
    """Raise UsageError for strips that famfs refuses (famfs_validate_interleave_param)."""
    strips, buckets, chunk = params["strips"], params["buckets"], params["chunk"]
    if params["chase"] < 0 or params["chase"] > 1 << 10:
        raise UsageError(f"chase = {params['chase']} is out of range; give 0 to 1024 lines")
    if not 0 <= strips <= MOST_STRIPS:
        raise UsageError(f"strips = {strips} is out of range; give 1 to {MOST_STRIPS}, or 0 for contiguous files")
    if chunk < t.UNIT or chunk & (chunk - 1):
        raise UsageError(f"chunk = {format_bytes(chunk)} is not allowed; give a power of two of at least 2MiB")
    if not max(strips, 1) <= buckets <= MOST_BUCKETS:
        raise UsageError(
            f"buckets = {buckets} is out of range; give {max(strips, 1)} (the number of strips) to {MOST_BUCKETS}"
        )
    if strips and params["capacity"] // buckets < SMALLEST_BUCKET:
        raise UsageError(
            f"{buckets} buckets of capacity {format_bytes(params['capacity'])} have less than 1GiB each; "
            "take a larger capacity or fewer buckets"
        )


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `unreachable_bytes` are the units of unlinked files, which stay in the log."""
    record, rows = state.record[0], file_row.of(state, FILE_WORDS)
    files = rows[file_row.is_file(rows)]
    return file_row.space(
        rows,
        t.UNIT,
        capacity=record.blocks << t.UNIT_SHIFT,
        allocated=(record.data_units - record.lost_units) << t.UNIT_SHIFT,
        metadata=t.UNIT + record.reg[t.LOG_BYTES],
        waste_bytes=np.maximum((files[:, file_row.MAPPED] << t.UNIT_SHIFT) - files[:, file_row.SIZE], 0).sum(),
        unreachable_bytes=record.lost_units << t.UNIT_SHIFT,
        log_entries=record.live_entries,
        log_entries_free=record.log_entries - record.live_entries,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns of one row per file: object id, length, allocated and wasted bytes."""
    columns = file_row.by_file(file_row.of(state, FILE_WORDS), t.UNIT)
    return columns | {"waste_bytes": columns["allocated_bytes"] - columns["file_bytes"]}


def extents(state: State) -> np.ndarray:
    """Return the extents of all files, in whole units."""
    parts = []
    for file, row in x.data_rows(state, FILE_WORDS):
        units = x.table_of(state, row, UNITS)
        held = np.flatnonzero(units)
        parts.append(x.of_file(file, held, units[held] << t.UNIT_SHIFT, t.UNIT))
    return x.gathered(parts)


def remarks(state: State) -> list[str]:
    """Return remarks on calls that famfs refuses."""
    record, lines = state.record[0], []
    grow = "; --set famfs.growth=logged replays what growing files would cost"
    if count := int(record.beyond):
        lines.append(f"writes beyond the end that their file was created with: {count:,}; famfs never appends{grow}")
    if count := int(record.unsupported):
        lines.append(f"truncates or fallocates of preallocated files: {count:,}; famfs has neither{grow}")
    if count := int(record.unlinked):
        lines.append(f"unlinked files that keep their memory and their entry in the log: {count:,}; famfs has no rm")
    return lines
