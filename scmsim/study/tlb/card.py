"""Build the score card that compares a replay with a real kernel's stream: a verdict by file system, machine and side.

The sides are kernel and program.  A ratio is the replay's count divided by the real one.  It gets a verdict if the larger
count is large enough: chance moves a count of n by about its square root, and twice that must stay below the bound.

The addresses of the kernel's objects differ from boot to boot, and decide which objects share a set of a TLB.  A cell with
several boots is compared by the geometric mean of the boots' counts.  The verdict is `between` if the replay's count is
between the least and the greatest of them, because the boots themselves differ by that much.
"""

import itertools
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from scmsim.core.errors import UsageError

FORMAT = 1
FILE = "tlb.json"
BOUNDS = {"l1_misses": 1.25, "walks": 1.5}
DIFFERENT = 1.25  # two file systems whose misses differ by a smaller factor are not ordered
WITHIN, BETWEEN, OFF, FEW = "within", "between", "off", "few"
SIDES = ("kernel", "program")
_MOST = 1 << 28  # maximum bytes of a card

Cell = dict[str, Any]


def least(bound: float) -> int:
    """Return the least count from which a ratio can be compared with a bound."""
    return math.ceil((2 / (bound - 1)) ** 2)


def verdict(real: int, replayed: int, bound: float, boots: Sequence[int] = ()) -> str:
    """Return `within` the bound, `between` the counts of `boots`, `off`, or `few` if both counts are too small to decide."""
    if max(real, replayed) < least(bound):
        return FEW
    if is_within(real, replayed, bound):
        return WITHIN
    return BETWEEN if boots and min(boots) <= replayed <= max(boots) else OFF


def is_within(one: float, other: float, bound: float) -> bool:
    """Return whether two counts differ by a factor of at most `bound`."""
    return min(one, other) > 0 and max(one / other, other / one) <= bound


def geometric_mean(counts: Sequence[int]) -> float:
    """Return the geometric mean, with a count of 0 taken as 1; 0 if all counts are 0."""
    return math.exp(sum(math.log(max(count, 1)) for count in counts) / len(counts)) if any(counts) else 0.0


def side(rows: Iterable[Mapping[str, Any]], which: str, column: str) -> int:
    """Return the sum of a column over the rows of a side: `which` is "kernel" or "program"."""
    return sum(row[column] for row in rows if (row["region"] == "program") == (which == "program"))


def judged(cell: Cell) -> Cell:
    """Return the cell with the verdict of each side and quantity.

    A cell's `real` has the rows of the first boot, `more_boots` the rows of each further boot; likewise, `replay` and
    `more_replays` have the rows of replays with the footprints of several boots.
    """
    found = []
    for which, (column, bound) in itertools.product(SIDES, BOUNDS.items()):
        boots = [side(rows, which, column) for rows in (cell["real"], *cell.get("more_boots", ()))]
        replays = [side(rows, which, column) for rows in (cell["replay"], *cell.get("more_replays", ()))]
        real, replayed = (round(geometric_mean(of)) if len(of) > 1 else of[0] for of in (boots, replays))
        found.append(
            {
                **({"boots": boots} if len(boots) > 1 else {}),
                **({"replays": replays} if len(replays) > 1 else {}),
                "side": which,
                "quantity": column,
                "real": real,
                "replay": replayed,
                "ratio": replayed / real if real else None,
                "bound": bound,
                "verdict": verdict(real, replayed, bound, boots if len(boots) > 1 else ()),
            }
        )
    return {**cell, "verdicts": found}


def of(cell: Cell, which: str, column: str) -> dict[str, Any]:
    """Return the verdict of a cell for a side (`which`) and a quantity (`column`)."""
    return next(each for each in cell["verdicts"] if (each["side"], each["quantity"]) == (which, column))


def orders(cells: list[Cell]) -> tuple[int, int]:
    """Count pairs of file systems on one machine whose real first-level misses (kernel side) differ.

    Returns (number of pairs that the replays order correctly, number of pairs).
    """
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
    """Return lines of text that summarise the card."""
    lines = []
    for column, bound in BOUNDS.items():
        told = [each for cell in cells if (each := of(cell, "kernel", column))["verdict"] != FEW]
        inside = sum(each["verdict"] == WITHIN for each in told)
        name = {"l1_misses": "first-level misses", "walks": "page walks"}[column]
        lines.append(f"kernel side, {name}: {inside} of {len(told)} cells within {bound:g}{_of_boots(told, bound)}")
    right, total = orders(cells)
    if total:
        lines.append(f"order of two file systems whose first-level misses differ: right in {right} of {total} pairs")
    return lines


def _of_boots(told: Sequence[Mapping[str, Any]], bound: float) -> str:
    """Return text on how many cells are between boots, and how often a boot is within the bound of the other boots' mean."""
    pairs = [
        (count, geometric_mean(each["boots"][:k] + each["boots"][k + 1 :]))
        for each in told
        for k, count in enumerate(each.get("boots", ()))
    ]
    if not pairs:
        return ""
    between = sum(each["verdict"] == BETWEEN for each in told)
    alike = sum(is_within(count, mean, bound) for count, mean in pairs)
    return f", {between} more between the boots; one boot is within it of the others' mean in {100 * alike / len(pairs):.0f} %"


def agrees(cells: list[Cell]) -> bool:
    """Return whether no verdict of the kernel's side is `off`."""
    return all(of(cell, "kernel", column)["verdict"] != OFF for cell in cells for column in BOUNDS)


def is_card(folder: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder of `scmsim lab tlb`."""
    return os.fspath(folder) != "" and (pathlib.Path(folder) / FILE).exists()


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the score card in a folder; raises UsageError if the folder has none."""

    def check(cell: Cell) -> None:
        judged(cell)
        of(cell, "kernel", "walks")

    return load(pathlib.Path(folder) / FILE, FORMAT, check, "scmsim lab tlb")


def load(path: pathlib.Path, version: int, check: Callable[[Cell], object], command: str) -> dict[str, Any]:
    """Return the card in a file; raise UsageError if the file is not a card of `version`, or a cell fails `check`."""
    try:
        with path.open("rb") as file:
            found: dict[str, Any] = json.loads(file.read(_MOST))
        if found["format"] != version:
            raise ValueError("of another version of scmsim")
        for cell in found["cells"]:
            check(cell)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise UsageError(f"{str(path)!r} is not a card ({str(error)[:80]}); make it with {command} TRACE -o") from None
    return found
