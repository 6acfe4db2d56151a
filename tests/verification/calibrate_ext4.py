"""Derives scmsim/fs/costs/ext4-5.13.toml from the measured rows, and compares the model with all of them.

    python tests/verification/calibrate_ext4.py            compare
    python tests/verification/calibrate_ext4.py --write    fit, write the table, compare

How: the model itself says how often each cost is charged in each measured row (its structure); what bulk copies count by width is
taken off; then non-negative least squares on relative errors gives the costs, for instructions, loads and stores apart.
Costs that one row or one set of function rows gives by itself are not fitted.
"""

import csv
import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "reference"))

import ext4_lab as lab  # noqa: E402

from scmsim.fs.parts.ext4_recipes import COSTS, SITES  # noqa: E402

TABLE = HERE.parents[1] / "scmsim" / "fs" / "costs" / "ext4-5.13.toml"
SYSTEMS = ("ext4-dax", "ext4")
COUNTS = ("ins_call", "ld_norep_call", "st_norep_call")
UNITS = (1024, 16384, 262144, 512)  # in the order in which they were measured

# Rows that the fit leaves out, to check it: sums of mechanisms that other rows give.
CHECKS = ("cwrite64k", "cwrite64k_sync", "create_fsync", "unlink0_sync", "unlinkl_sync", "unlink64k_sync", "rmdir_sync")


def measured():
    """{(fs, pass, unit): row}; namespace rows have unit 0."""
    rows = {}
    with open(HERE / "data" / "measured_513.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["fs"] in SYSTEMS and row["op"] != "null":
                rows[row["fs"], row["op"], int(row["unit"])] = row
    with open(HERE / "data" / "measured_namespace_ext4.csv", newline="") as file:
        for row in csv.DictReader(file):
            rows[row["fs"], row["op"], 0] = row
    return rows


def structure(fs, identity):
    """{(fs, pass, unit): amounts per call}; identity: instead, how often each cost is charged, and what copies count."""
    found = {}
    for transfers in (True, False):
        if transfers:
            ops, labels = lab.transfer_sequence(UNITS)
            files = lab.side_table(["/bench"])
        else:
            ops, labels, files = lab.namespace_sequence()
        module, state = lab.begin(fs, files, capacity=2 << 30)
        if identity:
            state.record.cost[0, : len(COSTS)] = [(1000, 0, 0, k) for k in range(len(COSTS))]
        sums = np.zeros((len(ops), len(COSTS) + len(lab.AMOUNTS)))
        for e in lab.events(module, state, ops):
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
    """Least squares with no negative unknown (Lawson and Hanson's active set)."""
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


def fit(rows, fixed):
    """Costs (len(COSTS), 3) from the measured rows; `fixed`: name -> (instructions, loads, stores)."""
    found = {}
    for fs in SYSTEMS:
        found |= structure(fs, identity=True)
    keys = [k for k in found if k in rows and k[1] not in CHECKS]
    counts = np.array([found[k][: len(COSTS)] for k in keys])
    costs = np.zeros((len(COSTS), 3))
    for name, value in fixed.items():
        costs[COSTS.index(name)] = value
    unknown = [k for k, name in enumerate(COSTS) if name not in fixed and counts[:, k].any()]
    for j, column in enumerate(COUNTS):
        target = np.array([float(rows[k][column]) for k in keys])
        rest = target - np.array([found[k][len(COSTS) + j] for k in keys]) - counts @ costs[:, j]
        costs[unknown, j] = nonnegative(counts[:, unknown] / target[:, None], rest / target)
    return costs
