"""The share of measured cells inside the 90 % intervals, one workload (or kind of call) left out at a time.

    python -m tests.verification.intervals        # the tables of docs/validation/intervals.md

"Left out" is the median of high / low in this check, "printed" that of the intervals that a replay prints, from all cells.
"Needed" is the factor on the distances of the bounds that puts nine in ten cells inside: below 0.5 the intervals are too wide.
"""

import csv
import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scmsim.result import intervals
from scmsim.result.intervals import Cell


class Check(NamedTuple):
    """Cells of a counter, the share inside, medians of high / low, and the factor on the bounds that 90 % needs."""

    counter: str
    costs: str
    machine: str
    cells: int
    inside: float
    width: float
    printed: float
    needed: float


def _without(base: Sequence[Cell], cell: Cell, unknown_model: bool) -> tuple[Cell, ...]:
    return tuple(one for one in base if one.group != cell.group and not (unknown_model and one.model == cell.model))


def left_out(base: Sequence[Cell], unknown_model: bool = False) -> list[tuple[float, float, float]]:
    """Return (error, low, high) of each cell, from cells without its group; `unknown_model`: nor its model."""
    found: dict[tuple[str, str], tuple[float, float, str]] = {}
    for cell in base:
        key = (cell.group, cell.model)
        if key not in found:
            found[key] = intervals.bounds(cell.model, _without(base, cell, unknown_model))
    return [(cell.error, *found[cell.group, cell.model][:2]) for cell in base]


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
        found = left_out(base, unknown_model)
        inside = sum(low <= error <= high for error, low, high in found) / len(found)
        needed = sorted(abs(error) / (high if error > 0 else -low) for error, low, high in found)
        width = statistics.median(math.exp(high - low) for _, low, high in found)
        every = [intervals.bounds(cell.model, base) for cell in base]
        printed = statistics.median(math.exp(high - low) for low, high, _ in every)
        ninth = needed[math.ceil(intervals.SHARE * len(found)) - 1]
        yield Check(counter, costs or "each model's", machine, len(found), inside, width, printed, ninth)


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
