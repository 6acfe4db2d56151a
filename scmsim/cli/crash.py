"""`scmsim crash`: what crashes may leave of a file system's files."""

import json
from typing import Any

import click

SUMMARY = "Crash a file system at every fence of a trace, recover, and check what it promises."


@click.command(
    "crash",
    help=f"""{SUMMARY}

TRACE is a stored trace.  Before each fence and after each call, the lines that may not have arrived are lost in every combination
(up to --lines of them; a sample of --samples states beyond), the model's recovery runs, and each file must be in its old or its new
state.  Exit code 1: it is not, and the smallest counterexample is printed.""",
)
@click.argument("trace")
@click.option("--fs", required=True, help="A file system with a modelled guarantee (named if there is none).")
@click.option("--ops", default="", metavar="FIRST-LAST", help="Operations to look at, counted from 0.  [default: all]")
@click.option(
    "--lines", default=8, show_default=True, type=click.IntRange(0, 24), help="All states for up to so many lost lines."
)
@click.option(
    "--samples",
    default=128,
    show_default=True,
    type=click.IntRange(2, 1 << 24),
    help="States of a crash point with more lines.",
)
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0, (1 << 62) - 1), help="Of the draw of samples."
)
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A parameter of the model; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def command(trace: str, fs: str, ops: str, assignments: tuple[str, ...], as_json: bool, **bounds: Any) -> int:
    from scmsim.cli._progress import Progress
    from scmsim.crash import check
    from scmsim.errors import UsageError

    first, stop = _range(ops)
    with Progress() as progress:
        report = check(trace, fs, params=_params(fs, assignments), first=first, stop=stop, progress=progress, **bounds)
    if first and not report.operations + report.not_checked:
        raise UsageError(f"--ops {ops}: the trace ends before; see 'scmsim trace info'")
    if as_json:
        click.echo(json.dumps(report.to_dict()))
    else:
        _print(report)
    return 1 if report.failing_states and report.promised else 0


def _range(text: str) -> tuple[int, int]:
    """[first, stop) of "3", "3-9"."""
    from scmsim.errors import UsageError

    if not text:
        return 0, 1 << 62
    first, dash, last = text.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(text) > 40 or int(last or first) < int(first):
        raise UsageError(f"--ops {text!r}: write a number or a range such as 10-19, counted from 0")
    return int(first), int(last or first) + 1


def _params(fs: str, assignments: tuple[str, ...]) -> dict[str, str]:
    from scmsim.errors import UsageError

    params = {}
    for text in assignments:
        key, equals, value = text.removeprefix(f"{fs}.").partition("=")
        if not equals:
            raise UsageError(f"--set {text!r}: write KEY=VALUE, e.g. capacity=1GiB")
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
        click.echo(f"{report.unknown_pages:,} pages not compared: the model departs from the file system there")
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
