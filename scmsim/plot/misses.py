"""Draw the misses of `scmsim mrc`."""

from typing import Any

from scmsim.core.text import printable
from scmsim.plot.files import save
from scmsim.plot.library import Style, altair, hues

_WAYS = (1, 4, 16)  # numbers of ways that are drawn, if they were counted


def draw(rows: list[dict[str, Any]], path: str, of: str = "", style: Style | None = None) -> None:
    """Draw misses over entries, with a line for each page size (and number of ways) and logarithmic axes.

    `rows` are those of `scmsim mrc --json`; `of` names the source of the addresses: a trace and its file system.
    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    points = [
        {
            "page": row["page"],
            "entries": row["entries"] if "entries" in row else row["sets"] * row["ways"],
            "misses": max(row["misses"], 1),
            **({"ways": f"{row['ways']} way{'s' * (row['ways'] > 1)}"} if "ways" in row else {}),
        }
        for row in rows
        if row.get("ways", _WAYS[0]) in _WAYS
    ] or [{"page": "", "entries": 1, "misses": 1}]
    x = alt.X("entries:Q", scale=alt.Scale(type="log", base=2), title="entries", axis=alt.Axis(labelOverlap=True))
    y = alt.Y("misses:Q", scale=alt.Scale(type="log"), title="misses", axis=alt.Axis(format="~s", tickCount=6))
    pages = list(dict.fromkeys(point["page"] for point in points))
    chart = alt.Chart(alt.InlineData(values=points)).encode(
        x=x, y=y, color=alt.Color("page:N", scale=hues(pages), title="page", legend=alt.Legend(orient="bottom"))
    )
    lines, marks = chart.mark_line(), chart.mark_point(size=30)
    if "ways" in points[0]:
        ways = list(dict.fromkeys(point["ways"] for point in points))
        key = alt.Legend(orient="bottom", symbolSize=90, symbolStrokeWidth=2)
        shapes = alt.Scale(domain=ways, range=["circle", "square", "triangle-up"][: len(ways)])
        lines = lines.encode(detail="ways:N")
        marks = marks.encode(shape=alt.Shape("ways:N", scale=shapes, title="associativity", legend=key))
    how = "from a sample of the pages" if "interval_95" in rows[0] else "exact"
    what = "cache of objects" if rows[0]["page"] == "object" else "TLB"
    title = f"Misses of a {what}: {printable(of)}" if of else f"Misses of a {what}"
    spec = alt.layer(lines, marks).properties(width=560, height=340).to_dict()
    caption = (
        f"Misses of a {what} with LRU replacement ({how}) over its entries, by page size; both axes are logarithmic."
    )
    save(spec, path, style, caption, title)
