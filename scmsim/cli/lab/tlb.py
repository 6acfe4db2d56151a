"""`scmsim lab tlb`: compare a replay's TLB misses with those of a real kernel's address stream."""

from typing import Any

import click

from scmsim.cli.lab._guests import beside_options, checked, guest_options, run_guests, warn

SUMMARY = "Compare a replay's TLB misses with those of a real kernel's accesses; exit code 1 if they disagree."


@click.command(
    "tlb",
    help=f"""{SUMMARY}

TRACE runs on each file system of a real kernel, and every load and store goes through the MMU of each machine. The
counts are compared with a replay of the same trace, with costs and footprints of that kernel (replay --kernel).
-o keeps streams and counts, so the same command resumes a stopped run, and another machine needs no new guest. Given
such a FOLDER instead of TRACE, the command shows the results in it and runs nothing.

A ratio is replay / real: it must be within a factor of 1.25 for first-level misses and 1.5 for walks. If both counts
are too small, the verdict is "few". Each boot places the kernel's objects differently, which changes first-level misses
by up to three times: --boots runs several boots and compares their geometric mean.

\b
Example: scmsim lab tlb traces/varmail.parquet --fs ext4-dax,tmpfs --machine i7-8700k,zen2 -o tlb
         scmsim lab tlb tlb --by region
""",
)
@click.argument("trace", metavar="TRACE|FOLDER", type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="Folder for tlb.json, the streams and the guests' results.")
@beside_options
@click.option("--machine", help="Machines to simulate: names or .toml files.  [default: i7-8700k]")
@click.option("--paging", help="How the replay maps memory (scmsim list paging).  [default: each file system's choice]")
@click.option(
    "--footprints",
    metavar="KERNEL",
    help="Footprints of the replay (scmsim replay), or none; for several (commas), the geometric mean is compared.  "
    "[default: those of the guest's kernel, or of the nearest measured series]",
)
@click.option(
    "--boots",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Boots per file system, each with its own placement of kernel objects; compared by geometric mean.",
)
@guest_options
@click.option("--by", type=click.Choice(["region", "page", "mechanism"]), help="Show the rows of each cell too.")
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Format of output.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
@click.option("--chart", type=click.Path(), help="Draw the counts into F.svg, F.png, F.pdf or F.html.")
def command(trace: str, **given: Any) -> int:
    import json
    import pathlib

    from scmsim.plot import tlb as chart
    from scmsim.result.tables.layout import terminal_width
    from scmsim.study.tlb import card, table

    if given["chart"]:
        chart.check(given["chart"])
    made = card.read(trace) if pathlib.Path(trace).is_dir() else _made(trace, given)
    if given["as_json"]:
        click.echo(json.dumps(made, allow_nan=False))
    else:
        click.echo(table.text(made, given["by"], given["form"], terminal_width()))
    if given["chart"]:
        chart.draw(made["cells"], given["chart"])
    return 0 if card.agrees(made["cells"]) else 1


def _made(trace: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run the guests whose results are not in the folder -o yet, and return the comparison."""
    from scmsim.cli._progress import Progress
    from scmsim.lab.machine import Window
    from scmsim.pipeline.arguments import check_footprints
    from scmsim.study.tlb.judge import judge, taken_from

    names, machines, params = checked(given)
    touched = [word.strip() for word in given["footprints"].split(",")] if given["footprints"] else [None]
    for each in touched:
        check_footprints(each)
    kernel = run_guests(trace, names, given, given["boots"], window=Window(1, 1, calls=True))
    chosen, *others = [taken_from(kernel, names, params, each) for each in touched]
    warn(chosen)
    with Progress("runs") as progress:
        return judge(
            trace, given["out"], names, machines, boots=given["boots"],
            paging=given["paging"], params=chosen.params, progress=progress,
            footprints=[each.footprints for each in (chosen, *others)],
        )  # fmt: skip
