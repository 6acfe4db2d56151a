"""Write the report: one HTML file that makes no network request, readable on a phone, in dark mode and on paper.

Text from files (names of files and models, warnings) may be malicious.  So it is escaped in the page, "<" never appears in the
specifications of charts, and the page's content-security policy forbids every fetch.
"""

import base64
import csv
import html
import io
import os
import pathlib
import shlex
import string
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from scmsim import __version__
from scmsim.compare import Comparison
from scmsim.core.atomic import writable
from scmsim.core.errors import UsageError
from scmsim.core.text import printable, words
from scmsim.plot import charts as drawing
from scmsim.plot import files, lines
from scmsim.plot import tlb as judged
from scmsim.plot import verdict as compared_by
from scmsim.plot.library import Chart, Rows, scripts
from scmsim.report import effects, lead, tables
from scmsim.report.summary import summary
from scmsim.result import FOOTPRINTS, Result, Run, names

ANSWER, COMPARED = "What each parameter changes", "Simulated and measured"
SECTION_OF = {
    "traffic": "Headline", "time": "Headline", "misses": "TLB", "regions": "TLB", "walks": "TLB", "walk-cycles": "TLB",
    "sites": "Where the traffic comes from", "amplification": "Write amplification", "stored": "Write amplification",
    "space": "Space and waste", "overhead": "Space and waste", "effect-time": ANSWER, "effect-walks": ANSWER, "ratios": COMPARED,
    "miss-ratio-curve": "Miss-ratio curve", "hot": "Hot files",
    "judged": "Compared with a real kernel",
}  # fmt: skip
OVER = "Over the parameters"
ORDER = (
    COMPARED, ANSWER, "Headline", OVER, "What varies",
    "TLB", "Where the traffic comes from", "Write amplification", "Space and waste",
    "Miss-ratio curve", "Hot files", "Compared with a real kernel",
    "Warnings", "All figures", "Not supplied", "What was run",
)  # fmt: skip
MOST_RUNS = 10_000  # maximum number of runs on one page
MOST_NAMED = 8  # maximum number of file systems named in the heading
MOST_BARS = 60  # maximum number of runs for which bars are drawn


def write(
    result: Result,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    curves: Sequence[dict[str, Any]] = (),
    compared: Comparison | None = None,
    card: Mapping[str, Any] | None = None,
) -> int:
    """Write the report and return its size in bytes.

    Parameters
    ----------
    result : Result
        All runs of the page.
    path : file ending in .html
    title : str, by default the file systems
    curves : list of {"run", "entries", "value"}, miss ratios (see `charts.curve`)
    compared : Comparison, optional
        The comparison of the simulated with the measured runs.
    card : mapping, optional
        The output of `scmsim lab tlb` (`scmsim.study.tlb.card.read`).

    Raises
    ------
    UsageError, EnvironmentProblem
        For a result without runs or with too many, another suffix, a missing library, or a page that cannot be written.
    """
    out = check(path)
    content = page(result, title=title, curves=curves, compared=compared, card=card).encode()
    files.write(out, content)
    return len(content)


def check(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path after checking that a report can be written to it; call this before the work starts."""
    drawing.altair()
    out = pathlib.Path(path)
    if out.suffix != ".html":
        raise UsageError(f"{str(out)!r}: the name of a report must end in .html")
    writable(out)
    return out


def page(
    result: Result,
    *,
    title: str = "",
    curves: Sequence[dict[str, Any]] = (),
    compared: Comparison | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Return the page as text (see `write`)."""
    if not result.runs:
        raise UsageError("the result has no runs, so a report would be empty; choose another result")
    if len(result.runs) > MOST_RUNS:
        raise UsageError(
            f"{len(result.runs)} runs are too many for one page; choose up to {MOST_RUNS:,} with --fs, or write several reports"
        )
    runs = names.means(result.runs)
    found = [*drawn(runs, curves, compared), *([judged.chart(card["cells"])] if card else [])]
    parts = {
        COMPARED: tables.comparison(compared) if compared else "",
        "Compared with a real kernel": tables.card(card) if card else "",
        "Warnings": _warnings(result.runs),
        "What varies": tables.varying(runs),
        "All figures": tables.figures(runs),
        "What was run": _manifest(result),
        "Not supplied": _absent(runs),
    }
    many = _many(runs)
    for section in ORDER:
        inside = [_figure(chart) for chart in found if _section(chart, many) == section]
        if inside:
            parts[section] = f'<div class="grid">{"".join(inside)}</div>' + parts.get(section, "")
    if parts.get("TLB"):
        parts["TLB"] = _without_addresses(runs) + parts["TLB"]
    shown = [section for section in ORDER if parts.get(section)]
    specs = {chart.name: chart.spec for chart in found}
    systems = list(dict.fromkeys(run.fs for run in runs))
    called = ", ".join(systems) if len(systems) <= MOST_NAMED else f"{len(systems)} file systems"
    heading = printable(title or f"scmsim: {called}")
    return _template().substitute(
        title=html.escape(heading),
        summary=_lead(Result(result.manifest, runs), parts["Warnings"].count("<p "), compared),
        nav=" ".join(f'<a href="#{_anchor(section)}">{html.escape(section)}</a>' for section in shown),
        body="\n".join(f'<section id="{_anchor(s)}"><h2>{html.escape(s)}</h2>{parts[s]}</section>' for s in shown),
        trust=html.escape(lead.trust(result)),
        version=html.escape(__version__),
        scripts=scripts(specs),
    )


def _lead(result: Result, warnings: int, compared: Comparison | None) -> str:
    """Return the top of the page: what was replayed, the first sentences, and a link to the warnings, if any."""
    verdict = [tables.verdict(compared)] if compared else []
    said = [*verdict, *summary(result), *lead.made_up(result)]
    heed = (
        f'<p><a class="warning" href="#warnings">{warnings:,} warning{"s" * (warnings > 1)}</a></p>' if warnings else ""
    )
    asked = html.escape(lead.asked(result))
    return f'<p class="asked">{asked}</p>' + "".join(f"<p>{html.escape(line)}</p>" for line in said) + heed


def _without_addresses(runs: Sequence[Run]) -> str:
    """Return a paragraph on which misses are not counted in replays without footprints; "" if not needed."""
    known = [
        share
        for run in runs
        if FOOTPRINTS not in run.params and (share := run.metrics.get("addressed_percent")) is not None
    ]
    if not known:
        return ""
    low, high = f"{min(known):.0f}", f"{max(known):.0f}"
    told = low if low == high else f"{low} to {high}"
    return (
        f"<p>{told} % of the loads and stores have addresses. With the others the kernel's code touches its stacks, slab objects "
        "and per-CPU data; their misses and walks are not in these figures. "
        "A replay without <code>--footprints none</code> has them.</p>"
    )


def drawn(
    runs: Sequence[Run], curves: Sequence[dict[str, Any]] = (), compared: Comparison | None = None
) -> list[Chart]:
    """Return the charts of a page: effects of parameters, then bars or, for many runs, lines over a parameter."""
    bars = drawing.charts(runs) if len(runs) <= MOST_BARS else []
    found = lines.charts(runs) if _many(runs) else bars
    answers = [] if compared else effects.charts(runs)
    verdict = [compared_by.chart(compared)] if compared else []
    return [*filter(None, verdict), *answers, *found, *filter(None, [drawing.curve(list(curves))])]


def _section(chart: Chart, many: bool) -> str:
    """Return the title of a chart's section; charts of many runs are all in section OVER."""
    own = SECTION_OF.get(chart.name, OVER)
    return OVER if many and own not in (ANSWER, COMPARED) and chart.name != "judged" else own


def _many(runs: Sequence[Run]) -> bool:
    return len(runs) > lines.MANY and lines.over(runs) is not None


@cache
def _template() -> string.Template:
    return string.Template(pathlib.Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


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
    """Return the rows as CSV, with a quote before each text that a spreadsheet would read as a formula."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow([f"'{v}" if isinstance(v, str) and v[:1] in ("=", "+", "-", "@") else v for v in row.values()])
    return out.getvalue()


def _manifest(result: Result) -> str:
    rows = [("runs", f"{len(result.runs):,}")]
    for name in ("fs", "machine", "paging", "medium"):
        rows.append((name, ", ".join(dict.fromkeys(str(run.names()[name] or "") for run in result.runs))))
    rows.append(("calls", _flat(", ".join(dict.fromkeys(f"{run.calls:,}" for run in result.runs)))))
    rows += [
        ("command", _command(value)) if key == "argv" else (str(key), _flat(value))
        for key, value in result.manifest.items()
    ]
    items = (f"<dt>{html.escape(printable(k))}</dt><dd>{html.escape(printable(v))}</dd>" for k, v in rows if v)
    return f"<dl>{''.join(items)}</dl>"


def _command(argv: Any) -> str:
    """Return the command line without the program's path; the value comes from a file, so it may not be a list."""
    return f"scmsim {shlex.join(map(str, argv[1:]))}" if isinstance(argv, list) else _flat(argv)


def _flat(value: Any) -> str:
    text = words(value)
    return text if len(text) <= 600 else text[:600] + " ..."


def _warnings(runs: Sequence[Run]) -> str:
    called = names.labels(runs)
    found = [f"{name}: {printable(w)}" for name, run in zip(called, runs, strict=True) for w in run.warnings]
    found += [
        f"{name}: {printable(what)} {n:,}"
        for name, run in zip(called, runs, strict=True)
        for what, n in run.errors.items()
    ]
    return "".join(f'<p class="warning">{html.escape(line)}</p>' for line in dict.fromkeys(found))


def _absent(runs: Sequence[Run]) -> str:
    """Return a folded list of the figures that no run has, with reasons; these are not warnings."""
    reasons: dict[str, list[str]] = {}
    for name, why in runs[0].why_absent.items():
        if all(name in run.why_absent for run in runs):
            reasons.setdefault(why, []).append(name)
    items = (
        f"<li>{html.escape(printable(', '.join(found)))}: {html.escape(printable(why))}</li>"
        for why, found in reasons.items()
    )
    count = sum(map(len, reasons.values()))
    return (
        f'<details class="absent"><summary>{count} figures</summary><ul>{"".join(items)}</ul></details>'
        if count
        else ""
    )
