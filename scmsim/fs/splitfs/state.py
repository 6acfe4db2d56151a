"""State of SplitFS: ext4's state, SplitFS's logs, its prefilled staging bytes, and the staged pages of each file.

Units: offsets and lengths in bytes, blocks and pages of 4096 bytes. The logs and the scratch area for overwritten data
in strict mode are files of ext4-DAX that exist from the start; they count as metadata.
"""

import numpy as np

from scmsim.alloc.mballoc import take_run
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State, load_templates
from scmsim.fs.ext4 import state as ext4_state
from scmsim.fs.ext4.templates import COSTS as EXT4_COSTS
from scmsim.fs.linux import state as e
from scmsim.fs.linux.descriptors import count_blocks
from scmsim.fs.mapping.driver import lay_costs, lay_table
from scmsim.fs.mapping.mechanisms import SITES as MAPPING_SITES
from scmsim.fs.mapping.words import FILE_WORDS
from scmsim.fs.splitfs.templates import COSTS, ENTRY, SITES, all_templates

MODES = ("posix", "sync", "strict")
SYNC, STRICT = 1, 2
# Reused fields of a file's record, which ext4 needs only for the page cache.
STAGED = e.FIRST_DIRTY_PAGE  # first page that waits for a relink
STAGED_END = e.DIRTY_SINCE_NS  # page after the last one that waits; 0: none waits
TO_COPY = e.OLDER  # bytes in partly written pages, which the relink copies
MAPS = e.NEWER  # arena offset of the fields of the file's mappings, 0: none
# The fields of a file's mappings, after those of fs/mapping/words.py, one word each unless said otherwise:
PIECES = FILE_WORDS  # table (2 words): piece of the file -> its mapping
IN_STAGING = FILE_WORDS + 2  # table (2 words): page / 32 -> a bit for each page in a staging file
MAPS_ORDER = 4
SCRATCH = 16 << 20  # bytes of overwritten data that may wait for a relink

STATE = np.dtype(
    (
        np.record,
        [
            *ext4_state.STATE.descr,
            ("mode", "i8"),
            ("passed", "i8"),  # 1: the kernel runs the current operation
            ("prepared", "i8"),  # 1: the library has done its part of the current operation
            ("filled", "i8"),  # bytes of staging files that are filled in advance and not used yet
            ("entries_at", "i8"),  # device offset of the logs; then their length and the next entry's offset, bytes
            ("entries_bytes", "i8"),
            ("entry", "i8"),
            ("scratch_at", "i8"),
            ("scratch_bytes", "i8"),
            ("scratch", "i8"),
            ("relinks", "i8"),
            ("piece_shift", "i8"),  # log2 of the pages per mmap of the library
            ("populating", "i8"),  # 1 + the next page of the piece that is being mapped, 0: none
            ("unmapping", "i8"),  # next mapping to unmap; -1: all are unmapped, 0: none is yet
            ("wanted", "i8"),  # 1 + the page whose piece the current write needs, 0: none
            ("called", "i8"),  # 1: the current write has been charged
            ("staging_grown", "i8"),  # bytes of staging files used that were not filled in advance
        ],
    )
)


def start(params: dict, files: Files) -> State:
    """Return the state of an empty SplitFS over an empty ext4-DAX of `params["capacity"]` bytes."""
    state = ext4_state.start(params, files, table="ext4-5.13", dax=True)
    state.record.remembers = 0  # the library changes files' blocks without the kernel's look-ups
    old = state.record
    state.record = np.zeros(1, STATE).view(np.recarray)
    for name in old.dtype.names or ():
        state.record[name] = old[name]
    record = state.record[0]
    first = len(EXT4_COSTS)
    record.cost[first : first + len(COSTS)] = costs.load("splitfs", COSTS, list(SITES))
    load_templates(state, all_templates())
    lay_table(
        state, 0, list(SITES).index(next(iter(MAPPING_SITES))), lay_costs(record, list(SITES), "ext4-dax", "5.13")
    )
    record.piece_shift = _piece_shift(params["mmap_size"])
    small = int(record.blocks) * e.BLOCK >> 5
    logs = 2 * min(params["operation_log"], small) & -e.BLOCK
    scratch = min(SCRATCH, small) & -e.BLOCK
    if min(logs, scratch) < e.BLOCK or (logs + scratch) // e.BLOCK + 8 > record.free_blocks:
        raise UsageError(
            f"logs of {format_bytes(logs)} on a device of {format_bytes(params['capacity'])} do not fit; "
            "give a larger capacity or operation_log"
        )
    record.relatime = 0  # the library reads through its mappings, which sets no access time
    record.mode, record.filled = MODES.index(params["mode"]), params["staging"]
    for name, length in (("entries", logs), ("scratch", scratch)):
        first = take_run(record, state.arena, length // e.BLOCK)
        count_blocks(record, state.arena, first, length // e.BLOCK, -1)
        record[f"{name}_at"] = first * e.BLOCK
        record[f"{name}_bytes"] = length
        record.meta_blocks += length // e.BLOCK
    return state


def _piece_shift(length: int) -> int:
    """Return log2 of the pages of a piece of `length` bytes."""
    if length not in (1 << shift for shift in range(21, 30)):
        raise UsageError(
            f"mmap_size = {format_bytes(length)} is not allowed; give a power of two from 2MiB to 512MiB (ledger.h)"
        )
    return length.bit_length() - 13


def unsynced(state: State) -> np.ndarray:
    """Return the object ids of files with staged blocks; an fsync of the file relinks them, sync() does not."""
    at = _records(state)
    return np.flatnonzero((at > 0) & (state.arena[at + e.IS_DIR] == 0) & (state.arena[at + STAGED_END] > 0))


def _records(state: State) -> np.ndarray:
    """Return the arena offset of each file's record, 0 where it has none; leave out the row of the root."""
    return e.file_table(state)[:-1, e.ROW_RECORD]


def space(state: State) -> dict[str, int]:
    """Return ext4's space report in bytes; staged blocks count as the file's."""
    record, arena = state.record[0], state.arena
    at = _records(state)[unsynced(state)]
    return {
        **e.space(state),
        "staged_bytes": int((arena[at + STAGED_END] - arena[at + STAGED]).sum()) * e.BLOCK,
        "operation_log_bytes": int(record.entries_bytes),
        "operation_log_entries": int(record.entry) // ENTRY,
        "relinks": int(record.relinks),
    }
