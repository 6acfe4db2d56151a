"""`scmsim lab run`: a trace or a microbenchmark on real file systems, counted."""

from typing import Any

import click

from scmsim.cli.lab._guests import guest_options, progress, setting_of
from scmsim.core.errors import UsageError

SUMMARY = "Run a trace or a microbenchmark on real file systems and count what the kernel does."


@click.command(
    "run",
    help=f"""{SUMMARY}

JOB is a stored trace, the file of a job (.toml), or the name of a shipped job: smoke, transfers, measured-610. A guest runs for
each file system and repeat; finished ones are kept in the folder -o, and the same command resumes a run that was stopped.

\b
Example: scmsim lab run smoke -o lab && scmsim compare SIM.json lab
""",
)
@click.argument("job")
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder for result.json, functions.csv and tasks.csv."
)
@click.option("--fs", help="File systems, separated by commas.  [default: the job's; ext4-dax]")
@click.option("--units", help="Bytes of a call, separated by commas, instead of the job's.")
@click.option("--repeat", "repeats", type=click.IntRange(1, 1000), help="Fresh guests for each file system.")
@guest_options
@click.option("--no-erms", is_flag=True, help="A CPU without fast rep movsb; the kernel copies by 8 bytes then.")
@click.option(
    "--stream", metavar="LENGTH/EVERY", help="Keep the first LENGTH of EVERY accesses as page runs (scmsim mmu)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(job: str, out: str, **given: Any) -> int:
    import os

    from scmsim.core.units import parse_time
    from scmsim.lab import job as jobs
    from scmsim.lab import runner, systems

    fields = {
        "fs": jobs.systems_of(given["fs"]) if given["fs"] else None,
        "units": jobs.units_of(given["units"]) if given["units"] else None,
        "repeats": given["repeats"],
        "timeout_s": parse_time(given["timeout"]) / 1e9 if given["timeout"] else None,
        "erms": False if given["no_erms"] else None,
    }
    loaded = jobs.load(job, fields)
    table = systems.load(given["systems"])
    chosen = {name: systems.get(table, name) for name in loaded.fs}
    setting = setting_of(loaded, given, any(system.dax for system in chosen.values()), window=_window(given["stream"]))
    workers = min(given["workers"] or len(os.sched_getaffinity(0)), len(runner.guests(loaded)))
    inputs = [path for path in (loaded.trace,) if path]
    with progress() as show:
        result, ran, found = runner.run(loaded, setting, chosen, out, workers=workers, inputs=inputs, progress=show)
    if given["as_json"]:
        click.echo(result.to_json())
        return 0
    for warning in dict.fromkeys(warning for run in result.runs for warning in run.warnings):
        click.echo(f"scmsim: warning: {warning}", err=True)
    click.echo(_table(result))
    click.echo(
        f"{out}/result.json: {len(result.runs)} runs from {ran + found} guests, {ran} now and {found} before", err=True
    )
    return 0


def _window(text: str | None) -> Any:
    """1000/100000 -> Window(1000, 100000)."""
    from scmsim.lab.machine import Window

    if not text:
        return None
    length, slash, every = text.partition("/")
    if not (length.isdecimal() and (every.isdecimal() or not slash)) or len(text) > 40 or int(length) < 1:
        raise UsageError(f"--stream {text!r}: write LENGTH/EVERY accesses, e.g. 100000/10000000")
    if slash and int(every) < int(length):
        raise UsageError(f"--stream {text!r}: EVERY must be at least LENGTH")
    return Window(int(length), int(every or length))


def _table(result: Any) -> str:
    """Per call: the counters that file systems are compared by; instructions with those deferred, without those left out."""
    columns = {
        "instructions": "instructions", "deferred": "deferred_instructions", "left out": "other_instructions",
        "loads": "mem_inst_retired_all_loads", "stores": "mem_inst_retired_all_stores",
        "pm stored B": "pm_stored_bytes", "flushes": "flushes", "fences": "fences",
    }  # fmt: skip
    lines = [f"{'per call':44}{'calls':>9}" + "".join(f"{name:>13}" for name in columns)]
    for run in result.runs:
        sizes = [run.cell.get("operation", "all"), run.cell.get("unit_bytes", ""), run.cell.get("repeat", "")]
        name = " ".join(str(part) for part in (run.fs, *sizes) if part != "")
        cells = "".join(f"{run.counters[field] / max(1, run.calls):>13,.1f}" for field in columns.values())
        lines.append(f"{name:44}{run.calls:>9,}{cells}")
    return "\n".join(lines)
