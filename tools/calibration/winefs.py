"""Derive fs/winefs/costs/winefs-5.13.toml: instructions, loads and stores of WineFS's code per mechanism.

A ridge fit moves priors as little as possible until the totals of half of the cells are met (those that are not
`cells.held_out`), both modes together.  Priors of shared code are PMFS's costs; WineFS handles blocks by runs.  A call on names costs
what the lab measured for it in strict mode, minus the model's other charges; its row of relaxed mode is a test.
"""

import numpy as np

from scmsim.fs.engine import costs
from scmsim.fs.pmfs.templates import COSTS as PMFS_COSTS
from scmsim.fs.pmfs.templates import SITES as PMFS_SITES
from scmsim.fs.winefs.templates import ALL_COSTS
from tests.fs import lab
from tests.verification import cells
from tools.calibration import tables
from tools.calibration.pmfs import FIXED as PMFS_FIXED
from tools.calibration.pmfs import PRIORS as PMFS_PRIORS
from tools.calibration.tables import Cost

SYSTEMS = ("winefs", "winefs-relaxed")

# cost: (instructions, loads, stores, weight of the prior, site, per, source of the prior)
PRIORS = {
    "find_call": (45, 12, 6, 0.3, "index", "call of pmfs_find_data_blocks", "half of PMFS's find_page"),
    "find_page": (10, 2, 0, 0.5, "index", "page looked up", "loop of __pmfs_find_data_blocks: a load, two compares, an add"),
    "write_page": (200, 55, 25, 0.3, "data copy", "run copied", "as PMFS's write_page"),
    "new_run": (350, 110, 70, 0.3, "allocation", "run of blocks", "pmfs_new_blocks: a lock, a walk of red-black nodes; twice PMFS's new_block"),
    "new_block": (12, 3, 1, 0.5, "allocation", "data block", "loop of recursive_alloc_blocks: a block number, its offset, a store"),
    "free_run": (600, 180, 110, 0.3, "allocation", "run freed", "pmfs_free_blocks: a node of a slab, pmfs_find_free_slot, a merge"),
    "free_block": (6, 1, 0, 1, "allocation", "block freed", "loop of recursive_truncate_blocks and truncate_strong_guarantees"),
    "cow_edge": (300, 90, 50, 0.2, "cow copy", "range copied", "pmfs_copy_from_edge_blk, pmfs_copy_to_edge_blk: a buffer, two copies, two look-ups"),
    "access_time": (300, 90, 50, 1, "inode", "access time set", "generic_update_time and pmfs_dirty_inode"),
}  # fmt: skip
SHARED = (
    "write_call", "fast_write", "transaction", "log_call", "log_entry", "zero_call", "zero_line", "read_call", "read_page", "fsync_call",
)  # fmt: skip
FIXED = {
    **{name: cost for name, cost in PMFS_FIXED.items() if name not in ("free_block", "cow_edge")},
    "copy_line": (0, 0, 0, "data copy", "64 bytes copied and written back", "derived", "no copy goes through the cache"),
    "free_slot": (0.5, 0, 0, "index", "byte of the pointers that are examined", "derived", "is_empty_meta_block: a load, a test, two jumps and an add for 8 bytes, the load itself left out"),
    "tree_step": (9, 3, 0, "directory index", "node of a red-black tree looked at", "estimate", "estimate: WineFS fs/winefs/balloc.c, pmfs_find_range_node: two compares, a branch, a pointer"),
    "readdir": (830, 262.6, 153, "syscall", "getdents()", "estimate", "as tmpfs: the system call and iterate_dir"),
}  # fmt: skip
CALLS = {
    "create": ("create", "close"), "unlink": ("unlinkl",), "evict": ("unlink0", "unlink"), "rename": ("rename",),
    "link": ("link",), "mkdir": ("mkdir",), "rmdir": ("rmdir", "evict"),
}  # fmt: skip
MATCHED = ("match_entry", "fit_entry")  # PMFS's scans of directories, which WineFS does not make

HEAD = """\
# Costs of WineFS's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).
# Derived by tools/calibration/winefs.py; measured cells in tests/verification/data/measured_winefs_513.csv, of which half were fitted.
"""


def priors() -> dict[str, tuple]:
    """Return the priors of all fitted costs: PMFS's fitted costs for the shared code."""
    found = costs.load("pmfs-5.13", PMFS_COSTS, list(PMFS_SITES))
    shared = {
        name: (*(found[PMFS_COSTS.index(name), :3] / 1000), 0.3, *PMFS_PRIORS[name][4:6], "PMFS's cost")
        for name in SHARED
    }
    return shared | PRIORS


def derive(leave_out: int = 0) -> dict[str, str]:
    """Return the cost table; cells of unit `leave_out` are excluded from the fit too."""
    measured = cells.measured(*SYSTEMS)
    fixed, prior = {name: cost[:3] for name, cost in FIXED.items()}, priors()
    fitted, left = tables.ridge(
        measured, tables.structure(measured, ALL_COSTS), ALL_COSTS, prior, fixed,
        lambda row: cells.held_out(row) or row["unit"] == leave_out,
    )  # fmt: skip
    tables.report(left)
    rows = tables.names("winefs", "5.13.13", "measured_namespace_winefs.csv")
    zero = {name: np.zeros(3) for name in CALLS}
    found_names = tables.calls("winefs", lab.namespace_sequence(), rows, ALL_COSTS, zero | fitted | fixed, CALLS)
    found = {name: Cost(cost[:3], *cost[3:]) for name, cost in FIXED.items()}
    for name, (*_, site, per, source) in prior.items():
        found[name] = Cost(fitted[name], site, per, "fitted", f"ridge fit to 20 of the 40 cells; prior: {source}")
    for name, values in found_names.items():
        row, *less = CALLS[name]
        beside = ", ".join([*less, "the journal, the index, blocks"])
        source = f"lab, Linux 5.13.13: row {row}, less what the model charges beside ({beside})"
        found[name] = Cost(values, "namespace", f"{name}()", "measured", source)
    return {"winefs/winefs-5.13": tables.text(HEAD, {name: found[name] for name in ALL_COSTS})}
