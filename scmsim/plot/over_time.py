"""Draw a replay over time: counts per call of each mechanism, from the first call of the trace to the last."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from scmsim.core.text import printable, shortened
from scmsim.pipeline.timeline import Timeline
from scmsim.plot.charts import MOST_SITES, NUMBER, legend
from scmsim.plot.files import save
from scmsim.plot.library import Rows, Style, altair
from scmsim.plot.theme import OTHER, SAME, colours

_SAID = (
    "Counts per call of each mechanism over the trace, a step for each window of as many calls; mechanisms are stacked."
)
_PANEL = {"width": 640, "height": 140}


def draw(found: Sequence[Timeline], counters: Sequence[str], path: str, of: str, style: Style | None = None) -> None:
    """Draw a panel for each file system and counter; `of` names the trace.

    Raises EnvironmentProblem without the extra `report`, UsageError for a file that cannot be written.
    """
    alt = altair()
    panels = [(each, counter, per_call(each, counter)) for counter in counters for each in found]
    total: dict[str, float] = {}
    for _, _, values in panels:
        for site, line in values.items():
            total[site] = total.get(site, 0) + float(line.sum())
    largest = sorted(total, key=lambda site: -total[site])[:MOST_SITES]
    names = largest + ([OTHER] if len(total) > len(largest) else [])
    charts = []
    for each, counter, values in panels:
        edges = np.concatenate(([0], np.cumsum(each.operations)))
        rows = _rows(values, names, edges)
        charts.append(_panel(alt, f"{each.run.fs}: {counter} per call", rows, names, int(edges[-1])))
    name = printable(shortened(os.path.basename(of), 60))
    spec = alt.vconcat(*charts).resolve_scale(x="shared").to_dict()
    save(spec, path, style, _SAID, f"Counts over time: {name}")


def per_call(found: Timeline, counter: str) -> dict[str, np.ndarray]:
    """Return the counts per call of each mechanism in each window; mechanisms with the same name are summed."""
    values: dict[str, Any] = {}
    for site, counts in found.counts.items():
        if counter in counts:
            name = SAME.get(site, site)
            values[name] = values.get(name, 0) + counts[counter] / np.maximum(found.operations, 1)
    return values


def _rows(values: dict[str, np.ndarray], names: Sequence[str], edges: np.ndarray) -> Rows:
    """Return a row for each window and name, at the window's first call, and a final row at which the last step ends."""
    shown = {name: values[name] for name in names if name in values}
    rest = [line for site, line in values.items() if site not in shown]
    if rest:
        shown[OTHER] = shown.get(OTHER, 0) + np.sum(rest, axis=0)
    return [
        {"call": int(edge), "part": name, "value": float(value), "rank": names.index(name)}
        for name, line in shown.items()
        for edge, value in zip(edges, [*line, line[-1]], strict=True)
    ]


def _panel(alt: Any, title: str, rows: Rows, names: Sequence[str], calls: int) -> Any:
    x = alt.X("call:Q", title="calls of the trace", scale=alt.Scale(domain=[0, calls], nice=False))
    scale = alt.Scale(domain=list(names), range=colours(names))
    chart = alt.Chart(alt.InlineData(values=rows), title=alt.TitleParams(printable(title), anchor="start", fontSize=12))
    return (
        chart.mark_area(interpolate="step-after")
        .encode(
            x=x.axis(labelExpr=NUMBER, tickCount=5),
            y=alt.Y("value:Q", title=None, stack="zero").axis(labelExpr=NUMBER, tickCount=4),
            color=alt.Color("part:N", scale=scale, legend=legend(names)),
            order=alt.Order("rank:Q"),
        )
        .properties(**_PANEL)
    )
