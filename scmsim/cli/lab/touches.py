"""`scmsim lab touches`: record which pages each call of a trace touches on a real kernel."""

from typing import Any

import click

from scmsim.cli.lab._guests import cpus_option, guest_options, run_guests

SUMMARY = "Record which pages each call of a trace touches on a real kernel, by function and kind of object."


@click.command(
    "touches",
    help=f"""{SUMMARY}

TRACE runs on each file system. For every call, the first touch of each page is recorded in order, and again after every
--within page runs: address, page size, region of the address space, slab cache and the function that touched it. -o has
a table for each file system (FS-1.touches.parquet); the same command resumes a stopped run.

\b
Example: scmsim lab touches traces/varmail.parquet --fs ext4-dax,tmpfs -o touches
""",
)
@click.argument("trace", type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="Folder for the tables and the guests' results.")
@click.option("--fs", help="File systems, separated by commas.  [default: ext4-dax]")
@click.option(
    "--within",
    default=1000,
    show_default=True,
    type=click.IntRange(1, 1 << 40),
    help="Page runs after which a page's touch is recorded again.",
)
@click.option(
    "--boot",
    default=1,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Number of the boot; each boot places the kernel's objects differently.",
)
@cpus_option
@guest_options
@click.option("--json", "as_json", is_flag=True, help="Print the sums as JSON.")
def command(trace: str, **given: Any) -> None:
    import json
    import pathlib

    from scmsim.lab import job, touches
    from scmsim.result.tables import layout

    names = job.systems_of(given["fs"] or "ext4-dax")
    run_guests(trace, names, given, touches=given["within"], boot=given["boot"])
    sums = {name: touches.sums(pathlib.Path(given["out"]) / f"{name}-1{touches.SUFFIX}") for name in names}
    if as_json := given["as_json"]:
        click.echo(json.dumps(sums))
    for name, rows in sums.items() if not as_json else ():
        cells = [[" ".join(filter(None, row[:2])), f"{row[2]:,.2f}", f"{row[3]:,}"] for row in rows]
        click.echo(layout.grid([[name, "touches a call", "pages"], *cells]))
