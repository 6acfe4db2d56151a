"""WineFS's state: PMFS's, with an allocator that keeps aligned extents whole, and a journal and a range of the device for each CPU.

Units: bytes, device blocks of 4096 bytes.  Source: WineFS fs/winefs/{super,balloc,journal,inode}.c.
"""

import numpy as np

from scmsim.alloc import aligned_holes
from scmsim.errors import UsageError
from scmsim.fs.parts import costs, pmfs_state
from scmsim.fs.parts import pmfs_recipes as q
from scmsim.fs.parts import wine_recipes as w
from scmsim.fs.parts.emit import State
from scmsim.records import Files
from scmsim.units import format_bytes

LARGEST = 16 << 40  # every block's bit is in memory
INODE_LOADS = 22  # bytes of a look-up: head of the CPU's inode table, root, height and block type of the inode


def start(params: dict, files: Files) -> State:
    """State of an empty WineFS that knows the trace's `files`."""
    if params["capacity"] > LARGEST:
        raise UsageError(f"capacity {format_bytes(params['capacity'])} does not work; the model ends at 16TiB")
    if not 1 <= params["cpus"] <= aligned_holes.MOST_CPUS:
        raise UsageError(f"cpus = {params['cpus']}; use 1 to {aligned_holes.MOST_CPUS}")
    rows = [costs.load(name, table, list(w.SITES)) for name, table in (("pmfs-5.13", q.COSTS), ("winefs", w.COSTS))]
    parts = pmfs_state.Parts(w.recipes, np.concatenate(rows), 0, params["cpus"])
    state = pmfs_state.start({**params, "data_path": "cow", "version": "dax"}, files, shift=12, parts=parts)
    record = state.record[0]
    record.wine, record.chunk, record.header_loads = 1, aligned_holes.EXTENT, INODE_LOADS
    return state


def space(state: State) -> dict[str, int]:
    """Space report in bytes, as PMFS's, with the aligned free extents and the holes."""
    record = state.record[0]
    extents = int(record.extents_of.sum())
    return {
        **pmfs_state.space(state),
        "aligned_free_bytes": extents * aligned_holes.EXTENT * q.BLOCK,
        "hole_bytes": (int(record.free_blocks) - extents * aligned_holes.EXTENT) * q.BLOCK,
        "aligned_files": int((pmfs_state.data_files(state)[:, pmfs_state.ALIGNED] != 0).sum()),
    }
