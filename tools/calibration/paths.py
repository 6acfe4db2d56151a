"""Measure in the lab the cost of each directory in a path, `path_directory`.

    python -m tools.calibration.paths FOLDER [--kernel 5.10,6.1,6.12,6.18]

Traces make, name and remove files 0, 1, 2, 4 and 8 directories below the root.  A line through the amounts per call of 1 and 8
directories gives the cost of a directory; the other depths are tests.  FOLDER keeps the runs.  The amounts are copied into
scmsim/fs/engine/costs by hand.
"""

import numpy as np

from scmsim.core.records import CLOSE, CREATE, LINK, MKDIR, OP, OPEN, RENAME, RMDIR, SETUP, STAT, UNLINK, Files
from scmsim.study.calibrate import COUNTERS
from scmsim.trace.store import TraceWriter
from tests.verification import lab_card as card
from tools.calibration import tables

SYSTEMS = ("tmpfs", "ext4-dax", "xfs-dax", "ext2-dax", "ext4")
DEPTHS = (0, 1, 2, 4, 8)
FITTED = (1, 8)  # at the root of a file system, a path also crosses a mount point
COUNT = 100
FILE_LIFE = (CREATE, CLOSE, OPEN, CLOSE, STAT, RENAME, LINK)
PATHS = {"rename": 2, "link": 2}  # of a call; 1 of all others that name a file


def store(depth, path):
    """Write a trace of lives of files and directories in a chain of `depth` directories."""
    files, folders = range(depth, depth + COUNT), range(depth + COUNT, depth + 2 * COUNT)
    lives = [[*((op, i, 0) for op in FILE_LIFE), (UNLINK, i, SETUP), (UNLINK, i, 0)] for i in files]
    given = sum(lives, [(op, i, 0) for i in folders for op in (MKDIR, RMDIR)])
    batch = np.zeros(len(given), OP)
    batch["op"], batch["file"], batch["flag"] = np.array(given).T
    batch["file2"] = np.where(np.isin(batch["op"], (CLOSE, RENAME)), -1, depth - 1)
    batch["time_ns"] = 1000 * np.arange(len(batch))
    chain = ["/d" * (k + 1) for k in range(depth)]
    names = [f"{'/d' * depth}/f{i:06d}" for i in (*files, *folders)]
    is_dir = np.isin(np.arange(depth + len(names)), [*range(depth), *folders])
    sizes = np.where(np.arange(depth + len(names)) < depth, 0, -1)
    with TraceWriter(path, {"tool": "paths"}) as writer:
        writer.append(batch)
        writer.close(Files([*chain, *names], sizes, is_dir))


def measured(folder, kernel):
    """Return {file system: {call: array of depths x counters, amounts per call}}."""
    paths = {depth: folder / f"depth-{depth}.parquet" for depth in DEPTHS}
    for depth, path in paths.items():
        store(depth, path)
    found = card.measure(paths, SYSTEMS, folder, kernel)
    groups = {(run.fs, depth): run for depth, result in found.items() for run in result.runs}
    return {
        fs: {call: np.array([[groups[fs, depth].groups[call].get(name, 0) for name in COUNTERS] for depth in DEPTHS])
             / groups[fs, DEPTHS[0]].params[f"calls_{call}"] for call in groups[fs, DEPTHS[0]].groups}
        for fs in SYSTEMS
    }  # fmt: skip


def slope(amounts):
    """Return the amounts per additional directory."""
    few, many = FITTED
    return (amounts[DEPTHS.index(many)] - amounts[DEPTHS.index(few)]) / (many - few)


def main():
    """Print amounts per directory, and the errors in the depths that were not fitted."""
    for kernel, folder in tables.folders(__doc__.splitlines()[0]):
        for fs, calls in measured(folder, kernel).items():
            for call, amounts in calls.items():
                each = slope(amounts)
                line = amounts[DEPTHS.index(1)] + np.outer(np.array(DEPTHS) - 1, each)
                errors = line[:, 0] - amounts[:, 0]
                print(f"{kernel} {fs:9}{call:8}" + "".join(f"{value:8.1f}" for value in each / PATHS.get(call, 1)),
                      "  at 1:", *(f"{value:8.0f}" for value in amounts[1]), "  line less measured:",
                      *(f"{depth}: {error:+.0f}" for depth, error in zip(DEPTHS, errors, strict=True)))  # fmt: skip


if __name__ == "__main__":
    main()
