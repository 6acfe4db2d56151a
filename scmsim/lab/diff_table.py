"""Show the differences between two kernels' counts as text."""

from collections.abc import Sequence
from typing import Any

from scmsim.lab.diff import COMPARED, MISSES, label, percent, size
from scmsim.result.tables import layout

_LEAST = 0.05  # smallest difference per call that the table shows (as 0.1)
_ONLY = {"a": "gone", "b": "new", "": ""}


def text(found: Sequence[dict[str, Any]], by: str, top: int, form: str = "table", of: str = "instructions") -> str:
    """Return two tables for each file system: counters by operation, and the `top` largest differences of the counter `of`.

    `by` groups the differences by function, mechanism or task.
    """
    shown = layout.markdown if form == "markdown" else layout.grid
    parts = []
    for each in found:
        machine = f", TLB of {each['machine']}" if each["machine"] else ""
        parts.append(f"{each['fs']}: {each['a']} -> {each['b']}, {_repeats(each)}{machine}")
        parts.append(shown(_operations(each, of)))
        rows = sorted((row for row in each[by] if _difference(row, of) >= _LEAST), key=lambda row: size(row, of))[:top]
        if rows:
            parts.append(shown(_largest(rows, by, of)))
    return "\n\n".join(parts)


def _difference(row: dict[str, Any], of: str) -> float:
    a, b = row[of]
    return abs(b - a) / max(1, row["calls"])


def _repeats(each: dict[str, Any]) -> str:
    if each["repeats"] < 2:
        return "one run each"
    same = f"up to {each['spread']:,} apart in a counter of an operation" if each["spread"] else "equal to the count"
    return f"{each['repeats']} runs each, {same}"


def _operations(each: dict[str, Any], of: str) -> list[list[str]]:
    """Return table rows by operation: the counter `of` per call of both kernels, and the differences of the other counters."""
    others = [name for name in (*COMPARED, *(MISSES if each["machine"] else ())) if name != of]
    rows = [["per call", "calls", *(f"{of} {which}" for which in "AB"), "difference", "", *others]]
    for row in each["operations"]:
        (a, b), calls = row[of], max(1, row["calls"])
        rest = [f"{(row[name][1] - row[name][0]) / calls:+,.1f}" for name in others]
        values = [f"{a / calls:,.1f}", f"{b / calls:,.1f}", f"{(b - a) / calls:+,.1f}", percent(a, b)]
        rows.append([label(row), f"{row['calls']:,}", *values, *rest])
    return rows


def _largest(rows: Sequence[dict[str, Any]], by: str, of: str) -> list[list[str]]:
    found = [[f"{by}, {of} per call", "A", "B", "difference", "", "of"]]
    for row in rows:
        (a, b), calls = row[of], max(1, row["calls"])
        values = [f"{a / calls:,.1f}", f"{b / calls:,.1f}", f"{(b - a) / calls:+,.1f}"]
        found.append([row["name"] or "(the calls themselves)", *values, _ONLY.get(row.get("only", ""), ""), label(row)])
    return found
