"""Derives fs/xfs/costs/xfs-5.13.toml: instructions, loads and stores of XFS's code per mechanism.

Priors are what the measured functions of a mechanism do per call (5.13.13 kernel, rep-strings left out), or estimates; a
ridge fit moves them as little as possible until the totals of the 12 cells of 1, 16 and 256 KiB are met.  The 4 cells of
512 bytes, cwrite64k, create_fsync and the `_sync` rows but those of create, unlink0 and unlink64k are held out: they are predictions.  The costs of
namespace calls are the measured rows less what the model charges beside; nothing here touches stored bytes or fences.
Run: python tests/verification/calibrate_xfs.py [--write]
"""

import csv
import pathlib
import sys

import cells
import numpy as np

from scmsim.fs.xfs.recipes import COSTS
from tests.fs import lab, lab_names

SYSTEM = "xfs-dax"
HELD_OUT = 512
COLUMNS = (("ins_call", "ins"), ("ld_norep_call", "ld"), ("st_norep_call", "st"))

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
    "null_call": (297, 95, 57, "syscall", "any other call", "measured", "measured empty system call"),
    "log_block": (549, 6, 5, "log", "4096 bytes written to the log", "measured", "__memcpy_flushcache (wsync 1024): 4096 / 5120 (1966.2, 647.5, 646.2) less the 512 loads and stores of the run"),
    "push_block": (1800, 500, 350, "metadata", "block or inode cluster written in place", "estimate", "estimate: xfs_inode_item_push or xfs_buf_item_push, a bio of its own; its loads and stores are the run's"),
    "open": (3480, 985, 620, "syscall", "open()", "estimate", "row openclose less close"),
    "close": (801, 300, 178, "syscall", "close()", "estimate", "estimate: system call, fput, as NOVA's"),
    "stat": (2736.9, 803.8, 517.1, "syscall", "stat()", "measured", "row stat"),
    "sync_call": (2000, 600, 400, "syscall", "sync()", "estimate", "estimate: system call, walk over the inodes"),
    "checksum_step": (27, 9, 0, "log", "8 bytes of a log record, checked by tables in the place of an instruction (crc32c = table)", "derived", "lib/crc32.c, crc32_body by 8 bytes: loads of two words and eight table entries, 28 instructions as compiled (13,728 of 489 steps, 6.1 wsync); less one instruction that loads"),
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


def fit() -> tuple[dict, list]:
    """Costs after the fit and the residuals of all cells, those held out too."""
    rows = cells.measured(SYSTEM)
    used = np.array([row["unit"] != HELD_OUT for row in rows])
    counts = [cells.totals(SYSTEM, cells.workload(row), costs=len(COSTS), merge=0)["cost_counts"] for row in rows]
    direct = [cells.totals(SYSTEM, cells.workload(row), free=True) for row in rows]
    names = list(PRIORS)
    fixed = {name: cost[:3] for name, cost in FIXED.items()}
    fixed["log_item"] = namespace_costs({name: cost[:3] for name, cost in PRIORS.items()})["log_item"]
    matrix = np.array(counts)[:, [COSTS.index(name) for name in names]]
    rest = np.array(counts)[:, [COSTS.index(name) for name in fixed]]
    fitted: dict = {name: [0.0, 0.0, 0.0] for name in names}
    residuals = []
    for k, (column, key) in enumerate(COLUMNS):
        target = np.array([row[column] for row in rows])
        given = np.array([d[key] for d in direct]) + rest @ np.array([cost[k] for cost in fixed.values()])
        prior = np.array([PRIORS[name][k] for name in names], float)
        weight = np.array([PRIORS[name][3] for name in names]) * 0.15
        system = np.vstack([(matrix / target[:, None])[used], np.diag(weight / np.maximum(prior, 1))])
        right = np.concatenate([((target - given - matrix @ prior) / target)[used], np.zeros(len(names))])
        found = np.maximum(prior + np.linalg.lstsq(system, right, rcond=None)[0], 0)
        for name, value in zip(names, found, strict=True):
            fitted[name][k] = float(value)
        residuals.append((matrix @ found + given) / target - 1)
    return fitted, [(row["op"], int(row["unit"]), *(r[i] for r in residuals)) for i, row in enumerate(rows)]


def namespace_costs(fitted: dict) -> dict:
    """Costs of namespace calls: measured row less everything else that the model charges for it."""
    with open(cells.DATA / "measured_namespace.csv", newline="") as file:
        measured = {row["op"]: row for row in csv.DictReader(file) if (row["kernel"], row["fs"]) == ("5.13.13", SYSTEM)}
    ops, labels, files = lab_names.sequence()
    fresh = lab.begin(SYSTEM, files, capacity=2 << 30, merge=0)
    state = fresh.state
    state.record.cost[0, :, :3] = 0
    for name, values in {**fitted, **{name: cost[:3] for name, cost in FIXED.items()}}.items():
        state.record.cost[0, COSTS.index(name), :3] = [round(1000 * value) for value in values[:3]]
    state.record.cost[0, COSTS.index("close"), :3] = 0  # create() and its close are one row
    sums = lab.per_op(fresh, ops)
    found: dict = {}
    for name, (row, *less) in CALLS.items():
        model = sums[np.array([label == row for label in labels])].sum(0)[:3] / 1000
        taken = np.array([measured[row][c] for c, _ in COLUMNS], float) - model
        for other in less:
            taken -= np.array(found[other] if other in found else FIXED[other][:3])
        found[name] = [max(float(value), 0.0) for value in taken]
    return found


def table(fitted: dict, names: dict) -> str:
    """The TOML cost table."""
    head = "# Costs of XFS's code on a 5.13.13 kernel, per unit: instructions, loads, stores (rep-strings left out).\n"
    head += "# Derived by tests/verification/calibrate_xfs.py; measured cells in tests/verification/data/measured_513.csv.\n"
    parts = [head]
    for name in COSTS:
        if name in PRIORS:
            *_, site, per, source = PRIORS[name]
            values, kind, source = fitted[name], "fitted", f"ridge fit to 12 cells; prior: {source}"
        elif name in names:
            values, kind, site = names[name], "fitted", SITE_OF.get(name, "namespace")
            per, (row, *less) = PER.get(name, f"{name}()"), CALLS[name]
            source = f"row {row} of measured_namespace.csv less what the model charges beside ({', '.join([*less, 'log writes'])})"
        else:
            *values, site, per, kind, source = FIXED[name]
        numbers = "\n".join(
            f"{field} = {value:.4g}" if value < 100 else f"{field} = {value:.1f}"
            for field, value in zip(("instructions", "loads", "stores"), values, strict=True)
        )
        parts.append(f'[{name}]\nsite = "{site}"\nper = "{per}"\n{numbers}\nkind = "{kind}"\nsource = "{source}"\n')
    return "\n".join(parts)


def main() -> None:
    fitted, errors = fit()
    names = namespace_costs(fitted)
    if "--write" in sys.argv:
        target = pathlib.Path(__file__).parents[2] / "scmsim/fs/xfs/costs/xfs-5.13.toml"
        target.write_text(table(fitted, names), encoding="utf-8")
    for op, unit, *error in sorted(errors, key=lambda e: -max(map(abs, e[2:]))):
        held = "held out" if unit == HELD_OUT else ""
        print(f"{op:8s} {unit:7d}  instructions {error[0]:+.3f}  loads {error[1]:+.3f}  stores {error[2]:+.3f} {held}")


if __name__ == "__main__":
    main()
