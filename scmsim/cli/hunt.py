"""`scmsim hunt`: find the access patterns with the worst figures on a file system."""

import pathlib
from typing import TYPE_CHECKING, Any

import click

from scmsim.core.errors import unknown

if TYPE_CHECKING:
    from scmsim.study.hunt import Finding, Pattern

SUMMARY = "Search for the access patterns that stress a file system most, and name the mechanism that causes each."


@click.command(
    "hunt",
    help=f"""{SUMMARY}

For each operation (append, overwrite, read), random patterns are drawn and varied; the worst is reduced to the simplest
pattern that keeps 80 % of its score. A finding scores at least 1.1 times the median of the drawn patterns. The metrics
traffic, lookups, walks and stored are per byte of payload; growth is the cost per call late in a run divided by the
cost per call early in it.""",
)
@click.option("--fs", required=True, help="One file system (scmsim list fs).")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric to maximise: traffic, lookups, walks, stored or growth; may be repeated.  [default: traffic]",
)
@click.option("--op", "operations", multiple=True, help="Search only append, overwrite or read; may be repeated.")
@click.option("--machine", help="Machine whose TLB and page walker are simulated.  [default: i7-8700k]")
@click.option("--paging", help="How memory is mapped.  [default: the file system's choice]")
@click.option("--set", "assignments", multiple=True, metavar="MODEL.KEY=VALUE", help="A parameter; may be repeated.")
@click.option(
    "--tries", default=60, show_default=True, type=click.IntRange(4, 10_000), help="Patterns to try per operation."
)
@click.option("--seed", default=1, show_default=True, help="Seed; the same seed gives the same findings.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of findings as JSON.")
@click.option("-o", "--out", type=click.Path(), metavar="DIR", help="Write each finding as a trace and as a fio job.")
def command(
    fs: str,
    metrics: tuple[str, ...],
    operations: tuple[str, ...],
    machine: str | None,
    paging: str | None,
    assignments: tuple[str, ...],
    tries: int,
    seed: int,
    as_json: bool,
    out: str | None,
) -> None:
    import json

    from scmsim.cli._progress import Progress
    from scmsim.cli.replay import _params
    from scmsim.core import registry
    from scmsim.pipeline import DEFAULTS
    from scmsim.study.hunt import OPERATIONS, Hunt

    registry.path("fs", fs)  # raises UsageError for a list: hunt takes one file system
    for op in operations:
        if op not in OPERATIONS:
            raise unknown("operation", op, OPERATIONS)
    folder = _folder(out) if out else None
    models: dict[str, Any] = {"machine": machine or DEFAULTS["machine"], "paging": paging}
    given = {**models, "params": _params(assignments), "tries": tries, "seed": seed}
    hunts = [Hunt(fs, metric, **given) for metric in metrics or ("traffic",)]
    findings = []
    with Progress("patterns") as progress:
        for hunt in hunts:
            for op in operations or OPERATIONS:
                findings.append((hunt.metric, hunt.find(op, progress)))
    rows = [
        {
            "fs": fs, "metric": metric, "pattern": vars(found.pattern), "words": found.pattern.in_words(), "score": found.score,
            "typical": found.typical, "stands_out": found.stands_out, "site": found.site, "site_percent": found.site_share,
            "site_growth": None if found.site_growth == float("inf") else found.site_growth, "tried": found.tried,
        }
        for metric, found in findings
    ]  # fmt: skip
    if folder:
        for metric, found in findings:
            if found.stands_out:
                _write(folder, f"{fs}-{metric}-{found.pattern.op}", found.pattern)
    if as_json:
        click.echo(json.dumps(rows, indent=2, allow_nan=False))
        return
    for metric, found in findings:
        click.echo("\n".join(_lines(metric, found)))


def _lines(metric: str, found: "Finding") -> list[str]:
    """Return a finding as lines of text; one line if no pattern stands out."""
    from scmsim.study.hunt import GROWTH, MARGIN

    against = "1 would be even" if metric == GROWTH else f"median of drawn patterns {found.typical:.4g}"
    if not found.stands_out:
        return [
            f"{metric}: {found.pattern.op}: no pattern stands out: the worst of {found.tried} has {found.score:.4g} ({against}); "
            f"a finding has {MARGIN:g} times that or more"
        ]
    blame = "no single mechanism rose"
    if found.site is not None:
        usual = (
            "which other patterns do not have"
            if found.site_growth == float("inf")
            else f"{found.site_growth:.3g} times the usual"
        )
        blame = f"blame {found.site}: {found.site_share:.0f} % of it, {usual}"
    return [f"{metric}: {found.pattern.in_words()}", f"  {found.score:.4g} ({against}); {blame}"]


def _folder(out: str) -> pathlib.Path:
    from scmsim.core.atomic import writable_folder

    path = writable_folder(out)
    path.mkdir(exist_ok=True)
    return path


def _write(folder: pathlib.Path, name: str, pattern: "Pattern") -> None:
    from scmsim.trace.store import TraceWriter

    source = pattern.source()
    with TraceWriter(folder / f"{name}.parquet", source.header) as writer:
        for batch in source.batches():
            writer.append(batch)
        writer.close(source.files)
    (folder / f"{name}.fio").write_text(pattern.fio(), encoding="utf-8")
