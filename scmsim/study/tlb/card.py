"""The card: a replay beside the real kernel's stream, a verdict for each file system, machine and side.

A ratio is the replay's count by the real one.  It is judged where the larger of the two counts is large enough: chance moves a
count of n by about its square root, and twice that must stay below the bound.
"""

import itertools
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.core.errors import UsageError

FORMAT = 1
FILE = "tlb.json"
BOUNDS = {"l1_misses": 1.25, "walks": 1.5}
DIFFERENT = 1.25  # two file systems whose misses differ by less have no order
WITHIN, OFF, FEW = "within", "off", "few"
SIDES = ("kernel", "program")
_MOST = 1 << 28  # bytes of a card

Cell = dict[str, Any]


def least(bound: float) -> int:
    """The count from which a ratio can be judged by a bound."""
    return math.ceil((2 / (bound - 1)) ** 2)


def verdict(real: int, replayed: int, bound: float) -> str:
    """`within` the bound, `off`, or `few`: too few of both to tell."""
    if max(real, replayed) < least(bound):
        return FEW
    return WITHIN if real and replayed and max(real / replayed, replayed / real) <= bound else OFF


def side(rows: Iterable[Mapping[str, Any]], which: str, column: str) -> int:
    """Sum of a column over the kernel's or the program's rows."""
    return sum(row[column] for row in rows if (row["region"] == "program") == (which == "program"))


def judged(cell: Cell) -> Cell:
    """The cell with the verdict of each side and quantity."""
    found = []
    for which, (column, bound) in itertools.product(SIDES, BOUNDS.items()):
        real, replayed = side(cell["real"], which, column), side(cell["replay"], which, column)
        found.append(
            {
                "side": which,
                "quantity": column,
                "real": real,
                "replay": replayed,
                "ratio": replayed / real if real else None,
                "bound": bound,
                "verdict": verdict(real, replayed, bound),
            }
        )
    return {**cell, "verdicts": found}


def of(cell: Cell, which: str, column: str) -> dict[str, Any]:
    """One verdict of a cell."""
    return next(each for each in cell["verdicts"] if (each["side"], each["quantity"]) == (which, column))


def orders(cells: list[Cell]) -> tuple[int, int]:
    """Pairs of file systems on one machine whose kernel-side first-level misses really differ: (in the right order, all)."""
    right = total = 0
    for a, b in itertools.combinations(cells, 2):
        if a["machine"] != b["machine"]:
            continue
        one, other = (of(cell, "kernel", "l1_misses") for cell in (a, b))
        low, high = sorted((one["real"], other["real"]))
        if high <= DIFFERENT * low or high < least(BOUNDS["l1_misses"]):
            continue
        total += 1
        right += (one["replay"] - other["replay"]) * (one["real"] - other["real"]) > 0
    return right, total


def summary(cells: list[Cell]) -> list[str]:
    """What the card says in a few lines."""
    lines = []
    for column, bound in BOUNDS.items():
        told = [each for cell in cells if (each := of(cell, "kernel", column))["verdict"] != FEW]
        inside = sum(each["verdict"] == WITHIN for each in told)
        name = {"l1_misses": "first-level misses", "walks": "page walks"}[column]
        lines.append(f"kernel side, {name}: {inside} of {len(told)} cells within {bound:g}")
    right, total = orders(cells)
    if total:
        lines.append(f"order of two file systems whose first-level misses differ: right in {right} of {total} pairs")
    return lines


def agrees(cells: list[Cell]) -> bool:
    """Whether no verdict of the kernel's side is `off`."""
    return all(of(cell, "kernel", column)["verdict"] != OFF for cell in cells for column in BOUNDS)


def is_card(folder: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder of `scmsim lab tlb`."""
    return os.fspath(folder) != "" and (pathlib.Path(folder) / FILE).exists()


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The card of a folder; raises UsageError for a folder that has none."""
    path = pathlib.Path(folder) / FILE
    try:
        with path.open("rb") as file:
            found: dict[str, Any] = json.loads(file.read(_MOST))
        if found["format"] != FORMAT:
            raise ValueError("of another version of scmsim")
        for cell in found["cells"]:
            judged(cell)
            of(cell, "kernel", "walks")
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise UsageError(
            f"{str(path)!r} is no card ({str(error)[:80]}); make it with scmsim lab tlb TRACE -o"
        ) from None
    return found
