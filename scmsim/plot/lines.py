"""Make charts of many runs, in which the parameter with the most values is x, and each combination of others is a line."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scmsim.plot.charts import NUMBER, legend, merged, per_call
from scmsim.plot.library import Chart, Rows, altair, hues
from scmsim.result import Run
from scmsim.result.names import axes, said, title

MANY = 12  # maximum number of runs that are drawn as bars
DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (12, 4))  # distinguishable dashes of lines with the same colour

_MOST_LINES = 9  # distinguishable colours of lines
Value = float | None


class Figure(NamedTuple):
    """A figure of a run: its name in files, its title with the unit, and the function that computes it from a run."""

    name: str
    title: str
    value: Callable[[Run], Value]


def _counted(*fields: str) -> Callable[[Run], Value]:
    return lambda run: per_call(run, *fields)


def _metric(name: str) -> Callable[[Run], Value]:
    return lambda run: run.metrics.get(name)


FIGURES = (
    Figure("traffic", "Loads and stores per call", _counted("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")),
    Figure("instructions", "Instructions per call", _counted("instructions")),
    Figure("walks", "Page walks for data per call",
           _counted("dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed")),
    Figure("walk-cycles", "Cycles in page walks for data, %", _metric("walk_cycles_percent_data")),
    Figure("amplification", "Bytes stored per byte written", _metric("write_amplification")),
    Figure("time", "Time per call, ns (estimate)", _metric("estimated_ns_per_call")),
    Figure("task-clock", "Time on a CPU per call, ns", _counted("task_clock")),
    Figure("elapsed", "Time of the loop per call, ns", _counted("elapsed_ns")),
    Figure("page-faults", "Page faults per call", _counted("page_faults")),
    Figure("waste", "Waste in last pages, bytes", lambda run: run.space.get("waste_bytes")),
)  # fmt: skip


def over(runs: Sequence[Run]) -> str | None:
    """Return the parameter for the x axis, or None.

    It is the numeric parameter with the most values among those that at least half of the runs have.
    """
    numeric = {
        axis: values
        for axis, values in axes(runs).items()
        if all(isinstance(value, int | float | None) and not isinstance(value, bool) for value in values)
        and 2 * values.count(None) <= len(values)
    }
    return max(numeric, key=lambda axis: len(set(numeric[axis])), default=None)


def charts(runs: Sequence[Run]) -> list[Chart]:
    """Return one chart per figure that the runs have; no chart if no parameter is numeric."""
    axis = over(runs)
    return [chart for figure in FIGURES if axis and (chart := _chart(runs, figure, axis)) is not None]


def _chart(runs: Sequence[Run], figure: Figure, axis: str) -> Chart | None:
    every = axes(runs)
    others = [name for name in every if name != axis]
    words = _words(every, others)
    dashed = next((name for name in others if name not in words and _few(every[name])), None)
    rows: Rows = []
    for i, run in enumerate(runs):
        value, x = figure.value(run), every[axis][i]
        if value is not None and x is not None:
            line = {"line": " ".join(said(name, every[name][i]) for name in words) or run.fs}
            detail = {"others": ", ".join(f"{title(name)} {said(name, every[name][i])}" for name in others)}
            dash = {"dash": f"{title(dashed)} {said(dashed, every[dashed][i])}"} if dashed else {}
            rows.append({**line, **dash, **detail, "x": x, "value": value})
    if not any(row["value"] for row in rows):
        return None
    apart = [title(name) for name in others if name not in words and name != dashed]
    mark = "line" if _is_lined(rows) else "point"
    caption = f"{figure.title}, over {title(axis)}" + (f"; a {mark} for each {', '.join(apart)}." if apart else ".")
    return Chart(
        figure.name, figure.title, caption, rows, _spec(_merged(rows), title(axis), f"{figure.title}. {caption}")
    )


def _is_lined(rows: Rows) -> bool:
    """Return whether any line of the chart has two points to join."""
    points = {(row["line"], row.get("dash"), row["others"], row["x"]) for row in rows}
    return len(points) > len({point[:-1] for point in points})


def _merged(rows: Rows) -> Rows:
    """Return the rows with lines that cover each other merged into one line with all their names."""
    lines: dict[str, dict[Any, float]] = {}
    for row in rows:
        lines.setdefault(row["line"], {})[row.get("dash"), row["others"], row["x"]] = row["value"]
    if any(len({key[1] for key in line}) > len({key[0] for key in line}) for line in lines.values()):
        return rows  # lines with the same colour and dash would be mixed up, so merge none
    plain = {name: {(dash, x): y for (dash, _, x), y in line.items()} for name, line in lines.items()}
    values = [row["value"] for row in rows]
    called = merged(plain, log=_is_wide(values))
    return [{**row, "line": called[row["line"]]} for row in rows if row["line"] in called]


def _few(values: Sequence[Any]) -> bool:
    """Return whether every run has a value, and the values are few enough for dashes."""
    return None not in values and len(set(values)) <= len(DASHES)


def _words(every: Mapping[str, Sequence[Any]], others: Sequence[str]) -> list[str]:
    """Return as many textual parameters as possible without having more combinations of values than colours."""
    found: list[str] = []
    for name in others:
        tried = [*found, name]
        textual = any(isinstance(value, str) for value in every[name])
        if textual and len(set(zip(*(every[each] for each in tried), strict=True))) <= _MOST_LINES:
            found = tried
    return found


def _spec(rows: Rows, x_title: str, description: str) -> dict[str, Any]:
    alt = altair()
    names = list(dict.fromkeys(row["line"] for row in rows))
    xs = sorted({row["x"] for row in rows})
    ticks = [said("", x) for x in xs]
    expression = " : ".join(f"datum.value === {x} ? '{text}'" for x, text in zip(xs, ticks, strict=True)) + " : ''"
    axis = alt.Axis(values=xs, labelExpr=expression, labelOverlap="greedy")
    dashes = list(dict.fromkeys(row["dash"] for row in rows if "dash" in row))
    told = {"strokeDash": _dashes(dashes)} if dashes else {}
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(point=True, opacity=0.8)
        .encode(
            x=alt.X("x:Q", title=x_title, scale=_scale(alt, xs, nice=False), axis=axis),
            y=alt.Y(
                "value:Q",
                title=None,
                scale=_scale(alt, [row["value"] for row in rows]),
                axis=alt.Axis(labelExpr=NUMBER, tickCount=6),
            ),
            color=alt.Color("line:N", scale=hues(names), legend=legend(names)),
            detail="others:N",
            **told,
            tooltip=["others:N", alt.Tooltip("x:Q", title=x_title), alt.Tooltip("value:Q", format=",.4~g")],
        )
        .properties(width="container", height=220, description=description)
    )
    return dict(chart.to_dict())


def _dashes(names: Sequence[str]) -> Any:
    """Return the encoding that distinguishes lines of one colour by dashes."""
    alt = altair()
    scale = alt.Scale(domain=list(names), range=[list(dash) for dash in DASHES[: len(names)]])
    key = legend(names, symbolType="stroke", symbolStrokeWidth=2, symbolSize=400)
    return alt.StrokeDash("dash:N", scale=scale, legend=key)


def _scale(alt: Any, values: Sequence[float], nice: bool = True) -> Any:
    """Return a scale: logarithmic if the values are positive and differ by more than a factor of 20, else linear."""
    return (
        alt.Scale(type="log", base=10 if nice else 2, nice=False)
        if _is_wide(values)
        else alt.Scale(zero=nice, nice=nice)
    )


def _is_wide(values: Sequence[float]) -> bool:
    """Return whether the values are positive and differ by more than a factor of 20."""
    return min(values) > 0 and max(values) > 20 * min(values)
