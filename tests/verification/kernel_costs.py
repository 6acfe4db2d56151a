"""Costs of Debian's kernels judged on whole workloads that no table was fitted to: the table of docs/validation-lab.md.

    python -m tests.verification.kernel_costs FOLDER [--kernel 6.1,6.12] [--fs ext4-dax,tmpfs] [--trace varmail,postmark]

Runs each trace in the lab, where FOLDER lacks it, and on the models, and prints Markdown: instructions, loads and stores per
call of the kernel, and by how much the costs of that kernel and the model's default ones miss them.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

import scmsim
from scmsim.core import registry
from scmsim.result import read_all
from scmsim.study.calibrate import COUNTERS
from scmsim.trace import open_trace
from tests.verification import lab_card as card

SYSTEMS = ("ext4-dax", "ext4", "ext2-dax", "xfs-dax", "tmpfs")
SHIPPED = pathlib.Path(__file__).parents[2] / "traces"
TRACES = ("varmail", "sqlite-load", "postmark", "fileserver")


def trace_of(name, folder):
    """Path of a shipped trace, else of one of the card's workloads, which is made where it is missing."""
    shipped = SHIPPED / f"{name}.parquet"
    if shipped.exists():
        return shipped
    path = folder / f"{name.replace(' ', '-')}.parquet"
    if not path.exists():
        card.make(name, path)
    return path


def measured(path, kernel, systems, folder):
    """{file system: run} of the lab; what is missing runs."""
    out = folder / f"judged-{kernel}" / path.stem
    out.parent.mkdir(exist_ok=True)
    if not all((out / f"{fs}-1.calls.parquet").exists() for fs in systems):
        command = [sys.executable, "-m", "scmsim", "lab", "run", str(path), "--kernel", kernel, "-o", str(out)]
        subprocess.run([*command, "--fs", ",".join(systems)], check=True, stdout=subprocess.DEVNULL)
    return {run.fs: run for run in read_all(str(out)).runs}


def replayed(path, fs, lab, kernel):
    """The trace on the model, with its costs of a kernel; None: its default ones."""
    params = card.params(fs, path, lab)
    params[fs].pop("kernel", None)
    if kernel and "kernel" in registry.literals("fs", fs)["PARAMS"]:
        params[fs]["kernel"] = kernel
    return scmsim.replay(open_trace(path), fs=fs, params=params).runs[0]


def main():
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", default="6.1,6.12")
    parser.add_argument("--fs", default=",".join(SYSTEMS))
    parser.add_argument("--trace", default=",".join(TRACES))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    systems, worst = given.fs.split(","), {}
    print("| file system | kernel | workload | instructions | loads | stores | error, % | with the default costs, % |")
    print("|---|---|---|---:|---:|---:|---|---|")
    for kernel in given.kernel.split(","):
        for name in given.trace.split(","):
            path = trace_of(name, given.folder)
            found = measured(path, kernel, systems, given.folder)
            for fs in systems:
                lab = found[fs]
                amounts = [lab.counters[counter] / lab.calls for counter in COUNTERS]
                errors = [
                    [100 * (run.counters[counter] / lab.counters[counter] - 1) for counter in COUNTERS]
                    for run in (replayed(path, fs, lab, each) for each in (kernel, None))
                ]
                worst.setdefault((fs, kernel), []).append(errors)
                cells = [", ".join(f"{error:+.1f}" for error in side) for side in errors]
                print(
                    f"| {fs} | {kernel} | {name} | " + " | ".join([*(f"{a:,.1f}" for a in amounts), *cells]) + " |",
                    flush=True,
                )
    print("\n| median, worst | instructions | loads | stores | with the default costs |\n|---|---|---|---|---|")
    for (fs, kernel), sides in sorted(worst.items()):
        columns = [[abs(errors[side][k]) for errors in sides] for side in (0, 1) for k in range(3)]
        text = [f"{statistics.median(column):.1f}, {max(column):.1f}" for column in columns]
        print(f"| {fs}, {kernel} | {' | '.join(text[:3])} | {'; '.join(text[3:])} |")


if __name__ == "__main__":
    main()
