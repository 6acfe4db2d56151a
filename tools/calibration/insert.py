"""Insert costs that no microbenchmark cell determines into a kernel's tables: names in small directories, getdents, unwritten blocks.

    python -m tools.calibration.insert FOLDER --kernel 6.18 [--fs ext4-dax,tmpfs]

Run this after kernels.py has written the tables.  FOLDER keeps the runs of name_costs.py, directories.py and unwritten.py, which
explain the traces; missing runs are made.  ext4 with its page cache gets the costs of ext4-dax, whose code for names it shares.
"""

import argparse
import pathlib
import tomllib

import numpy as np

from scmsim.core import registry
from tools.calibration import directories, name_costs, tables, unwritten
from tools.calibration.tables import FAMILIES, FIELDS, Cost

DRIVER = {"ext4": "ext4-dax"}  # file system -> the one whose names were measured
SYSTEMS = ("ext4-dax", "ext4", "xfs-dax", "ext2-dax", "tmpfs")


def of_names(kernel, fs, table, factor, found):
    """Return {cost: (amounts, kind, source)} of names in small directories."""
    source = f"lab, name_costs.py, Linux {kernel}: a directory without other names"
    made = {call: (cost, "measured", source) for call, (cost, _) in found.items() if call in table}
    for name in name_costs.ENTRIES[fs]:
        amounts = factor * [table[name][field] for field in FIELDS]
        made[name] = (
            amounts,
            "estimate",
            f"kernels.py, Linux {kernel}, times a factor, by 100 others in the directory (name_costs.py)",
        )
    return made


def of_listing(kernel, measured):
    """Return the costs of reading a directory."""
    source = f"lab, directories.py, Linux {kernel}"
    call, entry, *_ = directories.costs(measured)
    return {
        name: (amounts, "measured", source) for name, amounts in zip(directories.MEANING, (call, entry), strict=True)
    }


def of_unwritten(folder, kernel):
    """Return the costs of ext4-dax' writes into fallocated blocks."""
    found = np.linalg.solve(*unwritten.costs(within(folder, "unwritten", kernel), kernel, 4096))
    source = f"lab, unwritten.py, Linux {kernel}"
    return {name: (amounts, "measured", source) for name, amounts in zip(unwritten.COSTS, found, strict=True)}


def within(folder, name, kernel):
    """Return a folder of a kernel's runs, after making it if missing."""
    found = folder / name / kernel
    found.mkdir(parents=True, exist_ok=True)
    return found


def insert(kernel, fs, measured):
    """Replace costs in the table of a file system; `measured` returns them from (kernel, file system, table)."""
    family = registry.path("fs", fs).parent.name
    path = FAMILIES / family / "costs" / f"{fs}-{kernel}.toml"
    text = path.read_text(encoding="utf-8")
    table = tomllib.loads(text)
    made = measured(kernel, DRIVER.get(fs, fs), table)
    costs = {
        cost: Cost([row[field] for field in FIELDS], *(row[field] for field in ("site", "per", "kind", "source")))
        for cost, row in table.items()
    }
    for cost, (amounts, kind, source) in made.items():
        costs[cost] = costs[cost]._replace(amounts=np.maximum(amounts, 0).tolist(), kind=kind, source=source)
    head = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
    tables.write(f"{family}/{fs}-{kernel}", tables.text(head, costs, tables.tenths))


def main():
    """Insert the costs into the tables of one kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--fs", default=",".join(SYSTEMS))
    given = parser.parse_args()
    folder, kernel, systems = given.folder, given.kernel, given.fs.split(",")
    drivers = dict.fromkeys(DRIVER.get(fs, fs) for fs in systems)
    listings = directories.measured(within(folder, "dirs", kernel), kernel)
    named = list(name_costs.costs(folder / "names", kernel, [fs for fs in drivers if fs in name_costs.ENTRIES]))
    for found in named:
        name_costs.show(*found)
    names = {fs: found for fs, *found in named}
    converted = of_unwritten(folder, kernel) if unwritten.FS in drivers else {}

    def measured(kernel, fs, table):
        made = of_listing(kernel, listings[fs])
        made |= of_names(kernel, fs, table, *names[fs]) if fs in names else {}
        return made | (converted if fs == unwritten.FS else {})

    for fs in systems:
        insert(kernel, fs, measured)


if __name__ == "__main__":
    main()
