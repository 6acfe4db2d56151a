"""Measure the costs of ext4-dax' writes into fallocated blocks, `convert` and `split_extent`, in the lab.

    python -m tools.calibration.unwritten FOLDER [--kernel 6.1,6.12]

Traces write the pages of a fallocated file one by one: in order, so that each page joins the written extent before it, or
scattered, so that each page splits its extent.  The kernel's count minus the model's other charges is one cost for writes in
order, and the sum of both costs for scattered writes.  Writes of 64 KiB are a test.  FOLDER keeps the runs.  Run this after
kernels.py has written the other costs, and copy the amounts into the table by hand.
"""

import numpy as np

import scmsim
from scmsim.core.records import CREATE, FALLOCATE, FSYNC, SETUP, WRITE
from scmsim.fs.engine.costs import COLUMNS, changed
from scmsim.study.calibrate import COUNTERS
from scmsim.trace import open_trace
from tests.verification import lab_card as card
from tools.calibration import tables

FS, CALLS = "ext4-dax", {4096: 256, 65536: 64}  # bytes of a write -> number of writes
COSTS = ("convert", "split_extent")


def rows(unit, scattered):
    """Return the rows of a trace: a fallocated file, and writes into it; scattered writes are four units apart."""
    calls = CALLS[unit]
    places = [37 * k % calls * 4 for k in range(calls)] if scattered else range(calls)
    made = [(CREATE, 1, 0, 0), (FALLOCATE, 1, 0, calls * unit * (4 if scattered else 1)), (FSYNC, 1, 0, 0)]
    return [(*row, SETUP) for row in made] + [(WRITE, 1, at * unit, unit, 0) for at in places]


def replayed(path, kernel, amounts):
    """Return the COUNTERS of a replay with the costs of `amounts` ({cost: amounts}) changed."""
    params = {"kernel": kernel, "capacity": "2GiB", "tick": 0}
    with changed(lambda _, table: {name: {**row, **amounts.get(name, {})} for name, row in table.items()}):
        run = scmsim.replay(open_trace(path), fs=FS, params={FS: params}, footprints="none").runs[0]
    return np.array([run.counters[name] for name in COUNTERS])


def costs(folder, kernel, unit):
    """Return the counts of COSTS and the amounts left for COSTS, per write; each has a row for in-order and scattered."""
    paths = {}
    for scattered in (False, True):
        name = f"{'scattered' if scattered else 'in order'} {unit}"
        paths[name] = folder / f"{name.replace(' ', '-')}.parquet"
        card.store(rows(unit, scattered), 2, paths[name])
    measured = card.measure(paths, [FS], folder, kernel)
    none, charged, left = dict.fromkeys(COLUMNS, 0), [], []
    for name, path in paths.items():
        rest = replayed(path, kernel, dict.fromkeys(COSTS, none))
        ones = [
            replayed(path, kernel, dict.fromkeys(COSTS, none) | {cost: none | {COLUMNS[0]: 1000}}) for cost in COSTS
        ]
        counted = np.array([measured[name].runs[0].counters[counter] for counter in COUNTERS])
        charged.append([(one - rest)[0] / 1000 / CALLS[unit] for one in ones])
        left.append((counted - rest) / CALLS[unit])
    return np.array(charged), np.array(left)


def main():
    """Print the costs, and their errors in the test."""
    for kernel, folder in tables.folders(__doc__.splitlines()[0]):
        found = np.linalg.solve(*costs(folder, kernel, 4096))
        for cost, amounts in zip(COSTS, found, strict=True):
            print(f"{kernel} {cost:13}" + "".join(f"{value:10.1f}" for value in amounts))
        charged, left = costs(folder, kernel, 65536)
        for name, error in zip(("in order", "scattered"), charged @ found - left, strict=True):
            print(f"{kernel} 64 KiB {name}: off by" + "".join(f"{value:10.1f}" for value in error) + " a write")


if __name__ == "__main__":
    main()
