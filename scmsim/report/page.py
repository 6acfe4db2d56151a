"""The report: one HTML file without a single request to a network, readable on a phone, in the dark and on paper.

Text from files (names of files and models, warnings) is hostile: it is escaped in the text, in the specifications of the charts "<"
never appears, and the page's policy forbids every fetch.
"""

import base64
import csv
import html
import io
import json
import os
import pathlib
import shlex
import string
from collections.abc import Sequence
from functools import cache
from typing import Any

from scmsim import __version__
from scmsim.drafts import writable
from scmsim.errors import UsageError
from scmsim.printable import printable, words
from scmsim.report import charts as drawing
from scmsim.report import files
from scmsim.report.charts import Chart, Rows
from scmsim.result import Result, Run
from scmsim.result_table import SECTIONS, number

SECTION_OF = {
    "traffic": "Headline", "time": "Headline", "lookups": "TLB", "walks": "TLB", "walk-cycles": "TLB",
    "sites": "Where the traffic comes from", "amplification": "Write amplification", "stored": "Write amplification",
    "space": "Space and waste", "miss-ratio-curve": "Miss-ratio curve", "hot": "Hot files",
}  # fmt: skip
ORDER = (
    "What was run", "Headline", "TLB", "Where the traffic comes from", "Write amplification", "Space and waste",
    "Miss-ratio curve", "Hot files", "Simulated and measured", "All figures", "Warnings",
)  # fmt: skip
MOST_RUNS = 60  # columns of the table; more runs are a matter for `scmsim sweep` and a notebook


def write(
    result: Result,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    curves: Sequence[dict[str, Any]] = (),
    compared: str = "",
) -> int:
    """Write the report; returns its bytes.

    Parameters
    ----------
    result : Result
        All runs that the page is about.
    path : file ending in .html
    title : str, by default the file systems
    curves : list of {"run", "entries", "value"}, miss ratios (see `charts.curve`)
    compared : plain text of a comparison with a measurement

    Raises
    ------
    UsageError, EnvironmentProblem
        For a result without runs or with too many, another suffix, a missing library, or a disk that does not take it.
    """
    out = check(path)
    content = page(result, title=title, curves=curves, compared=compared).encode()
    files.write(out, content)
    return len(content)


def check(path: str | os.PathLike[str]) -> pathlib.Path:
    """Raise before the work if the page cannot be made there."""
    drawing.altair()
    out = pathlib.Path(path)
    if out.suffix != ".html":
        raise UsageError(f"{str(out)!r}: the name of a report must end in .html")
    writable(out)
    return out


def page(result: Result, *, title: str = "", curves: Sequence[dict[str, Any]] = (), compared: str = "") -> str:
    """The page as text (see `write`)."""
    runs = result.runs
    if not runs:
        raise UsageError("the result has no runs; nothing to report")
    if len(runs) > MOST_RUNS:
        raise UsageError(
            f"{len(runs)} runs are too many for one page; choose up to {MOST_RUNS} with --fs or several reports"
        )
    found = [*drawing.charts(runs), *filter(None, [drawing.curve(list(curves))])]
    parts = {
        "What was run": _manifest(result),
        "Simulated and measured": f'<div class="scroll"><pre>{html.escape(compared)}</pre></div>' if compared else "",
        "All figures": _table(runs),
        "Warnings": _warnings(runs),
    }
    for section in ORDER:
        inside = [_figure(chart) for chart in found if SECTION_OF[chart.name] == section]
        if inside:
            parts[section] = f'<div class="grid">{"".join(inside)}</div>' + parts.get(section, "")
    shown = [section for section in ORDER if parts.get(section)]
    specs = {chart.name: chart.spec for chart in found}
    heading = printable(title or f"scmsim: {', '.join(dict.fromkeys(run.fs for run in runs))}")
    return _template().substitute(
        title=html.escape(heading),
        nav=" ".join(f'<a href="#{_anchor(section)}">{html.escape(section)}</a>' for section in shown),
        body="\n".join(f'<section id="{_anchor(s)}"><h2>{html.escape(s)}</h2>{parts[s]}</section>' for s in shown),
        version=html.escape(__version__),
        library=_library(),
        specs=json.dumps(specs).replace("<", "\\u003c"),
    )


@cache
def _template() -> string.Template:
    return string.Template(pathlib.Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


@cache
def _library() -> str:
    """Vega, Vega-Lite and vega-embed as one script that sets `vegaEmbed`."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")


def _anchor(section: str) -> str:
    return section.lower().replace(" ", "-")


def _figure(chart: Chart) -> str:
    link = base64.b64encode(_csv(chart.rows).encode()).decode()
    return (
        f"<figure><h3>{html.escape(chart.title)}</h3>"
        f'<div class="chart" id="chart-{chart.name}" role="img" aria-label="{html.escape(chart.title)}"></div>'
        f"<figcaption>{html.escape(chart.caption)} "
        f'<a download="{chart.name}.csv" href="data:text/csv;base64,{link}">Data (CSV)</a></figcaption></figure>'
    )


def _csv(rows: Rows) -> str:
    """The rows; a text that a spreadsheet would take for a formula gets a quote before it."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([f"'{v}" if isinstance(v, str) and v[:1] in ("=", "+", "-", "@") else v for v in row.values()])
    return out.getvalue()


def _manifest(result: Result) -> str:
    lines = [("runs", str(len(result.runs)))]
    for name in ("fs", "machine", "paging", "medium"):
        lines.append((name, ", ".join(dict.fromkeys(str(run.names()[name] or "-") for run in result.runs))))
    lines.append(("calls", ", ".join(dict.fromkeys(f"{run.calls:,}" for run in result.runs))))
    lines += [
        ("command", _command(value)) if key == "argv" else (str(key), _flat(value))
        for key, value in result.manifest.items()
    ]
    items = (f"<dt>{html.escape(printable(k))}</dt><dd>{html.escape(printable(v))}</dd>" for k, v in lines if v)
    return f"<dl>{''.join(items)}</dl>"


def _command(argv: Any) -> str:
    """The command line, without the path of the program; a file may hold anything."""
    return f"scmsim {shlex.join(map(str, argv[1:]))}" if isinstance(argv, list) else _flat(argv)


def _flat(value: Any) -> str:
    text = words(value)
    return text if len(text) <= 600 else text[:600] + " ..."


def _table(runs: Sequence[Run]) -> str:
    """The comparison table, every figure that a run has."""
    rows = [_row(["", *drawing.labels(runs)], "th")]
    for title, section in SECTIONS.items():
        values = [(row.label, [row.value(run) for run in runs]) for row in section]
        kept = [(label, cells) for label, cells in values if any(cell is not None for cell in cells)]
        if title and kept:
            rows.append(_row([title, *[""] * len(runs)], "th"))
        rows += [_row([f"  {label}" if title else label, *map(number, cells)], "td") for label, cells in kept]
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _warnings(runs: Sequence[Run]) -> str:
    names = drawing.labels(runs)
    lines = [f"{name}: {printable(w)}" for name, run in zip(names, runs, strict=True) for w in run.warnings]
    lines += [
        f"{name}: {printable(what)} {n:,}"
        for name, run in zip(names, runs, strict=True)
        for what, n in run.errors.items()
    ]
    shown = "".join(f'<p class="warning">{html.escape(line)}</p>' for line in dict.fromkeys(lines))
    absent = [
        f"{printable(name)} ({printable(why)})"
        for name, why in runs[0].why_absent.items()
        if all(name in run.why_absent for run in runs)
    ]
    return shown + (f'<p class="absent">In no run: {html.escape("; ".join(absent))}.</p>' if absent else "")
