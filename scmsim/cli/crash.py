"""`scmsim crash`: check the states in which a crash may leave a file system's files."""

from typing import Any

import click

from scmsim.cli._crash_reports import conclude, lines_option, samples_option, seed_option
from scmsim.core.errors import UsageError, unknown
from scmsim.core.text import printable

SUMMARY = "Crash a file system at every fence of a trace, recover, and check what it promises."


@click.command(
    "crash",
    help=f"""{SUMMARY}

TRACE is a stored trace.  Before each fence and after each call, the cache lines that may not be durable are dropped in
every combination (for more than --lines lines, in a sample of --samples combinations).  The model's recovery runs, and
each file must be in its old or its new state.  Exit code 0: every state is as promised, or nothing is promised; 1: a
promise is broken (see the smallest counterexample, with its cause if known: file system or model); 2: usage error.""",
)
@click.argument("trace")
@click.option(
    "--fs", required=True, help="File systems with a modelled guarantee, separated by commas; a wrong name lists them."
)
@click.option("--ops", default="", metavar="FIRST-LAST", help="Operations to check, counted from 0.  [default: all]")
@lines_option(8, 24)
@samples_option(128, 1 << 24)
@seed_option
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="[FS.]KEY=VALUE",
    help="A parameter of all file systems, or only of FS; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; a list for several file systems.")
def command(trace: str, fs: str, ops: str, assignments: tuple[str, ...], as_json: bool, **bounds: Any) -> int:
    from scmsim.cli._progress import Progress
    from scmsim.crash import check, recovery_model_of

    first, stop = _range(ops)
    names = list(dict.fromkeys(name.strip() for name in fs.split(",") if name.strip())) or [fs]
    for name in names:
        recovery_model_of(name)
    given = {name: _params(name, names, assignments) for name in names}
    reports = []
    with Progress() as progress:
        for name in names:
            reports.append(check(trace, name, params=given[name], first=first, stop=stop, progress=progress, **bounds))
            if first and not reports[-1].operations + reports[-1].not_checked:
                raise UsageError(f"--ops {ops!r}: the trace ends before operation {first}; see 'scmsim trace info'")
    return conclude(reports, as_json, _print)


def _range(text: str) -> tuple[int, int]:
    """Parse "3" or "3-9" to [first, stop)."""
    if not text:
        return 0, 1 << 62
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(text) > 40 or int(last or first) < int(first):
        raise UsageError(f"--ops {text!r}: write a number or a range such as 10-19, counted from 0")
    return int(first), int(last or first) + 1


def _params(fs: str, names: list[str], assignments: tuple[str, ...]) -> dict[str, str]:
    """Return one file system's parameters: the assignments FS.KEY=VALUE for it, and KEY=VALUE for all file systems."""
    params = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        model, dot, key = name.rpartition(".")
        if not equals:
            raise UsageError(f"--set {text!r}: write KEY=VALUE, e.g. capacity=1GiB")
        if dot and model not in names:
            raise unknown("file system in this check", model, names)
        if model in ("", fs):
            params[key] = value
    return params


def _print(report: Any) -> None:
    sampled = f", a sample at {report.sampled_points:,} of them" if report.sampled_points else ""
    click.echo(f"{report.fs}: {report.claim}")
    click.echo(
        f"{report.operations:,} calls, {report.crash_points:,} crash points{sampled}; {report.states:,} states looked at of "
        f"{report.possible_states:,}{' or more' if report.possible_states >= 10**18 else ''}"
    )
    if report.unknown_pages:
        files = sorted(report.unknown_files, key=lambda file: -report.unknown_files[file])
        shown = ", ".join(printable(file) for file in files[:3]) + (", ..." if len(files) > 3 else "")
        click.echo(
            f"{report.unknown_pages:,} pages, over all states, of {shown} are not compared: {report.unknown_why}"
        )
    if report.not_checked:
        click.echo(f"{report.not_checked:,} calls not checked: a file of theirs had failed before")
    if not report.failing_states:
        click.echo("every state is as promised" if report.promised else "nothing is promised, and nothing was found")
        return
    if report.promised:
        click.echo(f"{report.failing_states:,} states of {report.failing_operations:,} calls are not as promised")
    else:
        click.echo(f"nothing is promised; {report.failing_states:,} states of {report.failing_operations:,} calls show")
        for kind, states in sorted(report.found.items()):
            click.echo(f"  {states:,} {kind}")
    for failure in report.failures:
        click.echo(f"\n{failure.kind + ': ' if not report.promised else ''}call {failure.operation}: {failure.call}")
        click.echo(f"  crash before event {failure.event}, {failure.before}")
        click.echo(f"  lost: {', '.join(failure.lost) if failure.lost else 'nothing'}")
        click.echo(f"  {failure.file} {failure.wrong}")
        click.echo(f"  states of this call that fail: {failure.states:,}")
        if failure.blame:
            click.echo(f"  to blame: {failure.blame}")
