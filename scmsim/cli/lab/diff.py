"""`scmsim lab diff`: count how the work of two kernels differs for the same calls."""

import pathlib
from typing import TYPE_CHECKING, Any

import click

from scmsim.cli.lab._guests import job_of, job_options, make_folder, misses_of, run_job, run_options, setting_with
from scmsim.core import atomic
from scmsim.core.errors import EnvironmentProblem, UsageError

if TYPE_CHECKING:
    from scmsim.lab.job import Job
    from scmsim.lab.systems import System

SUMMARY = "Show how the work of two kernels differs for the same calls; exit code 1 beyond a limit."
_OF = ("instructions", "loads", "stores", "stored-bytes", "write-backs", "fences", "l1-misses", "walks")
_CANNOT_TEST = 125  # git bisect run skips such a commit


@click.command(
    "diff",
    help=f"""{SUMMARY}

A and B are kernels (a kept version such as 6.12, see scmsim lab setup --release; FILE.deb; IMAGE[:MODULES]) or folders
of lab run. JOB is a stored trace, a job file or a shipped job, as for 'lab run'. The folder -o keeps the results of all
guests; diff.json has every row, and FS.folded has the stacks for flamegraph.pl.

\b
Example: scmsim lab diff 6.1 6.12 smoke --fs ext4-dax,xfs-dax -o diff
         scmsim lab diff 6.1 6.12 smoke --machine i7-8700k --of walks -o diff
         scmsim lab diff good/ arch/x86/boot/bzImage smoke --limit 5% -o diff
""",
)
@click.argument("a")
@click.argument("b")
@click.argument("job")
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder for diff.json, stacks and the guests' results."
)
@job_options
@run_options
@click.option(
    "--by", type=click.Choice(["function", "mechanism", "task"]), default="function", help="Rows of the lower table."
)
@click.option(
    "--of",
    type=click.Choice(_OF),
    default="instructions",
    help="Counter to show for both kernels: in the tables, in FS.folded and in the chart.",
)
@click.option("--top", type=click.IntRange(0), default=12, show_default=True, help="Rows to show per file system.")
@click.option(
    "--limit", help="Exit with 1 if an operation's counter (not misses) rises by more than this on B, e.g. 5%."
)
@click.option("--bisect", is_flag=True, help="Exit with 125 if a kernel cannot be measured (for git bisect run).")
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Format of output.")
@click.option("--json", "as_json", is_flag=True, help="Print diff.json.")
@click.option("--junit", type=click.Path(), metavar="F.xml", help="Write the verdicts as JUnit XML, for CI.")
@click.option("--chart", type=click.Path(), help="Draw the largest differences into F.svg, F.png, F.pdf or F.html.")
def command(a: str, b: str, job: str, **given: Any) -> int:
    limit = _share(given["limit"]) if given["limit"] else None
    try:
        return _compared(a, b, job, limit, given)
    except (EnvironmentProblem, UsageError) as error:
        if not given["bisect"]:
            raise
        click.echo(f"scmsim: cannot be measured: {error}", err=True)
        return _CANNOT_TEST


def _compared(a: str, b: str, job: str, limit: float | None, given: dict[str, Any]) -> int:
    import json

    from scmsim.core.resumable import write
    from scmsim.lab import diff, diff_table
    from scmsim.plot import lab_diff as chart

    of = next(name for name in (*diff.COMPARED, *diff.MISSES) if name.lower().replace(" ", "-") == given["of"])
    if of in diff.MISSES and not given["machine"]:
        raise UsageError(f"--of {given['of']} needs a TLB; give one with --machine, e.g. i7-8700k")
    if given["chart"]:
        chart.check(given["chart"])
    if given["junit"]:
        atomic.writable(given["junit"])
    loaded, chosen = job_of(job, given)
    out, found = pathlib.Path(given["out"]), []
    make_folder(out)
    folders = [_measured(name, loaded, chosen, given) for name in (a, b)]
    for fs in loaded.fs:
        both = [diff.measured(folder, fs, given["machine"]) for folder in folders]
        found.append(diff.compare(*both))
        write(out / f"{fs}.folded", diff.folded(both[0][0], both[1][0], of))
    text = json.dumps(found, indent=1)
    write(out / "diff.json", text)
    click.echo(text if given["as_json"] else diff_table.text(found, given["by"], given["top"], given["form"], of))
    if given["chart"]:
        chart.draw(found, given["chart"], of)
    if given["junit"]:
        from scmsim.export import junit as verdicts

        verdicts.write(given["junit"], "scmsim lab diff", verdicts.of_lab_diff(found, limit))
    beyond = [line for each in found for line in diff.exceeded(each, limit)] if limit is not None else []
    for line in beyond:
        click.echo(f"beyond the limit: {line}", err=True)
    return 1 if beyond else 0


def _share(text: str) -> float:
    """Parse "5%" to 0.05."""
    number = text.removesuffix("%")
    if not number.replace(".", "", 1).isdecimal() or len(text) > 20:
        raise UsageError(f"--limit {text[:20]!r} is not a share; write it like 5%")
    return float(number) / 100


def _measured(name: str, loaded: "Job", chosen: "dict[str, System]", given: dict[str, Any]) -> pathlib.Path:
    """Return the folder with a kernel's counts; measure them if missing."""
    from scmsim.lab import kernel, runner

    if pathlib.Path(name).is_dir():
        return pathlib.Path(name)
    dax = any(system.dax for system in chosen.values())
    setting = setting_with(kernel.named(name), loaded, dax, **misses_of(given["machine"]))
    place = runner.place(given["out"], loaded, setting, chosen)
    run_job(loaded, setting, chosen, place, given)
    return place
