"""Keep WineFS's state: PMFS's, with an allocator for aligned extents, and a journal and a device range per CPU.

Units: bytes, device blocks of 4096 bytes.
Source: WineFS fs/winefs/{super,balloc,journal,inode}.c.
"""

import numpy as np

from scmsim.alloc import aligned_holes
from scmsim.core.errors import UsageError
from scmsim.core.records import Files
from scmsim.core.units import format_bytes
from scmsim.fs.engine import costs
from scmsim.fs.engine.events import State
from scmsim.fs.pmfs import state as pmfs_state
from scmsim.fs.pmfs import templates as tpl
from scmsim.fs.winefs import templates

STATE = np.dtype(
    (
        np.record,
        [
            *pmfs_state.FIELDS,
            *aligned_holes.FIELDS,
            ("strict", "i8"),  # 1: mount option strict
            ("barrier", "i8"),  # 1: a write within one block ends with a fence
            ("doubled", "i8"),  # 1: the current write copies its data twice, the second time in place
            ("old_at", "i8"),  # data block at which the list of replaced blocks continues
            ("unlisted", "i8"),  # 1: the rest of the write's leaves is not in its list of slots
            ("tails", "i8", (aligned_holes.MOST_CPUS,)),  # next position of each CPU's journal
            ("used", "i8", (aligned_holes.MOST_CPUS,)),  # `uncleaned` of each CPU's journal
        ],
    )
)
LARGEST = 16 << 40  # bytes: the model keeps a bit per 2 MiB in memory
INODE_LOADS = 22  # bytes that a look-up loads: head of the CPU's inode table; root, height and block type of the inode


def start(params: dict, files: Files, *, strict: bool) -> State:
    """Return the state of an empty WineFS, mounted strict or relaxed, with a row for each of the trace's `files`."""
    if params["capacity"] > LARGEST:
        raise UsageError(f"capacity {format_bytes(params['capacity'])} is too large; the model ends at 16TiB")
    if not 1 <= params["cpus"] <= aligned_holes.MOST_CPUS:
        raise UsageError(f"cpus = {params['cpus']} is out of range; give 1 to {aligned_holes.MOST_CPUS}")
    rows = costs.load("winefs-5.13", templates.ALL_COSTS, list(templates.SITES))

    def attach(state: State, first: int, blocks: int, table: int, count: int) -> None:
        state.grow(aligned_holes.arena_words(blocks))
        # On a small device the first CPU's range, whose last extent is a hole, has no room for the journals and the inodes.
        fits = table + count < blocks // params["cpus"] // aligned_holes.EXTENT * aligned_holes.EXTENT
        aligned_holes.attach(state, first if fits else table + count, blocks, params["cpus"])
        aligned_holes.reserve_tables(state, count // aligned_holes.EXTENT if fits else 0)

    variant = pmfs_state.Variant(
        templates.templates, rows, STATE, journals=params["cpus"], journal_at=templates.JOURNAL_AT, attach=attach
    )
    state = pmfs_state.start({**params, "data_path": "cow", "version": "dax"}, files, shift=12, variant=variant)
    record = state.record[0]
    record.chunk, record.header_loads = aligned_holes.EXTENT, INODE_LOADS
    record.strict, record.barrier = strict, strict and params["barrier"]
    return state


def space(state: State) -> dict[str, int]:
    """Return PMFS's space report in bytes, with the aligned free extents and the holes."""
    record = state.record[0]
    extents = int(record.extents_of.sum())
    return {
        **pmfs_state.space(state),
        "aligned_free_bytes": extents * aligned_holes.EXTENT * tpl.BLOCK,
        "hole_bytes": (int(record.free_blocks) - extents * aligned_holes.EXTENT) * tpl.BLOCK,
        "aligned_files": int((pmfs_state.data_files(state)[:, pmfs_state.ALIGNED] != 0).sum()),
    }
