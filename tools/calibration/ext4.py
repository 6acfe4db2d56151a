"""Derive scmsim/fs/ext4/costs/ext4-5.13.toml from the measured rows, and compare the model with all of them.

The model gives how often each cost is charged in each measured row (its structure); the amounts that bulk copies count
by width are subtracted; then non-negative least squares on relative errors gives the costs, separately for instructions,
loads and stores.  Costs that a row or a set of function rows gives directly are not fitted.
"""

import csv
import tomllib

import numpy as np

from scmsim.fs.engine.costs import changed
from scmsim.fs.engine.events import load_templates
from scmsim.fs.ext4.templates import COSTS, all_templates
from tests.fs import lab, lab_names
from tests.verification import cells
from tools.calibration import directories, tables
from tools.calibration.tables import COLUMNS, Cost

TABLE = "ext4-5.13"
SYSTEMS = ("ext4-dax", "ext4")
UNITS = (1024, 16384, 262144, 512)  # in the order of the measurement

# Rows excluded from the fit as its test: sums of mechanisms that other rows give.
CHECKS = ("cwrite64k", "cwrite64k_sync", "create_fsync", "unlink0_sync", "unlinkl_sync", "unlink64k_sync")

# cost: site, unit, source: rows of measured_513.csv and, for names, measured_namespace_ext4.csv
MEANING = {
    "null_call": ("syscall", "call that is not modelled further", "null"),
    "dax_write_call": ("syscall", "write() without the cost of each mapped run", "rewrite of ext4-dax"),
    "dax_read_call": ("syscall", "read() without the cost of each mapped run", "read of ext4-dax"),
    "map_run": ("mapping", "run of blocks that a DAX read or write maps", "functions of iomap, see MAPPING"),
    "copy_line": ("copy", "64 bytes of a copy to persistent memory", "function __copy_user_nocache"),
    "handle": ("journal handle", "journal handle, start and stop", "functions of a handle, see HANDLE"),
    "inode_update": ("inode", "ext4_mark_inode_dirty, checksum included", "append against rewrite of ext4"),
    "orphan": (
        "orphan list",
        "file added to the orphan list and removed from it, with superblock checksums",
        "append of ext4-dax",
    ),
    "allocate": ("allocation", "run of blocks allocated by a DAX write", "append 512 to 16384 of ext4-dax"),
    "zero_block": ("zeroing", "block zeroed, without its stores", "append 16384 and 262144 of ext4-dax"),
    "cache_write_call": ("syscall", "write() without its pages", "rewrite of ext4"),
    "cache_page": ("page cache", "page written, without its journal handle", "rewrite of ext4"),
    "cache_page_new": ("page cache", "page that enters the cache", "append 512 to 16384 of ext4"),
    "cache_read_call": ("syscall", "read() without its pages", "read of ext4"),
    "cache_read_page": ("page cache", "page read", "read 16384 and 262144 of ext4"),
    "cache_fill_page": ("page cache", "page read from the device", "block layer's part of zero_block; not measured"),
    "timer_tick": ("syscall", "4096 bytes read: interrupts during a rep-string of 1 ns a byte", "read 262144"),
    "fsync_call": ("syscall", "fsync() without write-back and commit", "quiet fsync"),
    "flush_call": ("writeback", "step of write-back of a file", "wsync of ext4 against ext4-dax"),
    "flush_page": ("writeback", "page written back, without its copy", "wsync 16384 and 262144 of ext4"),
    "flush_run": ("allocation", "run of pages that gets its blocks at write-back", "wsync 512 to 16384 of ext4"),
    "commit": ("journal", "commit of a transaction", "wsync of ext4-dax, create_sync"),
    "journal_block": ("journal", "block written to the log, without its copy", "wsync, mkdir_sync"),
    "revoke": ("journal", "revoke record", "rmdir_sync"),
    "checkpoint_block": ("checkpoint", "block written in place, without its copy", "the _sync rows"),
    "create": (
        "namespace",
        "open(O_CREAT) of a new file, without the search of entries",
        "create less close and entries",
    ),
    "open": ("namespace", "open of an existing file", "openclose less close"),
    "close": ("namespace", "close", "openclose, which measured both together, by the share that close has in the lab"),
    "unlink": ("namespace", "unlink that leaves another name, without the search of entries", "unlinkl less entries"),
    "remove": (
        "namespace",
        "unlink of the last name, without freeing blocks and the search of entries",
        "unlink0 less entries",
    ),
    "free_run": ("allocation", "run of blocks freed", "unlink64k of ext4-dax"),
    "free_page": ("page cache", "page dropped from the cache", "unlink64k of ext4"),
    "rename": ("namespace", "rename, without the search of entries", "rename less entries"),
    "link": ("namespace", "link, without the search of entries", "link less entries"),
    "mkdir": ("namespace", "mkdir, without the search of entries", "mkdir less entries"),
    "rmdir": ("namespace", "rmdir, without freeing the block and the search of entries", "rmdir less entries"),
    "stat": ("namespace", "stat", "stat"),
    "sync_call": ("syscall", "sync() without write-back and commit", "null; not measured alone"),
    "search_entry": ("namespace", "directory entry compared with a name", "entries, scaled to rows of names"),
    "place_entry": (
        "namespace",
        "directory entry searched for free space after it",
        "entries, scaled to rows of names",
    ),
    "remove_entry": ("namespace", "directory entry before a removed one", "entries, scaled to rows of names"),
    "join_block": ("journal handle", "metadata block that joins a transaction", "first"),
    "access_time": ("inode", "access time that a read sets, its handle included", "first reads less later reads"),
    "cache_page_dirty": ("page cache", "clean page that becomes dirty", "clean pages less dirty pages"),
    "convert": (
        "allocation",
        "run of unwritten blocks that a DAX write marks as written, without their zeroing",
        "writes into fallocated blocks, on 6.1",
    ),
    "split_extent": (
        "allocation",
        "such a run that continues no written extent, so that its own extent is split",
        "writes into fallocated blocks, on 6.1",
    ),
    "lookup": (
        "namespace",
        "name that the dentry cache does not know, without the search of entries",
        "names, scaled to rows of names",
    ),
    "probe": ("namespace", "search of a directory's index", "hashed, scaled to rows of names"),
    **{name: (*words, "directories.py, on 6.1") for name, words in directories.MEANING.items()},
}
# Measured on 6.1 by lab_costs.py, because no row of 5.13 determines them.
LAB = {
    "fsync_call": (1468.0, 478.0, 298.0),
    "join_block": (582.8, 174.9, 128.1),
    "cache_page_dirty": (634.3, 182.5, 105.0),
    "access_time": (2952.8, 902.5, 530.3),
    "convert": (3241.4, 946.0, 662.6),  # by unwritten.py
    "split_extent": (5150.1, 2204.2, 636.4),
    **directories.ON_61["ext4"],
}
# The same for names.  A row of 5.13 is a factor times 6.1's amounts for entries, plus another factor times 6.1's rest.
ENTRIES = {
    "search_entry": (138.9, 38.5, 18.0),
    "place_entry": (256.8, 64.6, 30.0),
    "remove_entry": (119.3, 25.1, 12.1),
}
NAMES = {"lookup": (2506.5, 674.3, 507.2), "probe": (1552.3, 363.3, 210.3)}
NAME_ROWS = ("create", "unlink0", "rename", "link", "unlinkl", "mkdir")
OPEN, CLOSE = (4614.9, 1339.5, 792.7), (1282.3, 401.8, 246.7)  # also on 6.1
CLOSE_SHARE = np.array(CLOSE) / np.add(OPEN, CLOSE)
# A rewrite of 262144 has 64 pages with a handle each; an append of 512 has two starts (one nested) by its wrapper.
HANDLE = ("start_this_handle", "jbd2_journal_stop", "jbd2__journal_start", "kmem_cache_alloc", "kmem_cache_free")
# A rewrite or read of 1024 maps one run: the sum of its functions in the data file but the copy, mean of the two passes.
MAPPING = ("rewrite", "read")
# zero_block without the zeroing itself (memcpy_flushcache of a page: 1061 instructions besides its stores, 518 loads, 5
# stores), as fitted when this was written.
BLOCK_LAYER = (273, 75, 38)
# Costs that rows give directly.
DIRECT = (
    "null_call",
    "map_run",
    "copy_line",
    "handle",
    "stat",
)

ESTIMATES = ("cache_fill_page", "close", "open", "sync_call")

HEADER = """\
# Costs of ext4 and ext4-dax on Linux 5.13.13: instructions, loads and stores (rep-strings left out) per unit, as
# counted on an emulated machine; written by tools/calibration/ext4.py.  Rows named in a source are those of
# tests/verification/data; "lab" are measurements of tools/calibration/lab_costs.py on Linux 6.1.
"""


def measured():
    """Return {(fs, pass, unit): row}; namespace rows have unit 0."""
    rows = {}
    with open(cells.DATA / "measured_513.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["fs"] in SYSTEMS:
                rows[row["fs"], row["op"], int(row["unit"])] = row
    with open(cells.DATA / "measured_namespace_ext4.csv", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["fs"], row["op"], 0] = row
    return rows


def templates_of(fs):
    """Return a model's templates."""
    return all_templates("dax" in fs, copy="nocache" if fs == "ext4-dax-linux4" else "")


def structure(fs, identity, units=UNITS):
    """Return {(fs, pass, unit): amounts per call}; with `identity`, first the counts of costs, then copies' amounts."""
    found = {}
    for transfers in (True, False):
        if transfers:
            ops, labels = lab.transfer_sequence(units)
            files = lab.side_table(["/bench"])
        else:
            ops, labels, files = lab_names.sequence()
        model = lab.begin(fs, files, capacity=2 << 30)
        state = model.state
        if identity:
            state.record.cost[0, : len(COSTS)] = [(1000, 0, 0, k) for k in range(len(COSTS))]
            load_templates(state, templates_of(fs), merge=False)
        sums = np.zeros((len(ops), len(COSTS) + len(lab.AMOUNTS)))
        for e in model.events(ops):
            amounts = lab.amounts(e)
            if identity:
                work = e["code"] == lab.r.WORK
                np.add.at(sums, (e["op"][work], e["site"][work]), amounts[work, 0])
                amounts[work] = 0
            np.add.at(sums[:, len(COSTS) :], e["op"], amounts)
        keys = [label if transfers or label is None else (label, 0) for label in labels]
        for key in dict.fromkeys(k for k in keys if k):
            chosen = np.array([k == key for k in keys])
            calls = chosen.sum() / (2 if key[0] == "wsync" else 1) if transfers else 1000
            found[(fs, *key)] = sums[chosen].sum(0) / calls
    return found


def nonnegative(matrix, target):
    """Return the least-squares solution without negative values (Lawson and Hanson's active set)."""
    x = np.zeros(matrix.shape[1])
    free = np.zeros(len(x), bool)
    while True:
        gradient = matrix.T @ (target - matrix @ x)
        gradient[free] = -1
        if gradient.max() < 1e-9:
            return x
        free[gradient.argmax()] = True
        while True:
            trial = np.zeros(len(x))
            trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
            if trial[free].min() > 0:
                x = trial
                break
            low = free & (trial <= 0)
            step = (x[low] / (x[low] - trial[low])).min()
            x = x + step * (trial - x)
            free &= x > 1e-12


def given(rows):
    """Return {cost: (instructions, loads, stores)} of the costs that are not fitted."""
    functions = {}
    with open(cells.DATA / "measured_functions_ext4.csv", newline="") as file:
        for row in csv.DictReader(file):
            amounts = [float(row[name]) for name in ("ins_call", "ld_call", "st_call")]
            functions[row["fs"], row["op"], int(row["unit"]), row["func"]] = np.array(amounts)
    handle = sum(functions["ext4", "rewrite", 262144, name] for name in HANDLE) / 64
    handle = handle + functions["ext4", "append", 512, "__ext4_journal_start_sb"] / 2
    mapping = [v for k, v in functions.items() if k[0] == "ext4-dax" and k[2] == 1024 and "copy_user" not in k[3]]
    null = [float(rows["ext4", "null", 1][name]) for name in COLUMNS]
    pair = np.mean([[float(rows[fs, "openclose", 0][name]) for name in COLUMNS] for fs in SYSTEMS], axis=0)
    copies = [functions["ext4-dax", "rewrite", unit, "__copy_user_nocache"][0] for unit in (1024, 262144)]
    per_line = (copies[1] - copies[0]) / (261120 / 64) - 16  # 8 loads and 8 stores of a line are counted by width
    return {
        "null_call": null,
        "sync_call": null,
        "copy_line": (per_line, 0, 0),
        "map_run": sum(mapping) / len(MAPPING),
        "handle": handle,
        "cache_fill_page": BLOCK_LAYER,
        "close": pair * CLOSE_SHARE,
        **LAB,
    }


def names(rows, counts):
    """Return {cost: (instructions, loads, stores)} of searching names, from the lab's; `counts`: cost counts by row."""
    later, costs = tables.names("ext4-dax", "6.1"), {}
    for j, column in enumerate(COLUMNS):
        looked = [sum(counts[op][COSTS.index(c)] * value[j] for c, value in ENTRIES.items()) for op in NAME_ROWS]
        rest = [later[op][j] - amount for op, amount in zip(NAME_ROWS, looked, strict=True)]
        target = np.array([float(rows["ext4-dax", op, 0][column]) for op in NAME_ROWS])
        factor = np.linalg.lstsq(np.column_stack([rest, looked]) / target[:, None], np.ones(len(target)), rcond=None)[0]
        for cost, value in (ENTRIES | NAMES).items():
            costs.setdefault(cost, []).append(factor[int(cost in ENTRIES)] * value[j])
    return costs


def fit(rows):
    """Return the costs, an array (len(COSTS), 3), from the measured rows."""
    found = {}
    for fs in SYSTEMS:
        found |= structure(fs, identity=True)
    keys = [k for k in found if k in rows and k[1] not in CHECKS]
    counts = np.array([found[k][: len(COSTS)] for k in keys])
    costs = np.zeros((len(COSTS), 3))
    fixed = given(rows) | names(rows, {op: found["ext4-dax", op, 0] for op in NAME_ROWS})
    for name, value in fixed.items():
        costs[COSTS.index(name)] = value
    unknown = [k for k, name in enumerate(COSTS) if name not in fixed and counts[:, k].any()]
    for j, column in enumerate(COLUMNS):
        target = np.array([float(rows[k][column]) for k in keys])
        rest = target - np.array([found[k][len(COSTS) + j] for k in keys]) - counts @ costs[:, j]
        costs[unknown, j] = nonnegative(counts[:, unknown] / target[:, None], rest / target)
    return costs


def table(costs):
    """Return the cost table as TOML text."""
    found = {}
    for name, amounts in zip(COSTS, costs, strict=True):
        site, per, rows = MEANING[name]
        kind = "estimate" if name in ESTIMATES else "measured" if name in (*DIRECT, *LAB) else "fitted"
        source = "lab" if name in (*LAB, *ENTRIES, *NAMES) else "rows"
        found[name] = Cost(amounts, site, per, kind, f"{source}: {rows}")
    return tables.text(HEADER, found, tables.tenths)


def compare(rows):
    """Return [(row, relative errors of loads + stores, instructions, stored bytes)], worst first."""
    result = []
    for fs in SYSTEMS:
        for key, amounts in structure(fs, identity=False).items():
            if key not in rows:
                continue
            row = {name: float(value) for name, value in rows[key].items() if name not in ("kernel", "fs", "op")}
            model = dict(zip(lab.AMOUNTS, amounts[len(COSTS) :], strict=True))
            accesses = (model["ld"] + model["st"]) / (row["ld_norep_call"] + row["st_norep_call"]) - 1
            stored = model["pmst"] / row["pmstB_call"] - 1 if row["pmstB_call"] else float(model["pmst"] != 0)
            result.append((key, accesses, model["ins"] / row["ins_call"] - 1, stored))
    return sorted(result, key=lambda entry: -max(map(abs, entry[1:])))


def with_costs(costs):
    """Return a context in which the model uses these costs, including those that the table on disk lacks."""
    mine = tomllib.loads(table(costs))
    return changed(lambda name, found: mine if name == TABLE else found)


def derive():
    """Return the cost table, and print the errors of each row."""
    rows = measured()
    with with_costs(np.zeros((len(COSTS), 3))):
        costs = fit(rows)
    with with_costs(costs):
        print(f"{'row':36} {'ld+st':>8} {'ins':>8} {'stored':>8}")
        for key, *deviations in compare(rows):
            print(f"{' '.join(map(str, key)):36} " + " ".join(f"{100 * value:+7.2f}%" for value in deviations))
    return {f"ext4/{TABLE}": table(costs)}
