"""Draw latency over bandwidth for memory media (see `scmsim list medium`)."""

from collections.abc import Mapping
from typing import Any

from scmsim.plot.files import save
from scmsim.plot.library import Rows, Style, altair, hues

MEASURED, ASSUMED = "measured curve", "idle latency, no curve"


def rows(media: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Return the points of each medium: its curves, or else the idle latency of loads at bandwidth 0 and at full bandwidth.

    `media` are tables of media by name (`scmsim.medium.read`).
    """
    found: Rows = []
    for name, medium in media.items():
        if curves := medium.get("curves"):
            for share, points in curves.by_share:
                line = {"medium": name, "line": f"{name} {share:g}", "reads": f"{share:g} % reads", "how": MEASURED}
                found += [{**line, "gb_s": gb_s, "ns": ns} for gb_s, ns in points]
        elif "load_ns" in medium:
            line = {"medium": name, "line": name, "reads": "100 % reads", "how": ASSUMED}
            found += [{**line, "gb_s": gb_s, "ns": medium["load_ns"]} for gb_s in (0.0, medium["read_gb_s"])]
    return found


def draw(media: Mapping[str, Mapping[str, Any]], path: str, style: Style | None = None) -> None:
    """Draw latency over bandwidth: a colour for each medium, dashes where the medium has no curve.

    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    points = rows(media)
    names = list(dict.fromkeys(point["medium"] for point in points))
    below = alt.Legend(orient="bottom", columns=5)
    dashes = alt.Scale(domain=[MEASURED, ASSUMED], range=[[1, 0], [6, 3]])
    chart = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("gb_s:Q", title="bandwidth, GB/s"),
        y=alt.Y("ns:Q", title="latency, ns", scale=alt.Scale(zero=True)),
        color=alt.Color("medium:N", scale=hues(names), title="medium", legend=below),
        detail="line:N",
    )
    lines = chart.mark_line().encode(
        strokeDash=alt.StrokeDash("how:N", scale=dashes, title="", legend=alt.Legend(orient="bottom"))
    )
    marks = chart.mark_point(size=30).encode(
        shape=alt.Shape("reads:N", title="share of reads", legend=alt.Legend(orient="bottom"))
    )
    caption = (
        "Latency of a line over the bandwidth of the whole medium; each medium's file has the sources of its numbers."
    )
    spec = alt.layer(lines, marks).properties(width=560, height=340).to_dict()
    save(spec, path, style, caption, "Latency over bandwidth")
