"""The misses of `scmsim mrc` as a picture."""

import pathlib
from typing import Any

from scmsim.plot.files import write
from scmsim.plot.library import altair, drawn

_BLUE_TO_ORANGE = ["#0072b2", "#56b4e9", "#009e73", "#e69f00"]  # Okabe and Ito: told apart by colour-blind readers too


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """Draw misses over entries, a line for each page size (and number of ways), both axes logarithmic.

    Parameters
    ----------
    rows : list of dict
        As `scmsim mrc --json` prints them.
    path : str
        F.svg, F.png or F.html.

    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    points = [
        {
            "page": row["page"],
            "entries": row["entries"] if "entries" in row else row["sets"] * row["ways"],
            "ways": row.get("ways", 0),
            "misses": max(row["misses"], 1),
        }
        for row in rows
        if row.get("ways", 16) in (1, 4, 16)
    ]
    x = alt.X("entries:Q", scale=alt.Scale(type="log", base=2), title="entries")
    y = alt.Y("misses:Q", scale=alt.Scale(type="log"), title="misses")
    colour = alt.Color("page:N", scale=alt.Scale(range=_BLUE_TO_ORANGE), title="page", sort=None)
    chart = (
        alt.Chart(alt.Data(values=points)).mark_line(point=alt.OverlayMarkDef(size=12)).encode(x=x, y=y, color=colour)
    )
    if "ways" in rows[0]:
        legend = alt.Legend(symbolType="stroke", symbolStrokeWidth=2)
        chart = chart.encode(strokeDash=alt.StrokeDash("ways:O", title="ways", legend=legend))
    title = "TLB misses (LRU, from a sample of the pages)" if "interval_95" in rows[0] else "TLB misses (exact LRU)"
    spec = chart.properties(width=560, height=340, title=title).to_dict()
    write(pathlib.Path(path), drawn(spec, pathlib.Path(path).suffix[1:]))
