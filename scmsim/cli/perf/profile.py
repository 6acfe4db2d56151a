"""`scmsim perf profile`: show where in the file system a program's events happen."""

from typing import TYPE_CHECKING, Any

import click

from scmsim.core.errors import UsageError, unknown

if TYPE_CHECKING:
    from scmsim.perf.profile import Sites

SUMMARY = "Profile a program by kernel function and by the mechanisms of the models."

_DEFAULT = "dTLB-load-misses"


@click.command(
    "profile",
    help=f"""{SUMMARY}

    With --fs, each sample is attributed to a mechanism of that file system (log scan, journal, copy ...). --against
    also shows the shares that a simulation predicts. Without a PMU, try --event cpu-clock.

    \b
    Example: scmsim perf profile --fs nova-cow -- ./file_write /mnt/nova/f 24 1
    """,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-e", "--event", default=_DEFAULT, show_default=True, help="perf event to sample.")
@click.option("--fs", help="Attribute samples to the mechanisms of this file system (scmsim list fs).")
@click.option(
    "-c", "--period", default=0, type=click.IntRange(0, 1 << 40), help="Events for each sample; 0: perf chooses."
)
@click.option(
    "--call-graph",
    "graph",
    default="fp",
    show_default=True,
    type=click.Choice(["fp", "dwarf", "lbr"]),
    help="How perf walks the stack.",
)
@click.option("--against", type=click.Path(), help="Result of a simulation, to show its shares too.")
@click.option("--counter", help="Counter of that result (default: the one that the event measures).")
@click.option(
    "-n", "--symbols", default=20, show_default=True, type=click.IntRange(0), help="Number of functions to show."
)
@click.option("-o", "--out", type=click.Path(), help="Also write the result: .json, .csv or .parquet.")
@click.option(
    "--from", "recorded", type=click.Path(), help="Read this output of perf script instead of running a program."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.argument("command_line", metavar="[CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(
    event: str,
    fs: str | None,
    period: int,
    graph: str,
    against: str | None,
    counter: str | None,
    symbols: int,
    out: str | None,
    recorded: str | None,
    as_json: bool,
    command_line: tuple[str, ...],
) -> None:
    from scmsim.perf import profile
    from scmsim.perf.event_names import fields
    from scmsim.result import Result, check_writable, provenance

    if bool(recorded) == bool(command_line):
        given = "both a command and --from" if recorded else "neither a command nor --from"
        raise UsageError(f"{given}; give either a command after '--' or --from FILE")
    if fs:
        profile.map_for(fs)
    if out:
        check_writable(out)
    found = _reduce(recorded, fs) if recorded else profile.record(command_line, event, fs, period=period, graph=graph)
    supplied = {name: fields(name.split(":")[0]) for name in found.own}
    if found.lost:
        click.echo(f"scmsim: warning: perf lost samples: {found.lost}; take a larger --period", err=True)
    run = profile.as_run(found, fs or "unknown", command_line, supplied)
    result = Result(
        provenance.build([recorded] if recorded else [], harness={"backend": "profile", "event": event}), [run]
    )
    if out:
        result.write(out)
    if as_json:
        click.echo(result.to_json())
        return
    for name in found.own:
        predicted = _predicted(against, fs, counter or supplied[name][0]) if against else None
        click.echo("\n".join(_table(found, name, predicted, symbols)))


def _reduce(path: str, fs: str | None) -> "Sites":
    from scmsim.perf import profile

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return profile.reduced(file, fs)
    except OSError as error:
        raise UsageError(f"cannot read {path!r}: {(error.strerror or str(error)).lower()}") from None


def _predicted(path: str, fs: str | None, counter: str) -> dict[str, float]:
    """Return the share of each mechanism in a simulated counter, in percent."""
    from scmsim.result import read

    runs = [run for run in read(path).runs if run.fs == fs]
    if not runs:
        raise UsageError(f"{path!r} has no run of {fs!r}; give --fs as in the simulation")
    counts = {site: counters.get(counter) for site, counters in runs[0].sites.items()}
    if not any(counts.values()):
        known = sorted({name for counters in runs[0].sites.values() for name, count in counters.items() if count})
        raise unknown("counter by mechanism in that result", counter, known)
    total = sum(count or 0 for count in counts.values())
    return {site: 100 * (count or 0) / total for site, count in counts.items()}


def _table(found: "Sites", event: str, predicted: dict[str, float] | None, symbols: int) -> list[str]:
    """Return a table's lines: the measured and predicted share of each mechanism, then the functions."""
    from scmsim.perf.profile import ELSEWHERE, PROGRAM

    total = found.profile.events[event]
    lines = [
        f"{event}: {total:,} events in {sum(row.samples for row in found.profile.rows if row.event == event):,} samples"
    ]
    sites: dict[str, Any] = dict.fromkeys([*found.own[event], *(predicted or {})])
    if set(sites) - {ELSEWHERE, PROGRAM} or predicted:
        lines.append(f"{'measured':>9}{'  predicted' if predicted else ''}  mechanism")
        for site in sites:
            expected = f"{predicted[site]:>9.2f} %" if predicted and site in predicted else " " * 11
            lines.append(f"{found.share(event, site):>7.2f} %{expected if predicted else ''}  {site}")
    rows = [row for row in found.profile.rows if row.event == event and row.own][:symbols]
    if rows:
        lines.append(f"{'alone':>9}{'with callees':>14}  function")
    for row in rows:
        share = 100 * row.total / total if total else 0.0
        lines.append(f"{found.profile.share(row):>7.2f} %{share:>12.2f} %  {row.symbol} ({row.dso})")
    return lines
