"""Instructions of stat by the number of directories in its path, on a real kernel.

    python -m tests.verification.path_components FOLDER      # FOLDER of tests.verification.workload_residuals

Linux calls generic_permission once for each directory of a path, so its instructions count the directories.  A line is fitted
through the workloads of the table of residuals (without the unseen ones).  docs/validation/intervals.md has the result.
"""

import argparse
import pathlib

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from tests.verification import kernel_costs, workload_residuals

PERMISSION = (
    39  # instructions of generic_permission for a directory that its owner searches, Linux 6.1 (its least in a call)
)
FEW = 50  # calls


def stats(name: str, made: str | None, fs: str, folder: pathlib.Path) -> tuple[int, float, float]:
    """Return the calls of stat in a workload, and the directories and instructions per call in the lab."""
    path = workload_residuals.trace_of(name, made, folder)
    calls = pq.read_table(path, columns=["op"])["op"].to_pylist().count("stat")
    lab = pd.read_parquet(folder / f"judged-{workload_residuals.KERNELS[0]}" / path.stem / f"{fs}-1.calls.parquet")
    own = lab[(lab.op == "stat") & (lab.kind == "own")]
    searched = own[own.function == "generic_permission"].instructions.sum() / PERMISSION
    return calls, searched / max(calls, 1), own.instructions.sum() / max(calls, 1)


def main() -> None:
    """Print a table for each file system."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    known = {**dict.fromkeys(workload_residuals.SHIPPED), **workload_residuals.MADE}
    for fs in kernel_costs.SYSTEMS:
        found = {name: stats(name, made, fs, folder) for name, made in {**known, **workload_residuals.UNSEEN}.items()}
        found = {name: one for name, one in found.items() if one[0] >= FEW}
        fitted = np.array([found[name][1:] for name in found if name in known])
        slope, start = np.polyfit(fitted[:, 0], fitted[:, 1], 1)
        print(
            f"\n{fs}: {start:,.0f} + {slope:,.0f} per directory\n\n| workload | calls | directories | measured | line |"
        )
        print("|---" * 5 + "|")
        for name, (calls, directories, measured) in found.items():
            print(f"| {name} | {calls:,} | {directories:.2f} | {measured:,.0f} | {start + slope * directories:,.0f} |")


if __name__ == "__main__":
    main()
