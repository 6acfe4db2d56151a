"""State of a PMFS with virtual superpages, whose page table and transactional logs are stored after the data.

Units: bytes, device blocks of 4096 bytes.
Source: VSM paper (2020), III.A: a page table of four levels in persistent memory maps the whole device. Where the table
and the logs are on the device is a reconstruction.
"""

from functools import partial

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs, file_row
from scmsim.fs.engine.events import State
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.vsm import templates

FIELDS = [
    ("leaf", "i8"),  # log2 of the largest page that an entry of the page table maps
    ("device_blocks", "i8"),  # blocks of the device, including the page table and the logs
    ("page_table", "i8"),  # device offset of the entries of 4 KiB pages, followed by those of 2 MiB
    ("log_start", "i8"),  # device offset of the transactional logs
    ("log_bytes", "i8"),  # bytes of all logs together
    ("log_at", "i8"),  # offset of the next log from `log_start`
    ("fresh", "i8"),  # handle of a table: pages that the current copy-on-write has taken, in the order of the file
    ("split", "i8"),  # arena offset of a bitmap: 2 MiB of addresses that are mapped by 4 KiB entries
    ("superpages", "i8"),  # entries in the current log's array of replaced superpages
    ("pages", "i8"),  # entries in the current log's array of replaced 4 KiB pages
    ("piece", "i8"),  # number of entries of the array of pages that the current copy or swap has passed
    ("mounted", "i8"),
    ("swapped_ptes", "i8"),
    ("swapped_pmds", "i8"),
    ("replaced_superpages", "i8"),
    ("split_superpages", "i8"),
    ("migrations", "i8"),
    ("packed_files", "i8"),
    ("reclaimed_pages", "i8"),
]
STATE = np.dtype((np.record, [*pmfs_state.FIELDS, *FIELDS]))
LEAVES = (4 << 10, 2 << 20)  # bytes that an entry of the page table may map after the mount


def table_bytes(blocks: int) -> int:
    """Return the bytes of a page table for `blocks` pages: 512 entries of 8 bytes per page on each of four levels."""
    pages, entries = 0, blocks
    for _ in range(4):
        entries = -(-entries // 512)
        pages += entries
    return pages * tpl.BLOCK


def log_bytes(blocks: int, shift: int) -> int:
    """Return the bytes reserved for all logs, which grow with the superpage and the device; the largest log fits."""
    return max(1 << 20, 1 << shift - 5) + -(-(blocks >> 8) // tpl.BLOCK) * tpl.BLOCK


def start(params: dict, files: Files, *, shift: int) -> State:
    """Return the state of an empty file system with virtual superpages of 2**`shift` bytes that knows the trace's `files`."""
    if params["entries"] not in LEAVES:
        raise UsageError(f"entries = {format_bytes(params['entries'])}; use 4KiB or 2MiB")
    blocks = params["capacity"] // tpl.BLOCK
    tail_bytes = table_bytes(blocks) + log_bytes(blocks, shift)
    rows = np.concatenate(
        [
            costs.load("pmfs-5.13", tpl.COSTS, list(templates.SITES)),
            costs.load("vsm", templates.COSTS, list(templates.SITES)),
        ]
    )
    variant = pmfs_state.Variant(partial(templates.templates, params["shootdown"]), rows, STATE, tail_bytes)
    state = pmfs_state.start({**params, "data_path": "cow"}, files, shift=shift, variant=variant)
    record = state.record[0]
    record.chunk, record.leaf = 512, params["entries"].bit_length() - 1
    record.device_blocks = blocks
    record.log_start = int(record.blocks) * tpl.BLOCK
    record.log_bytes = log_bytes(blocks, shift)
    record.page_table = record.log_start + record.log_bytes
    record.fresh, record.split = record.arena_top, record.arena_top + 2
    record.arena_top += 2 + (int(record.blocks) >> 14) + 1
    state.grow(0)
    return state


def space(state: State) -> dict[str, int]:
    """Return PMFS's space report in bytes; open files hold whole superpages (`preallocated_bytes`)."""
    record = state.record[0]
    report = pmfs_state.space(state)
    blocks = int(record.device_blocks)
    unit, files = 1 << int(record.shift), pmfs_state.data_files(state)
    kept = files[:, pmfs_state.KEPT]
    held = files[:, file_row.MAPPED] * unit - np.where(kept > 0, unit - kept * tpl.BLOCK, 0)
    sizes = files[:, file_row.SIZE]
    waste = np.where(
        kept > 0,
        (files[:, pmfs_state.KEPT_AT] << int(record.shift)) + kept * tpl.BLOCK - sizes,
        -sizes % unit,
    )
    waste = np.where(files[:, file_row.MAPPED] > 0, np.maximum(waste, 0), 0)
    return {
        **report,
        "capacity_bytes": blocks * tpl.BLOCK,
        "live_bytes": int(np.minimum(sizes, held).sum()),
        "waste_bytes": int(waste.sum()),
        "preallocated_bytes": int((waste // tpl.BLOCK * tpl.BLOCK).sum()),
        "page_table_bytes": table_bytes(blocks),
        "log_bytes": int(record.log_bytes),
        "swapped_ptes": int(record.swapped_ptes),
        "swapped_pmds": int(record.swapped_pmds),
        "replaced_superpages": int(record.replaced_superpages),
        "split_superpages": int(record.split_superpages),
        "migrations": int(record.migrations),
        "packed_files": int(record.packed_files),
        "reclaimed_bytes": int(record.reclaimed_pages) * tpl.BLOCK,
    }
