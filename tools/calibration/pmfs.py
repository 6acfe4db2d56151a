"""Derive fs/pmfs/costs/pmfs-5.13.toml: instructions, loads and stores of PMFS's code per mechanism.

As in nova.py, priors are the amounts per call of a mechanism's measured functions (5.13.13 kernel, rep-strings left out);
a ridge fit moves the priors as little as possible until the totals of the 16 measured cells are met.  The fixed costs of
namespace calls are the measured rows minus the model's charges for scans, transactions and blocks.  The cost of examining
a directory's record is from the rows unlinkl (1000 records compared) and link (1500 compared, 1500 examined for a gap).
"""

from scmsim.fs.pmfs.templates import COSTS
from tests.fs import lab
from tests.verification import cells
from tools.calibration import tables
from tools.calibration.tables import Cost

SYSTEM = "pmfs-4k"

# cost: (instructions, loads, stores, weight of the prior, site, per, source of the prior)
PRIORS = {
    "write_call": (450, 150, 95, 0.1, "syscall", "write()", "__entry_text_start, syscall_return_via_sysret, do_syscall_64, ksys_write, vfs_write, exit_to_user_mode_prepare, down_write, up_write, current_time"),
    "fast_write": (275, 81, 45, 0.3, "data copy", "write inside one block", "pmfs_xip_file_write less its write-backs (rewrite 1024), __check_object_size"),
    "transaction": (720, 240, 150, 0.3, "journal", "transaction of a write", "pmfs_new_transaction, kmem_cache_alloc, kmem_cache_free, pmfs_xip_file_write, recursive_alloc_blocks (rewrite 16384)"),
    "log_call": (88, 25, 11, 0.5, "journal", "call of pmfs_add_logentry", "pmfs_add_logentry (append 16384, 262144)"),
    "log_entry": (65, 15, 14, 0.5, "journal", "log entry", "pmfs_add_logentry (append 16384, 262144)"),
    "find_page": (96, 21, 3, 1, "index", "page looked up", "pmfs_find_data_block (read rows)"),
    "write_page": (235, 62, 28, 0.5, "data copy", "page written in a transaction", "__pmfs_xip_file_write less its write-backs, pmfs_get_xip_mem, __check_object_size, __virt_addr_valid"),
    "copy_line": (6.5, 0, 0, 1, "data copy", "64 bytes copied and written back", "pmfs_xip_file_write: (303 - 255) / 8 instructions (rewrite 1024, 512)"),
    "new_block": (145, 50, 30, 0.5, "allocation", "data block", "pmfs_new_block, pmfs_new_data_block, recursive_alloc_blocks, mutex_lock, mutex_unlock (append 262144 / 64)"),
    "zero_call": (30, 6, 2, 0.5, "block zeroing", "range cleared", "pmfs_clear_edge_blk"),
    "zero_line": (5, 0, 0, 1, "block zeroing", "64 bytes cleared", "pmfs_clear_edge_blk: (155.7 - 88.6) / 5 lines, 8 of them the moves themselves"),
    "read_call": (560, 170, 95, 0.1, "syscall", "read()", "__entry_text_start, syscall_return_via_sysret, do_syscall_64, ksys_read, vfs_read, xip_file_read, touch_atime, atime_needs_update"),
    "read_page": (230, 52, 25, 0.5, "data copy", "page read", "pmfs_get_xip_mem, __check_object_size, __virt_addr_valid, xip_file_read a page"),
    "fsync_call": (200, 78, 52, 0.1, "fsync", "fsync()", "wsync - append: pmfs_fsync and a second system call"),
}  # fmt: skip

# Costs that no cell fits: (instructions, loads, stores, site, per, kind, source)
FIXED = {
    "nocache_line": (4, 0, 0, "data copy", "64 bytes copied past the caches", "derived", "__copy_user_nocache (Linux arch/x86/lib/copy_user_64.S): 20 instructions a line, 16 of them the moves themselves; 4.1 fitted for NOVA"),
    "new_node": (622, 40, 30, "index", "tree node", "estimate", "pmfs_new_block (append 262144): 64 instructions, and 9 a line of the zeroing loop, as pmfs_clear_edge_blk"),
    "clean_entry": (20.5, 5.4, 4, "log cleaner", "log entry", "measured", "pmfs_process_transaction (rewrite 16384) / 8 entries a call: 8192 entries, an eighth of the journal, in 1024 calls"),
    "free_block": (277.5, 55.8, 15.6, "allocation", "block freed", "measured", "rows (unlink64k - unlink0) / 16"),
    "open": (3295, 929, 580, "syscall", "open()", "measured", "row openclose less close"),
    "close": (800, 300, 180, "syscall", "close()", "estimate", "estimate: system call, fput, as NOVA's"),
    "stat": (2706, 795, 516, "syscall", "stat()", "measured", "row stat"),
    "readdir": (3295, 929, 580, "syscall", "getdents()", "estimate", "estimate: as open()"),
    "readdir_entry": (60, 16, 8, "directory scan", "record listed", "estimate", "estimate: as twice match_entry"),
    "truncate": (2000, 600, 375, "namespace", "truncate()", "estimate", "estimate: a quarter of unlink()"),
    "mmap": (301, 95, 60, "syscall", "mmap() or munmap(), as any call", "measured", "measured empty system call"),
    "other_call": (301, 95, 60, "syscall", "any other call", "measured", "measured empty system call"),
    "match_entry": (38.6, 10.3, 4.1, "directory scan", "record compared", "measured", "row unlinkl: 1000 records of other names before each"),
    "fit_entry": (22, 5.1, 0.3, "directory scan", "record looked at for a gap", "measured", "row link less 1500 match_entry, / 1500"),
    "cow_edge": (60, 15, 8, "cow copy", "range copied", "estimate", "estimate: one call of memcpy"),
}  # fmt: skip
CALLS = {
    "create": ("create", "close"), "unlink": ("unlinkl",), "evict": ("unlink0", "unlink"), "rename": ("rename",),
    "link": ("link",), "mkdir": ("mkdir",), "rmdir": ("rmdir", "evict"),
}  # fmt: skip


HEAD = """\
# Costs of PMFS's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).
# Derived by tools/calibration/pmfs.py; measured cells in tests/verification/data/measured_513.csv.
"""


def derive(leave_out: int = 0) -> dict[str, str]:
    """Return the cost table; cells of unit `leave_out` are excluded from the fit."""
    measured, fixed = cells.measured(SYSTEM), {name: cost[:3] for name, cost in FIXED.items()}
    fitted, left = tables.ridge(measured, tables.structure(measured, COSTS), COSTS, PRIORS, fixed, leave_out)
    tables.report(left)
    rows = tables.names(SYSTEM, name="measured_namespace_pmfs.csv")
    names = tables.calls(SYSTEM, lab.namespace_sequence(), rows, COSTS, fitted | fixed, CALLS)
    found = {name: Cost(cost[:3], *cost[3:]) for name, cost in FIXED.items()}
    for name, (*_, site, per, source) in PRIORS.items():
        found[name] = Cost(fitted[name], site, per, "fitted", f"ridge fit to the 16 cells; prior: {source}")
    for name, values in names.items():
        row, *less = CALLS[name]
        beside = ", ".join([*less, "scans, blocks"])
        source = f"row {row} of measured_namespace_pmfs.csv less what the model charges beside ({beside})"
        found[name] = Cost(values, "namespace", f"{name}()", "fitted", source)
    return {"pmfs/pmfs-5.13": tables.text(HEAD, {name: found[name] for name in COSTS})}
