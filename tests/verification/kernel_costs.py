"""Costs of Debian's kernels judged on whole workloads that no table was fitted to: the tables of docs/validation/kernels.md.

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
TRACES = ("varmail", "sqlite-load", "postmark", "git", "fileserver")


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


def judged(name, kernel, systems, folder):
    """{file system: (amounts per call, errors of the costs of that kernel, errors of the default ones)}, as COUNTERS, %."""
    path = trace_of(name, folder)
    found = {}
    for fs, lab in measured(path, kernel, systems, folder).items():
        errors = [
            [100 * (run.counters[counter] / lab.counters[counter] - 1) for counter in COUNTERS]
            for run in (replayed(path, fs, lab, each) for each in (kernel, None))
        ]
        found[fs] = [lab.counters[counter] / lab.calls for counter in COUNTERS], *errors
    return found


def main():
    """Run what is missing, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--kernel", default="6.1,6.12")
    parser.add_argument("--fs", default=",".join(SYSTEMS))
    parser.add_argument("--trace", default=",".join(TRACES))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    systems, kernels, traces = given.fs.split(","), given.kernel.split(","), given.trace.split(",")
    found = {(k, name): judged(name, k, systems, given.folder) for k in kernels for name in traces}
    heads = [f"{k}: {what}" for k in kernels for what in ("instructions, loads, stores a call", "error, %")]
    print("| file system | workload | " + " | ".join(heads) + " |\n|---|---" + "|---" * len(heads) + "|")
    for fs in systems:
        for name in traces:
            cells = []
            for k in kernels:
                amounts, errors, _ = found[k, name][fs]
                cells += ["; ".join(f"{a:,.0f}" for a in amounts), ", ".join(f"{e:+.1f}" for e in errors)]
            print(f"| {fs} | {name} | {' | '.join(cells)} |")
    print(
        "\n| median, worst, % | instructions | loads | stores | with the default costs: instructions | loads | stores |"
    )
    print("|---" * 7 + "|")
    for fs in systems:
        for k in kernels:
            columns = [[abs(found[k, name][fs][side][c]) for name in traces] for side in (1, 2) for c in range(3)]
            cells = [f"{statistics.median(column):.1f}, {max(column):.0f}" for column in columns]
            print(f"| {fs}, {k} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
