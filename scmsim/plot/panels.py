"""Draw the thesis's figures for any result with cells: 2 x 2 panels by file size, a metric over unit size, logarithmic axes.

Model: thesis on the TLB overhead of NVM file systems (2020), Figures 8 to 16 (its nine metrics, Table 7).  Unlike in the thesis,
the x axis has the true unit sizes (including 48 KiB, and 4 MiB at the end).
"""

import io
import json
import math
import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scmsim.core.counters import MEASURED, SCHEMA
from scmsim.core.units import format_bytes
from scmsim.plot.files import check_folder, write
from scmsim.plot.library import altair
from scmsim.plot.theme import COLOURS
from scmsim.result import Result, metrics
from scmsim.result.cells import Cell, Key, cells, grows, harness, machine

PANELS = 4
_THESIS_FILES = tuple(mib << 20 for mib in (1, 8, 64, 1024))
# Okabe and Ito's colours (2008), distinct for every kind of colour vision; yellow and sky blue are too light for lines.
_COLOURS = tuple(COLOURS[i] for i in (0, 5, 2, 3, 8, 1, 4))
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "stroke")
_AREAS = (90, 55, 30, 75, 45, 60, 40)
_DASHES = ([1, 0], [5, 3], [1, 2], [8, 2, 2, 2])
_SIZE_LABEL = (
    "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value / 1024 + 'K' : datum.value + ''"
)


class Point(NamedTuple):
    """One mark of a figure: a mean, and one standard deviation to either side."""

    side: str
    fs: str
    file_bytes: int
    unit_bytes: int
    value: float
    low: float
    high: float


@dataclass
class Drawn:
    """The paths of the drawn figures, and lines on the figures that could not be drawn and why."""

    paths: list[pathlib.Path] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return text on the first figure that was left out and the number of others; "" if none was left out."""
        more = len(self.left_out) - 1
        return "".join(self.left_out[:1]) + (f"; and {more} more figures (--json lists them)" if more > 0 else "")


def draw(
    sides: Mapping[str, Result],
    folder: str | os.PathLike[str],
    suffix: str = "svg",
    *,
    quantities: Sequence[str] = (),
    operations: Sequence[str] = (),
    ignore: Sequence[str] = (),
    prefix: str = "",
) -> Drawn:
    """Draw one figure for each quantity and operation.

    Parameters
    ----------
    sides : mapping
        Results by kind: {"simulated": ..., "measured": ...}, or only one of them.
    folder : path
        Created, if missing, for the first figure; a figure is `<prefix><quantity>-<operation>.<suffix>`.
    suffix : "svg", "png" or "pdf"
    quantities : sequence of str
        Counters and metrics; by default the nine quantities of Table 7.
    operations : sequence of str
        By default all operations of the results.
    ignore : sequence of str
        Parts of a cell's key to ignore (see `cells.cells`): with "file_bytes" ignored, there is one panel for all files.

    Raises EnvironmentProblem without the extra `report`, or if a figure cannot be written.
    """
    folder = check_folder(folder)
    by_side = {side: cells(result, ignore=ignore) for side, result in sides.items()}
    found = list(dict.fromkeys(key.operation for table in by_side.values() for key in table if key.unit_bytes))
    out = Drawn()
    for operation in operations or found:
        for quantity in quantities or metrics.TABLE7:
            points, per, zeros = collect(by_side, quantity, operation)
            if not points:
                out.left_out.append(
                    f"no figure of {quantity} for {operation}: {_why_none(by_side, quantity, operation)}"
                )
                continue
            folder.mkdir(exist_ok=True)  # only here: without a figure, no folder is created
            caption = _caption(sides, by_side, operation, points, zeros)
            title, unit = _words(quantity)
            content = _rendered(_chart(points, title, f"{unit}{per}", caption), suffix)
            name = re.sub(r"[^A-Za-z0-9_-]+", "_", f"{prefix}{quantity}-{operation or 'run'}")
            out.paths.append(write(folder / f"{name}.{suffix}", content))
    return out


def collect(by_side: Mapping[str, Mapping[Key, Cell]], quantity: str, operation: str) -> tuple[list[Point], str, int]:
    """Return (points of a figure, " per call" or the like for its axis, number of values of 0, which are left out)."""
    wanted = [
        (side, cell)
        for side, table in by_side.items()
        for key, cell in table.items()
        if key.operation == operation and key.unit_bytes and quantity in cell.values
    ]
    by_call = grows(quantity) and all(cell.calls for _, cell in wanted)
    points, zeros = [], 0
    for side, cell in wanted:
        value = cell.per_call(quantity) if by_call else cell.values[quantity]
        if value is None or value.mean <= 0:
            zeros += 1
            continue
        low = max(value.mean - value.deviation, value.mean / 10)  # a bar down to 0 is infinite on a logarithmic axis
        _, _, file_bytes, unit_bytes = cell.key
        points.append(
            Point(side, cell.key.fs, file_bytes or 0, unit_bytes or 0, value.mean, low, value.mean + value.deviation)
        )
    shown = panels(sorted({point.file_bytes for point in points}))
    per = "" if not grows(quantity) else " per call" if by_call else ", whole run"
    return [point for point in points if point.file_bytes in shown], per, zeros


def panels(sizes: Sequence[int]) -> list[int]:
    """Return the file sizes that get a panel: all if they are few, else the thesis's four, or four spread evenly."""
    if len(sizes) <= PANELS:
        return list(sizes)
    if set(_THESIS_FILES) <= set(sizes):
        return list(_THESIS_FILES)
    return [sizes[round(i * (len(sizes) - 1) / (PANELS - 1))] for i in range(PANELS)]


def _chart(points: Sequence[Point], title: str, unit: str, caption: list[str]) -> Any:
    """Return the figure: colour and shape by file system; the last side is solid and filled, the others dashed."""
    alt = altair()
    sides = list(dict.fromkeys(point.side for point in points))
    systems = sorted({point.fs for point in points})
    sizes = sorted({point.file_bytes for point in points})
    rows = [{**point._asdict(), "file": _file(point.file_bytes)} for point in points]
    x, y = _axes(alt, points, unit)
    known = {"title": "File system", "legend": alt.Legend(symbolSize=90, symbolOpacity=1)}
    colour = alt.Color("fs:N", **known).scale(alt.Scale(domain=systems, range=_cycled(_COLOURS, systems)))
    shape = alt.Shape("fs:N", **known).scale(alt.Scale(domain=systems, range=_cycled(_SHAPES, systems)))
    dash = alt.StrokeDash("side:N", title="Result", legend=alt.Legend(symbolType="stroke", symbolSize=600))
    dash = dash.scale(alt.Scale(domain=sides, range=_cycled(_DASHES, sides)[::-1]))
    base = alt.Chart().encode(x=x, y=y, color=colour)
    line = base.mark_line(strokeWidth=1.6).encode(strokeDash=dash, detail="side:N")
    bars = base.mark_rule(strokeWidth=1).encode(y=alt.Y("low:Q"), y2="high:Q")
    solid = f"datum.side === {json.dumps(sides[-1])}"
    # the first file system's points are the largest, so that equal values of several file systems are all visible
    size = alt.Size("fs:N", legend=None)
    size = size.scale(alt.Scale(type="ordinal", domain=systems, range=_cycled(_AREAS, systems)))
    filled = base.mark_point(filled=True, opacity=1).encode(shape=shape, size=size).transform_filter(solid)
    rings = base.mark_point(size=130, strokeWidth=1.3, opacity=1).encode(shape=shape).transform_filter(f"!({solid})")
    layers = [line, bars, filled, rings] if len(sides) > 1 else [line, bars, filled]
    facet = alt.Facet("file:N", title=None, sort=[_file(size) for size in sizes])
    facet = facet.header(alt.Header(labelFontSize=13, labelFontWeight="bold"))
    return (
        alt.layer(*layers, data=alt.InlineData(values=rows))
        .properties(width=380, height=230)
        .facet(facet, columns=2 if len(sizes) > 1 else 1)
        .resolve_axis(x="independent", y="independent")
        .properties(
            title=alt.Title(title, subtitle=caption, anchor="start", fontSize=16, subtitleFontSize=12, offset=14)
        )
        .configure_axis(labelFontSize=12, titleFontSize=12, gridColor="#e4e4e4")
        .configure_legend(labelFontSize=12, titleFontSize=12, orient="right")
    )


def _axes(alt: Any, points: Sequence[Point], unit: str) -> tuple[Any, Any]:
    """Return (x axis, y axis): logarithmic, over the drawn values; the y axis spans at least a factor of four."""
    units = sorted({point.unit_bytes for point in points})
    least, most = min(point.low for point in points), max(point.high for point in points)
    margin = max(1.15, math.sqrt(4 * least / most))
    x = alt.X("unit_bytes:Q", title="Unit (bytes of one call)")
    x = x.scale(alt.Scale(type="log", base=2, domain=[units[0], max(units[-1], 2 * units[0])], nice=False))
    x = x.axis(alt.Axis(values=units, labelExpr=_SIZE_LABEL, labelOverlap="greedy", labelFontSize=11))
    y = alt.Y("value:Q", title=unit).axis(alt.Axis(format="~g", tickCount=6))
    return x, y.scale(alt.Scale(type="log", domain=[least / margin, most * margin], nice=False))


def _rendered(chart: Any, suffix: str) -> bytes:
    if suffix == "svg":
        text = io.StringIO()
        chart.save(text, format="svg")
        return text.getvalue().encode()
    content = io.BytesIO()
    chart.save(content, format=suffix, **({"scale_factor": 2} if suffix == "png" else {}))
    return content.getvalue()


def _words(quantity: str) -> tuple[str, str]:
    """Return (meaning, unit) of a quantity, e.g. ("Cycles spent in page walks for data", "%")."""
    known: Any = {**SCHEMA, **MEASURED, **metrics.METRICS}.get(quantity)
    unit, meaning = (known.unit, known.meaning.split(";")[0]) if known else ("count", quantity)
    return f"{meaning[:1].upper()}{meaning[1:]}", unit


def _caption(
    sides: Mapping[str, Result],
    by_side: Mapping[str, Mapping[Key, Cell]],
    operation: str,
    points: Sequence[Point],
    zeros: int,
) -> list[str]:
    lines = [f"Operation: {operation}. Both axes are logarithmic."]
    for side, result in sides.items():
        repeats = {len(cell.runs) for key, cell in by_side[side].items() if key.operation == operation}
        many = (
            f"mean of {max(repeats)} repeats, bars: one standard deviation"
            if repeats and max(repeats) > 1
            else "one run"
        )
        lines.append(f"{side[:1].upper()}{side[1:]}: {_about(result)}; {many}.")
    sizes = {key.file_bytes for table in by_side.values() for key in table if key.operation == operation}
    shown = {point.file_bytes for point in points}
    if len(sizes) > len(shown):
        lines.append(f"{len(shown)} of {len(sizes)} file sizes are shown.")
    if zeros:
        lines.append(f"{zeros} value{'s' * (zeros > 1)} of 0 cannot be shown on a logarithmic axis.")
    return lines


def _about(result: Result) -> str:
    """Return text on the origin of a side: the machine's preset, or the CPU or event table and the kernel."""
    about = harness(result)
    if any(run.machine for run in result.runs):
        return f"model of {machine(result)}"
    kernel = str(result.manifest.get("kernel") or "")
    known = [machine(result)] if machine(result) else []
    known += [kernel if kernel.startswith("Linux") else f"Linux {kernel}"] if kernel else []
    how = ["made up by the fake back end"] if about.get("backend") == "fake" else []
    how += ["emulated machine"] if about.get("formats") == ["lab"] or about.get("backend") == "lab" else []
    return ", ".join([*how, *known]) or "machine not recorded"


def _why_none(by_side: Mapping[str, Mapping[Key, Cell]], quantity: str, operation: str) -> str:
    table = [cell for side in by_side.values() for key, cell in side.items() if key.operation == operation]
    if any(quantity in cell.values for cell in table):
        return "every value is 0, or the cells do not record their sizes"
    reasons = (run.why_absent.get(quantity) for cell in table for run in cell.runs)
    return next((reason for reason in reasons if reason), "no result has it")


def _file(size: int) -> str:
    return f"File of {re.sub(r'(?<=[0-9])(?=[A-Z])', ' ', format_bytes(size))}" if size else "All file sizes"


def _cycled(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    return [values[i % len(values)] for i in range(len(names))]
