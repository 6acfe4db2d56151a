"""Measure in the lab the costs of ext4 that no microbenchmark cell determines, and calibrate starting from them.

    python -m tools.calibration.lab_costs FOLDER
    python -m tools.calibration.lab_costs FOLDER --fit RESULT --fs ext4-dax -o ext4-dax-6.1.toml

Each trace repeats the work of one cost, a known number of times per call; the cost is the amount of the kernel functions that
do the work, or of the calls less their other work.  None of the traces is a row of the card (lab_card.py).  The second form is
`scmsim lab calibrate` with units of 1, 16 and 256 KiB, starting from a table that has the measured costs.
"""

import argparse
import csv
import pathlib

import numpy as np

from scmsim.core.records import CLOSE, CREATE, FSYNC, OPEN, READ, SETUP, SYNC, UNLINK, WRITE
from scmsim.fs.engine.costs import changed
from scmsim.result import read
from scmsim.study import calibrate
from tests.verification import lab_card as card

UNITS = (1 << 10, 16 << 10, 256 << 10)
COUNT = 250  # files; fewer than a directory's only block has room for
COLUMNS = ("instructions", "mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
_FILE = [(CREATE, 1, 0, 0, SETUP), (WRITE, 1, 0, 4096, SETUP), (SYNC, -1, 0, 0, SETUP)]
_AGAIN = [(op, 2, 0, 0, 0) for _ in range(300) for op in (CREATE, CLOSE, UNLINK)]
_OVER = [(WRITE, 1, at << 12, 4096, 0) for at in range(256)]
_PAGES = [(CREATE, 1, 0, 0, SETUP), (WRITE, 1, 0, 1 << 20, SETUP)]
_MANY = range(1, COUNT + 1)
_SMALL = [row for i in _MANY for row in ((CREATE, i, 0, 0, SETUP), (WRITE, i, 0, 4096, SETUP))] + [
    (SYNC, -1, 0, 0, SETUP)
]
_READS = [(READ, i, 0, 4096, 0) for i in _MANY]
TRACES = {
    # Create files, then remove them in reverse order: n + 2 entries (with the dots) precede the n-th file.
    "entries": (
        [(op, i, 0, 0, 0) for i in _MANY for op in (CREATE, CLOSE)] + [(UNLINK, i, 0, 0, 0) for i in reversed(_MANY)],
        COUNT + 1,
    ),
    # A name that is known to be absent (a negative dentry), in a directory with one block and in one with an index.
    "again": ([*_FILE, *_AGAIN], 3),
    "hashed": ([*[(CREATE, i, 0, 0, SETUP) for i in range(3, 403)], *_AGAIN], 403),
    # The same in a directory of one file, each time in a new transaction: file 1 is written and synced before.
    "first": (
        [
            (CREATE, 1, 0, 0, SETUP),
            *[
                row
                for at in range(200)
                for row in (
                    *((WRITE, 1, at << 12, 4096, SETUP), (FSYNC, 1, 0, 0, SETUP), (CREATE, 2, 0, 0, 0)),
                    *((CLOSE, 2, 0, 0, SETUP), (UNLINK, 2, 0, 0, SETUP)),
                )
            ],
        ],
        3,
    ),
    # Write each page of a file once: after a sync, and when all pages are dirty.
    "clean pages": ([*_PAGES, (SYNC, -1, 0, 0, SETUP), *_OVER], 2),
    "dirty pages": ([*_PAGES, (SYNC, -1, 0, 0, SETUP), *[(*row[:4], SETUP) for row in _OVER], *_OVER], 2),
    # The first read of a file after its write, and the second read.
    "first reads": ([*_SMALL, *_READS], COUNT + 1),
    "later reads": ([*_SMALL, *[(*row[:4], SETUP) for row in _READS], *_READS], COUNT + 1),
    "quiet": ([*_FILE, *[(op, 1, 0, 0, 0) for _ in range(300) for op in (FSYNC, OPEN, CLOSE)]], 2),
}
MATCH = ("ext4_match", "fscrypt_match_name", "memcmp")
FIRST_JOINS = 4  # blocks that a create of "first" changes: directory, inode table, inode bitmap, group descriptor
ENTRIES = (*MATCH, "ext4_search_dir", "__ext4_check_dir_entry", "ext4_find_dest_de", "ext4_generic_delete_entry")


def functions(folder, trace, fs):
    """Return {(kind of operation, function): (instructions, loads, stores) per call}."""
    with open(folder / f"lab-{trace.replace(' ', '-')}" / "functions.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["fs"] == fs]
    return {(row["op"], row["func"]): np.array([float(row[column]) for column in COLUMNS]) for row in rows}


def entry_costs(found):
    """Return the costs of an examined directory entry, from the mean number of examined entries per call."""

    def each(op, names, count):
        return sum(found[op, name] for name in names) / count

    before = (COUNT - 1) / 2 + 2
    match = each("create", MATCH, 2 * before + 1)  # the lookup also examines the checksum's entry
    check = each("create", ["__ext4_check_dir_entry"], before)
    return {
        "search_entry": match + each("create", ["ext4_search_dir"], before + 1),
        "place_entry": match + check + each("create", ["ext4_find_dest_de"], before),
        "remove_entry": check + each("unlink", ["ext4_generic_delete_entry"], before + 1),
    }


def per_call(run, kind):
    """Return instructions, loads and stores per call of a kind."""
    counters, count = run.groups.get(kind, run.counters), run.params.get(f"calls_{kind}", run.calls)
    return np.array([counters[name] for name in COLUMNS]) / count


def quiet_costs(run):
    """Return the costs of calls that find nothing to do, from the run of the trace "quiet"."""
    return {"open": per_call(run, "open"), "close": per_call(run, "close"), "fsync_call": per_call(run, "fsync")}


def quiet_costs_of(folder, fs, kernel):
    """Return `quiet_costs` of any file system, after running the trace if needed."""
    path = folder / "quiet.parquet"
    card.store(*TRACES["quiet"], path)
    return quiet_costs(card.measure({"quiet": path}, [fs], folder, kernel)["quiet"].runs[0])


def name_costs(runs, found):
    """Return the costs of names without the examined entries; `found`: functions by trace."""

    def rest(trace, kind):
        return per_call(runs[trace], kind) - sum(found[trace].get((kind, name), 0) for name in ENTRIES)

    kinds = ("create", "unlink")
    return {
        "create": rest("again", "create"),
        "remove": rest("again", "unlink"),
        "lookup": rest("entries", "create") - rest("again", "create"),
        "probe": np.mean([rest("hashed", kind) - rest("again", kind) for kind in kinds], axis=0),
        "join_block": (rest("first", "create") - rest("again", "create")) / FIRST_JOINS,
        "cache_page_dirty": rest("clean pages", "write") - rest("dirty pages", "write"),
        "access_time": rest("first reads", "read") - rest("later reads", "read"),
    } | quiet_costs(runs["quiet"])


def costs_of(folder, fs, kernel=None):
    """Return {cost: (instructions, loads, stores)} on a kernel (by default one kept by the lab); make missing runs."""
    paths = {name: folder / f"{name.replace(' ', '-')}.parquet" for name in TRACES}
    for name, path in paths.items():
        if not path.exists():
            card.store(*TRACES[name], path)
    measured = card.measure(paths, ["ext4-dax", "ext4"], folder, kernel)
    found = {name: functions(folder, name, fs) for name in TRACES}
    runs = {name: next(run for run in result.runs if run.fs == fs) for name, result in measured.items()}
    return entry_costs(found["entries"]) | name_costs(runs, found)


def fitted(costs, result, fs, params=None):
    """Return the calibration of a model, starting from its table with `costs` inserted."""

    def start(_, table):
        return table | {
            cost: table[cost] | dict(zip(calibrate.COLUMNS, map(float, costs[cost]), strict=True))
            for cost in costs.keys() & table.keys()
        }

    with changed(start):
        return calibrate.calibrate(result, fs, UNITS, params)


def main():
    """Print the costs; with --fit, fit the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--fs", default="ext4-dax")
    parser.add_argument("--fit", metavar="RESULT", help="of scmsim lab run: transfers, with names = 1000")
    parser.add_argument("-o", metavar="TABLE.toml", help="where the fitted table goes")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    costs = costs_of(given.folder, given.fs)
    for name, values in costs.items():
        print(f"{name:20}" + "".join(f"{value:10.1f}" for value in values))
    if given.fit:
        result = read(given.fit)
        found = fitted(costs, result, given.fs)
        print(*found.summary(), sep="\n")
        calibrate.write(found, given.o, str(result.manifest.get("kernel", "")).removeprefix("Linux "))


if __name__ == "__main__":
    main()
