"""Whole workloads on real kernels beside the model's figures, as the table `scmsim/result/workload_residuals.csv`.

    python -m tests.verification.workload_residuals FOLDER            # measures in FOLDER what it lacks, writes the table again
    python -m tests.verification.workload_residuals FOLDER --unseen   # three other workloads: the share inside their intervals

Each trace runs in the lab on Linux 6.1, 6.12, 6.18 and 7.3 and on the models with the costs of these kernels; beside 6.1 also with
their default costs.  No cost was fitted to these workloads.  Rows of misses and times are transcribed from pages of
docs/validation, which have their commands (`data/residuals_transcribed.csv`).
"""

import argparse
import csv
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

from scmsim.result import intervals
from scmsim.result.run import Run
from tests.verification import kernel_costs

TRANSCRIBED = pathlib.Path(__file__).parent / "data" / "residuals_transcribed.csv"
KERNELS = ("6.1", "6.12", "6.18", "7.3")  # beside the first one the default costs are tested, too
SHIPPED = ("varmail", "sqlite-load", "postmark", "git", "compile")
MADE = {
    "fileserver": "filebench --personality fileserver --set nfiles=50 --set nthreads=1 --flowops 600",
    "webproxy": "filebench --personality webproxy --set nfiles=100 --flowops 2500",
    "andrew": "andrew",
}
UNSEEN = {
    "pip-install": None,
    "mdtest": "mdtest -- -n 200 -w 4k -e 4k -F -z 1 -b 2",
    "db_bench": "db_bench -- --benchmarks=fillrandom,readrandom --num=2000 --write_buffer_size=262144",
}
COUNTERS = ("instructions", *intervals.TRAFFIC, "tlb_traffic", "pm_stored_bytes", "flushes", "fences")
FEW = 64  # events in all; smaller counts differ by chance, and have no row


def trace_of(name: str, made: str | None, folder: pathlib.Path) -> pathlib.Path:
    """Return the path of a shipped trace, or of one that `scmsim synth` makes if FOLDER lacks it."""
    if made is None:
        return kernel_costs.SHIPPED / f"{name}.parquet"
    path = folder / f"{name}.parquet"
    if not path.exists():
        kind, *options = made.split()
        subprocess.run([sys.executable, "-m", "scmsim", "synth", kind, "-q", "-o", str(path), *options], check=True)
    return path


def pairs(name: str, made: str | None, folder: pathlib.Path, kernel: str) -> Iterator[tuple[Run, str, Run]]:
    """Yield (real kernel's run, whose costs, replay) for each file system and set of costs."""
    path = trace_of(name, made, folder)
    for fs, lab in kernel_costs.measured(path, kernel, kernel_costs.SYSTEMS, folder).items():
        for costs in (kernel, None) if kernel == KERNELS[0] else (kernel,):
            yield lab, costs or intervals.DEFAULT, kernel_costs.replayed(path, fs, lab, costs)


def figure(run: Run, counter: str) -> float:
    """Return a counter or metric of a whole run."""
    return run.counters.get(counter, run.metrics.get(counter)) or 0


def rows(name: str, made: str | None, folder: pathlib.Path, kernel: str) -> Iterator[list[object]]:
    """Yield the rows of one workload: figures per call."""
    for lab, costs, replay in pairs(name, made, folder, kernel):
        for counter in COUNTERS:
            real, model = figure(lab, counter), figure(replay, counter)
            if max(real, model) >= FEW:
                amounts = (f"{value / lab.calls:.4f}" for value in (real, model))
                yield [lab.fs, kernel, costs, name, "", counter, "predicted", *amounts, "lab"]


def unseen(folder: pathlib.Path) -> None:
    """Print each figure of the workloads that the table lacks, and the share within the intervals."""
    print("| workload | file system | costs | counter | real, per call | replayed | interval | |\n" + "|---" * 8 + "|")
    inside: dict[tuple[str, str], list[bool]] = {}
    for name, made in UNSEEN.items():
        for model, _, costs, _, _, counter, _, real, replayed, _ in rows(name, made, folder, KERNELS[0]):
            found = intervals.of(str(model), counter, None if costs == intervals.DEFAULT else costs, float(replayed))
            low, high = found.low or 0, found.high or 0
            hit = low <= float(real) <= high
            inside.setdefault((counter, costs), []).append(hit)
            said = f"{low:,.2f} to {high:,.2f}"
            print(
                f"| {name} | {model} | {costs} | {counter} | {real} | {replayed} | {said} | {'in' if hit else 'out'} |"
            )
    print("\n| counter | costs | cells | in the interval, % |\n|---|---|---|---|")
    for (counter, costs), hits in sorted(inside.items()):
        print(f"| `{counter}` | {costs} | {len(hits)} | {100 * sum(hits) / len(hits):.0f} |")


def main(arguments: Iterable[str] | None = None) -> None:
    """Measure and replay the workloads; write the table, or print the check on unseen workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--unseen", action="store_true")
    given = parser.parse_args(arguments)  # type: ignore[arg-type]
    given.folder.mkdir(exist_ok=True)
    if given.unseen:
        return unseen(given.folder)
    workloads = {**dict.fromkeys(SHIPPED), **MADE}
    table = [
        row for kernel in KERNELS for name, made in workloads.items() for row in rows(name, made, given.folder, kernel)
    ]
    with TRANSCRIBED.open(newline="", encoding="utf-8") as file:
        head, *others = csv.reader(file)
    with intervals.WORKLOADS.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *table, *others])


if __name__ == "__main__":
    main()
