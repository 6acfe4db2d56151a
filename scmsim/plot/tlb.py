"""Draw the TLB score card: each row has a point for the real kernel's count and a point for the replay's."""

import os
import pathlib
from typing import Any

from scmsim.core.atomic import writable
from scmsim.core.errors import UsageError
from scmsim.plot.files import write
from scmsim.plot.library import Chart, altair, drawn
from scmsim.plot.theme import COLOURS
from scmsim.study.tlb import card

SUFFIXES = (".svg", ".png", ".pdf", ".html")
_COLOURS = {"real": COLOURS[0], "replay": COLOURS[1]}
_TITLES = {"l1_misses": "first-level misses", "walks": "page walks"}


def check(path: str | os.PathLike[str]) -> None:
    """Raise UsageError if the file cannot be drawn to; call this before the work starts."""
    if pathlib.Path(path).suffix not in SUFFIXES:
        raise UsageError(f"{os.fspath(path)!r} has the wrong suffix: a chart is one of {', '.join(SUFFIXES)}")
    writable(path)


def draw(cells: list[card.Cell], path: str) -> None:
    """Draw the kernel-side counts: a row per file system and machine, with a point each for real kernel and replay.

    The axis is logarithmic.  Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    check(path)
    write(pathlib.Path(path), drawn(chart(cells).spec, pathlib.Path(path).suffix[1:]))


def chart(cells: list[card.Cell]) -> Chart:
    """Return the chart for a page."""
    alt = altair()
    points = _points(cells)
    which = list(_COLOURS)
    scale, shapes = alt.Scale(domain=which, range=list(_COLOURS.values())), alt.Scale(domain=which)
    axis = alt.Axis(values=[0, *(10**k for k in range(10))], format=",d")
    x = alt.X("count:Q", scale=alt.Scale(type="symlog"), axis=axis, title="count, whole trace, kernel side")
    y = alt.Y("cell:N", title=None, sort=None)
    marks = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=60)
    marks = marks.encode(
        x=x, y=y, color=alt.Color("of:N", scale=scale, title=None), shape=alt.Shape("of:N", scale=shapes, title=None)
    )
    panels = [
        marks.transform_filter(alt.datum.quantity == title).properties(title=title, width=330)
        for title in _TITLES.values()
    ]
    spec = alt.hconcat(*panels).resolve_scale(y="shared").to_dict()
    said = "Kernel side, whole trace: counts of the real kernel's address stream and of the replay in the same MMU."
    return Chart("judged", "TLB misses of a real kernel and of the replay", said, points, spec)


def _points(cells: list[card.Cell]) -> list[dict[str, Any]]:
    return [
        {
            "cell": f"{cell['fs']} on {cell['machine']}",
            "quantity": _TITLES[column],
            "of": which,
            "count": card.of(cell, "kernel", column)[which],
        }
        for cell in cells
        for column in card.BOUNDS
        for which in _COLOURS
    ]
