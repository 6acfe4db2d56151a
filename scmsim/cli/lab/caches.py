"""`scmsim lab caches`: compare a replay's misses of data caches with those of a real kernel's lines."""

from typing import Any

import click

from scmsim.cli.lab._guests import beside_options, checked, guest_options, run_guests, warn

SUMMARY = "Judge a replay's misses of data caches by a real kernel's lines; exit code 1 if they disagree."


@click.command(
    "caches",
    help=f"""{SUMMARY}

TRACE runs on each file system of a real kernel; every load and store goes through the data caches of each machine, and a replay of
the same trace with --caches on, costs and footprints of that kernel, is set beside it. -o keeps lines and counts: the same command
goes on where it was stopped, and runs no guest again for another machine. TRACE may be such a folder: then what it holds is shown
and nothing runs.

A ratio is replay / real: misses of L1 and L2 are to be within 1.25, those of the last level within 1.5. Where both counts are too
few to tell, the word is "few".

\b
Example: scmsim lab caches traces/varmail.parquet --fs ext4-dax,tmpfs --machine i7-8700k,zen2 -o caches
         scmsim lab caches caches --by region
""",
)
@click.argument("trace", metavar="TRACE|FOLDER", type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="Folder for caches.json, the lines and the guests' results.")
@beside_options
@click.option("--machine", help="Whose data caches; names or .toml files.  [default: i7-8700k]")
@click.option(
    "--footprints",
    metavar="KERNEL",
    help="Of the replay, as in scmsim replay; or none.  [default: those with lines of the kernel that runs, as 6.1-lines]",
)
@guest_options
@click.option("--by", type=click.Choice(["region"]), help="Show the rows of each cell too.")
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Of what is printed.")
@click.option("--json", "as_json", is_flag=True, help="Print the card as JSON.")
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
    """Run the guests that the folder lacks, and compare."""
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
