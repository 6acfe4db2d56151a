"""`scmsim compare`: compare a simulation with a measurement, or two results of one kind."""

import re

import click

from scmsim.cli._figures import figure_format
from scmsim.cli._results import read_results
from scmsim.core.errors import UsageError, unknown

SUMMARY = "Compare a simulation with a measurement, cell by cell; exit code 1 if they disagree or share nothing."


@click.command(
    "compare",
    help=f"""{SUMMARY}

SIM and MEASURED are results (.json, .parquet) or folders of results of replay, perf run, perf import, lab run or lab
tlb; use perf import for perf's own output. Two simulations must be equal unless --tolerance allows a difference.
Cells are aligned by file system, operation, file size and unit.""",
)
@click.argument("simulated", metavar="SIM", type=click.Path())
@click.argument("measured", metavar="MEASURED", type=click.Path())
@click.option(
    "--events", help="Counters and metrics to compare, separated by commas, or all.  [default: those with a tolerance]"
)
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    metavar="COUNTER=PERCENT",
    help="Largest difference, e.g. instructions=5%, or all=0%.  [default: the replay's 90 % interval, else fixed]",
)
@click.option(
    "--fs",
    "systems",
    multiple=True,
    metavar="OLD=NEW",
    help="Compare OLD of MEASURED with NEW of SIM, e.g. nova=nova-cow.",
)
@click.option(
    "--ignore",
    multiple=True,
    type=click.Choice(["fs", "operation", "file", "unit"]),
    help="Ignore this key when cells are aligned.",
)
@click.option("--by", type=click.Choice(["op"]), help="Compare each kind of operation of a trace (replay --by op).")
@click.option("--summary", is_flag=True, help="Show each counter's ratios and verdicts, and rows with verdict out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--figures", type=click.Path(), metavar="DIR", help="Draw the thesis' figures of both results into DIR.")
@click.option("--junit", type=click.Path(), metavar="F.xml", help="Write the verdicts as JUnit XML, for CI.")
@figure_format
def command(
    simulated: str,
    measured: str,
    events: str | None,
    tolerances: tuple[str, ...],
    systems: tuple[str, ...],
    ignore: tuple[str, ...],
    by: str | None,
    summary: bool,
    as_json: bool,
    figures: str | None,
    junit: str | None,
    suffix: str,
) -> int:
    import json

    from scmsim.compare import compare
    from scmsim.compare.table import text
    from scmsim.core import atomic

    if junit:
        atomic.writable(junit)
    limits = dict(map(_tolerance, tolerances))
    names = dict(map(_rename, systems))
    wanted = [name.strip() for name in events.split(",") if name.strip()] if events else []
    parts = [{"file": "file_bytes", "unit": "unit_bytes"}.get(part, part) for part in ignore]
    if figures:
        from scmsim.plot import panels as drawing
        from scmsim.plot.files import check_folder

        check_folder(figures)
    sides = {"simulated": read_results(simulated)}
    machines = dict.fromkeys(run.machine for run in sides["simulated"].runs if run.machine)
    sides["measured"] = read_results(measured, machines)
    _check_renamed(names, {run.fs for run in sides["measured"].runs})
    for run in sides["measured"].runs:
        run.fs = names.get(run.fs, run.fs)
    if by:
        from scmsim.result.cells import by_operation

        sides = {name: by_operation(side) for name, side in sides.items()}
    found = compare(*sides.values(), events=wanted, tolerances=limits, ignore=parts)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        click.echo(text(found, rows=not summary))
    if junit:
        from scmsim.export import junit as verdicts

        verdicts.write(junit, "scmsim compare", verdicts.of_comparison(found))
    if figures:
        quantities = [*(each.quantity for each in found.quantities()), *found.absent] if wanted else []
        drawn = drawing.draw(
            dict(zip(found.sides, sides.values(), strict=True)), figures, suffix, quantities=quantities, ignore=parts
        )
        if drawn.paths:
            click.echo(f"{len(drawn.paths)} figures in {figures}", err=True)
        if drawn.left_out:
            click.echo(f"scmsim: warning: {drawn.summary()}", err=True)
    return 0 if found.verdict == "ok" else 1


def _tolerance(text: str) -> tuple[str, float]:
    """Parse "instructions=5%" to ("instructions", 5.0)."""
    match = re.fullmatch(r"(.+)=(\d{1,6}(?:\.\d{1,6})?) ?%?", text)
    if not match:
        raise UsageError(f"{text!r} is not COUNTER=PERCENT; write it like instructions=5%")
    return match[1], float(match[2])


def _check_renamed(names: dict[str, str], known: set[str]) -> None:
    """Raise UnknownName for a file system that the measured side does not have."""
    for old in names:
        if old not in known:
            raise unknown("file system in MEASURED", old, sorted(known))


def _rename(text: str) -> tuple[str, str]:
    """Parse "nova=nova-cow" to ("nova", "nova-cow")."""
    old, _, new = text.partition("=")
    if not (old and new):
        raise UsageError(f"{text!r} is not OLD=NEW; write it like nova=nova-cow")
    return old, new
