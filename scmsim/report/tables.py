"""Format a report's tables as HTML: all figures, the varying parameters of many runs, a comparison with a measurement."""

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.compare import Comparison
from scmsim.compare import table as compare_table
from scmsim.core.counters import MEASURED
from scmsim.core.text import printable
from scmsim.plot.charts import per_call
from scmsim.result import Run
from scmsim.result.names import axes, labels, said, title
from scmsim.result.run import CACHES
from scmsim.result.table import SECTIONS, Row
from scmsim.result.tables import spans
from scmsim.result.tables.figures import TLB_PARTS, number
from scmsim.study.tlb import table as verdicts
from scmsim.study.tlb.card import summary

MOST_COLUMNS = 8  # maximum number of runs shown as columns; more runs are shown as rows
MOST_ROWS = 500
_LEFT_OUT = ("dTLB look-ups",)  # rows that are not shown, because the rows of misses are more informative
HINTED = "The 90 % interval of a figure shows while the pointer is over it."
_UNITS = ("ns", "bytes", "cycles")  # units that are appended to a counter's meaning; other meanings include the unit


def figures(runs: Sequence[Run]) -> str:
    """Return a table of all figures that any run has, with runs as columns, or as rows if there are many."""
    known = any(found.get("low") is not None for run in runs for found in run.intervals.values())
    shown = _wide(runs) if len(runs) <= MOST_COLUMNS else _long(runs)
    return f"<p>{html.escape(HINTED)}</p>{shown}" if known else shown


def varying(runs: Sequence[Run]) -> str:
    """Return a table of the parameters that vary among many runs, with their values; "" if not needed."""
    rows = [["parameter", "values"]]
    for axis, values in axes(runs).items():
        rows.append([title(axis), ", ".join(dict.fromkeys(said(axis, value) for value in values if value is not None))])
    return table(rows, left=(0, 1)) if len(runs) > MOST_COLUMNS and len(rows) > 1 else ""


def verdict(found: Comparison) -> str:
    """Return the verdict in a sentence, with the quantity that is furthest off."""
    said = f"{compare_table.summary(found)}."
    far = [(abs(math.log(row.ratio)), row) for row in found.rows if row.verdict == "out" and row.ratio]
    if not far:
        return said
    _, row = max(far, key=lambda each: each[0])
    return f"{said} Furthest off: {row.quantity} of {row.key}, simulated {number(row.ratio)} of measured."


def comparison(found: Comparison) -> str:
    """Return the output of `scmsim compare` as tables: a summary by quantity, and folded rows of every cell."""
    parts = [f"<p><strong>{html.escape(printable(verdict(found)))}</strong></p>"]
    *cells, last = compare_table.tables(found) or [([["nothing to compare"]], (0,))]
    parts.append(table([[*map(printable, row)] for row in last[0][: MOST_ROWS + 1]], last[1]))
    for rows, left in cells:
        inside = table([[*map(printable, row)] for row in rows[: MOST_ROWS + 1]], left)
        more = f"<p>The first {MOST_ROWS:,}.</p>" if len(rows) > MOST_ROWS + 1 else ""
        parts.append(f"<details><summary>every cell: {len(rows) - 1:,} rows</summary>{more}{inside}</details>")
    for name, lines in compare_table.lists(found).items():
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        parts.append(f"<details><summary>{name}: {len(lines)}</summary><ul>{items}</ul></details>")
    warnings = dict.fromkeys(map(printable, found.warnings))
    parts += [f'<p class="warning">warning: {html.escape(warning)}</p>' for warning in warnings]
    return "".join(parts)


def card(made: Mapping[str, Any]) -> str:
    """Return the output of `scmsim lab tlb`: the verdicts and their summary."""
    said = [verdicts.head(made), *summary(made["cells"])]
    parts = [f"<p>{html.escape(printable(line))}</p>" for line in said]
    rows = [[printable(cell) for cell in row] for row in verdicts.verdicts(made["cells"])]
    return "".join([*parts, table(rows, left=(0, 1, 2))])


class Figure(str):
    """Text of a cell, with a hint that shows when the pointer is over the cell."""

    hint = ""


def _figure(row: Row, run: Run) -> Figure:
    """Return a figure of a run; the hint is its 90 % interval and the basis of the interval."""
    cell, said = Figure(row.cell(run)), spans.span(row, run)
    if said:
        basis = run.intervals[spans.figure(row)]["basis"]
        cell.hint = said.strip("()") if basis in said else f"90 % interval {said.strip('()')}, from {basis}"
    return cell


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Return a table that scrolls sideways if too wide; the first row is the head, `left` are left-aligned columns."""
    head, *body = (_cells(row, "th" if i == 0 or not any(row[1:]) else "td", left) for i, row in enumerate(rows))
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cells(row: Sequence[str], tag: str, left: Sequence[int]) -> str:
    return "".join(
        f"<{tag}{' class=word' if i in left else ''}{_title(cell)}>{html.escape(cell)}</{tag}>"
        for i, cell in enumerate(row)
    )


def _title(cell: str) -> str:
    hint = getattr(cell, "hint", "")
    return f' title="{html.escape(hint)}"' if hint else ""


def _rows(runs: Sequence[Run]) -> dict[str, list[Row]]:
    """Return the rows of the comparison table and of measurements, without rows that no run has."""
    calls = [row for row in SECTIONS["per call"] if row.label not in _LEFT_OUT]
    at = 1 + [row.label for row in calls].index("dTLB page walks")
    calls[at:at] = TLB_PARTS
    rows = {**SECTIONS, "per call": calls, "measured, per call": [_measured(name) for name in MEASURED]}
    kept = {
        section: [row for row in found if any(row.value(run) is not None for run in runs)]
        for section, found in rows.items()
    }
    return {section: found for section, found in kept.items() if found}


def _measured(name: str) -> Row:
    counter = MEASURED[name]
    unit = f", {counter.unit}" if counter.unit in _UNITS else ""
    return Row(f"{counter.meaning}{unit}", lambda run: None if run.params.get(CACHES) else per_call(run, name))


def _wide(runs: Sequence[Run]) -> str:
    rows = [["", *labels(runs)]]
    for section, found in _rows(runs).items():
        rows += [[section, *[""] * len(runs)]] if section else []
        rows += [[f"  {row.label}" if section else row.label, *(_figure(row, run) for run in runs)] for row in found]
    return table(rows)


def _long(runs: Sequence[Run]) -> str:
    """Return a table with a row for each run: its parameters, then its figures, without the section of totals."""
    every = axes(runs)
    found = [row for section, rows in _rows(runs).items() if section != "totals" for row in rows]
    lines = [[*(title(axis) for axis in every), *(row.label for row in found)]]
    for i, run in enumerate(runs[:MOST_ROWS]):
        words = [said(axis, values[i]) for axis, values in every.items()]
        lines.append([*words, *(_figure(row, run) for row in found)])
    more = f"<p>The first {MOST_ROWS:,} of {len(runs):,} runs.</p>" if len(runs) > MOST_ROWS else ""
    return more + table(lines, left=range(len(every)))
