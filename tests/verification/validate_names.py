"""Namespace operations, measured beside replayed: python -m tests.verification.validate_names FS [ROWS]

ROWS names the rows of measured_namespace.csv (default: 6.1:FS).  1000 files in a fresh directory; X_sync is one syncfs after X,
divided by the same calls.
"""

import csv
import sys

import numpy as np

from tests.fs import lab, lab_names
from tests.verification import cells

APART = ("ext2", "ext4", "ext4-dax")  # a directory keeps its blocks, and a name that was there before is known
PARTS = {"stored B": ("pmst",), "loads + stores": ("ld", "st"), "instructions": ("ins",)}
COUNTS = {"write-backs": ("flush",), "store fences": ("sfence",)}  # compared as they are, without an error
COLUMNS = {
    "stored B": ("pmstB_call",),
    "loads + stores": ("ld_norep_call", "st_norep_call"),
    "instructions": ("ins_call",),
    "write-backs": ("flush_call",),
    "store fences": ("sfence_call",),
}


def rows(name: str) -> list[dict]:
    """Measured rows KERNEL:FS, without those of names that do not exist, which no trace has."""
    kernel, fs = name.split(":")
    with open(cells.DATA / "measured_namespace.csv", newline="") as file:
        found = [row for row in csv.DictReader(file) if (row["kernel"], row["fs"]) == (kernel, fs)]
    return [row for row in found if row["op"] != "statmiss"]


def compare(fs: str, name: str) -> list[dict]:
    """Per row, for each of PARTS and COUNTS, (measured, replayed) per call."""
    ops, labels, files = lab_names.sequence() if fs in APART else lab.namespace_sequence()
    params = cells.kernel({"kernel": name.split(":")[0], "fs": fs})
    sums = lab.per_op(lab.begin(fs, files, capacity=2 << 30, **params), ops)
    table = []
    for row in rows(name):
        chosen = np.array([label == row["op"] for label in labels])
        found = dict(zip(lab.AMOUNTS, sums[chosen].sum(0) / float(row["calls"]), strict=True))
        pairs = {
            part: (sum(float(row[column] or "nan") for column in COLUMNS[part]), float(sum(found[own] for own in owns)))
            for part, owns in (PARTS | COUNTS).items()
        }
        table.append({"op": row["op"], **pairs})
    return table


def error(measured: float, replayed: float) -> str:
    """Relative error in per cent."""
    return f"{100 * (replayed / measured - 1):+.1f} %" if measured else "+0.0 %" if not replayed else "-"


def main() -> None:
    """Print the table."""
    fs = sys.argv[1]
    heads = [f"{part} measured | replayed | error" for part in PARTS] + [
        f"{part} measured | replayed" for part in COUNTS
    ]
    print("| row | " + " | ".join(heads) + " |")
    print("|" + "---|" * (1 + 3 * len(PARTS) + 2 * len(COUNTS)))
    for row in compare(fs, sys.argv[2] if sys.argv[2:] else f"6.1:{fs}"):
        figures = [f"{m:,.1f} | {r:,.1f} | {error(m, r)}" for m, r in map(row.get, PARTS)]
        figures += [f"{m:,.2f} | {r:,.2f}" for m, r in map(row.get, COUNTS)]
        print(f"| {row['op']} | " + " | ".join(figures) + " |")


if __name__ == "__main__":
    main()
