"""Derive fs/ext2/costs/{ext2-dax-5.13,ext2-dax-6.1,ext2-6.1,ext2-ramdisk}.toml: costs of ext2's code per mechanism.

The model gives how often each cost is charged in each measured row (its structure), and the amounts of bulk copies; a ridge
fit moves priors as little as possible until the totals of a kernel's 12 rows are met.  The driver of ext4 has measured rows of
names, minus the model's other charges.  ext2's own driver has none: its costs of names are those rows without the work on
a hashed directory (an added entry: row link less ramfs' link; a removed entry: the search of half a leaf), and its search
costs as much as the same loop of PMFS; both are estimates.
"""

import numpy as np

from scmsim.core.records import CONTINUES, SETUP, WORK
from scmsim.fs.engine.events import load_templates
from scmsim.fs.ext2.templates import CACHE_COSTS, DAX_COSTS, ENTRY_COSTS, all_templates
from tests.fs import lab
from tests.verification import cells
from tools.calibration import directories, ext4, tables
from tools.calibration.tables import Cost

LISTED = {
    True: directories.SOURCE,
    False: "estimate: as XFS on 6.1, which also lists names in the order of their places, while ext4's driver sorts their hashes",
}
FIRST = 100  # site of the first cost while costs are counted

# cost: site, per
MEANING = {
    "write_call": ("syscall", "write() without the cost of each mapped run"),
    "read_call": ("syscall", "read() without the cost of each mapped run"),
    "map_run": ("mapping", "run of blocks that a DAX read or write maps"),
    "map_level": ("mapping", "pointer block on the way to a run"),
    "scan_block": ("mapping", "block of a run that a pointer block names (ext2_get_blocks counts them one by one)"),
    "copy_line": ("copy", "64 bytes of a copy to persistent memory"),
    "allocate": ("allocation", "run of blocks allocated by a DAX write; page that gets a block in the page cache"),
    "new_pointers": ("allocation", "pointer block added to a file"),
    "zero_block": ("zeroing", "block zeroed, without its stores"),
    "inode_update": ("inode", "inode marked dirty"),
    "fsync_call": ("syscall", "fsync() without write-back and the blocks that it stores"),
    "metadata_block": ("metadata", "block of metadata stored in place, without its copy"),
    "late_block": ("metadata", "block of metadata stored by write-back, in addition to metadata_block"),
    "cache_write_call": ("syscall", "write() without its pages"),
    "cache_page": ("page cache", "page written"),
    "cache_page_new": ("page cache", "page that enters the cache"),
    "cache_read_call": ("syscall", "read() without its pages"),
    "cache_read_page": ("page cache", "page read"),
    "cache_fill_page": ("page cache", "page read from the device"),
    "flush_call": ("writeback", "step of write-back of a file"),
    "flush_page": ("writeback", "page written back, without its copy"),
    "null_call": ("syscall", "call that is not modelled further"),
    "timer_tick": ("syscall", "4096 bytes read: interrupts during a rep-string of 1 ns a byte"),
    "scan_entry": ("directory scan", "entry of a linear directory that is examined"),
    "free_run": ("allocation", "run of blocks freed"),
    "free_page": ("page cache", "page dropped from the cache"),
    "sync_call": ("syscall", "sync() without write-back"),
    "forgotten_block": ("metadata", "pointer block freed while dirty, whose page write-back examines but does not store"),
    "recent_inode": ("namespace", "inode freed in an earlier second that the search for a new inode skips"),
    **directories.MEANING,
    **{name: ext4.MEANING[name][:2] for name in ENTRY_COSTS},
}  # fmt: skip
ENTRIES = ext4.ENTRIES | ext4.NAMES
# By name_costs.py: names in a directory without others, by ext4's driver; and the factor from ext4-dax' costs of entries.
SMALL = {
    "ext2-dax": {
        "create": (12864.5, 3947.1, 2413.3),
        "unlink": (7139.4, 2150.0, 1334.8),
        "remove": (12770.3, 3897.9, 2392.5),
        "rename": (12531.2, 3814.4, 2299.7),
        "link": (8880.7, 2686.0, 1575.1),
        "mkdir": (28187.5, 8761.9, 4758.9),
        "rmdir": (15993.6, 4997.8, 3084.1),
    },
    "ext2": {
        "create": (13296.8, 4056.6, 2484.7),
        "unlink": (6961.7, 2103.5, 1308.2),
        "remove": (12365.3, 3793.9, 2329.4),
        "rename": (12500.2, 3805.9, 2296.2),
        "link": (8929.3, 2700.8, 1583.3),
        "mkdir": (28341.7, 8802.1, 4780.2),
        "rmdir": (15807.2, 4950.5, 3055.6),
    },
}
ENTRY_FACTOR = np.array([0.935, 0.925, 1.000])
SMALL_SOURCE = "lab, name_costs.py, Linux 6.1: no others in the directory"
ENTRY_SOURCE = "lab, name_costs.py, Linux 6.1: ext4-dax' (lab_costs.py) times a factor, by 100 others in the directory"
NAMES = ("create", "open", "close", "unlink", "remove", "rename", "link", "mkdir", "rmdir", "stat")

# (instructions, loads, stores, weight) before the fit, and their source.
DAX = {
    "write_call": (700, 230, 150, 0.1, "vfs_write, new_sync_write, ext2_file_write_iter, file_update_time, dax_iomap_rw, entry and exit"),
    "read_call": (650, 200, 110, 0.1, "vfs_read, new_sync_read, ext2_file_read_iter, atime_needs_update, entry and exit"),
    "map_run": (560, 170, 130, 0.3, "iomap_apply, dax_iomap_actor, ext2_iomap_begin, __pmem_direct_access, ext2_get_blocks (rewrite 1024)"),
    "map_level": (162, 48, 28, 1, "ext2_get_branch, __find_get_block, __getblk_gfp, mark_page_accessed (read 1024: 1.74 levels)"),
    "scan_block": (33.3, 10.2, 0.02, 2, "ext2_get_blocks, read 262144 less read 1024, a block"),
    "copy_line": (5.1, 0.1, 0, 2, "__copy_user_nocache: 338 instructions for 1024 bytes, 256 of them the moves"),
    "allocate": (1500, 450, 330, 0.3, "ext2_new_blocks, ext2_try_to_allocate, ext2_get_blocks, submission of the zeroing (append 16384)"),
    "new_pointers": (1500, 450, 330, 0.3, "as allocate: one per 1024 blocks, not measured alone"),
    "zero_block": (1250, 580, 40, 0.5, "__memcpy_flushcache without its 512 stores, write_pmem, pmem_do_write, bio_add_page (append 262144)"),
    "inode_update": (150, 50, 25, 0.5, "__mark_inode_dirty and its callers (append 1024)"),
    "fsync_call": (1200, 400, 250, 0.1, "wsync 1024 less append 1024 less its blocks"),
    "metadata_block": (3000, 1050, 450, 0.3, "__memcpy_flushcache, submit_bio_noacct, pmem_submit_bio, submit_bh_wbc (wsync)"),
}  # fmt: skip
DAX_EXT4 = DAX | {
    "inode_update": (1000, 350, 250, 0.1, "append 1024 less rewrite 1024 less a quarter of a page"),
    "scan_block": (0.1, 0.05, 0, 2, "ext4 keeps mapped runs in its extent status tree"),
    "map_level": (5, 1, 1, 2, "as scan_block"),
    "allocate": (9000, 2300, 2500, 0.1, "append 262144: a block at a time (ext4_mb_new_blocks, its csum and preallocation)"),
    "metadata_block": (3000, 1050, 450, 0.5, "as on 5.13"),
}  # fmt: skip
CACHED = {
    "cache_write_call": (780, 376, 217, 0.1, "rewrite 16384 less four pages"),
    "cache_page": (1200, 368, 195, 0.3, "rewrite 262144 less rewrite 16384, a page"),
    "cache_page_new": (900, 260, 160, 0.5, "page that enters the cache of ramfs: append less rewrite"),
    "allocate": (7500, 2300, 1300, 0.3, "append 262144 less append 16384, a page, less the rest"),
    "inode_update": (300, 130, 60, 0.3, "ext4_mark_inode_dirty without a journal (append 1024)"),
    "cache_read_call": (1170, 331, 196, 0.1, "read 16384 less four pages"),
    "cache_read_page": (282, 68.8, 36.9, 0.3, "read 262144 less read 16384, a page"),
    "flush_call": (1500, 450, 300, 0.5, "ext4_writepages, blk_start_plug (wsync)"),
    "flush_page": (1800, 850, 250, 0.3, "memcpy_flushcache without its 512 stores, bio (wsync 262144)"),
    "fsync_call": (1000, 300, 200, 0.3, "ext4_sync_file, file_write_and_wait_range, blkdev_issue_flush (wsync 1024)"),
    "metadata_block": (3000, 1050, 450, 0.5, "as on 5.13"),
}  # fmt: skip
TICK = (5.9, 1.8, 1.2)  # as fitted for ext4 to its reads of 262144
SCAN = (38.6, 10.3, 4.1)  # match_entry of pmfs-5.13.toml, measured: the same loop over the same names
# Lab, 6.1.0-56 (Debian 12): creates of 1000 files after 1000 unlinks in an earlier second (1.1 s of reads between), less
# the same without the reads, divided by 1000 * 1000.
RECENT = (277.7, 84.0, 33.8)
RECENT_SOURCE = (
    "lab, Debian's kernel 6.1.0-56: 1000 creates after 1000 unlinks of an earlier second less the same of one second"
)
# Directories of mkdir's 1000 that stay in the parent's block group (fs/ext4/ialloc.c, find_group_orlov: a sixteenth of
# its 8192 inodes and of all directories); each passes over the 1000 files unlinked in an earlier second, so that a call
# of the row has this many recent_inode.
PASSED_BY_MKDIR = 546
HALF_LEAF = 95  # entries: leaves of 4096 bytes, three quarters full of entries of 16 bytes

# table: (model, its rows, its priors, kernel, hashed directories)
TABLES = {
    "ext2-dax-5.13": ("ext2-dax", "ext2-dax", DAX, "5.13.13, ext2's own driver", False),
    "ext2-dax-6.1": ("ext2-dax", "6.1:ext2-dax", DAX_EXT4, "6.1, the driver of ext4", True),
    "ext2-6.1": ("ext2", "6.1:ext2", CACHED, "6.1, the driver of ext4", True),
    "ext2-ramdisk": (
        "ext2",
        "6.1:ext2",
        CACHED,
        "6.1 with the driver of ext4, applied to ext2's own driver on a RAM disk",
        False,
    ),
}


def counted(fs: str, rows: str, row: dict) -> tuple[np.ndarray, np.ndarray]:
    """Return (counts of each cost, instructions, loads and stores of the copies) per call of a row."""
    work, names = cells.workload(row), DAX_COSTS if fs == "ext2-dax" else CACHE_COSTS
    model = lab.begin(fs, work.files, **cells.kernel({**row, "kernel": "6.1" if ":" in rows else "5.13"}))
    state = model.state
    state.record.cost[0, : len(names)] = [(1000, 0, 0, FIRST + k) for k in range(len(names))]
    load_templates(state, all_templates(names, fs == "ext2-dax", False, False), merge=False)
    counts, direct, calls = np.zeros(len(names)), np.zeros(3), 0
    for batch in work.batches():
        keep = (batch.flag & SETUP) == 0
        calls += int((keep & ((batch.flag & CONTINUES) == 0)).sum())
        for chunk in model.events(batch):
            events = chunk[keep[chunk["op"]]]
            charged = events["code"] == WORK
            np.add.at(counts, events["site"][charged] - FIRST, events["addr"][charged] / 1000)
            direct += lab.amounts(events[~charged]).sum(0)[:3]
    return counts / calls, direct / calls


def fit(table: str) -> dict[str, list[float]]:
    """Return the fitted costs, and print the errors."""
    fs, rows, priors, *_ = TABLES[table]
    measured, names = cells.measured(rows), DAX_COSTS if fs == "ext2-dax" else CACHE_COSTS
    counts, direct = (np.array(part) for part in zip(*(counted(fs, rows, row) for row in measured), strict=True))
    fitted, left = tables.ridge(measured, (counts, direct), names, priors, {"timer_tick": TICK})
    print(table)
    tables.report(left)
    return fitted


def name_costs(fitted: dict[str, list[float]], fs: str, hashed: bool) -> dict[str, tuple[np.ndarray, str, str]]:
    """Return the costs of operations on names and of freeing: (amounts, kind, source)."""
    row, plain = tables.names("ext2", "6.1"), tables.names("ramfs", "6.1")
    entry, gone = row["link"] - plain["link"], HALF_LEAF * np.array(SCAN)
    pair = row["openclose"]
    closed = pair * ext4.CLOSE_SHARE
    found = {
        "create": (row["create"] - closed, "create less close", entry),
        "open": (pair - closed, "openclose less close", 0),
        "close": (closed, "openclose by ext4-dax' share of close in the lab, 6.1", 0),
        "unlink": (row["unlinkl"], "unlinkl", row["unlinkl"] - plain["unlinkl"]),
        "remove": (row["unlink0"], "unlink0", gone),
        "rename": (row["rename"], "rename", entry + gone),
        "link": (row["link"], "link", entry),
        "mkdir": (
            row["mkdir"] - PASSED_BY_MKDIR * np.array(RECENT),
            f"mkdir less {PASSED_BY_MKDIR} recent_inode",
            entry,
        ),
        "rmdir": (row["rmdir"], "rmdir", gone),
        "stat": (row["stat"], "stat", 0),
    }
    freed = (row["unlink64k"] - row["unlink0"]) / 17
    table = {}
    for name, (amounts, text, directory) in found.items():
        kind = "estimate" if name in ("open", "close") else "measured"
        if not hashed and name not in ("open", "close", "stat"):
            amounts, kind, text = (
                amounts - directory,
                "estimate",
                f"{text} less the work on a hashed directory (see tools/calibration/ext2.py)",
            )
        if name == "rmdir":
            amounts = amounts - freed
        table[name] = (np.maximum(amounts, 0), kind, f"rows of ext2 in measured_namespace.csv: {text}")
    if hashed:
        table |= {name: (np.array(amounts), "measured", SMALL_SOURCE) for name, amounts in SMALL[fs].items()}
        table |= {name: (np.array(ENTRIES[name]) * ENTRY_FACTOR, "fitted", ENTRY_SOURCE) for name in ENTRY_COSTS}
    source = "rows of ext2 in measured_namespace.csv"
    table["free_run"] = (freed, "fitted", f"{source}: (unlink64k - unlink0) / 17: 16 pages and a run")
    table["free_page"] = table["free_run"]
    late = (
        500 * (row["create_sync"] / 73 + row["mkdir_sync"] / 1075)
        - fitted["metadata_block"]
        - np.array([1024, 512, 512])
    )
    table["late_block"] = (
        np.maximum(late, 0),
        "fitted",
        f"{source}: mean of create_sync's 73 blocks and mkdir_sync's 1075",
    )
    block = 500 * (row["create_sync"] / 73 + row["mkdir_sync"] / 1075)
    table["forgotten_block"] = (
        row["unlink64k_sync"] - 72 / 1000 * block,
        "fitted",
        f"{source}: unlink64k_sync less its 72 blocks, by a pointer block a file",
    )
    table["recent_inode"] = (np.array(RECENT), "measured", RECENT_SOURCE)
    table["sync_call"] = (
        1000 * plain["create_sync"],
        "measured",
        "rows of ramfs in measured_namespace.csv: create_sync",
    )
    return table


def costs(table: str) -> dict[str, tuple[np.ndarray, str, str]]:
    """Return every cost of a table: (amounts, kind, source)."""
    fs, rows, priors, _, hashed = TABLES[table]
    fitted = fit(table)
    names, kernel = DAX_COSTS if fs == "ext2-dax" else CACHE_COSTS, "610" if ":" in rows else "513"
    null = tables.rows(f"measured_{kernel}.csv", rows.rpartition(":")[2])["null", 1]
    found = {
        name: (
            amounts,
            "fitted",
            f"ridge fit to the 12 rows of ext2 in measured_{kernel}.csv; prior: {priors[name][4]}",
        )
        for name, amounts in fitted.items()
    }
    found["null_call"] = (
        null,
        "measured",
        f"measured_{kernel}.csv: null",
    )
    found["timer_tick"] = (np.array(TICK), "estimate", "as fitted for ext4 to its reads of 262144")
    found["scan_entry"] = (
        np.array(SCAN),
        "estimate",
        "measured for PMFS, whose pmfs_match and loop are those of ext2 (pmfs-5.13.toml)",
    )
    found["cache_fill_page"] = (
        np.array([1800.0, 850, 762]),
        "estimate",
        "as a page written back, the 512 stores of its copy included",
    )
    found |= name_costs(fitted, fs, hashed)
    driver = "ext4" if hashed else "xfs"
    kind = "measured" if hashed else "estimate"
    found |= {name: (np.array(amounts), kind, LISTED[hashed]) for name, amounts in directories.ON_61[driver].items()}
    if hashed:
        names += ENTRY_COSTS
    if table == "ext2-ramdisk":
        found |= ram_disk(found)
    return {name: found[name] for name in names}


def ram_disk(found: dict[str, tuple[np.ndarray, str, str]]) -> dict[str, tuple[np.ndarray, str, str]]:
    """Return the costs that differ on a RAM disk: brd copies by rep-strings, without memcpy_flushcache's 512 loads."""
    less = {"flush_page": (1061, 518, 5), "metadata_block": (1061, 518, 5), "cache_fill_page": (1061, 518, 517)}
    return {
        name: (
            np.maximum(found[name][0] - np.array(amounts), 0),
            "estimate",
            f"{found[name][2]}; without __memcpy_flushcache of a page",
        )
        for name, amounts in less.items()
    }


def derive() -> dict[str, str]:
    """Return the cost tables."""
    found = {}
    for table, (_, _, _, kernel, _) in TABLES.items():
        head = (
            f"# Costs of ext2's code on {kernel}: instructions, loads and stores (rep-strings left out) per unit.\n"
            "# Written by tools/calibration/ext2.py, whose data files the sources name.\n"
        )
        entries = {
            name: Cost(amounts, *MEANING.get(name, ("namespace", f"{name}()")), kind, source)
            for name, (amounts, kind, source) in costs(table).items()
        }
        found[f"ext2/{table}"] = tables.text(head, entries, tables.tenths)
    return found
