"""Show runs as a comparison table with a column per run and a row per figure: as text, Markdown, CSV, or HTML for notebooks."""

import fnmatch
import html as markup
from collections.abc import Iterable, Sequence
from typing import Any

from scmsim.core import params, registry
from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable
from scmsim.core.units import parse_param
from scmsim.result import glossary, names
from scmsim.result.rows import columns, notes_of, rows_of
from scmsim.result.run import SYNC_AT_END, Run
from scmsim.result.tables import breakdown, layout, spans, summary
from scmsim.result.tables.figures import ABSENT, SECTIONS, Row, number

__all__ = ["BY", "FORMATS", "SECTIONS", "html", "number", "text"]

BY = ("site", "op", "file", "group")  # group: operation or file, whichever the run was broken down by
FORMATS = ("table", "markdown", "csv")
_RATIO_WIDTH = 7
Chosen = dict[str, list[Row]]  # section -> its rows


def text(
    runs: Sequence[Run],
    by: str | None = None,
    *,
    rows: str = "",
    sort: str = "",
    ratios: bool = False,
    intervals: bool = False,
    explain: bool = False,
    top: int = breakdown.TOP,
    width: int | None = None,
    form: str = "table",
) -> str:
    """Return the table as text.

    Parameters
    ----------
    by : one of BY, optional
        Adds one breakdown per run.
    rows : str
        Rows to show: parts of their names, or patterns with *, or titles of sections, separated by commas.
    sort : str
        Row by which the columns are ordered, smallest first.
    ratios : bool
        Show after each figure its ratio to the figure in the first column.
    intervals : bool
        Show after each figure its 90 % interval, and call figures different below the table only if intervals do not overlap.
    explain : bool
        Explain each row below the table.
    top : int
        Number of files in a breakdown by file; all other files share one row.
    width : int
        Characters per line; a wider table is broken into groups of columns.
    form : one of FORMATS
        CSV holds only exact figures: the table, or with `by` the counters of every part of the breakdown.

    Raises
    ------
    UsageError
        For an unknown name, or a breakdown that the result does not have.
    """
    if by is not None and by not in BY:
        raise UsageError(f"no breakdown by {by!r}; choose from {', '.join(BY)}")
    if form not in FORMATS:
        raise unknown("format of a table", form, FORMATS)
    if not runs:
        return "no runs"
    if by and not any(run.sites if by == "site" else run.groups for run in runs):
        raise UsageError(f"this result was not broken down by {by!r}; run it again with --by {by}")
    shown = _chosen(rows)
    runs = _sorted(runs, sort)
    if form == "csv":
        return layout.comma_separated(_parts(runs, by) if by else _exact(runs, shown))
    drawn = layout.markdown if form == "markdown" else lambda cells: layout.grid(cells, width)
    blocks = [_common(runs), drawn(_main_rows(runs, shown, ratios, intervals))]
    if by:
        blocks += [
            f"{_title(run)}, {breakdown.heading(run, by)}\n{'' if form == 'table' else chr(10)}"
            f"{drawn(breakdown.rows(run, by, top))}"
            for run in runs
        ]
    blocks += [
        "\n".join(printable(line) for line in summary.sentences(runs, intervals)),
        "\n".join(_notes(runs, shown, not intervals)),
    ]
    blocks += [spans.NOTE] * intervals
    if explain:
        blocks.append("\n".join(_explained(runs, shown)))
    return "\n\n".join(block for block in blocks if block)


def check(rows: str = "", sort: str = "", **_: bool) -> None:
    """Raise UsageError, before the work starts, if no table has the wanted rows."""
    _chosen(rows)
    if sort:
        _row_of(sort)


def html(runs: Sequence[Run]) -> str:
    """Return the same table as HTML with every text escaped."""
    if not runs:
        return "<p>no runs</p>"
    head, *body = _main_rows(runs, SECTIONS)
    lines = [f"<p>{markup.escape(_common(runs))}</p>", "<table>", _html_row(head, "th")]
    lines += [_html_row(row, "td") for row in body]
    below = [*map(printable, summary.sentences(runs)), *_notes(runs, SECTIONS)]
    lines += ["</table>", *(f"<p>{markup.escape(note)}</p>" for note in below)]
    return "\n".join(lines)


def _chosen(wanted: str) -> Chosen:
    """Return the sections with the wanted rows; all rows if `wanted` is empty."""
    if not wanted:
        return SECTIONS
    kept: Chosen = {title: [] for title in SECTIONS}
    for pattern in (part.strip().lower() for part in wanted.split(",") if part.strip()):
        found = False
        for title, section in SECTIONS.items():
            for row in section:
                if title == pattern or _matches(row.label.lower(), pattern):
                    found = True
                    kept[title] += [] if row in kept[title] else [row]
        if not found:
            raise unknown("row of the table", pattern, _labels(), "scmsim list rows")
    return kept


def _matches(label: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(label, pattern if "*" in pattern else f"*{pattern}*")


def _labels() -> list[str]:
    return list(dict.fromkeys(row.label for section in SECTIONS.values() for row in section))


def _row_of(name: str) -> Row:
    """Return the row called `name`, or else the first row whose name contains `name`."""
    rows = [row for section in SECTIONS.values() for row in section]
    found = [row for row in rows if row.label == name] or [
        row for row in rows if _matches(row.label.lower(), name.lower())
    ]
    if not found:
        raise unknown("row of the table", name, _labels(), "scmsim list rows")
    return found[0]


def _sorted(runs: Sequence[Run], by: str) -> list[Run]:
    """Return the runs sorted by a row's figure, smallest first; runs without the figure come last."""
    if not by:
        return list(runs)
    row = _row_of(by)
    return sorted(runs, key=lambda run: (row.value(run) is None, row.value(run) or 0))


def _kept(runs: Sequence[Run], rows: Sequence[Row]) -> list[Row]:
    """Return the rows that have a figure in at least one run."""
    return [row for row in rows if any(row.value(run) is not None for run in runs)]


def _heads(runs: Sequence[Run]) -> list[list[str]]:
    varying = {name: values for name, values in names.axes(runs).items() if name != "fs"}
    rows = [[names.title(name), *(_head(name, value) for value in values)] for name, values in varying.items()]
    columns = list(zip([run.fs for run in runs], *(row[1:] for row in rows), strict=True))
    # how often each head has occurred so far
    found = [columns[: i + 1].count(column) for i, column in enumerate(columns)]
    systems = [run.fs if n == 1 else f"{run.fs} ({n})" for run, n in zip(runs, found, strict=True)]
    failed = [
        f"{system} ({run.failed:,} failed)" if run.failed else system for system, run in zip(systems, runs, strict=True)
    ]
    return [["", *failed], *rows]


def _head(axis: str, value: Any) -> str:
    """Return a value of a head row; sizes have their suffix."""
    return ABSENT if value is None else names.said(axis, value)


def _main_rows(runs: Sequence[Run], chosen: Chosen, ratios: bool = False, intervals: bool = False) -> list[list[str]]:
    """Return the head rows, then the rows of each section after a row with its title."""
    rows = _heads(runs)
    for title, section in chosen.items():
        kept = _kept(runs, section)
        if kept and title:
            rows.append([_section(title, runs), *[""] * len(runs)])
        for row in kept:
            cells = [row.cell(run) for run in runs]
            if intervals:
                cells = [f"{cell} {spans.span(row, run)}".rstrip() for cell, run in zip(cells, runs, strict=True)]
            if ratios:
                cells = [
                    cells[0],
                    *(f"{cell} {_ratio(row, run, runs[0])}" for cell, run in zip(cells[1:], runs[1:], strict=True)),
                ]
            rows.append([f"  {row.label}" if title else row.label, *cells])
    return rows


def _section(title: str, runs: Sequence[Run]) -> str:
    """Return the title of a section; "per touch" instead of "per call" if a run counts touches."""
    return "per touch" if title == "per call" and any(run.unit == "touch" for run in runs) else title


def _ratio(row: Row, run: Run, first: Run) -> str:
    """Return the ratio to the first column's figure, padded to align figures; blank if a count is too small."""
    value, one = row.value(run), row.value(first)
    if value is None or not one or row.written(run) or row.written(first):
        return " " * _RATIO_WIDTH
    ratio = value / one
    shown = "x<0.001" if 0 < ratio < 0.001 else f"x{number(float(f'{ratio:.3g}'))}"
    return shown.ljust(_RATIO_WIDTH)


def _exact(runs: Sequence[Run], chosen: Chosen) -> list[list[object]]:
    """Return the table with exact figures; the section is a separate column."""
    head, *varying = _heads(runs)
    rows: list[list[object]] = [["section", "row", *head[1:]]]
    rows += [["", *cells] for cells in varying]
    for title, section in chosen.items():
        rows += [[_section(title, runs), row.label, *(row.value(run) for run in runs)] for row in _kept(runs, section)]
    return rows


def _parts(runs: Sequence[Run], by: str) -> list[list[object]]:
    """Return the breakdown with exact figures, one row per part of a run."""
    parts = rows_of(runs, "site" if by == "site" else "group")
    head = columns(parts)
    return [list(head), *([row.get(column) for column in head] for row in parts)]


def _explained(runs: Sequence[Run], chosen: Chosen) -> list[str]:
    labels = dict.fromkeys(row.label for section in chosen.values() for row in _kept(runs, section))
    width = max(map(len, labels), default=0)
    lines = [f"  {label:<{width}}  {glossary.row(label).sentence}" for label in labels]
    return ["what the rows mean (more: scmsim explain NAME)", *lines]


def _common(runs: Sequence[Run]) -> str:
    """Return text on what all runs share: names, e.g. "machine i7-8700k", and parameters that differ from their defaults."""
    shared = [
        name
        for name, value in runs[0].names().items()
        if name != "fs" and {run.names()[name] for run in runs} == {value} - {None}
    ]
    varying = names.axes(runs)
    chosen = dict.fromkeys(text for run in runs for text in _parameters(run, varying))
    return printable(", ".join([*(f"{name} {runs[0].names()[name]}" for name in shared), *chosen]))


def _parameters(run: Run, varying: Iterable[str]) -> list[str]:
    """Return the parameters that differ from the models' defaults, written as for --set, except those in the head rows."""
    found = (
        ["written back at the end"]
        if run.params.get(SYNC_AT_END) and f"{names.PARAM}{SYNC_AT_END}" not in varying
        else []
    )
    for kind, name in (("fs", run.fs), ("paging", run.paging)):
        declared = params.declared(kind, name) if name in registry.names(kind) else {}
        for key, (default, unit, _) in declared.items():
            if (
                f"{names.PARAM}{key}" not in varying
                and key in run.params
                and run.params[key] != parse_param(default, unit)
            ):
                found.append(f"{name}.{key}={params.shown(run.params[key], unit)}")
    return found


def _title(run: Run) -> str:
    return printable(" ".join(name for name in run.names().values() if name))


def _notes(runs: Sequence[Run], chosen: Chosen, far: bool = False) -> list[str]:
    """Return the lines below the table: failures, warnings and estimates; `far` adds the figure furthest off."""
    found = notes_of(runs)
    fields = {name for run in runs for name in run.estimated}
    rows = [row for section in chosen.values() for row in _kept(runs, section)]
    labels = dict.fromkeys(row.label for row in rows)
    estimated = [label for label in labels if glossary.row(label).field in fields]
    if estimated:
        found.append(f"estimated, not counted: {'; '.join(estimated)}")
    found += [spans.worst(runs, rows)] * far
    return [note for note in dict.fromkeys(map(printable, found)) if note]


def _html_row(cells: list[str], tag: str) -> str:
    first, *rest = (markup.escape(str(cell)) for cell in cells)
    if first.startswith(" "):  # a figure of a section
        label = f"<td style='text-align:left; padding-left:1.5em'>{first.strip()}</td>"
    else:
        label = f"<th style='text-align:left'>{first}</th>"
    return f"<tr>{label}{''.join(f'<{tag}>{cell}</{tag}>' for cell in rest)}</tr>"
