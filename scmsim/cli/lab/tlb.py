"""`scmsim lab tlb`: a replay's TLB misses beside those of a real kernel's address stream."""

from typing import Any

import click

SUMMARY = "Judge a replay's TLB misses by a real kernel's address stream; exit code 1 if they disagree."


@click.command(
    "tlb",
    help=f"""{SUMMARY}

TRACE runs on each file system of a real kernel; every load and store goes through the MMU of each machine, and a replay of the same
trace is set beside it. -o keeps streams and counts: the same command goes on where it was stopped, and runs no guest
again for another machine. TRACE may be such a folder: then what it holds is shown and nothing runs.

A ratio is replay / real: first-level misses are to be within 1.25, walks within 1.5. Where both counts are too few to tell,
the word is "few".

\b
Example: scmsim lab tlb traces/varmail.parquet --fs ext4-dax,tmpfs --machine i7-8700k,zen2 -o tlb
         scmsim lab tlb tlb --by region
""",
)
@click.argument("trace", metavar="TRACE|FOLDER", type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="Folder for tlb.json, the streams and the guests' results.")
@click.option("--fs", help="File systems of the lab that are models too, separated by commas.  [default: ext4-dax]")
@click.option("--machine", help="Whose TLB and page walker; names or .toml files.  [default: i7-8700k]")
@click.option(
    "--paging", help="How the replay maps memory (scmsim list paging).  [default: as each file system wants it]"
)
@click.option(
    "--set", "assignments", multiple=True, metavar="MODEL.KEY=VALUE", help="A parameter of the replay; may be repeated."
)
@click.option(
    "--footprints", metavar="KERNEL", help="Of the replay: as in scmsim replay; none is without.  [default: 6.1]"
)
@click.option("--jobs", "workers", type=click.IntRange(1, 256), help="Guests at a time.  [default: CPUs]")
@click.option("--timeout", help="Of one guest, e.g. 10min.  [default: 30min]")
@click.option("--kernel", "package", type=click.Path(), help="Debian kernel package instead of the chosen one.")
@click.option("--kernel-image", "image", type=click.Path(), help="Any bzImage instead.")
@click.option("--modules", type=click.Path(), help="Modules of that image: lib/modules/RELEASE.")
@click.option("--systems", type=click.Path(), help="More file systems: a TOML table like the lab's systems.toml.")
@click.option("--by", type=click.Choice(["region", "page", "mechanism"]), help="Show the rows of each cell too.")
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Of what is printed.")
@click.option("--json", "as_json", is_flag=True, help="Print the card as JSON.")
@click.option("--chart", type=click.Path(), help="Draw the counts into F.svg, F.png, F.pdf or F.html.")
def command(trace: str, **given: Any) -> int:
    import json
    import pathlib

    from scmsim.result.tables.layout import terminal_width
    from scmsim.study.tlb import card, chart, table

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
    """Run what the folder lacks."""
    import dataclasses
    import os

    from scmsim.cli._progress import Progress
    from scmsim.cli.lab.run import _progress, _setting
    from scmsim.cli.replay import _params
    from scmsim.core import registry
    from scmsim.core.errors import UsageError
    from scmsim.core.units import parse_time
    from scmsim.footprint import DEFAULT
    from scmsim.lab import job as jobs
    from scmsim.lab import runner, systems
    from scmsim.lab.machine import Window
    from scmsim.pipeline.arguments import check_footprints, machine_table, models_of, opened
    from scmsim.study.tlb.judge import judge

    if not given["out"]:
        raise UsageError("no folder for the streams; give one with -o")
    names = jobs.systems_of(given["fs"] or "ext4-dax")
    machines = registry.select("machine", given["machine"] or "i7-8700k")
    params = _params(given["assignments"])
    rows = systems.load(given["systems"])
    chosen = {name: systems.get(rows, name) for name in names}
    for name in names:
        registry.path("fs", name)
    for machine in machines:
        machine_table(machine)
        known = models_of(names, machine, given["paging"])
        for target in params:
            if target not in known:
                raise UsageError(f"--set {target}...: no model of this replay; there are {', '.join(sorted(known))}")
    footprints = None if given["footprints"] == "none" else given["footprints"] or DEFAULT
    check_footprints(footprints)
    opened(trace)
    timeout_s = parse_time(given["timeout"]) / 1e9 if given["timeout"] else jobs.Job.timeout_s
    job = jobs.Job(names, trace, timeout_s=timeout_s)
    setting = _setting(job, {**given, "stream": None}, any(system.dax for system in chosen.values()))
    setting = dataclasses.replace(setting, window=Window(1, 1, calls=True))
    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(names))
    with _progress() as show:
        runner.run(job, setting, chosen, given["out"], workers=workers, inputs=[trace], progress=show)
    with Progress("runs") as progress:
        return judge(
            trace, given["out"], names, machines,
            paging=given["paging"], params=params, footprints=footprints, progress=progress,
        )  # fmt: skip
