"""Show a score card as tables: the verdicts, and the counts of the real kernel and the replay row by row."""

from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.core.text import percent
from scmsim.core.units import format_bytes
from scmsim.lab.tlb import COLUMNS
from scmsim.result.tables import layout
from scmsim.study.tlb import card

BY = ("region", "page", "mechanism")
_TITLES = {"lookups": "look-ups", "l1_misses": "L1 misses", "stlb_hits": "STLB hits", "walks": "walks"}


def text(made: Mapping[str, Any], by: str | None, form: str, width: int | None) -> str:
    """Return the card as text; `by` adds the rows of each cell (see `rows`), `form` is table or markdown."""
    draw = layout.markdown if form == "markdown" else lambda rows: layout.grid(rows, width)
    cells = made["cells"]
    blocks = [head(made), draw(verdicts(cells))]
    for cell in cells if by else ():
        blocks.append(
            f"{cell['fs']} on {cell['machine']}, by {by}\n{'' if form == 'table' else chr(10)}{draw(rows(cell, str(by)))}"
        )
    return "\n\n".join([*blocks, "\n".join(card.summary(cells))])


def verdicts(cells: Iterable[card.Cell]) -> list[list[str]]:
    """Return a row for each cell and side: counts of the real kernel and of the replay, their ratio and its verdict."""
    out = [["file system", "machine", "side", "L1 misses: real", "replay", "ratio", "walks: real", "replay", "ratio"]]
    for cell in cells:
        for which in card.SIDES:
            told = [card.of(cell, which, column) for column in card.BOUNDS]
            figures = [
                figure
                for each in told
                for figure in (_count(each, "real", "boots"), _count(each, "replay", "replays"), ratio(each))
            ]
            out.append([cell["fs"], cell["machine"], which, *figures])
    return out


def _count(told: Mapping[str, Any], which: str, several: str) -> str:
    """Return the count as text, with the least and the greatest count if there are several boots."""
    counts = told.get(several)
    return f"{told[which]:,} ({min(counts):,} to {max(counts):,})" if counts else f"{told[which]:,}"


def ratio(told: Mapping[str, Any]) -> str:
    """Return a ratio with its verdict; only the verdict FEW if the counts are too small."""
    if told["verdict"] == card.FEW:
        return card.FEW
    value = told["ratio"]
    shown = "-" if value is None else f"{value:.2f}" if value >= 0.005 else "<0.01"
    return f"{shown} {told['verdict']}"


def rows(cell: card.Cell, by: str) -> list[list[str]]:
    """Return a table of a cell's figures; `by` is "region", "page" or "mechanism".

    Rows by region or mechanism are also split by page size.  Rows by mechanism have only figures of the replay, other rows
    those of the real kernel too.
    """
    sides = ("replay",) if by == "mechanism" else ("real", "replay")
    keys = {"region": ("region", "page"), "page": ("page",), "mechanism": ("site", "region", "page")}[by]
    found: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}
    for which in sides:
        for row in cell[which]:
            sums = found.setdefault(tuple(row[key] for key in keys), {}).setdefault(which, dict.fromkeys(COLUMNS, 0))
            for column in COLUMNS:
                sums[column] += row[column]
    head = [" ".join(keys), *(f"{_TITLES[column]}, {which}" for column in COLUMNS for which in sides)]
    zero = dict.fromkeys(COLUMNS, 0)
    body = [
        [" ".join(key), *(f"{of.get(which, zero)[column]:,}" for column in COLUMNS for which in sides)]
        for key, of in found.items()
    ]
    return [head, *body]


def head(made: Mapping[str, Any]) -> str:
    """Return the title line: trace, number of calls, kernel, and page sizes of the guest's memory."""
    calls = " or ".join(f"{n:,}" for n in sorted({cell["calls"] for cell in made["cells"]}))
    mapped = [f"{region} {_shares(sizes)}" for region, sizes in made["direct_map"].items()]
    return f"{made['trace']}, {calls} calls, kernel {made['kernel']}; pages of the guest: {'; '.join(mapped)}"


def _shares(sizes: Mapping[str, int]) -> str:
    total = sum(sizes.values())
    return ", ".join(f"{percent(n / total)} of {format_bytes(int(size))}" for size, n in sizes.items())
