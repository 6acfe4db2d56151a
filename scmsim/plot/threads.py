"""Draw throughput over the number of threads, of a result that has them (`scmsim replay --threads`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.plot.files import save
from scmsim.plot.library import Rows, Style, altair, hues

CALLS, PERFECT = "calls of all threads", "of one thread, times threads"


def points(rows: Iterable[Mapping[str, Any]]) -> Rows:
    """Return points for rows of the manifest's `threads`: the throughput, and a perfect scaling of the first row's."""
    found: Rows = []
    first: dict[str, float] = {}
    for row in rows:
        name = f"{row['fs']}, {row['medium']}"
        alone = first.setdefault(name, row["calls_per_s"] / row["threads"])
        point = {"name": name, "threads": row["threads"]}
        found.append({**point, "how": CALLS, "calls_per_s": row["calls_per_s"]})
        found.append({**point, "how": PERFECT, "calls_per_s": alone * row["threads"]})
    return found


def draw(rows: Iterable[Mapping[str, Any]], path: str, style: Style | None = None) -> None:
    """Draw throughput over the number of threads, with a colour for each run and dashes for perfect scaling.

    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    made = points(rows)
    names = list(dict.fromkeys(point["name"] for point in made))
    dashes = alt.Scale(domain=[CALLS, PERFECT], range=[[1, 0], [3, 3]])
    below = alt.Legend(orient="bottom", columns=3)
    most = max(point["calls_per_s"] for point in made if point["how"] == CALLS)
    chart = alt.Chart(alt.InlineData(values=made)).encode(
        x=alt.X("threads:Q", title="threads", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("calls_per_s:Q", title="calls per second", scale=alt.Scale(domain=[0, 1.1 * most], clamp=True)),
        color=alt.Color("name:N", scale=hues(names), title="file system, medium", legend=below),
        strokeDash=alt.StrokeDash("how:N", scale=dashes, title="", legend=below),
    )
    caption = "Estimate: a closed queueing network of medium and locks (docs/guide/threads.md)."
    spec = chart.mark_line(point=True, clip=True).properties(width=560, height=340).to_dict()
    save(spec, path, style, caption, "Throughput by threads")
