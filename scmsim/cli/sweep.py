"""`scmsim sweep`: run many replays that differ in some parameters, and write one table."""

import itertools
import json
from typing import TYPE_CHECKING

import click

from scmsim.core.errors import UsageError
from scmsim.core.text import printable

if TYPE_CHECKING:
    from scmsim.sweep.run import Work

SUMMARY = "Replay every combination of parameters, resumable, on threads, processes or a cluster; one table at the end."

_SHOWN = 20  # most failed points to print on stderr


@click.command(
    "sweep",
    help=f"""{SUMMARY}

CONFIG is the file of a sweep or the name of a shipped one (sweep-*).  Run the same command again to resume a sweep that was
stopped or killed.  Points that cannot be run are counted, named by their parameters and left out; the exit code is then 1.""",
)
@click.argument("config")
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder of the sweep: results.parquet, failed.json, points/."
)
@click.option(
    "--executor",
    type=click.Choice(["threads", "processes", "dask"]),
    default="threads",
    show_default=True,
    help="Where points run.",
)
@click.option("--jobs", type=click.IntRange(1), help="Number of workers.  [default: as many as CPUs]")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Dask: a running scheduler, tcp://HOST:PORT.  [default: a local cluster]"
)
@click.option(
    "--dry-run", is_flag=True, help="Show how many points there are and about how long they take; run nothing."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: results, points, computed, failed, and the work done."
)
def command(
    config: str, out: str, executor: str, jobs: int | None, scheduler: str | None, dry_run: bool, as_json: bool
) -> int:
    import os

    from scmsim.cli._progress import CompilingAhead, points
    from scmsim.perf.plan import duration
    from scmsim.sweep import config as configs
    from scmsim.sweep import run as sweeps

    if scheduler and executor != "dask":
        raise UsageError("--scheduler is for --executor dask; add --executor dask, or leave --scheduler out")
    sweep = configs.load(configs.resolve(config))
    if dry_run:
        workers = jobs or len(os.sched_getaffinity(0))
        plan = sweeps.plan(sweep, out, workers)
        left = len(plan.points) - len(plan.finished)
        if as_json:
            click.echo(
                json.dumps({"points": len(plan.points), "finished": len(plan.finished), "seconds": plan.seconds})
            )
        else:
            click.echo(
                f"{len(plan.points):,} points, {len(plan.finished):,} finished already, {left:,} to compute on {workers} workers\n"
                f"time about {duration(plan.seconds)} (assuming {sweeps.OPERATIONS_PER_S:,.0f} operations/s a worker)"
            )
        return 0
    with CompilingAhead() as compiling, points() as progress:
        found = sweeps.run(
            sweep, out, executor=executor, jobs=jobs or 0, scheduler=scheduler, progress=progress, compiling=compiling
        )
    if as_json:
        click.echo(json.dumps(sweeps.summary(found)))
    else:
        failed = f"; {len(found.failed):,} could not be run" if found.failed else ""
        click.echo(f"{found.points - len(found.failed):,} of {found.points:,} points in {found.results}{failed}")
        click.echo("what its columns mean: scmsim explain NAME")
        if found.work.operations:
            click.echo(_rate(found.work))
    if found.work.warned:
        click.echo(
            f"scmsim: {found.work.warned:,} points have warnings: column 'warnings' of {found.results}", err=True
        )
    for words, error in itertools.islice(found.failed.items(), _SHOWN):
        click.echo(f"scmsim: point {printable(words)} failed: {printable(error)}", err=True)
    if len(found.failed) > _SHOWN:
        click.echo(f"scmsim: {len(found.failed) - _SHOWN:,} more in {found.results.with_name('failed.json')}", err=True)
    return 1 if found.failed else 0


def _rate(work: "Work") -> str:
    seconds = max(work.seconds, 1e-9)
    return (
        f"{work.operations:,} operations ({work.repeated:,} in passes that repeat), {work.moved / 2**30:,.2f} GiB, "
        f"in {seconds:,.1f} s: {work.operations / seconds:,.0f} operations/s, {work.moved / seconds / 1e9:,.2f} GB/s simulated"
    )
