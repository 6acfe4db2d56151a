"""Draw the zoo's overview: each file system's figures as multiples of the figures of the file system BESIDE."""

from scmsim.plot import files, theme
from scmsim.plot.library import altair, drawn
from scmsim.zoo import Zoo
from scmsim.zoo.compared import BESIDE, COLUMNS, compared

_ROW = 18  # height of a file system's row, px
_COLUMN = 24  # px between the legend's columns; a reader's font may be wider
_SHAPES = ("circle", "square", "triangle-up")


def svg(zoo: Zoo) -> bytes:
    """Return the chart as an SVG that follows the reader's light or dark theme; empty if there is nothing to compare.

    Raises EnvironmentProblem without the extra `report`.
    """
    alt, found = altair(), compared(zoo.rows)
    rows = [
        {"fs": each.fs, "of": column, "times": median}
        for each in found
        for column, median in zip(COLUMNS, each.medians, strict=True)
        if median  # 0 has no place on a logarithmic axis
    ]
    if not rows:
        return b""
    x = alt.X("times:Q", title=f"times that of {BESIDE}, median").scale(type="log", padding=8)
    names = alt.Y("fs:N", title=None, sort=None).scale(domain=[each.fs for each in found]).axis(grid=True)
    domain, key = list(COLUMNS), alt.Legend(title=None, orient="top", symbolSize=80, columnPadding=_COLUMN)
    hues = alt.Scale(domain=domain, range=[theme.COLOURS[place] for place in (0, 5, 2)])
    marks = alt.Chart(alt.InlineData(values=rows)).mark_point(filled=True, size=55, opacity=1)
    marks = marks.encode(
        x=x.axis(format="~g", values=[10.0**power for power in range(-4, 7)]),
        y=names,
        color=alt.Color("of:N", scale=hues, legend=key),
        shape=alt.Shape("of:N", scale=alt.Scale(domain=domain, range=list(_SHAPES)), legend=key),
    )
    one = alt.Chart(alt.InlineData(values=[{"times": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="times:Q")
    spec = alt.layer(one, marks).properties(width=300, height=_ROW * len(found), padding=files.PADDING).to_dict()
    return theme.adaptive(drawn(spec, "svg").decode()).encode()
