"""Build the score card of data caches, which compares the misses of each level in a replay and in a real kernel's stream."""

import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.result.tables import layout
from scmsim.study.tlb.card import FEW, OFF, WITHIN, load, verdict

FORMAT = 1
FILE = "caches.json"
BOUNDS = {"l1_misses": 1.25, "l2_misses": 1.25, "llc_misses": 1.5}  # maximum of replay / real and of real / replay
_TITLES = {"l1_misses": "L1", "l2_misses": "L2", "llc_misses": "LLC"}

Cell = dict[str, Any]


def judged(cell: Cell) -> Cell:
    """Return the cell with a verdict on the misses of each level; a second level that is the last one counts only as LLC."""
    found = []
    for column, bound in BOUNDS.items():
        if column == "l2_misses" and cell["levels"] < 3:
            continue
        real, replay = (sum(row[column] for row in cell[side]) for side in ("real", "replay"))
        ratio = replay / real if real else None
        told = {"quantity": column, "real": real, "replay": replay, "ratio": ratio, "bound": bound}
        found.append({**told, "verdict": verdict(real, replay, bound)})
    return {**cell, "verdicts": found}


def agrees(cells: Iterable[Cell]) -> bool:
    """Return whether no verdict is `off`."""
    return all(told["verdict"] != OFF for cell in cells for told in cell["verdicts"])


def read(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the score card in a folder; raises UsageError if the folder has none."""
    return load(pathlib.Path(folder) / FILE, FORMAT, judged, "scmsim lab caches")


def text(made: Mapping[str, Any], by_region: bool, form: str, width: int | None) -> str:
    """Return the card as text; `form` is table or markdown."""
    draw = layout.markdown if form == "markdown" else lambda rows: layout.grid(rows, width)
    blocks = [f"{made['trace']}, kernel {made['kernel']}: misses a call", draw(verdicts(made["cells"]))]
    for cell in made["cells"] if by_region else ():
        blocks.append(f"{cell['fs']} on {cell['machine']}, a call\n{draw(rows(cell))}")
    return "\n\n".join([*blocks, "\n".join(summary(made["cells"]))])


def verdicts(cells: Iterable[Cell]) -> list[list[str]]:
    """Return a row for each cell: misses per call of the real kernel and of the replay, their ratio and its verdict."""
    titles = [f"{name}{what}" for name in _TITLES.values() for what in (": real", ", replay", ", ratio")]
    out = [["file system", "machine", *titles]]
    for cell in cells:
        told = {each["quantity"]: each for each in cell["verdicts"]}
        figures = []
        for column in BOUNDS:
            figures += _figures(told[column], cell["calls"]) if column in told else ["-"] * 3
        out.append([cell["fs"], cell["machine"], *figures])
    return out


def _figures(told: Mapping[str, Any], calls: int) -> list[str]:
    """Return two counts per call, and their ratio."""
    ratio = FEW if told["verdict"] == FEW else f"{told['ratio'] or 0:.2f} {told['verdict']}"
    return [*(f"{told[side] / max(1, calls):,.1f}" for side in ("real", "replay")), ratio]


def rows(cell: Cell) -> list[list[str]]:
    """Return misses per call by region of the address space, for both sides."""
    out = [["region", *(f"{name}, {side}" for name in _TITLES.values() for side in ("real", "replay"))]]
    sides = {side: {row["region"]: row for row in cell[side]} for side in ("real", "replay")}
    for region in dict.fromkeys([*sides["real"], *sides["replay"]]):
        counts = (sides[side].get(region, {}).get(column, 0) for column in BOUNDS for side in sides)
        out.append([region, *(f"{count / max(1, cell['calls']):,.1f}" for count in counts)])
    return out


def summary(cells: list[Cell]) -> list[str]:
    """Return a line of text per level: how many cells are within its bound."""
    lines = []
    for column, bound in BOUNDS.items():
        told = [
            each for cell in cells for each in cell["verdicts"] if each["quantity"] == column and each["verdict"] != FEW
        ]
        inside = sum(each["verdict"] == WITHIN for each in told)
        lines.append(f"{_TITLES[column]} misses: {inside} of {len(told)} cells within {bound:g}")
    return lines
