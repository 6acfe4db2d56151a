"""Draw the differences between two kernels' counts, for the functions with the largest differences of a counter."""

import pathlib
from collections.abc import Sequence
from typing import Any

from scmsim.lab.diff import label, size
from scmsim.plot.files import write
from scmsim.plot.library import altair, drawn
from scmsim.plot.theme import COLOURS
from scmsim.plot.tlb import check

__all__ = ["check", "draw"]
_TOP = 15  # functions per file system
_COLOURS = {"more": COLOURS[5], "less": COLOURS[0]}


def draw(found: Sequence[dict[str, Any]], path: str, of: str = "instructions") -> None:
    """Draw a panel for each file system, with the second kernel's counts per call minus the first's by function.

    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    check(path)
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    panels = []
    for each in found:
        x = alt.X("difference:Q", title=f"{of} per call", axis=alt.Axis(format=",d"))
        y = alt.Y("function:N", title=None, sort=None, axis=alt.Axis(labelLimit=400))
        colour = alt.Color("sign:N", scale=scale, title=each["b"], legend=alt.Legend(orient="bottom"))
        chart = alt.Chart(alt.Data(values=_bars(each, of))).mark_bar().encode(x=x, y=y, color=colour)
        panels.append(chart.properties(title=f"{each['fs']}: {each['a']} -> {each['b']}", width=420))
    spec = alt.vconcat(*panels).to_dict()
    write(pathlib.Path(path), drawn(spec, pathlib.Path(path).suffix[1:]))


def _bars(each: dict[str, Any], of: str) -> list[dict[str, Any]]:
    out = []
    for row in sorted(each["function"], key=lambda row: size(row, of))[:_TOP]:
        difference = (row[of][1] - row[of][0]) / max(1, row["calls"])
        sign = "more" if difference > 0 else "less"
        out.append({"function": f"{row['name']} ({label(row)})", "difference": difference, "sign": sign})
    return out
