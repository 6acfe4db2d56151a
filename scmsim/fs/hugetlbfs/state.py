"""State of hugetlbfs and device-dax: file rows with the pages of each file, and a pool of pages of one size.

Units: offsets and lengths in bytes, pages of `page` or `align` bytes.
Source: Linux 6.1 fs/hugetlbfs/inode.c, mm/hugetlb.c (struct resv_map, struct hstate), drivers/dax/device.c.
"""

import numpy as np

from scmsim.alloc import first_fit
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes, parse_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine import extents as x
from scmsim.fs.engine.events import HEADER, State, load_templates, new_state
from scmsim.fs.hugetlbfs import templates as t
from scmsim.fs.linux import templates as q

# A file's row after the fields of `file_row`, one word each unless said otherwise; MAPPED counts its pages.
PAGES = file_row.OWN  # table (2 words): page -> RESERVED, or page of the pool + FIRST
FILE_WORDS = PAGES + 2
UNNAMED = 1  # number of extra rows after the files' rows: one for a parent directory that the trace does not name
RESERVED, FIRST = 1, 2  # a reserved page has no memory yet

# Progress of the current operation.
NEW, READY, COPYING, ENDING, EVICTING = range(5)
LARGEST = 16 << 40

FIELDS = [
    *HEADER,
    *first_fit.FIELDS,
    ("origin", "i8"),  # offset in the pool of the first page of its bitmap: 0 (see alloc.contiguity)
    ("shift", "i8"),  # log2 of the bytes of a page
    *file_row.FIELDS,
    ("stage", "i8"),  # stage of the current operation, NEW to EVICTING
    ("resume_at", "i8"),  # byte at which the operation resumes
    ("closes", "i8"),
    ("start_at", "i8"),  # physical address of the pool's first page
    ("is_device", "i8"),  # 1: device-dax
    ("owner", "i8"),  # device-dax: row of the file that is the device, 0: none yet
    ("ported", "i8"),
    ("reserved", "i8"),  # reserved pages without memory
    ("used", "i8"),  # pages that files hold
    ("unwritable", "i8"),  # writes, and reads of device-dax, that were refused
    # refused truncates to a length that is not a multiple of the page size; on device-dax every truncate and fallocate
    ("fixed_lengths", "i8"),
    ("strangers", "i8"),  # device-dax: calls on files that are not the device
]
STATE = np.dtype((np.record, FIELDS))


def start(params: dict, files: Files, *, device: bool) -> State:
    """Return the state of an empty pool of `params["capacity"]` bytes, or of a device, that knows the trace's `files`."""
    capacity, page = params["capacity"], parse_bytes(params["align" if device else "page"])
    count = capacity // page
    if count < 1 or capacity > LARGEST:
        raise UsageError(
            f"capacity {format_bytes(capacity)} is out of range; give {format_bytes(page)} (a page) to 16TiB"
        )
    words = 64 + (len(files) + 1) * FILE_WORDS + first_fit.arena_words(min(count, 2 * first_fit.AT_ONCE))
    sites = t.SITES if device else t.SITES_IN_DRAM
    state = new_state(STATE, max(1 << 14, 2 * words), costs.load("hugetlbfs", t.COSTS, list(sites)))
    load_templates(state, t.templates(not device), merge=bool(params.get("merge", 1)))
    record = state.record[0]
    record.shift, record.is_device, record.ported = page.bit_length() - 1, device, params["writes"] == "ported"
    record.start_at = 0 if device else q.FRAMES
    whole = device and not record.ported  # the device is one file, so it has no free space
    first_fit.attach(state, count if whole else 0, count, first_fit.AT_ONCE)
    file_row.add(state, files, FILE_WORDS)
    return state


def space(state: State) -> dict[str, int]:
    """Return the space report in bytes; `reserved_bytes` counts pages that mmap reserved."""
    record, rows = state.record[0], file_row.of(state, FILE_WORDS)
    page = 1 << int(record.shift)
    files = rows[file_row.is_file(rows)]
    return file_row.space(
        rows,
        page,
        capacity=record.blocks * page,
        allocated=record.used * page,
        metadata=0,
        waste_bytes=np.maximum(np.minimum(-files[:, file_row.SIZE] % page, files[:, file_row.MAPPED] * page), 0).sum(),
        reserved_bytes=record.reserved * page,
    )


def by_file(state: State) -> dict[str, np.ndarray]:
    """Return columns of one row per file: object id, length, allocated and wasted bytes."""
    return file_row.by_file(file_row.of(state, FILE_WORDS), 1 << int(state.record[0].shift))


def extents(state: State) -> np.ndarray:
    """Return the extents of all files, in whole pages."""
    record = state.record[0]
    shift, parts = int(record.shift), []
    if record.owner:
        owner = (int(record.owner) - int(record.files)) // FILE_WORDS
        parts.append(x.of_file(owner, np.zeros(1, np.int64), np.zeros(1, np.int64), int(record.blocks) << shift))
    for file, row in x.data_rows(state, FILE_WORDS):
        pages = x.table_of(state, row, PAGES)
        held = np.flatnonzero(pages >= FIRST)
        parts.append(x.of_file(file, held, (pages[held] - FIRST) << shift, 1 << shift))
    return x.gathered(parts)


def remarks(state: State) -> list[str]:
    """Return remarks on calls that Linux refuses."""
    record, lines = state.record[0], []
    name = "device-dax" if record.is_device else "hugetlbfs"
    if count := int(record.unwritable):
        calls = "reads and writes" if record.is_device else "writes"
        lines.append(
            f"refused {calls}: {count:,}; {name} has mmap alone for them, so map the file, or replay them as copies through a "
            f"mapping with --set {name}.writes=ported"
        )
    if count := int(record.strangers):
        lines.append(f"calls on other files than the first: {count:,}; a device of device-dax is one file")
    if count := int(record.fixed_lengths):
        lines.append(
            f"refused truncates and fallocates: {count:,}; a device has one length"
            if record.is_device
            else f"refused truncates: {count:,}; a length of hugetlbfs is a multiple of its page"
        )
    return lines
