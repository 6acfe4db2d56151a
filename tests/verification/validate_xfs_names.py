"""XFS's namespace calls, measured beside replayed, every row of both kernels: stored bytes, loads + stores, store fences per call.

Run: python -m tests.verification.validate_xfs_names   (a table in Markdown; the model's costs are those of 5.13.13)
"""

import csv

import numpy as np

from tests.fs import lab, lab_names
from tests.verification import cells

KERNELS = ("5.13.13", "6.1")
LIMITS = (0.05, 0.15)  # stored bytes, loads + stores


def rows() -> list[dict]:
    """One row for each measured row that a trace has an operation for: figures per call."""
    ops, labels, files = lab_names.sequence()
    sums = lab.per_op(lab.begin("xfs-dax", files, capacity=2 << 30), ops)
    with open(cells.DATA / "measured_namespace.csv", newline="") as file:
        table = [row for row in csv.DictReader(file) if row["fs"] == "xfs-dax" and row["kernel"] in KERNELS]
    found = []
    for row in table:
        chosen = np.array([label == row["op"] for label in labels])
        if not chosen.any():
            continue
        amounts = dict(zip(lab.AMOUNTS, sums[chosen].sum(0) / 1000, strict=True))
        found.append(
            {
                "kernel": row["kernel"],
                "op": row["op"],
                "stored": (float(row["pmstB_call"]), amounts["pmst"]),
                "loads + stores": (
                    float(row["ld_norep_call"]) + float(row["st_norep_call"]),
                    amounts["ld"] + amounts["st"],
                ),
                "fences": (float(row["sfence_call"] or "nan"), amounts["sfence"]),
            }
        )
    return found


def error(pair: tuple[float, float]) -> float:
    """Relative error, 0 where both are nothing."""
    measured, replayed = pair
    return 0.0 if measured == replayed == 0 else replayed / measured - 1 if measured else float("inf")


def main() -> None:
    """Print all rows."""
    print(
        "| kernel | row | | stored B measured | replayed | error | loads + stores measured | replayed | error | ",
        end="",
    )
    print("store fences measured | replayed |\n|" + "---|" * 11)
    for row in rows():
        errors = [error(row[name]) for name in ("stored", "loads + stores")]
        verdict = "ok" if all(abs(e) <= limit for e, limit in zip(errors, LIMITS, strict=True)) else "**out**"
        figures = [
            f"{row[name][0]:,.1f} | {row[name][1]:,.1f} | {100 * e:+.1f} %"
            for name, e in zip(("stored", "loads + stores"), errors, strict=True)
        ]
        fence = "" if np.isnan(row["fences"][0]) else f"{row['fences'][0]:.3f}"
        print(
            f"| {row['kernel']} | {row['op']} | {verdict} | {' | '.join(figures)} | {fence} | {row['fences'][1]:.3f} |"
        )


if __name__ == "__main__":
    main()
