"""`scmsim lab run`: run a trace or a microbenchmark on real file systems and count what the kernel does."""

from typing import Any

import click

from scmsim.cli.lab._guests import guest_options, job_of, job_options, make_folder, misses_of, run_job, setting_with
from scmsim.core.errors import UsageError

SUMMARY = "Run a trace or a microbenchmark on real file systems and count what the kernel does."


@click.command(
    "run",
    help=f"""{SUMMARY}

JOB is a stored trace, the file of a job (.toml), or the name of a shipped job: smoke, transfers, measured-610. A guest runs for
each file system and repeat; finished ones are kept in the folder -o, and the same command resumes a run that was stopped.
With several kernels (--kernel 6.1,6.12), each kernel has its own folder inside -o.

\b
Example: scmsim lab run smoke -o lab && scmsim compare SIM.json lab
""",
)
@click.argument("job")
@click.option(
    "-o", "--out", required=True, type=click.Path(), help="Folder for result.json, functions.csv and tasks.csv."
)
@job_options
@guest_options
@click.option(
    "--stream", metavar="LENGTH/EVERY", help="Of every EVERY accesses, keep the first LENGTH as page runs (scmsim mmu)."
)
@click.option(
    "--extents",
    type=click.Path(),
    metavar="FILE",
    help="Record the extents of all files and of the free space at the end of a trace, in FILE.csv or FILE.parquet.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; a list for several kernels.")
def command(job: str, out: str, **given: Any) -> None:
    from scmsim.lab import kernel, runner

    loaded, chosen = job_of(job, given)
    if given["extents"]:
        loaded = _with_layout(loaded, given)
    if given["machine"] and given["stream"]:
        raise UsageError(
            "--machine counts the misses of all accesses and stores no access; leave --stream or --machine out"
        )
    dax = any(system.dax for system in chosen.values())
    kept = misses_of(given["machine"]) or {"window": _window(given["stream"])}
    named = (given["package"] or "").split(",")
    kernels = [kernel.find(name or None, given["image"], given["modules"]) for name in named]
    settings = [setting_with(each, loaded, dax, **kept) for each in kernels]
    if len(settings) > 1:
        make_folder(out)
    places = [runner.place(out, loaded, each, chosen) if len(settings) > 1 else out for each in settings]
    results = []
    for setting, place in zip(settings, places, strict=True):
        result, ran, found = run_job(loaded, setting, chosen, place, given)
        results.append(result)
        if given["extents"]:
            _write_extents(given["extents"], place, loaded)
        if given["as_json"]:
            continue
        for warning in dict.fromkeys(warning for run in result.runs for warning in run.warnings):
            click.echo(f"scmsim: warning: {warning}", err=True)
        click.echo(_table(result, setting.kernel.version() if len(settings) > 1 else "per call"))
        click.echo(
            f"{place}/result.json: {len(result.runs)} runs from {ran + found} guests, {ran} now and {found} before",
            err=True,
        )
    if given["as_json"]:
        shown = [result.to_json() for result in results]
        click.echo(shown[0] if len(shown) == 1 else f"[{','.join(shown)}]")


def _with_layout(loaded: Any, given: dict[str, Any]) -> Any:
    """Return the job with extents recorded; raise UsageError if --extents cannot hold them in one file."""
    import dataclasses

    from scmsim.core.atomic import writable
    from scmsim.result.extents import SUFFIXES

    path = given["extents"]
    if not path.endswith(SUFFIXES):
        raise UsageError(f"--extents {path!r} must end with {' or '.join(SUFFIXES)}")
    if not loaded.trace:
        raise UsageError("--extents needs a trace, not the microbenchmark; name a trace, or leave --extents out")
    if len(loaded.fs) > 1 or "," in (given["package"] or ""):
        raise UsageError("--extents records one file system on one kernel; give one of each (--fs, --kernel)")
    writable(path)
    return dataclasses.replace(loaded, layout=True)


def _write_extents(path: str, folder: Any, loaded: Any) -> None:
    """Write the extents of the first guest of a folder."""
    import pathlib

    from scmsim.lab import layout
    from scmsim.result import extents
    from scmsim.trace import open_trace

    (fs,) = loaded.fs
    found = layout.read(pathlib.Path(folder) / f"{fs}-1{layout.SUFFIX}")
    layout.check_told(found, fs)
    extents.write({fs: extents.frame(found, open_trace(loaded.trace).files.path)}, path)


def _window(text: str | None) -> Any:
    """Parse "1000/100000" to Window(1000, 100000)."""
    from scmsim.lab.machine import Window

    if not text:
        return None
    length, slash, every = text.partition("/")
    if not (length.isdecimal() and (every.isdecimal() or not slash)) or len(text) > 40 or int(length) < 1:
        raise UsageError(f"--stream {text!r}: write LENGTH/EVERY accesses, e.g. 100000/10000000")
    if slash and int(every) < int(length):
        raise UsageError(f"--stream {text!r}: EVERY must be at least LENGTH")
    return Window(int(length), int(every or length))


def _table(result: Any, title: str) -> str:
    """Return a table of counters per call.

    Instructions include those of deferred work (column `deferred`) and exclude those of interrupts and other tasks (`left out`).
    """
    columns = {
        "instructions": "instructions", "deferred": "deferred_instructions", "left out": "other_instructions",
        "loads": "mem_inst_retired_all_loads", "stores": "mem_inst_retired_all_stores",
        "pm stored B": "pm_stored_bytes", "flushes": "flushes", "fences": "fences",
    }  # fmt: skip
    if any("interprocessor_interrupts" in run.counters for run in result.runs):
        columns |= {"interrupts": "interprocessor_interrupts", "TLB sent": "tlb_shootdowns"}
    lines = [f"{title:44}{'calls':>9}" + "".join(f"{name:>13}" for name in columns)]
    for run in result.runs:
        sizes = [run.cell.get("operation", "all"), run.cell.get("unit_bytes", ""), run.cell.get("repeat", "")]
        name = " ".join(str(part) for part in (run.fs, *sizes) if part != "")
        cells = "".join(f"{run.counters[field] / max(1, run.calls):>13,.1f}" for field in columns.values())
        lines.append(f"{name:44}{run.calls:>9,}{cells}")
        lines += [_faults(run)] if "page_faults" in run.counters else []
    return "\n".join(lines)


def _faults(run: Any) -> str:
    """Return a line on a run's page faults, by the size of the entry that they map, and on its signals."""
    sizes = {"page_faults_pte": "of 4 KiB", "page_faults_pmd": "of 2 MiB", "page_faults_major": "major"}
    parts = [f"{run.counters[name]:,} {what}" for name, what in sizes.items() if name in run.counters]
    parts += [f"{run.errors[name]:,} {name}" for name in ("SIGBUS", "SIGSEGV") if name in run.errors]
    return f"    {run.counters['page_faults']:,} page faults: {', '.join(parts)}"
