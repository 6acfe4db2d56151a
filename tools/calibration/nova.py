"""Derive fs/nova/costs/nova-5.13.toml: instructions, loads and stores of NOVA's code per mechanism.

Every cost starts from the amounts per call of the mechanism's measured functions (the priors below: sums over functions of
the 5.13.13 kernel, rep-strings left out).  Functions outside each cell's top 15 are not listed individually, so a ridge fit
moves the priors as little as possible until the totals of the 32 measured cells (append, rewrite, read, wsync at units of
512, 1 Ki, 16 Ki and 256 Ki) are met.  Costs that no cell charges keep their prior.
"""

from scmsim.fs.nova.templates import COSTS
from tests.verification import cells
from tools.calibration import tables
from tools.calibration.tables import Cost

# cost: (instructions, loads, stores, weight of the prior, site, per, source of the prior)
# Weight: 1 = all functions are listed individually; 0.1 = a remainder that the fit may move.
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
    "gc_entry": (28, 9, 5, 0.5, "log gc", "entry checked", "nova_inode_log_thorough_gc per entry checked"),
    "gc_copy": (110, 30, 16, 0.5, "log gc", "entry copied", "nova_inode_log_thorough_gc + __copy_user_nocache, fixed part"),
    "gc_page_reassign": (120, 20, 8, 0.5, "log gc", "page reassigned", "radix_tree_lookup_slot + __radix_tree_lookup + radix_tree_replace_slot"),
    "fsync_call": (212, 78, 52, 0.1, "fsync", "fsync()", "wsync - append: nova_fsync and a second system call"),
}  # fmt: skip

# Costs of the FAST'16 release, which was not measured.
FAST16 = {
    "scan_entry": (28, 10, 4, "log scan", "entry checked, FAST'16", "curr_log_entry_invalid of the FAST 2016 release, its shape compiled with gcc -O2: 10 loads and 4 stores of arguments and locals"),
    "scan_loop": (8, 2, 1, "log extension", "entry checked, FAST'16: the loop around it", "the loop of nova_inode_log_garbage_collection, which is inlined into nova_get_append_head: 3 accesses of a dead entry (gcc -O2)"),
    "scan_live": (4, 1, 1, "log extension", "live entry checked, FAST'16: what the loop does more", "the same loop: 5 accesses of a live entry (gcc -O2)"),
}  # fmt: skip
# Work of a later release on the entry of an overwritten page, besides freeing its block: nova_free_old_entry and
# nova_invalidate_reassign_logentry, measured in rewrite 16384 of nova-cow.
INVALIDATED = (86.34 + 108.3, 22.09 + 27.08, 17.07 + 13.05)
UNSEEN = ("extend_log", "extend_page", "scan_page")  # charged by no cell

# Calls of the measured namespace rows (5.13.13, nova-cow, 1000 files).  The fixed cost of a call is its row less what the
# model charges elsewhere: (row, site, per, counts of other costs to subtract).  `close` is an estimate (a system call and
# fput).
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
    "mmap": (301, 95, 60, "syscall", "mmap() or munmap(), as any call", "measured empty system call"),
    "other_call": (301, 95, 60, "syscall", "any other call", "measured empty system call"),
}


HEAD = """\
# Costs of NOVA's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).
# Derived by tools/calibration/nova.py; measured cells in tests/verification/data/measured_513.csv.
"""


def calls(fitted: dict[str, list[float]]) -> dict[str, Cost]:
    """Return the fixed cost of every call."""
    rows = tables.names("nova-cow", "5.13.13")
    found = {
        name: Cost(values, site, per, "estimate" if source.startswith("estimate") else "measured", source)
        for name, (*values, site, per, source) in OTHERS.items()
    }
    for name, (row, site, per, less) in ROWS.items():
        values = rows[row].copy()
        for cost, times in less.items():
            values -= [amount * times for amount in fitted.get(cost, OTHERS.get(cost, ())[:3])]
        source = " less ".join([f"row {row}", *(f"{times} {cost}" for cost, times in less.items())])
        found[name] = Cost(values, site, per, "measured", source)
    return found


def derive(leave_out: int = 0) -> dict[str, str]:
    """Return the cost table; cells of unit `leave_out` are excluded from the fit."""
    measured = cells.measured("nova-cow", "nova-inplace")
    fitted, left = tables.ridge(measured, tables.structure(measured, COSTS), COSTS, PRIORS, {}, leave_out)
    tables.report(left)
    found = calls(fitted)
    for name, (*_, site, per, source) in PRIORS.items():
        kind = "estimate" if name in UNSEEN else "fitted"
        found[name] = Cost(
            fitted[name], site, per, kind, source if name in UNSEEN else f"ridge fit to the 32 cells; prior: {source}"
        )
    for name, (*values, site, per, source) in FAST16.items():
        found[name] = Cost(values, site, per, "derived", source)
    freed = [amount - less for amount, less in zip(fitted["free_old_entry"], INVALIDATED, strict=True)]
    source = "free_old_entry less nova_free_old_entry and nova_invalidate_reassign_logentry, which FAST'16 lacks (inode.c, nova_assign_write_entry)"
    found["free_old_block"] = Cost(
        freed, "entry invalidation", "block of a page overwritten, FAST'16", "derived", source
    )
    return {"nova/nova-5.13": tables.text(HEAD, {name: found[name] for name in COSTS})}
