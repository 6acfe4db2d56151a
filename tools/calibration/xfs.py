"""Derive fs/xfs/costs/xfs-5.13.toml: instructions, loads and stores of XFS's code per mechanism.

Priors are the amounts per call of a mechanism's measured functions (5.13.13 kernel, rep-strings left out), or estimates; a
ridge fit moves the priors as little as possible until the totals of the 12 cells of 1, 16 and 256 KiB are met.  The 4 cells of
512 bytes, cwrite64k, create_fsync and the `_sync` rows except those of create, unlink0 and unlink64k are held-out rows, which
the model predicts.  The costs of namespace calls are the measured rows minus the model's other charges.  The calibration
changes neither stored bytes nor fences.
"""

from scmsim.fs.xfs.templates import COSTS
from tests.fs import lab_names
from tests.verification import cells
from tools.calibration import directories, tables
from tools.calibration.tables import Cost

SYSTEM = "xfs-dax"
HELD_OUT = 512

# cost: (instructions, loads, stores, weight of the prior, site, per, source of the prior)
PRIORS = {
    "write_call": (1250, 420, 260, 0.1, "syscall", "write()", "rewrite 1024 less the copy and its mapping"),
    "read_call": (1050, 330, 190, 0.1, "syscall", "read()", "read 1024 less the copy and its mapping"),
    "map_run": (650, 190, 130, 0.5, "mapping", "run of pages mapped", "dax_iomap_actor, iomap_apply, xfs_bmapi_read, xfs_iext_lookup_extent, xfs_bmbt_to_iomap, __pmem_direct_access, xfs_direct_write_iomap_begin (rewrite 1024)"),
    "copy_line": (12.1, 0.1, 0.0, 1, "copy", "64 bytes copied", "__copy_user_nocache: (338 - 129 - 128) / 16 lines of 64 bytes, less the loop's end (rewrite 1024)"),
    "transaction": (3000, 1000, 650, 0.1, "transaction", "transaction", "append less rewrite 1024"),
    "allocate": (9000, 2900, 1900, 0.1, "allocation", "extent allocated", "append 16384 less rewrite 16384"),
    "zero_block": (1061, 518, 5, 0.5, "zeroing", "4096 bytes zeroed", "__memcpy_flushcache (append 1024): 4 (393.2, 129.5, 129.2) less the 512 stores of the run"),
    "timer_tick": (5.5, 1.7, 1.2, 0.3, "syscall", "4 KiB read", "read 262144 less read 1024"),
    "fsync_call": (2500, 800, 550, 0.1, "log", "fsync()", "estimate: system call, xfs_log_force_lsn, sleep and wake up"),
    "checkpoint": (11000, 3500, 2300, 0.1, "log", "checkpoint", "xlog_write, xlog_cil_push_work, __schedule, __switch_to and others (wsync 1024)"),
}  # fmt: skip

# Costs that no cell fits: (instructions, loads, stores, site, per, kind, source)
FIXED = {
    "compared_run": (498.3, 145.2, 82.8, "allocation", "free run that a search for blocks compares with the first", "estimate", "as on 6.1 (lab, free_runs.py)"),
    "null_call": (297, 95, 57, "syscall", "any other call", "measured", "measured empty system call"),
    "log_block": (549, 6, 5, "log", "4096 bytes written to the log", "measured", "__memcpy_flushcache (wsync 1024): 4096 / 5120 (1966.2, 647.5, 646.2) less the 512 loads and stores of the run"),
    "push_block": (1800, 500, 350, "metadata", "block or inode cluster written in place", "estimate", "estimate: xfs_inode_item_push or xfs_buf_item_push, a bio of its own; its loads and stores are the run's"),
    "open": (3480, 985, 620, "syscall", "open()", "estimate", "row openclose less close"),
    "close": (801, 300, 178, "syscall", "close()", "estimate", "estimate: system call, fput, as NOVA's"),
    "stat": (2736.9, 803.8, 517.1, "syscall", "stat()", "measured", "row stat"),
    "sync_call": (2000, 600, 400, "syscall", "sync()", "estimate", "estimate: system call, walk over the inodes"),
    "checksum_step": (27, 9, 0, "log", "8 bytes of a log record, checksummed by tables instead of the instruction (crc32c = table)", "derived", "lib/crc32.c, crc32_body by 8 bytes: loads of two words and eight table entries, 28 instructions as compiled (13,728 of 489 steps, 6.1 wsync); less one instruction that loads"),
    "block_entry": (5486.4, 1325.4, 750.1, "namespace", "entry added to or removed from a directory of one block", "estimate", "as on 6.1: lab, name_costs.py, Linux 6.1: 100 other names in the directory, less none"),
    "leaf_entry": (12542.6, 3214.5, 2153.0, "namespace", "entry added to or removed from a directory with leaf blocks", "estimate", "as on 6.1: lab, name_costs.py, Linux 6.1: passes over 1000 names, less no others in the directory"),
    **{name: (*amounts, *directories.MEANING[name], "estimate", f"as on 6.1: {directories.SOURCE}") for name, amounts in directories.ON_61["xfs"].items()},
}  # fmt: skip
CALLS = {
    "create": ("create", "close"), "unlink": ("unlinkl",), "remove": ("unlink0",), "rename": ("rename",), "link": ("link",),
    "mkdir": ("mkdir",), "rmdir": ("rmdir",), "free_extent": ("unlink64k", "remove"), "log_item": ("create_sync",),
    "freed_inode": ("unlink0_sync", "log_item"), "busy_extent": ("unlink64k_sync", "log_item", "freed_inode"),
}  # fmt: skip
SITE_OF = {"free_extent": "allocation", "log_item": "log", "freed_inode": "log", "busy_extent": "log"}
PER = {
    "free_extent": "extent freed", "log_item": "item in a checkpoint", "freed_inode": "inode freed in a checkpoint",
    "busy_extent": "extent freed in a checkpoint",
}  # fmt: skip


HEAD = """\
# Costs of XFS's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).
# Derived by tools/calibration/xfs.py; measured cells in tests/verification/data/measured_513.csv.
"""


def derive(leave_out: int = HELD_OUT) -> dict[str, str]:
    """Return the cost table; cells of unit `leave_out` are excluded from the fit."""
    measured, fixed = cells.measured(SYSTEM), {name: cost[:3] for name, cost in FIXED.items()}
    rows, passes = tables.names(SYSTEM, "5.13.13"), lab_names.sequence()
    start = {name: prior[:3] for name, prior in PRIORS.items()}
    item = tables.calls(SYSTEM, passes, rows, COSTS, start | fixed, CALLS)["log_item"]
    found = tables.structure(measured, COSTS)
    fitted, left = tables.ridge(measured, found, COSTS, PRIORS, fixed | {"log_item": item}, leave_out)
    tables.report(left)
    names = tables.calls(SYSTEM, passes, rows, COSTS, fitted | fixed, CALLS)
    costs = {name: Cost(cost[:3], *cost[3:]) for name, cost in FIXED.items()}
    for name, (*_, site, per, source) in PRIORS.items():
        costs[name] = Cost(fitted[name], site, per, "fitted", f"ridge fit to 12 cells; prior: {source}")
    for name, values in names.items():
        row, *less = CALLS[name]
        beside = ", ".join([*less, "log writes"])
        source = f"row {row} of measured_namespace.csv less what the model charges separately ({beside})"
        costs[name] = Cost(values, SITE_OF.get(name, "namespace"), PER.get(name, f"{name}()"), "fitted", source)
    return {"xfs/xfs-5.13": tables.text(HEAD, {name: costs[name] for name in COSTS})}
