"""`scmsim perf figures`: draw the thesis' figures from measurements only."""

import click

from scmsim.cli._figures import figure_format
from scmsim.cli._results import read_results
from scmsim.core.errors import UsageError

SUMMARY = "Draw the thesis' nine figures from a result of perf run or perf import."


@click.command(
    "figures",
    help=f"""{SUMMARY}

RESULT is a result (.json, .parquet) or a folder of results. To add a simulation, use scmsim compare --figures.""",
)
@click.argument("result", type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), metavar="DIR", help="Folder for the figures.")
@click.option("--operation", "operations", multiple=True, help="Only this operation; may be repeated.  [default: all]")
@click.option("--events", help="Counters and metrics to draw, separated by commas.  [default: the thesis' Table 7]")
@figure_format
@click.option("--json", "as_json", is_flag=True, help="Print JSON: figures, left_out.")
def command(result: str, out: str, operations: tuple[str, ...], events: str | None, suffix: str, as_json: bool) -> None:
    import json

    from scmsim.plot import panels
    from scmsim.plot.files import check_folder

    check_folder(out)
    quantities = [name.strip() for name in events.split(",") if name.strip()] if events else []
    drawn = panels.draw({"measured": read_results(result)}, out, suffix, quantities=quantities, operations=operations)
    if as_json:
        click.echo(json.dumps({"figures": [str(path) for path in drawn.paths], "left_out": drawn.left_out}, indent=2))
    else:
        for path in drawn.paths:
            click.echo(str(path))
        if drawn.left_out:
            click.echo(f"scmsim: warning: {drawn.summary()}", err=True)
    if not drawn.paths:
        raise UsageError(
            f"nothing to draw in {result!r}: no run records its operation, file size and unit together with a metric"
        )
