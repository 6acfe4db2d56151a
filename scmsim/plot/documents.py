"""Make charts of the papers' figures: lines over a size, groups of bars, panels of lines.

Rows are dicts with `system` and `value`; rows for lines also have `x`, for bars `group`, for panels `x` and `panel`.  PUBLISHED
values are black, and points in charts of lines.
"""

import math
from collections.abc import Sequence
from typing import Any

from scmsim.plot.library import Chart, Rows, altair
from scmsim.plot.theme import COLOURS

PUBLISHED = "published"
_BLACK = "#000000"
_PANEL = {"width": 250, "height": 180}
_SIZE = "format(datum.value, ',')"
_COUNT = "datum.value >= 1e4 ? format(datum.value, '~s') : format(datum.value, '~g')"


def lines(name: str, title: str, rows: Rows, x: str, y: str, log_y: bool = True) -> Chart:
    """Return a chart with one line per system over a logarithmic size."""
    title = _told(title, rows, log_y)
    return Chart(name, title, title, rows, _lined(rows, x, y, log_y).properties(height=280).to_dict())


def panels(name: str, title: str, rows: Rows, x: str, log_y: bool = True, columns: int = 2) -> Chart:
    """Return a panel of lines for each value of `panel`, each with its own scale."""
    alt, title = altair(), _told(title, rows, log_y)
    order = list(dict.fromkeys(row["panel"] for row in rows))
    facet = alt.Facet("panel:N", title=None, sort=order, header=alt.Header(labelFontSize=12, labelFontWeight="bold"))
    chart = _lined(rows, x, "", log_y).properties(**_PANEL).facet(facet, columns=columns)
    return Chart(name, title, title, rows, chart.resolve_scale(y="independent").resolve_axis(x="independent").to_dict())


def _told(title: str, rows: Rows, log: bool) -> str:
    return f"{title} (values of 0 are left out)" if log and any(row["value"] <= 0 for row in rows) else title


def _lined(rows: Rows, x: str, y: str, log_y: bool) -> Any:
    alt = altair()
    systems = list(dict.fromkeys(row["system"] for row in rows))
    shown = [row for row in rows if row["value"] > 0 or not log_y]
    base = alt.Chart(alt.InlineData(values=shown)).encode(
        x=alt.X("x:Q", title=x, scale=alt.Scale(type="log", base=2, padding=6)).axis(
            values=sorted({row["x"] for row in shown}), labelExpr=_SIZE, labelOverlap=True
        ),
        y=_y(alt, shown, y, log_y),
        color=_colour(alt, systems),
    )
    # the first line is the widest and has the largest points, so that lines that coincide are all visible
    rank = [max(len(systems) - place - 1 - (PUBLISHED in systems), 0) for place in range(len(systems))]
    width = alt.Scale(type="ordinal", domain=systems, range=[1.5 + 0.6 * steps for steps in rank])
    area = alt.Scale(type="ordinal", domain=systems, range=[(5 + 2 * steps) ** 2 for steps in rank])
    line = base.mark_line().encode(strokeWidth=alt.StrokeWidth("system:N", legend=None, scale=width))
    dots = base.mark_point(filled=True, opacity=1).encode(size=alt.Size("system:N", legend=None, scale=area))
    if PUBLISHED not in systems:
        return alt.layer(line, dots)
    given = f"datum.system === '{PUBLISHED}'"
    points = base.mark_point(filled=True, shape="diamond", size=90, opacity=1).transform_filter(given)
    return alt.layer(line.transform_filter(f"!({given})"), dots.transform_filter(f"!({given})"), points)


def _y(alt: Any, rows: Rows, title: str, log: bool) -> Any:
    """Return the axis of values; a logarithmic axis has ticks at 1, 2, 5, 10, 20, 50, ..."""
    y = alt.Y("value:Q", title=title or None)
    if not log or not rows:
        return y.axis(labelExpr=_COUNT, tickCount=5)
    decades = [math.log10(row["value"]) for row in rows]
    widest = max(
        math.log10(max(values) / min(values))
        for panel in {row.get("panel") for row in rows}
        if (values := [row["value"] for row in rows if row.get("panel") == panel])
    )
    steps = (1, 2, 5) if widest < 2.5 else (1,)
    marks = [step * 10.0**k for k in range(math.floor(min(decades)), math.ceil(max(decades)) + 1) for step in steps]
    scale = alt.Scale(type="log", nice=False, padding=10)
    return y.scale(scale).axis(values=marks, labelExpr=_COUNT, labelOverlap=True)


def bars(name: str, title: str, rows: Rows, x: str, log: bool = False) -> Chart:
    """Return a chart of groups of bars, or of points if the axis is logarithmic, where a bar would have no start."""
    alt = altair()
    systems = list(dict.fromkeys(row["system"] for row in rows))
    groups = list(dict.fromkeys(row["group"] for row in rows))
    chart = alt.Chart(alt.InlineData(values=[row for row in rows if row["value"] > 0 or not log]))
    chart = (chart.mark_point(filled=True, size=70) if log else chart.mark_bar()).encode(
        x=alt.X(
            "value:Q",
            title=x,
            scale=alt.Scale(type="log" if log else "linear"),
            axis=alt.Axis(labelExpr=_COUNT, labelOverlap=True),
        ),
        y=alt.Y("group:N", title=None, sort=groups, axis=alt.Axis(labelLimit=300)),
        yOffset=alt.YOffset("system:N", sort=systems),
        color=_colour(alt, systems),
    )
    chart = chart.properties(height=max(len(groups) * 14 * len(systems), 80))
    return Chart(name, title, title, rows, chart.to_dict())


def _colour(alt: Any, systems: Sequence[str]) -> Any:
    own = [system for system in systems if not system.startswith(PUBLISHED)]
    colours = dict(zip(own, [*COLOURS] * (1 + len(own) // len(COLOURS)), strict=False))
    scale = alt.Scale(domain=list(systems), range=[colours.get(system, _BLACK) for system in systems])
    return alt.Color("system:N", title=None, scale=scale, legend=alt.Legend(symbolSize=90))
