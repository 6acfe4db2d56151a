"""Replays beside TLB misses on a kernel of its own configuration: the tables of docs/validation/tlb.md.

    python -m tests.verification.small_kernel none 6.1 5.10 5.10/whole

Prints Markdown: first-level misses and walks of the kernel's side, real (measured_tlb_513.csv: Linux 5.13.13) and replayed with
the footprints of each kernel that is named (none: without; /whole: the direct map has no pages of 4 KiB).  Nothing is fitted to
those figures.

    python -m tests.verification.small_kernel tlb/ext4-dax-1.runs.parquet

The same counts of a real kernel's stream (scmsim lab tlb -o tlb), as it is and with its direct map on pages of 2 MiB alone.
"""

import csv
import functools
import math
import pathlib
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scmsim.core.counters import COUNTERS
from scmsim.core.records import Source
from scmsim.lab import tlb
from scmsim.lab.stream import SUFFIX, Kept
from scmsim.mmu import page_runs, presets
from scmsim.mmu.replay import replay
from scmsim.paging import linux
from scmsim.paging._linear import measured_orders
from scmsim.study.tlb import card
from scmsim.study.tlb.replay import replayed
from scmsim.trace import open_trace

HERE = pathlib.Path(__file__).parent
TRACES = HERE.parents[1] / "traces"
MEASURED = HERE / "data/measured_tlb_513.csv"
SMALL_PAGES = 0  # of the program's buffer there: that kernel had no transparent huge pages
Cell = tuple[str, str, str]  # trace, file system, machine
Counts = dict[Cell, dict[str, int]]


def real() -> Counts:
    """First-level misses and walks of the kernel's side, of the traces that are shipped."""
    with MEASURED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["side"] == "kernel"]
    return {
        (row["workload"], row["fs"], row["machine"]): {name: int(row[name]) for name in card.BOUNDS}
        for row in rows
        if (TRACES / row["workload"]).exists()
    }


@functools.cache
def source(trace: str) -> Source:
    """A shipped trace."""
    return open_trace(TRACES / trace)


def predicted(cell: Cell, name: str) -> dict[str, int]:
    """The same of a replay."""
    trace, fs, machine = cell
    kernel, _, whole = name.partition("/")
    footprints = None if kernel == "none" else kernel
    params = {"linux": {"direct_4k": 0}} if whole else {}
    rows = replayed(source(trace), fs, machine, "linux", params, SMALL_PAGES, footprints, None).rows
    return {name: card.side(rows, "kernel", name) for name in card.BOUNDS}


def of_stream(path: str, machines: Sequence[str], whole: bool) -> dict[str, list[int]]:
    """First-level misses and walks of the kernel's side of a stream, a figure for each machine."""
    states = [presets.machine(name) for name in machines]
    counters = [np.zeros(tlb.PLACES, COUNTERS) for _ in machines]
    mapped = linux.start({"direct_4k": 0} if whole else {})
    for runs in Kept(path).batches():
        order = measured_orders(mapped, runs.page.view(np.int64), runs.order)
        events, which = page_runs.as_events(runs.page, runs.count, runs.store, order)
        rows = tlb.places(runs.region, order)[which]
        for state, counted in zip(states, counters, strict=True):
            replay(state, counted, events, rows, len(events))
    return {name: [card.side(tlb.table(each), "kernel", name) for each in counters] for name in card.BOUNDS}


def score(column: str, bound: float, there: Counts, here: Counts) -> str:
    """How many of the cells that can be judged are within a bound, and the geometric mean of their ratios."""
    told = [(there[cell][column], here[cell][column]) for cell in there]
    judged = [(a, b) for a, b in told if max(a, b) >= card.least(bound)]
    inside = sum(card.verdict(a, b, bound) == card.WITHIN for a, b in judged)
    mean = statistics.geometric_mean(b / a for a, b in judged)
    return f"{column} within {bound:g}: {inside} of {len(judged)}, mean ratio {mean:.2g}"


def nearer(column: str, there: Counts, here: Counts, other: Counts) -> int:
    """In how many cells one replay's ratio is nearer to 1 than another's."""
    off = [[abs(math.log(each[cell][column] / there[cell][column])) for each in (here, other)] for cell in there]
    return sum(one < two for one, two in off)


def order(there: Counts, here: Counts) -> str:
    """Pairs of file systems whose first-level misses differ, and how many a replay puts in that order."""
    groups = defaultdict(list)
    for cell in there:
        groups[cell[0]].append(
            card.judged({"machine": cell[2], "real": [_row(there[cell])], "replay": [_row(here[cell])]})
        )
    right, total = (sum(each) for each in zip(*map(card.orders, groups.values()), strict=True))
    return f"order right in {right} of {total} pairs"


def _row(counts: dict[str, int]) -> dict[str, object]:
    return {"region": "direct map", **counts}


def compare(names: list[str]) -> None:
    """Print a table for each column, and what each kernel's footprints are worth."""
    there = real()
    here = {name: {cell: predicted(cell, name) for cell in there} for name in names}
    for column in card.BOUNDS:
        print(
            f"\n| trace | file system | machine | {column}: real | {' | '.join(names)} |\n|---|---|---{'|---:' * (1 + len(names))}|"
        )
        for cell, counts in there.items():
            found = " | ".join(f"{here[name][cell][column]:,}" for name in names)
            print(f"| {' | '.join(cell)} | {counts[column]:,} | {found} |")
    for name in names:
        told = [score(column, bound, there, here[name]) for column, bound in card.BOUNDS.items()]
        print(f"\n{name}: {'; '.join([*told, order(there, here[name])])}")
        for other in names[: names.index(name)]:
            near = [f"{column} in {nearer(column, there, here[name], here[other])}" for column in card.BOUNDS]
            print(f"nearer than {other}: {', '.join(near)} of {len(there)}")


def streams(paths: list[str]) -> None:
    """Print a table of streams."""
    machines = list(dict.fromkeys(machine for _, _, machine in real()))
    print(f"| stream | direct map | count | {' | '.join(machines)} |\n|---|---|---{'|---:' * len(machines)}|")
    for path in paths:
        for whole, said in ((False, "as it is"), (True, "on 2 MiB")):
            for name, counts in of_stream(path, machines, whole).items():
                print(f"| {pathlib.Path(path).name} | {said} | {name} | {' | '.join(f'{n:,}' for n in counts)} |")


def main(names: list[str]) -> None:
    """Streams or footprints, as the names say."""
    if all(name.endswith(SUFFIX) for name in names):
        streams(names)
    else:
        compare(names)


if __name__ == "__main__":
    main(sys.argv[1:])
