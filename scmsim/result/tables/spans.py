"""Show 90 % intervals of figures in the comparison table, as in "3,698 (2,600 to 6,100)"."""

import functools
from collections.abc import Iterable

from scmsim.core.text import printable
from scmsim.result import glossary, intervals
from scmsim.result.run import Run
from scmsim.result.tables.figures import SECTIONS, Row, number

_PAYLOAD = {"bytes written by the program": "payload_written", "bytes read by the program": "payload_read"}
_WIDE = 1.2  # high / low from which bounds are shown with two digits
NOTE = (
    "figure (low to high): the 90 % interval from errors that were measured beside real kernels; --json has what each is from, "
    "docs/validation/intervals.md how often it holds"
)


@functools.cache
def _figures() -> dict[str, str]:
    """Return the name in results of each row of the table."""
    labels = (row.label for section in SECTIONS.values() for row in section)
    return {label: glossary.row(label).field for label in labels} | _PAYLOAD


def figure(row: Row) -> str:
    """Return the name in results of a row's figure, which may be one of `intervals.FIGURES`; "" for other rows."""
    return _figures().get(row.label, "")


def span(row: Row, run: Run) -> str:
    """Return the interval of a row's figure in parentheses; "" if the row has no interval or the figure is absent."""
    value, name = row.value(run), figure(row)
    found = run.intervals.get(name)
    if value is None or found is None:
        return ""
    low, high, whole = _bounds(run, name)
    if low is None or high is None or not whole:
        return f"({printable(found['basis'])})"
    if row.written(run):  # "92 in all"
        value = whole
    wide = high > _WIDE * low
    return f"({_bound(low * value / whole, wide)} to {_bound(high * value / whole, wide)})"


def worst(runs: Iterable[Run], rows: Iterable[Row]) -> str:
    """Return a line on the widest interval of any figure, and on unchecked runs; "" if no figure has an interval."""
    shown, furthest, unchecked = list(rows), (0.0, ""), []
    for run in runs:
        before = furthest
        bases = {run.intervals[name]["basis"] for name in run.intervals} - {intervals.EXACT}
        for row in shown:
            low, high, value = _bounds(run, figure(row))
            if low and high and value:
                furthest = max(furthest, (max(value / low, high / value), f"{row.label} of {run.fs}"))
        if bases == {intervals.UNCHECKED} and furthest == before:
            unchecked.append(run.fs)
    if not furthest[0]:
        return ""
    more = f"; not checked: {', '.join(dict.fromkeys(unchecked))}" if unchecked else ""
    return f"90 % intervals: off by up to {furthest[0]:.1f} times, {furthest[1]}; --intervals shows each{more}"


def _bounds(run: Run, name: str) -> tuple[float | None, float | None, float | None]:
    """Return (low, high, figure) for a figure of a whole run; None for a missing bound or an exact figure."""
    found = run.intervals.get(name, {})
    if found.get("basis") == intervals.EXACT:
        return None, None, None
    return found.get("low"), found.get("high"), intervals.figure(run, name)


def overlap(name: str, one: Run, other: Run) -> bool:
    """Return whether two runs' intervals of a figure overlap, or at least one of the intervals is unknown."""
    bounds = [(found.get("low"), found.get("high")) for found in (run.intervals.get(name, {}) for run in (one, other))]
    (a, b), (c, d) = bounds
    return a is None or b is None or c is None or d is None or (a <= d and c <= b)


def _bound(value: float, wide: bool) -> str:
    return number(float(f"{value:.2g}") if wide else value)
