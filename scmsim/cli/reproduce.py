"""`scmsim reproduce`: compare the documents' published values with the models."""

import collections
import textwrap
from typing import TYPE_CHECKING

import click

from scmsim.cli._figures import figure_format
from scmsim.core.errors import UsageError

if TYPE_CHECKING:
    from scmsim.reproduce import Row

SUMMARY = "Compare the published figures of four papers with the models: published, simulated, ratio, kind."


@click.command(
    "reproduce",
    help=f"""{SUMMARY}

ID is a row such as VSM-1 or a document: scmfs (the paper and its slides), thesis, vsm, scm_manager; the default is all
rows. A row that the models cannot compute states the reason. Exit code 1 if a row of kind exact is not equal.""",
)
@click.argument("wanted", metavar="[ID]...", nargs=-1)
@click.option(
    "--quick",
    is_flag=True,
    help="Small workloads: about 17 s of CPU, 105 s the first time, on all cores; rows that need gigabytes stay empty.",
)
@click.option("--json", "as_json", is_flag=True, help="Print {rows, summary} as JSON.")
@click.option(
    "-o", "--out", type=click.Path(), metavar="F.json", help="Also write this JSON, for 'scmsim artifact make'."
)
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
@click.option(
    "--figures", type=click.Path(), metavar="DIR", help="Draw the documents' figures into DIR (extra 'report')."
)
@click.option(
    "--matrix", type=click.Path(), metavar="DIR", help="Folder of 'scmsim sweep sweep-thesis', to draw its matrix."
)
@click.option("--junit", type=click.Path(), metavar="F.xml", help="Write the verdicts as JUnit XML, for CI.")
@figure_format
def command(
    wanted: tuple[str, ...],
    quick: bool,
    as_json: bool,
    out: str | None,
    markdown: bool,
    figures: str | None,
    matrix: str | None,
    junit: str | None,
    suffix: str,
) -> int:
    import json
    import os

    from scmsim.cli._progress import CompilingAhead, Progress, starter
    from scmsim.core import atomic
    from scmsim.reproduce import compile_ahead, reproduce, summary
    from scmsim.reproduce.rows import titles
    from scmsim.result import provenance

    if figures:
        from scmsim.plot.files import check_folder

        check_folder(figures)
    elif matrix:
        raise UsageError("--matrix is for --figures; add --figures DIR, or leave --matrix out")
    for path in filter(None, (junit, out)):
        atomic.writable(path)
    if out and not out.endswith(".json"):
        raise UsageError(f"{out!r} does not end in .json, the only format of these rows; name a .json file")
    cpus = len(os.sched_getaffinity(0))
    with CompilingAhead() as progress:
        compile_ahead(wanted, cpus, progress)
    with Progress("rows") as progress:
        # with --figures, compute in this process: the figures reuse the values cached for the rows
        rows = list(reproduce(wanted, quick, 1 if figures else cpus, starter(), progress))
    manifest = provenance.build(reproduce={"wanted": wanted, "quick": quick})
    found = {"rows": [row.as_dict() for row in rows], "summary": summary(rows), "manifest": manifest}
    text = json.dumps(found, indent=2, allow_nan=False)
    if out:
        with atomic.whole(out) as draft:
            draft.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
    else:
        for document, title in titles().items():
            chosen = [row for row in rows if row.document == document]
            if chosen:
                click.echo(_markdown(title, chosen) if markdown else _text(title, chosen))
        click.echo(_sum(rows, markdown))
    if junit:
        from scmsim.export import junit as verdicts

        verdicts.write(junit, "scmsim reproduce", verdicts.of_reproduction(rows))
    if figures:
        from scmsim.reproduce.figures import draw

        click.echo(f"{len(draw(figures, suffix, quick, matrix))} figures in {figures}", err=True)
    return 1 if any(row.answer.kind == "exact" and row.verdict == "off" for row in rows) else 0


def _cells(row: "Row") -> list[str]:
    p = row.published
    verdict = row.verdict or "-"
    about = " ".join(part for part in (p.system, p.workload, p.condition, p.metric) if part)
    value = " ".join(
        part for part in (p.relation if p.relation not in ("equals", "about") else "", p.value, p.unit) if part
    )
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    return [
        p.id,
        about,
        value,
        _shown(row.answer.simulated),
        _shown(row.answer.with_cost),
        ratio,
        row.answer.kind,
        verdict,
    ]


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return " | ".join(map(_shown, value))
    if isinstance(value, float) or isinstance(value, int) and abs(value) > 10**9:
        return f"{value:.4g}"
    return str(value)


def _text(title: str, rows: list["Row"]) -> str:
    lines = [title]
    for row in rows:
        id_, about, value, ours, cost, ratio, kind, verdict = _cells(row)
        extra = (f" (with the cost left out: {cost})" if cost != "-" else "") + (f"; ratio {ratio}" if ratio else "")
        lines.append(f"  {id_:8}{verdict:13}{about}")
        lines.append(f"          published {value}; simulated {ours}{extra}; {kind}")
        lines += textwrap.wrap(row.answer.note, 118, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return "\n".join(lines) + "\n"


def _markdown(title: str, rows: list["Row"]) -> str:
    head = (
        "| id | what | published | simulated | with the cost left out | ratio | kind | verdict | note |\n|" + "---|" * 9
    )
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in [*_cells(row), row.answer.note]) + " |" for row in rows
    ]
    return f"## {title}\n\n{head}\n" + "\n".join(lines) + "\n"


def _sum(rows: list["Row"], markdown: bool) -> str:
    from scmsim.reproduce import VERDICTS, summary

    counts = summary(rows)
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    not_run = counts["rows_with_information"] - counts["run"]
    lines = [
        f"{len(rows)} rows; {counts['rows_with_information']} carry information: {said}"
        + (f", {not_run} not run" if not_run else "")
    ]
    limits = collections.Counter(row.tolerance for row in rows if row.tolerance)
    if limits:
        lines.append("tolerance: " + ", ".join(f"{limit} in {count} rows" for limit, count in limits.most_common()))
    missed = [row for row in rows if row.verdict in VERDICTS[1:]]
    for row in missed:
        line = f"{row.published.id:8}{row.verdict:13}{row.reason}"
        lines.append(f"- {row.published.id}, {row.verdict}: {row.reason}" if markdown else f"  {line}")
    return "\n".join(lines)
