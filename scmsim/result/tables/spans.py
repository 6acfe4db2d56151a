"""90 % intervals of the figures of the comparison table: "3,698 (2,600 to 6,100)"."""

import functools

from scmsim.core.text import printable
from scmsim.result import glossary, intervals
from scmsim.result.run import Run
from scmsim.result.tables.figures import SECTIONS, Row, number

_PAYLOAD = {"bytes written by the program": "payload_written", "bytes read by the program": "payload_read"}
_WIDE = 1.2  # high / low from which bounds have two digits
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
    """Return the figure that a row is proportional to, as `intervals.FIGURES` names it; another name, or "", for other rows."""
    return _figures().get(row.label, "")


def span(row: Row, run: Run) -> str:
    """Return a figure's interval in parentheses; "" for a row without one, or an absent figure."""
    value, name = row.value(run), figure(row)
    found = run.intervals.get(name)
    if value is None or found is None:
        return ""
    low, high, whole = found.get("low"), found.get("high"), intervals.figure(run, name)
    if low is None or high is None or not whole or found["basis"] == intervals.EXACT:
        return f"({printable(found['basis'])})"
    if row.written(run):  # "92 in all"
        value = whole
    wide = high > _WIDE * low
    return f"({_bound(low * value / whole, wide)} to {_bound(high * value / whole, wide)})"


def overlap(name: str, one: Run, other: Run) -> bool:
    """Return whether the intervals of a figure of two runs overlap, or one of them is unknown."""
    bounds = [(found.get("low"), found.get("high")) for found in (run.intervals.get(name, {}) for run in (one, other))]
    (a, b), (c, d) = bounds
    return a is None or b is None or c is None or d is None or (a <= d and c <= b)


def _bound(value: float, wide: bool) -> str:
    return number(float(f"{value:.2g}") if wide else value)
