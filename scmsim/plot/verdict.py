"""Draw the chart of a comparison: the least, median and greatest ratio simulated / measured of each quantity."""

from scmsim.compare import Comparison
from scmsim.core.text import printable
from scmsim.plot.library import Chart, Rows, altair
from scmsim.plot.theme import COLOURS

_VERDICTS = {"within tolerance": COLOURS[0], "out of tolerance": COLOURS[5], "not judged": COLOURS[8]}


def chart(found: Comparison) -> Chart | None:
    """Return the chart of all quantities with a ratio above 0; None if there are none."""
    alt = altair()
    rows: Rows = [
        {"quantity": printable(one.quantity), "least": one.least_ratio, "value": one.median_ratio, "most": one.most_ratio,
         "verdict": list(_VERDICTS)[1 if one.out else 0 if one.ok + one.noisy else 2]}
        for one in found.quantities() if one.least_ratio
    ]  # fmt: skip
    if not rows:
        return None
    low, high = min(0.8, *(row["least"] for row in rows)), max(1.25, *(row["most"] for row in rows))
    scale = alt.Scale(type="log", domain=[low / 1.05, high * 1.05], nice=False)
    axis = alt.Axis(format="~g", tickCount=5, labelOverlap=True)
    x = alt.X("value:Q", title="simulated / measured", scale=scale, axis=axis)
    shown = [name for name in _VERDICTS if any(row["verdict"] == name for row in rows)]
    key = alt.Legend(title=None, orient="bottom", columns=1)
    colours = alt.Scale(domain=shown, range=[_VERDICTS[name] for name in shown])
    colour = alt.Color("verdict:N", scale=colours, legend=key)
    y = alt.Y("quantity:N", title=None, sort=None, axis=alt.Axis(labelLimit=170))
    base = alt.Chart(alt.InlineData(values=rows))
    spans = base.mark_rule(strokeWidth=3).encode(x=alt.X("least:Q", scale=scale), x2="most:Q", y=y, color=colour)
    tip = ["quantity:N", *(alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("least", "value", "most")), "verdict:N"]
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, y=y, color=colour, shape=alt.Shape("verdict:N", scale=alt.Scale(domain=shown), legend=key), tooltip=tip
    )
    one = alt.Chart(alt.InlineData(values=[{"x": 1}])).mark_rule(strokeDash=[4, 3]).encode(x=alt.X("x:Q", scale=scale))
    title = "Simulated over measured"
    caption = (
        "Points: median over the cells; bars: least to most; the dashed line at 1 is equality; the axis is logarithmic."
    )
    height = 22 * len(rows) + 10
    spec = alt.layer(one, spans, points).properties(width="container", height=height, description=f"{title}. {caption}")
    return Chart("ratios", title, caption, rows, spec.to_dict())
