"""`scmsim zoo`: replay the bundled traces and workloads on every file system; write one page and one table."""

import json
import pathlib
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from scmsim.zoo import Zoo

SUMMARY = "Replay the shipped traces and workloads on every file system; one table and one page, with hashes."


@click.command(
    "zoo",
    help=f"""{SUMMARY}

A run takes a minute of CPU time, and about 4 more the first time, to compile the models.  Run the same command again to
resume a stopped run.  Replays that cannot run are left out with the reason, and the exit code is then 1.""",
)
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder for zoo.md, zoo.svg, zoo.csv and the sweep's files."
)
@click.option("--fs", default="all", show_default=True, help="File systems: names and patterns, ext4,'nova*'.")
@click.option("--trace", default="all", show_default=True, help="Traces and workloads: names and patterns.")
@click.option("--jobs", type=click.IntRange(1), help="Replays at once.  [default: as many as CPUs]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: entries, rows, classes, sha256.")
def command(out: str, fs: str, trace: str, jobs: int | None, as_json: bool) -> int:
    from scmsim import zoo
    from scmsim.cli._progress import points
    from scmsim.core import registry, resumable
    from scmsim.zoo import page

    entries, names = zoo.chosen(trace), registry.select("fs", fs)
    with points() as progress:
        found = zoo.gathered(entries, names, out, jobs=jobs or 0, progress=progress)
    folder = pathlib.Path(out)
    picture = _picture(found)
    if picture:
        resumable.write(folder / page.PICTURE, picture.decode())
    resumable.write(folder / "zoo.md", page.text(found, picture=bool(picture)))
    resumable.write(folder / "zoo.csv", page.table(found))
    failed = [row for row in found.rows if row.error]
    if as_json:
        click.echo(json.dumps({**asdict(found), "sha256": found.sha256}, indent=2))
    else:
        click.echo(
            f"{len(found.rows) - len(failed):,} of {len(found.rows):,} replays in {folder / 'zoo.md'}, sha256 {found.sha256}"
        )
        for row in failed:
            click.echo(f"scmsim: {row.entry} on {row.fs}: {row.error}", err=True)
    return 1 if failed else 0


def _picture(found: "Zoo") -> bytes:
    """Return the picture of the page; without the drawing library, warn and return no bytes."""
    from scmsim.core.errors import EnvironmentProblem
    from scmsim.zoo import chart

    try:
        return chart.svg(found)
    except EnvironmentProblem as problem:
        click.echo(f"scmsim: zoo.md has no picture: {problem}", err=True)
        return b""
