"""`scmsim lab caches`: compare a replay's data-cache misses with those of a real kernel."""

from typing import Any

import click

from scmsim.cli.lab._guests import beside_options, checked, guest_options, run_guests, warn

SUMMARY = "Compare a replay's data-cache misses with a real kernel's; exit code 1 if they disagree."


@click.command(
    "caches",
    help=f"""{SUMMARY}

TRACE runs on each file system of a real kernel, and every load and store goes through the data caches of each machine.
The counts are compared with a replay of the same trace, with --caches on and with costs and footprints of that kernel.
-o keeps cache lines and counts, so the same command resumes a stopped run, and another machine needs no new guest. Given
such a FOLDER instead of TRACE, the command shows the results in it and runs nothing.

A ratio is replay / real: it must be within a factor of 1.25 for misses of L1 and L2, and of 1.5 for the last level. If
both counts are too small for a verdict, the verdict is "few".

\b
Example: scmsim lab caches traces/varmail.parquet --fs ext4-dax,tmpfs --machine i7-8700k,zen2 -o caches
         scmsim lab caches caches --by region
""",
)
@click.argument("trace", metavar="TRACE|FOLDER", type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="Folder for caches.json, the lines and the guests' results.")
@beside_options
@click.option("--machine", help="Machines to simulate: names or .toml files.  [default: i7-8700k]")
@click.option(
    "--footprints",
    metavar="KERNEL",
    help="Footprints of the replay, or none.  [default: the guest kernel's, with cache lines, e.g. 6.1-lines]",
)
@guest_options
@click.option("--by", type=click.Choice(["region"]), help="Show the rows of each cell too.")
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Format of output.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(trace: str, **given: Any) -> int:
    import json
    import pathlib

    from scmsim.result.tables.layout import terminal_width
    from scmsim.study.caches import card

    made = card.read(trace) if pathlib.Path(trace).is_dir() else _made(trace, given)
    if given["as_json"]:
        click.echo(json.dumps(made, allow_nan=False))
    else:
        click.echo(card.text(made, bool(given["by"]), given["form"], terminal_width()))
    return 0 if card.agrees(made["cells"]) else 1


def _made(trace: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run the guests whose results are not in the folder -o yet, and return the comparison."""
    from scmsim.cli._progress import Progress
    from scmsim.lab import lines
    from scmsim.pipeline.arguments import check_footprints, machine_table
    from scmsim.study.caches.judge import judge, with_lines
    from scmsim.study.tlb.judge import taken_from

    names, machines, params = checked(given)
    for machine in machines:
        lines.check(machine, machine_table(machine))
    check_footprints(given["footprints"])
    kernel = run_guests(trace, names, given, lines=True)
    chosen = taken_from(kernel, names, params, given["footprints"] or with_lines(kernel))
    warn(chosen)
    with Progress("runs") as progress:
        return judge(
            trace, given["out"], names, machines, params=chosen.params, footprints=chosen.footprints, progress=progress
        )
