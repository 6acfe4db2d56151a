"""A Result as a comparison table: runs as columns, figures as rows; plain text for the terminal, HTML for notebooks."""

import html as markup
from collections.abc import Callable, Mapping
from typing import NamedTuple

from scmsim import registry
from scmsim.errors import UsageError
from scmsim.printable import printable
from scmsim.records import KINDS
from scmsim.result import Result, Run
from scmsim.units import format_bytes, parse_param

ABSENT = "-"
BY = ("site", "op", "file", "group")  # group: whichever of operation and file the run was broken down by
Value = int | float | None


class Row(NamedTuple):
    """One figure of the table; a row that no run can supply is left out."""

    label: str
    value: Callable[[Run], Value]


def _counter(name: str) -> Callable[[Run], Value]:
    return lambda run: run.counters.get(name)


def _metric(name: str) -> Callable[[Run], Value]:
    return lambda run: run.metrics.get(name)


def _per_call(value: Callable[[Run], Value]) -> Callable[[Run], Value]:
    def divided(run: Run) -> Value:
        total = value(run)
        return total / run.calls if total is not None and run.calls else None

    return divided


def _stored(kind: str) -> Callable[[Run], Value]:
    return lambda run: run.stored_bytes.get(kind)


SECTIONS: dict[str, list[Row]] = {
    "": [Row("calls", lambda run: run.calls), Row("trace operations", lambda run: run.operations)],
    "per call": [
        Row("instructions", _per_call(_counter("instructions"))),
        Row("loads + stores (TLB traffic)", _per_call(_metric("tlb_traffic"))),
        Row("dTLB look-ups", _per_call(_metric("dtlb_lookups"))),
        Row("dTLB first-level misses", _per_call(_metric("dtlb_l1_misses"))),
        Row("dTLB page walks", _per_call(_metric("dtlb_walks"))),
        *(Row(f"bytes stored: {kind}", _per_call(_stored(kind))) for kind in KINDS if kind != "none"),
        Row("bytes stored: all", _per_call(_counter("pm_stored_bytes"))),
        Row("bytes loaded", _per_call(_counter("pm_loaded_bytes"))),
        Row("cache-line flushes", _per_call(_counter("flushes"))),
        Row("store fences", _per_call(_counter("fences"))),
        Row("time (estimate), ns", _metric("estimated_ns_per_call")),
    ],
    "ratios": [
        Row("walks per 1000 instructions", _metric("walks_per_1000_instructions_data")),
        Row("walk cycles, %", _metric("walk_cycles_percent_data")),
        Row("cycles per walk", _metric("cycles_per_walk_data")),
        Row("write amplification: stored", _metric("write_amplification")),
        Row("write amplification: lines", _metric("write_amplification_lines")),
        *(
            Row(f"write amplification: media {granule}", _metric(f"write_amplification_media_{granule}"))
            for granule in (64, 256, 4096)
        ),
        Row("extra data bytes per byte (VSM)", _metric("cow_extra_ratio")),
        Row("read amplification", _metric("read_amplification")),
    ],
    "totals": [
        Row("instructions", _counter("instructions")),
        Row("loads + stores (TLB traffic)", _metric("tlb_traffic")),
        Row("dTLB page walks", _metric("dtlb_walks")),
        Row("bytes written by the program", lambda run: run.payload.get("written")),
        Row("bytes stored", _counter("pm_stored_bytes")),
    ],
    "space, bytes": [
        Row("file data", lambda run: run.space.get("live_bytes")),
        Row("allocated", lambda run: run.space.get("allocated_bytes")),
        Row("metadata", lambda run: run.space.get("metadata_bytes")),
        Row("waste in last pages", lambda run: run.space.get("waste_bytes")),
    ],
}

# Columns of the breakdown by site or group: label -> counters that are added up.
_BREAKDOWN: dict[str, tuple[str, ...]] = {
    "instructions": ("instructions",),
    "loads+stores": ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores"),
    "walks": ("dtlb_load_misses_walk_completed", "dtlb_store_misses_walk_completed"),
    "stored B": ("pm_stored_bytes",),
    "loaded B": ("pm_loaded_bytes",),
    "flushes": ("flushes",),
    "fences": ("fences",),
}


def text(result: Result, by: str | None = None) -> str:
    """Plain text, aligned; `by` (one of BY) adds one breakdown per run."""
    if by is not None and by not in BY:
        raise UsageError(f"no breakdown by {by!r}; choose from {', '.join(BY)}")
    if not result.runs:
        return "no runs"
    if by and not any(run.sites if by == "site" else run.groups for run in result.runs):
        raise UsageError(f"this result was not broken down by {by!r}; run it again with --by {by}")
    blocks = [_common(result.runs), _grid(_main_rows(result.runs))]
    if by:
        blocks += [
            f"{_title(run)}, by {by}, per call of the run\n{_grid(_breakdown_rows(run, by))}" for run in result.runs
        ]
    return "\n\n".join(block for block in [*blocks, "\n".join(_notes(result.runs))] if block)


def html(result: Result) -> str:
    """The same table as HTML; every text is escaped."""
    if not result.runs:
        return "<p>no runs</p>"
    head, *body = _main_rows(result.runs)
    lines = [f"<p>{markup.escape(_common(result.runs))}</p>", "<table>", _html_row(head, "th")]
    lines += [_html_row(row, "td") for row in body]
    lines += ["</table>", *(f"<p>{markup.escape(note)}</p>" for note in _notes(result.runs))]
    return "\n".join(lines)


def number(value: Value) -> str:
    """Four significant digits, thousands separated; an absent value is a dash."""
    if value is None:
        return ABSENT
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _main_rows(runs: list[Run]) -> list[list[str]]:
    """Heads, then sections; a section's title stands alone in its row."""
    rows = [["", *(run.fs for run in runs)]]
    rows += [[name, *(str(run.names()[name] or ABSENT) for run in runs)] for name in _varying(runs) if name != "fs"]
    for title, section in SECTIONS.items():
        values = [(row.label, [row.value(run) for run in runs]) for row in section]
        kept = [[f"  {label}" if title else label, *map(number, cells)] for label, cells in values if _any(cells)]
        if kept:
            rows += [[title, *[""] * len(runs)]] if title else []
            rows += kept
    return rows


def _breakdown_rows(run: Run, by: str) -> list[list[str]]:
    """One row per site or group, the largest TLB traffic first; a counter that no part has is left out.

    Everything is per call of the whole run, so that the rows add up to the run's own figures.
    """
    parts = run.sites if by == "site" else run.groups
    shown = [fields for fields in _BREAKDOWN.values() if _any([_added(part, fields) for part in parts.values()])]
    rows = [["", *(label for label, fields in _BREAKDOWN.items() if fields in shown)]]
    for name, part in sorted(parts.items(), key=lambda item: -(_added(item[1], _BREAKDOWN["loads+stores"]) or 0)):
        values = [_added(part, fields) for fields in shown]
        rows.append([name, *(number(value / (run.calls or 1) if value is not None else None) for value in values)])
    return rows


def _added(counters: Mapping[str, int], fields: tuple[str, ...]) -> Value:
    if any(field not in counters for field in fields):
        return None
    return sum(counters[field] for field in fields)


def _any(cells: list[Value]) -> bool:
    return any(cell is not None for cell in cells)


def _varying(runs: list[Run]) -> list[str]:
    return [name for name in runs[0].names() if len({run.names()[name] for run in runs}) > 1]


def _common(runs: list[Run]) -> str:
    """What all runs share, e.g. "machine i7-8700k, medium nvdimm", and parameters that are not the defaults."""
    shared = [name for name in runs[0].names() if name != "fs" and name not in _varying(runs) and runs[0].names()[name]]
    chosen = dict.fromkeys(text for run in runs for text in _chosen(run))
    return printable(", ".join([*(f"{name} {runs[0].names()[name]}" for name in shared), *chosen]))


def _chosen(run: Run) -> list[str]:
    """Parameters that differ from the models' defaults, written as for --set."""
    found = []
    for kind, name in (("fs", run.fs), ("paging", run.paging)):
        declared = registry.literals(kind, name).get("PARAMS", {}) if name in registry.names(kind) else {}
        for key, (default, unit, _) in declared.items():
            value = run.params.get(key, "")
            if key in run.params and value != parse_param(default, unit):
                found.append(
                    f"{name}.{key}={format_bytes(value) if unit == 'bytes' and isinstance(value, int) else value}"
                )
    return found


def _title(run: Run) -> str:
    return printable(" ".join(name for name in run.names().values() if name))


def _notes(runs: list[Run]) -> list[str]:
    """Failures and warnings below the table, each said once."""
    notes = [f"{_title(run)}: {what} {count:,}" for run in runs for what, count in run.errors.items()]
    notes += [f"{_title(run)}: warning: {warning}" for run in runs for warning in run.warnings]
    estimated = sorted({name for run in runs for name in run.estimated})
    if estimated:
        notes.append(f"estimated, not counted: {', '.join(estimated)}")
    return list(dict.fromkeys(map(printable, notes)))


def _grid(rows: list[list[str]]) -> str:
    rows = [list(map(printable, row)) for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in rows
    )


def _html_row(cells: list[str], tag: str) -> str:
    first, *rest = (markup.escape(str(cell)) for cell in cells)
    if first.startswith(" "):  # a figure of a section
        label = f"<td style='text-align:left; padding-left:1.5em'>{first.strip()}</td>"
    else:
        label = f"<th style='text-align:left'>{first}</th>"
    return f"<tr>{label}{''.join(f'<{tag}>{cell}</{tag}>' for cell in rest)}</tr>"
