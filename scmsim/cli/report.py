"""`scmsim report`: results as one HTML page, or as figures for a paper."""

from typing import TYPE_CHECKING, Any

import click

from scmsim.cli._figures import figure_format

if TYPE_CHECKING:
    from scmsim.result import Result

SUMMARY = "Make one self-contained HTML page of results: tables, charts, warnings."


@click.command(
    "report",
    help=f"""{SUMMARY}

RESULT is a result (.json, .parquet) or a folder of results: of replay, perf run, perf import or the emulated machine. Simulated
and measured runs are compared where their cells agree. Needs the extra 'report'.""",
)
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), metavar="FILE.html", help="The page.")
@click.option("--title", default="", help="Heading of the page.  [default: the file systems]")
@click.option("--fs", help="Only these file systems, separated by commas.")
@click.option("--trace", type=click.Path(), help="Add the miss-ratio curve of this trace on each simulated run.")
@click.option("--figures", type=click.Path(), metavar="DIR", help="Write each chart as a file into DIR, too.")
@figure_format
def command(
    results: tuple[str, ...], out: str, title: str, fs: str | None, trace: str | None, figures: str | None, suffix: str
) -> None:
    from scmsim.errors import unknown
    from scmsim.report import charts, files, page
    from scmsim.result import Result, read_all

    page.check(out)
    if figures:
        files.check_folder(figures)
    read = [read_all(path) for path in results]
    whole = Result(
        read[0].manifest if len(read) == 1 else {"results": list(results)}, [r for one in read for r in one.runs]
    )
    if fs:
        wanted = [name.strip() for name in fs.split(",")]
        for name in wanted:
            if name not in {run.fs for run in whole.runs}:
                raise unknown("file system in these results", name, {run.fs for run in whole.runs})
        whole.runs = [run for run in whole.runs if run.fs in wanted]
    curves = _curves(whole, trace) if trace else []
    length = page.write(whole, out, title=title, curves=curves, compared=_compared(whole))
    click.echo(f"wrote {out} ({length / 1024:,.0f} KiB)", err=True)
    if figures:
        found = [*charts.charts(whole.runs), *filter(None, [charts.curve(curves)])]
        for path in files.write_charts(found, figures, suffix):
            click.echo(str(path))


def _compared(result: "Result") -> str:
    """The comparison of simulated with measured runs as text; empty where there is only one kind."""
    from scmsim.compare import compare
    from scmsim.compare_table import text
    from scmsim.result import Result

    sides = [
        Result(result.manifest, [run for run in result.runs if bool(run.paging) is model]) for model in (True, False)
    ]
    if not all(side.runs for side in sides):
        return ""
    return text(compare(*sides))


def _curves(result: "Result", trace: str) -> list[dict[str, Any]]:
    """Miss ratios over powers of two of entries, one curve for each simulated run."""
    from scmsim.cli._progress import Progress
    from scmsim.mmu import mrc, order_of
    from scmsim.pipeline import touches
    from scmsim.report.charts import labels

    rows: list[dict[str, Any]] = []
    with Progress() as progress:
        for label, run in zip(labels(result.runs), result.runs, strict=True):
            if not run.paging:
                continue
            curve = mrc.Curve(order_of("4KiB"))
            for part in touches(trace, run.fs, paging=run.paging, progress=progress):
                curve.add(part)
            entries = [1 << k for k in range(31) if 1 << k < 2 * curve.pages]
            misses = curve.misses(entries)
            rows += [
                {"run": label, "entries": n, "value": int(m) / max(curve.accesses, 1)}
                for n, m in zip(entries, misses, strict=True)
            ]
    return [row for row in rows if row["value"] > 0]
