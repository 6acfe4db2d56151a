"""`scmsim perf run`: measure a matrix of file systems, operations, sizes and repeats."""

import os
from collections import Counter
from typing import TYPE_CHECKING

import click

from scmsim.core.errors import EnvironmentProblem

if TYPE_CHECKING:
    import pathlib

    from scmsim.perf.backend import Backend
    from scmsim.perf.matrix import Cell, Matrix

SUMMARY = "Measure a matrix of file systems, operations, file sizes and units; resumable."


@click.command(
    "run",
    help=f"""{SUMMARY}

    CONFIG is a path or the name of a shipped matrix (perf-smoke, perf-thesis). Finished measurements are kept in the
    folder -o; the same command resumes a run that was stopped or killed.

    \b
    Example: scmsim perf run perf-smoke --backend software -o smoke
    """,
)
@click.argument("config")
@click.option("-o", "--out", required=True, type=click.Path(), help="Folder for the measurements and result.json.")
@click.option("--backend", "name", help="How to count, instead of the file's choice; see 'scmsim list backend'.")
@click.option("--dry-run", is_flag=True, help="Show the plan and every obstacle; change nothing.")
@click.option("--require-pmu", is_flag=True, help="Stop (exit code 3) unless hardware events can be counted.")
@click.option("--allow-multiplexing", is_flag=True, help="Accept counts that perf extrapolated.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON (with --dry-run: the plan).")
def command(
    config: str, out: str, name: str | None, dry_run: bool, require_pmu: bool, allow_multiplexing: bool, as_json: bool
) -> int:
    import dataclasses

    from scmsim.config import resolve
    from scmsim.config.matrix import load
    from scmsim.core import registry
    from scmsim.perf import runner

    path = resolve(config, matrix=True)
    matrix = load(path, name)
    if allow_multiplexing:
        matrix = dataclasses.replace(matrix, allow_multiplexing=True)
    backend = registry.load("backend", matrix.backend).start(runner.request(matrix, out, require_pmu))
    if dry_run:
        return _dry_run(matrix, backend, out, as_json)
    for warning in runner.warnings(matrix, backend):
        click.echo(f"scmsim: warning: {warning}", err=True)
    result, ran, found = _run(matrix, backend, out, str(path))
    if as_json:
        click.echo(result)
    else:
        click.echo(f"{out}/result.json: {ran + found} measurements, {ran} now and {found} before; {_absent(backend)}")
        click.echo(_next(matrix, backend, out), err=True)
    return 0


def _run(matrix: "Matrix", backend: "Backend", out: str, config: str) -> tuple[str, int, int]:
    """Return (result as JSON, cells measured now, cells measured before)."""
    from scmsim.cli._progress import Line
    from scmsim.core import resumable
    from scmsim.perf import cells, plan, runner, to_result

    def text(cell: "Cell", done: int, total: int, left: float) -> str:
        return f"{done} of {total}, {plan.duration(left)} left: {cell.key}"

    with cells.opened(out, runner.identity(matrix, backend)) as store:
        finished = store.finished()
        todo = [cell for cell in matrix.cells() if cell.key not in finished]
        about = plan.describe(plan.plan(matrix, todo, len(backend.passes)), len(finished))
        if todo:
            click.echo(about, err=True)
        with Line(text) as show:
            ran = runner.run(matrix, backend, store, show)
        result = to_result.result(matrix, backend, store, config).to_json(indent=1)
        resumable.write(store.path / "result.json", result)
        _write_sweep(matrix, backend, store.path)
    return result, ran, len(finished)


def _write_sweep(matrix: "Matrix", backend: "Backend", folder: "pathlib.Path") -> None:
    """Write a sweep over the measured cells next to the result, if models predict what was measured."""
    from scmsim.core import resumable
    from scmsim.perf import simulate

    text = simulate.sweep(matrix, simulate.models(matrix, backend)) if simulate.is_comparable(backend) else ""
    if text:
        resumable.write(folder / simulate.NAME, text)


def _next(matrix: "Matrix", backend: "Backend", out: str) -> str:
    """Return the next commands: show the result, or compare it with a simulation if a model predicts its counters."""
    import shlex

    from scmsim.perf import simulate

    place = shlex.quote(out)
    if not os.path.exists(os.path.join(out, simulate.NAME)):
        return (
            f"next: scmsim report {place} -o report.html (nothing here can be compared with a simulation: that takes hardware "
            "events of a file system that has a model; without a PMU use scmsim lab)"
        )
    renamed = [f"--fs {label}={name}" for label, name in simulate.models(matrix, backend).items() if label != name]
    sweep = shlex.quote(os.path.join(out, simulate.NAME))
    return f"next: scmsim sweep {sweep} -o simulated; {' '.join(['scmsim compare simulated', place, *renamed])}"


def _dry_run(matrix: "Matrix", backend: "Backend", out: str, as_json: bool) -> int:
    """Show the plan and every obstacle; raise EnvironmentProblem (exit code 3) if there is an obstacle."""
    import json

    from scmsim.perf import plan, runner

    size = plan.plan(matrix, matrix.cells(), len(backend.passes))
    stops = runner.obstacles(matrix, backend, out)
    if as_json:
        asked = [[event.asked() for event in events] for events in backend.passes]
        table = {**size._asdict(), "events": asked, "absent": backend.why_absent, "obstacles": stops}
        click.echo(json.dumps(table, indent=2))
        return _stopped(stops)
    click.echo(plan.describe(size))
    for number, events in enumerate(backend.passes, 1):
        click.echo(f"pass {number}: {', '.join(event.asked() for event in events)}")
    click.echo(_absent(backend))
    for warning in runner.warnings(matrix, backend):
        click.echo(f"warning: {warning}")
    for stop in stops:
        click.echo(f"would stop: {stop}")
    return _stopped(stops)


def _stopped(stops: list[str]) -> int:
    """Return 0 for a plan without obstacles; otherwise raise EnvironmentProblem with the first obstacle."""
    if stops:
        raise EnvironmentProblem(f"{stops[0]}{f' (and {len(stops) - 1} more obstacles)' if len(stops) > 1 else ''}")
    return 0


def _absent(backend: "Backend") -> str:
    """Return one line on the counters that cannot be counted."""
    total = len(backend.why_absent)
    if not total:
        return "every counter is there"
    ((most, count),) = Counter(backend.why_absent.values()).most_common(1)
    return f"{total} counters absent ({most}{'' if count == total else ', and other reasons'})"
