"""Measure the costs of reading a directory, `readdir` and `list_entry`, in the lab.

    python -m tools.calibration.directories FOLDER [--kernel 6.1,6.12]

Each trace reads a directory repeatedly: by calls that return all names, or by calls at the end that return none.  Calls at the
end give `readdir`; the additional amounts of calls that return the longest directory give `list_entry`; shorter directories
are tests.  FOLDER keeps the runs.  Amounts of kernels other than 6.1 are copied into their tables by hand, after kernels.py
has written the other costs.
"""

import numpy as np

from scmsim.core.records import CLOSE, CREATE, DOTS_BYTES, ENTRY_BYTES, READDIR, SETUP
from scmsim.study.calibrate import COUNTERS
from tests.verification import lab_card as card
from tools.calibration import tables
from tools.calibration.tables import Cost

SYSTEMS = ("ext4-dax", "ext4", "xfs-dax", "ext2-dax", "ext2", "tmpfs", "ramfs")
CALLS = 200
NAMES = (2, 60, 250)  # without the dots
DOTS = 2
MEANING = {
    "readdir": ("namespace", "getdents(), its names left out"),
    "list_entry": ("namespace", "name that getdents() returns"),
}
ON_61 = {  # measured by this program; ext4's driver also serves ext2, the code of tmpfs also ramfs
    "ext4": {"readdir": (870.8, 280.9, 159.0), "list_entry": (1203.8, 258.8, 153.1)},
    "xfs": {"readdir": (1267.5, 384.4, 242.0), "list_entry": (372.3, 79.7, 41.0)},
    "tmpfs": {"readdir": (830.0, 262.6, 153.0), "list_entry": (323.5, 82.3, 59.2)},
}
SOURCE = "lab, directories.py, Linux 6.1"


def listing(driver, kind="measured", source=SOURCE):
    """Return {cost: Cost} of a driver's directories on 6.1."""
    return {name: Cost(amounts, *MEANING[name], kind, source) for name, amounts in ON_61[driver].items()}


def rows(names, length):
    """Return the rows of a trace that reads a directory of `names` names, by calls of `length` bytes."""
    made = [row for i in range(1, names + 1) for row in ((CREATE, i, 0, 0, SETUP), (CLOSE, i, 0, 0, SETUP))]
    return made + [(READDIR, 0, 0, length, SETUP if k == 0 else 0) for k in range(1 + CALLS)]


def measured(folder, kernel):
    """Return {file system: {(names, whether the calls return them): amounts per call}}."""
    paths = {}
    for names in NAMES:
        for kind, length in (("list", DOTS_BYTES + ENTRY_BYTES * names), ("end", 0)):
            path = folder / f"{kind}-{names}.parquet"
            card.store(rows(names, length), names + 1, path)
            paths[names, kind == "list"] = path
    found = card.measure(paths, SYSTEMS, folder, kernel)
    return {
        run.fs: {key: np.array([other.counters[name] for name in COUNTERS]) / CALLS
                 for key, result in found.items() for other in result.runs if other.fs == run.fs}
        for run in found[NAMES[0], True].runs
    }  # fmt: skip


def costs(found):
    """Return the amounts of readdir and of list_entry, and the relative errors for each shorter directory."""
    few, middle, many = NAMES
    call = found[middle, False]
    entry = (found[many, True] - call) / (many + DOTS)
    return call, entry, *((call + (names + DOTS) * entry) / found[names, True] - 1 for names in (few, middle))


def main():
    """Print the costs, and their errors in the tests."""
    for kernel, folder in tables.folders(__doc__.splitlines()[0]):
        for fs, found in measured(folder, kernel).items():
            call, entry, *errors = costs(found)
            for name, amounts in zip(MEANING, (call, entry), strict=True):
                print(f"{kernel} {fs:10}{name:12}" + "".join(f"{value:10.1f}" for value in amounts))
            for names, error in zip(NAMES, errors, strict=False):
                print(f"{kernel} {fs:10}{names:3} names   " + "".join(f"{value:+10.1%}" for value in error))


if __name__ == "__main__":
    main()
