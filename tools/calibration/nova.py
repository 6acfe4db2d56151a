"""Derives fs/nova/costs/nova-5.13.toml: instructions, loads and stores of NOVA's code per mechanism.

Every cost starts from what the measured functions of that mechanism do per call (the priors below: sums over functions of the
5.13.13 kernel, rep-strings left out).  The functions outside each cell's top 15 are not listed one by one, so a ridge fit moves
the priors as little as possible until the totals of the 32 measured cells (append, rewrite, read, wsync at units of 512, 1 Ki,
16 Ki and 256 Ki) are met.  Costs that no cell charges keep their prior.  Run: python tests/verification/calibrate_nova.py [--write] [--leave-out 16384: fit without that unit, as a test]
"""

import csv
import pathlib
import sys

import cells
import numpy as np

from scmsim.fs.nova.recipes import COSTS

# cost: (instructions, loads, stores, weight of the prior, site, per, source of the prior)
# Weight: 1 = the functions are listed one by one; 0.1 = a remainder that the fit may move.
PRIORS = {
    "write_call": (760, 240, 155, 0.1, "syscall", "write()", "__entry_text_start, syscall_return_via_sysret, do_syscall_64, ksys_write, vfs_write, exit_to_user_mode_prepare, current_time, nova_check_inode_integrity"),
    "cow_write": (457, 161, 109, 0.3, "syscall", "write()", "do_nova_cow_file_write + nova_cow_file_write"),
    "inplace_write": (388, 130, 96, 0.3, "syscall", "write()", "do_nova_inplace_file_write + nova_inplace_file_write"),
    "check_entry": (157, 33, 21, 1, "radix tree", "run of pages looked up", "nova_check_existing_entry + __radix_tree_lookup (rewrite rows)"),
    "allocate": (192, 60, 43, 0.3, "allocation", "extent", "nova_new_blocks + nova_new_data_blocks"),
    "partial_end": (85, 22, 13, 0.3, "partial block", "unaligned end", "nova_handle_head_tail_blocks, nova_handle_partial_block, nova_get_write_entry"),
    "partial_line": (8, 0.1, 0.05, 0.5, "partial block", "line filled", "nova_handle_partial_block: (496.4 - 422.8) / 8 instructions"),
    "copy_call": (18, 1, 0, 1, "data copy", "copy", "__copy_user_nocache, fixed part"),
    "copy_line": (4, 0, 0, 1, "data copy", "64 bytes copied", "__copy_user_nocache: 20 instructions a line, 16 of them the moves themselves"),
    "append_entry": (250, 72, 55, 0.3, "log append", "write entry", "nova_append_log_entry + nova_append_file_write_entry + __copy_user_nocache, fixed part"),
    "commit_tail": (60, 12, 8, 0.3, "log commit", "commit", "inlined nova_update_tail; the rest is not listed"),
    "assign_entry": (112, 24, 25, 0.3, "radix tree", "write entry", "nova_assign_write_entry without its per-page part"),
    "page_insert": (243, 42, 19, 1, "radix tree", "page inserted", "append 262144 / 64: radix_tree_insert, __radix_tree_lookup, radix_tree_lookup_slot, nova_assign_write_entry"),
    "page_replace": (146, 26, 11, 1, "radix tree", "page replaced", "rewrite 262144 / 64: __radix_tree_lookup, radix_tree_lookup_slot, nova_assign_write_entry, radix_tree_replace_slot"),
    "node_allocate": (350, 120, 85, 0.5, "radix tree", "radix node", "kmem_cache_alloc + radix_tree_node_alloc"),
    "free_old_entry": (420, 120, 80, 0.3, "entry invalidation", "old entry", "nova_free_old_entry + nova_invalidate_reassign_logentry + nova_free_blocks + kmem_cache_alloc"),
    "update_entry": (736, 205, 127, 0.5, "entry update", "entry updated in place", "nova_append_entry_journal + nova_inplace_update_log_entry + nova_create_logentry_transaction + nova_update_log_entry"),
    "read_call": (700, 213, 119, 0.1, "syscall", "read()", "do_dax_mapping_read (half), nova_dax_file_read, entry code, vfs_read, atime"),
    "read_extent": (269, 58, 31, 1, "data copy", "run copied", "__radix_tree_lookup + __check_object_size + half of do_dax_mapping_read"),
    "stack_word": (1, 1, 0, 100, "log append", "8 bytes loaded from the stack", "one load instruction"),
    "timer_tick": (0.0719, 0.0220, 0.0147, 1, "syscall", "64 bytes copied by a rep-string", "read 262144 - read 1024: timer interrupts during the copy (1 virtual ns a byte, tick of 4 ms)"),
    "extend_log": (600, 150, 100, 0.3, "log extension", "extension", "estimate: nova_extend_inode_log, nova_new_blocks"),
    "extend_page": (30, 6, 6, 0.5, "log extension", "log page", "estimate: nova_coalesce_log_pages loop"),
    "scan_page": (60, 16, 10, 0.5, "log scan", "log page visited", "estimate: nova_inode_log_fast_gc + curr_page_invalid"),
    "scan_entry": (28, 9, 5, 1, "log scan", "entry checked", "nova_inode_log_thorough_gc per entry checked, with curr_log_entry_invalid inlined (5.13; FAST'16 itself was not measured)"),
    "gc_entry": (28, 9, 5, 0.5, "log gc", "entry checked", "nova_inode_log_thorough_gc per entry checked"),
    "gc_copy": (110, 30, 16, 0.5, "log gc", "entry copied", "nova_inode_log_thorough_gc + __copy_user_nocache, fixed part"),
    "gc_page_reassign": (120, 20, 8, 0.5, "log gc", "page reassigned", "radix_tree_lookup_slot + __radix_tree_lookup + radix_tree_replace_slot"),
    "fsync_call": (212, 78, 52, 0.1, "fsync", "fsync()", "wsync - append: nova_fsync and a second system call"),
}  # fmt: skip

# Calls of the measured namespace rows (5.13.13, nova-cow, 1000 files).  A fixed cost of a call is its row less what the model
# charges elsewhere: (row, site, per, times of other costs that come off).  `close` is an estimate (a system call and fput).
ROWS = {
    "create": ("create", "namespace", "create()", {"close": 1, "commit_tail": 1}),
    "open": ("openclose", "syscall", "open()", {"close": 1}),
    "unlink": ("unlink0", "namespace", "unlink()", {"commit_tail": 2, "extend_page": 1}),
    "unlink_name": ("unlinkl", "namespace", "unlink() of one name of several", {"commit_tail": 2}),
    "rename": ("rename", "namespace", "rename()", {"commit_tail": 2, "extend_page": 1}),
    "link": ("link", "namespace", "link()", {"commit_tail": 2}),
    "mkdir": ("mkdir", "namespace", "mkdir()", {"commit_tail": 1, "extend_page": 1}),
    "rmdir": ("rmdir", "namespace", "rmdir()", {"commit_tail": 2}),
    "stat": ("stat", "syscall", "stat()", {}),
}
OTHERS = {
    "close": (800, 300, 180, "syscall", "close()", "estimate: system call, fput, nova_flush"),
    "free_page": (313, 59, 39, "allocation", "page freed", "rows (unlink64k - unlink0) / 16"),
    "readdir": (3306, 933, 584, "syscall", "getdents()", "estimate: as open()"),
    "truncate": (4000, 1200, 750, "namespace", "truncate()", "estimate: half of unlink()"),
    "mmap": (3306, 933, 584, "syscall", "mmap() or munmap()", "estimate: as open()"),
    "other_call": (301, 95, 60, "syscall", "any other call", "measured empty system call"),
}


def calls(fitted: dict) -> dict:
    """Cost -> (instructions, loads, stores, site, per, source) of every call."""
    with open(cells.DATA / "measured_namespace.csv", newline="") as file:
        rows = {row["op"]: row for row in csv.DictReader(file) if (row["kernel"], row["fs"]) == ("5.13.13", "nova-cow")}
    found = dict(OTHERS)
    for name, (row, site, per, less) in ROWS.items():
        known = [fitted[cost] if cost in fitted else OTHERS[cost][:3] for cost in less]
        values = [
            float(rows[row][column]) - sum(cost[k] * times for cost, times in zip(known, less.values(), strict=True))
            for k, column in enumerate(("ins_call", "ld_norep_call", "st_norep_call"))
        ]
        found[name] = (*values, site, per, " less ".join([f"row {row}", *(f"{n} {cost}" for cost, n in less.items())]))
    return found


def fit(leave_out: int = 0) -> tuple[dict, list]:
    """Costs (instructions, loads, stores) after the fit and the residuals of all cells; unit `leave_out` is not fitted to."""
    rows = cells.measured("nova-cow", "nova-inplace")
    counts, direct = [], []
    for row in rows:
        work = cells.workload(row)
        counts.append(cells.totals(row["fs"], work, costs=len(COSTS), merge=0)["cost_counts"])
        direct.append(cells.totals(row["fs"], cells.workload(row), free=True))
    names = list(PRIORS)
    matrix = np.array(counts)[:, [COSTS.index(name) for name in names]]
    fitted = {name: [0.0, 0.0, 0.0] for name in names}
    residuals = []
    for k, (column, key) in enumerate((("ins_call", "ins"), ("ld_norep_call", "ld"), ("st_norep_call", "st"))):
        target = np.array([row[column] for row in rows])
        goal = target - np.array([d[key] for d in direct])
        prior = np.array([PRIORS[name][k] for name in names], float)
        weight = np.array([PRIORS[name][3] for name in names]) * 0.15
        scale = np.where([int(row["unit"]) == leave_out for row in rows], 0, 1 / target)
        system = np.vstack([matrix * scale[:, None], np.diag(weight / np.maximum(prior, 1))])
        right = np.concatenate([(goal - matrix @ prior) * scale, np.zeros(len(names))])
        found = np.maximum(prior + np.linalg.lstsq(system, right, rcond=None)[0], 0)
        for name, value in zip(names, found, strict=True):
            fitted[name][k] = float(value)
        model = matrix @ found + np.array([d[key] for d in direct])
        residuals.append(model / target - 1)
    return fitted, [(row["fs"], row["op"], int(row["unit"]), *(r[i] for r in residuals)) for i, row in enumerate(rows)]


def table(fitted: dict) -> str:
    """The TOML cost table."""
    head = "# Costs of NOVA's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).\n"
    head += "# Derived by tests/verification/calibrate_nova.py; measured cells in tests/verification/data/measured_513.csv.\n"
    parts = [head]
    measured = calls(fitted)
    used = set(PRIORS) - {"extend_log", "extend_page", "scan_page", "scan_entry"}
    for name in COSTS:
        if name in PRIORS:
            *_, site, per, source = PRIORS[name]
            values, kind = fitted[name], "fitted" if name in used else "estimate"
            source = f"ridge fit to the 32 cells; prior: {source}" if name in used else source
        else:
            *values, site, per, source = measured[name]
            kind = "estimate" if source.startswith("estimate") else "measured"
        numbers = "\n".join(
            f"{field} = {value:.4g}" if value < 100 else f"{field} = {value:.1f}"
            for field, value in zip(("instructions", "loads", "stores"), values, strict=True)
        )
        parts.append(f'[{name}]\nsite = "{site}"\nper = "{per}"\n{numbers}\nkind = "{kind}"\nsource = "{source}"\n')
    return "\n".join(parts)


if __name__ == "__main__":
    left_out = int(sys.argv[sys.argv.index("--leave-out") + 1]) if "--leave-out" in sys.argv else 0
    result, errors = fit(left_out)
    if "--write" in sys.argv:
        target = pathlib.Path(__file__).parents[2] / "scmsim/fs/nova/costs/nova-5.13.toml"
        target.write_text(table(result), encoding="utf-8")
    for fs, op, unit, *error in sorted(errors, key=lambda e: -max(map(abs, e[3:]))):
        mark = "not fitted to" if unit == left_out else ""
        print(
            f"{fs:13s} {op:8s} {unit:7d}  instructions {error[0]:+.3f}  loads {error[1]:+.3f}  stores {error[2]:+.3f} {mark}"
        )
