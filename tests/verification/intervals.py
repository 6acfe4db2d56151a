"""The share of measured cells inside the 90 % intervals, one workload (or kind of call) left out at a time.

    python -m tests.verification.intervals        # the tables of docs/validation/intervals.md

"Left out" is the median of high / low in this check, "printed" that of the intervals that a replay prints, from all cells.
"Needed" is the factor on the half-widths that puts nine in ten cells inside: below 0.5 the intervals are too wide.
"""

import csv
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scmsim.result import intervals
from scmsim.result.intervals import Cell


class Check(NamedTuple):
    """Cells of a counter, the share inside, medians of high / low, and the factor on the half-widths that 90 % needs."""

    counter: str
    costs: str
    machine: str
    cells: int
    inside: float
    width: float
    printed: float
    needed: float


def left_out(base: Sequence[Cell], unknown_model: bool = False) -> list[tuple[float, float]]:
    """Return (error, half-width) of each cell, from cells without its group; `unknown_model`: nor its model."""
    widths: dict[tuple[str, str], float] = {}
    for cell in base:
        key = (cell.group, cell.model)
        if key not in widths:
            rest = tuple(
                one for one in base if one.group != cell.group and not (unknown_model and one.model == cell.model)
            )
            widths[key] = intervals.half_width(cell.model, rest)[0]
    return [(cell.error, widths[cell.group, cell.model]) for cell in base]


def share_of_width(pair: tuple[float, float]) -> float:
    """Return error / half-width; 0 without an error, infinity outside of an interval of width 0."""
    error, width = pair
    return error / width if width else math.inf if error else 0.0


def kinds() -> Iterator[tuple[str, str, str, str]]:
    """Yield (counter, costs, machine, kind of call) of each group of cells."""
    with intervals.WORKLOADS.open(newline="", encoding="utf-8") as file:
        found = dict.fromkeys((row["counter"], row["costs"], row["machine"], "") for row in csv.DictReader(file))
    yield from found
    yield from ((counter, "", "", "read") for counter in intervals.calls())


def checks(unknown_model: bool = False) -> Iterator[Check]:
    """Yield the check of each counter, costs and machine."""
    for counter, costs, machine, call in kinds():
        base = intervals.cells(counter, costs or None, machine or None, call)
        pairs = left_out(base, unknown_model)
        inside = sum(error <= width for error, width in pairs) / len(pairs)
        needed = sorted(map(share_of_width, pairs))[math.ceil(intervals.SHARE * len(pairs)) - 1]
        width = statistics.median(intervals.ratio(width) for _, width in pairs)
        printed = statistics.median(intervals.ratio(intervals.half_width(cell.model, base)[0]) for cell in base)
        yield Check(counter, costs or "each model's", machine, len(pairs), inside, width, printed, needed)


def main() -> None:
    """Print the tables."""
    for unknown_model in (False, True):
        print(
            "| counter | costs | machine | cells | inside, % | high / low, left out | printed | needed |\n"
            + "|---" * 8
            + "|"
        )
        for one in checks(unknown_model):
            print(
                f"| `{one.counter}` | {one.costs} | {one.machine} | {one.cells} | {100 * one.inside:.0f} "
                f"| {one.width:.2f} | {one.printed:.2f} | {one.needed:.2f} |"
            )
        print()


if __name__ == "__main__":
    main()
