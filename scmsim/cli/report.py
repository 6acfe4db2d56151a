"""`scmsim report`: write results as one HTML page, or as figures for a paper."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from scmsim.cli._figures import chosen, figure_format, figure_style
from scmsim.cli._results import read_results
from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable

if TYPE_CHECKING:
    from scmsim.compare import Comparison
    from scmsim.result import Result

SUMMARY = "Make one self-contained HTML page of results: tables, charts, warnings."


@click.command(
    "report",
    help=f"""{SUMMARY}

RESULT is a result (.json, .parquet) or a folder: of results, of a sweep, of perf run, of lab run or of lab tlb.
Simulated and measured runs of the same cell are compared. Needs the extra 'report'.""",
)
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), metavar="FILE.html", help="Page to write.")
@click.option("--title", default="", help="Heading of the page.  [default: the file systems]")
@click.option("--fs", help="Only these file systems, separated by commas.")
@click.option("--trace", type=click.Path(), help="Add the miss-ratio curve of this trace on each simulated run.")
@click.option("--figures", type=click.Path(), metavar="DIR", help="Write each chart as a file into DIR, too.")
@figure_format
@figure_style
def command(
    results: tuple[str, ...],
    out: str,
    title: str,
    fs: str | None,
    trace: str | None,
    figures: str | None,
    suffix: str,
    width: int | None,
    palette: str,
) -> None:
    from scmsim.plot import files
    from scmsim.report import lead, page
    from scmsim.result import Result, names
    from scmsim.study.tlb.card import is_card
    from scmsim.study.tlb.card import read as read_card

    style = chosen(width, "", palette)
    page.check(out)
    if figures:
        files.check_folder(figures)
    cards = [path for path in results if is_card(path)]
    if len(cards) > 1:
        raise UsageError(f"{len(cards)} folders of lab tlb; a page shows one, so name one of {', '.join(cards)}")
    read = {path: read_results(path) for path in results if path not in cards}
    machines = dict.fromkeys(run.machine for one in read.values() for run in one.runs if run.machine)
    read |= {path: read_results(path, machines) for path in cards}
    for path, each in read.items():
        if failed := each.manifest.get("failed points"):
            click.echo(f"scmsim: warning: {path}: points that failed are not shown: {printable(str(failed))}", err=True)
    parts = list(read.values())
    own = [one.runs for one in parts]
    manifest = (
        parts[0].manifest if len(parts) == 1 else lead.merged([one.manifest for one in parts], own, list(results))
    )
    whole = Result(manifest, [run for one in read.values() for run in one.runs])
    if fs:
        wanted = [name.strip() for name in fs.split(",")]
        for name in wanted:
            if name not in {run.fs for run in whole.runs}:
                raise unknown("file system in these results", name, {run.fs for run in whole.runs})
        for one in (whole, *read.values()):
            one.runs = [run for run in one.runs if run.fs in wanted]
    curves = _curves(whole, read, trace) if trace else []
    made = read_card(cards[0]) if cards else None
    if made and fs:
        made["cells"] = [cell for cell in made["cells"] if cell["fs"] in wanted]
    compared = _compared(parts)
    length = page.write(whole, out, title=title, curves=curves, compared=compared, card=made)
    click.echo(f"wrote {out} ({length / 1024:,.0f} KiB)", err=True)
    if figures:
        for written in files.write_charts(
            page.drawn(names.means(whole.runs), curves, compared), figures, suffix, style
        ):
            click.echo(str(written))


def _compared(results: "list[Result]") -> "Comparison | None":
    """Compare simulated with measured runs; return None if there are no runs of one of the two kinds.

    The manifest of each side of the comparison is the manifest of its first result.
    """
    from scmsim.compare import compare
    from scmsim.result import Result
    from scmsim.result.names import is_measured

    sides = []
    for measured in (False, True):
        parts = [(one.manifest, run) for one in results for run in one.runs if is_measured(run) is measured]
        if not parts:
            return None
        sides.append(Result(parts[0][0], [run for _, run in parts]))
    return compare(*sides)


def _check_trace(read: "Mapping[str, Result]", trace: str) -> None:
    """Raise UsageError unless the manifest of every simulated result has the digest of this trace."""
    from scmsim.result.provenance import digest

    if not os.path.isfile(trace):
        raise UsageError(f"no trace {trace!r}; give the file that was replayed")
    given = digest(trace)["sha256"]
    for path in (part for each in read for part in _parts(each)):
        result = read_results(path)
        if not any(run.paging for run in result.runs):
            continue
        known = _digests(result.manifest.get("inputs"))
        if not known:
            raise UsageError(f"{path!r} does not record which trace was replayed; leave out --trace")
        if given not in known.values():
            raise UsageError(
                f"{path!r} was replayed from {', '.join(known)!r}, but {trace!r} has different contents; "
                "pass the replayed trace with --trace"
            )


def _parts(path: str) -> list[str]:
    """Return the paths of a folder's results, e.g. of several traces; [path] for a file, a single run or a sweep."""
    files = sorted(os.listdir(path)) if os.path.isdir(path) else []
    parts = [os.path.join(path, name) for name in files if name.endswith((".json", ".parquet"))]
    return [path] if not parts or "result.json" in files or "points" in files else parts


def _digests(inputs: Any) -> dict[str, Any]:
    """Return the sha256 of each input in a manifest; the manifest is not trusted to be well-formed."""
    table = inputs if isinstance(inputs, dict) else {}
    return {name: one.get("sha256") for name, one in table.items() if isinstance(one, dict)}


def _curves(result: "Result", read: "Mapping[str, Result]", trace: str) -> list[dict[str, Any]]:
    """Return the miss ratios of fully associative TLBs with 2^k entries, one curve per simulated run."""
    from scmsim.cli._progress import Progress
    from scmsim.mmu import mrc, order_of
    from scmsim.pipeline import touches
    from scmsim.result.names import labels

    _check_trace(read, trace)
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
