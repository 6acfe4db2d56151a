"""Measure the costs of names in small directories in the lab.

    python -m tools.calibration.name_costs FOLDER [--kernel 6.1] [--fs ext2-dax,ext2,xfs-dax]

Traces create and remove files and directories in a directory without other entries, and in one with 100.  The first directory
gives each call's cost: the lab's count minus the model's other charges.  The additional amounts of the second directory give
the cost of an examined entry, as one factor for ext4's driver, or of an added or removed entry in a one-block directory of XFS.
The model's error for the second directory is printed after each cost.  FOLDER keeps the runs.  The amounts are copied into the
tables, and into ext2.py and xfs.py, by hand.
"""

import argparse
import pathlib

import numpy as np

import scmsim
from scmsim.core.records import CLOSE, CREATE, LINK, MKDIR, OP, RENAME, RMDIR, SETUP, UNLINK, Files
from scmsim.fs.engine.costs import COLUMNS, changed
from scmsim.fs.linux.templates import LOOKED_AT
from scmsim.study.calibrate import COUNTERS
from scmsim.trace import open_trace
from scmsim.trace.store import TraceWriter
from tests.verification import lab_card as card

COUNT, OTHERS = 200, (0, 100)
ENTRIES = {**dict.fromkeys(("ext4-dax", "ext2-dax", "ext2"), tuple(LOOKED_AT)), "xfs-dax": ("block_entry",)}
CALLS = ("create", "unlink", "remove", "rename", "link", "mkdir", "rmdir")
LIFE = (CREATE, CLOSE, LINK, RENAME, UNLINK)


def rows(others):
    """Return {trace: [(operation, file, flag)]}: lives of files, their last unlinks, lives of directories."""
    made = [(op, i, SETUP) for i in range(COUNT + 1, COUNT + 1 + others) for op in (CREATE, CLOSE)]
    files = range(1, COUNT + 1)
    lives = [[*((op, i, 0) for op in LIFE), (UNLINK, i, SETUP)] for i in files]
    ends = [[(CREATE, i, SETUP), (CLOSE, i, SETUP), (UNLINK, i, 0)] for i in files]
    folders = [[(MKDIR, i, 0), (RMDIR, i, 0)] for i in files]
    return {name: made + sum(each, []) for name, each in (("lives", lives), ("ends", ends), ("folders", folders))}


def store(given, others, path):
    """Write a trace; file 0 is the directory."""
    batch = np.zeros(len(given), OP)
    batch["op"], batch["file"], batch["flag"] = np.array(given).T
    batch["file2"] = np.where(np.isin(batch["op"], (CLOSE, RENAME)), -1, 0)
    batch["time_ns"] = 1000 * np.arange(len(batch))
    count = 1 + COUNT + others
    sizes = np.where(np.arange(count) == 0, 0, -1)
    with TraceWriter(path, {"tool": "name_costs"}) as writer:
        writer.append(batch)
        writer.close(Files(["/d", *(f"/d/f{i:06d}" for i in range(1, count))], sizes, sizes == 0))


def by_call(runs):
    """Return {call: amounts per call} from runs by trace."""
    found = {}
    for trace, run in runs.items():
        for op, counters in run.groups.items():
            name = "remove" if (trace, op) == ("ends", "unlink") else op
            found[name] = np.array([counters.get(counter, 0) for counter in COUNTERS]) / COUNT
    return found


def charged(paths, fs, kernel, kept):
    """Return {call: amounts} of a replay that charges nothing for names except the costs in `kept`."""
    left_out = {*CALLS, *ENTRIES[fs]} - {*kept}
    none = dict.fromkeys(COLUMNS, 0)
    params = {fs: {"capacity": "2GiB", "tick": 0}}
    with changed(lambda _, table: {name: {**row, **(none if name in left_out else {})} for name, row in table.items()}):
        runs = {name: scmsim.replay(open_trace(path), fs=fs, params=params, by="op", kernel=kernel, footprints="none").runs[0]
                for name, path in paths.items()}  # fmt: skip
    return by_call(runs)


def ratio(pairs):
    """Return the factor from the second to the first of each pair with the smallest relative squared error."""
    return np.array([sum(y[k] / x[k] for x, y in pairs) / sum((y[k] / x[k]) ** 2 for x, y in pairs) for k in range(3)])


def costs(folder, kernel, systems):
    """Yield (file system, factor of an examined entry, {call: (amounts, errors with 100 others)}), after missing runs."""
    folder = folder / kernel
    folder.mkdir(parents=True, exist_ok=True)
    paths, measured = {}, {}
    for others in OTHERS:
        paths[others] = {name: folder / f"{name}-{others}.parquet" for name in rows(others)}
        for name, path in paths[others].items():
            store(rows(others)[name], others, path)
        measured[others] = card.measure(paths[others], systems, folder, kernel)
    for fs in systems:
        real, bare, seen = [], [], []
        for others in OTHERS:
            real.append(by_call({name: next(run for run in result.runs if run.fs == fs)
                                 for name, result in measured[others].items()}))  # fmt: skip
            bare.append(charged(paths[others], fs, kernel, ()))
            kept = charged(paths[others], fs, kernel, ENTRIES[fs])
            seen.append({call: kept[call] - bare[-1][call] for call in CALLS})
        factor = ratio([(real[1][call] - real[0][call], seen[1][call] - seen[0][call]) for call in CALLS])
        found = {}
        for call in CALLS:
            cost = real[0][call] - bare[0][call] - factor * seen[0][call]
            found[call] = cost, (bare[1][call] + cost + factor * seen[1][call]) / real[1][call] - 1
        yield fs, factor, found


def show(fs, factor, found):
    """Print the costs of a file system."""
    print(f"{fs}: {', '.join(ENTRIES[fs])} times", *factor.round(3))
    for call, (cost, error) in found.items():
        print(f"{fs} {call:8}", *(f"{value:9.1f}" for value in cost), *(f"{value:+7.1%}" for value in error))


def main():
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--fs", default=",".join(ENTRIES))
    given = parser.parse_args()
    for found in costs(given.folder, given.kernel, given.fs.split(",")):
        show(*found)


if __name__ == "__main__":
    main()
