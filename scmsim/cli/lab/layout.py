"""`scmsim lab layout`: compare where a model puts the blocks of files with where a real kernel puts them."""

from typing import Any

import click

from scmsim.cli.lab._guests import cpus_option, guest_options, modelled, run_guests
from scmsim.core.errors import UsageError

SUMMARY = "Compare a model's extents with a real kernel's; exit code 1 if they allow different 2 MiB mappings."


@click.command(
    "layout",
    help=f"""{SUMMARY}

Each TRACE runs on each file system of a real kernel and on the model. The extents of every file at the end (FIEMAP, or the pages
of a mapping) and the free space (GETFSMAP) are compared with those of the model: how many extents are equal in file, offset,
place and length, and which 2 MiB of a file can be mapped at once. -o keeps the extents, so the same command resumes a
stopped run, and another model needs no new guest. --real compares with earlier extents: give the folder of -o, or,
for one trace and file system, the file of scmsim lab run --extents.

A verdict is "equal" (every extent is equal), "same pages" (the extents differ, but the same 2 MiB ranges can be mapped
at once) or "off".

\b
Example: scmsim synth churn -o churn.parquet
         scmsim lab layout churn.parquet --fs ext4-dax,ext2-dax,xfs-dax -o layout
         scmsim lab layout churn.parquet --fs xfs-dax --real layout --by-file
""",
)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="Folder for layout.json, the extents and the guests' results.")
@click.option("--fs", help="File systems of the lab that have a model, separated by commas.  [default: ext4-dax]")
@click.option(
    "--set", "assignments", multiple=True, metavar="MODEL.KEY=VALUE", help="A parameter of a model; may be repeated."
)
@click.option("--real", type=click.Path(), metavar="PATH", help="Compare with these earlier extents; run no guest.")
@cpus_option
@guest_options
@click.option("--by-file", is_flag=True, help="Show the files of each file system too.")
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1, 1_000_000), help="Files to show with --by-file."
)
@click.option("--format", "form", type=click.Choice(["table", "markdown"]), default="table", help="Format of output.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON (every file).")
def command(traces: tuple[str, ...], **given: Any) -> int:
    import json

    from scmsim.cli.replay import _params
    from scmsim.core.errors import unknown
    from scmsim.result.tables.layout import terminal_width
    from scmsim.study.layout import judge, table

    names = modelled(given)
    params = _params(given["assignments"])
    for target in params:
        if target not in names:
            raise unknown("file system compared here", target, names)
    if bool(given["out"]) == bool(given["real"]):
        raise UsageError("give -o FOLDER to run guests, or --real PATH to compare with what was recorded; not both")
    made = _made(traces, names, params, given)
    if given["as_json"]:
        click.echo(json.dumps(made, allow_nan=False))
    else:
        click.echo(table.text(made, given["by_file"], given["form"], terminal_width(), given["top"]))
    return 0 if judge.agrees(made["cells"]) and made["cells"] else 1


def _made(traces: tuple[str, ...], names: tuple[str, ...], params: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Run the guests whose results are not in the folder -o yet; return the comparison of each trace on each file system."""
    import pathlib

    from scmsim.cli._progress import Progress
    from scmsim.core import registry
    from scmsim.core.resumable import write
    from scmsim.pipeline.arguments import open_source
    from scmsim.result import provenance
    from scmsim.study.layout import judge

    made: dict[str, Any] = {"format": 1, "manifest": provenance.build(list(traces)), "cells": [], "left_out": []}
    for trace in traces:
        source, _ = open_source(trace)
        folder = _folder(trace, traces, given)
        if given["out"]:
            run_guests(trace, names, {**given, "out": folder}, layout=True)
        kernel, warnings, counters = _of_guests(folder)
        for warning in warnings:
            click.echo(f"scmsim: warning: {warning}", err=True)
        with Progress() as progress:
            for name in names:
                real = _real(folder, name, trace, source.files, len(names))
                clock = judge.by_the_guests_clock(
                    source, counters.get(name, {}), registry.literals("fs", name)["PARAMS"]
                )
                _compare(made, source, trace, name, clock | params.get(name, {}), real, kernel, progress)
    if given["out"]:
        import json

        write(pathlib.Path(given["out"]) / "layout.json", json.dumps(made, allow_nan=False))
    return made


def _folder(trace: str, traces: tuple[str, ...], given: dict[str, Any]) -> Any:
    """Return the path for the extents of a trace; each of several traces has a folder inside -o or --real."""
    import pathlib

    from scmsim.cli.lab._guests import make_folder

    place = pathlib.Path(given["out"] or given["real"])
    if len(traces) == 1:
        return place
    stems = [pathlib.Path(each).stem for each in traces]
    if len(set(stems)) < len(stems):
        raise UsageError("two traces have the same name; rename one, because each trace has a folder named after it")
    if given["out"]:
        make_folder(place)
    elif not place.is_dir():
        raise UsageError(
            f"--real {str(place)!r} is not a folder; for several traces, give a folder that has a subfolder for each trace"
        )
    return place / pathlib.Path(trace).stem


def _of_guests(folder: Any) -> tuple[str | None, list[str], dict[str, dict[str, int]]]:
    """Return (the kernel's version, None if not recorded; the guests' warnings; the counters by file system)."""
    import re

    from scmsim import result

    path = folder / "result.json"
    if not path.is_file():
        return None, [], {}
    found = result.read(path)
    version = re.search(r"\d+\.\d+\S*", str(found.manifest.get("kernel", "")))
    told = [f"{run.fs}: {warning}" for run in found.runs for warning in run.warnings]
    return version[0] if version else None, list(dict.fromkeys(told)), {run.fs: run.counters for run in found.runs}


def _real(folder: Any, fs: str, trace: str, files: Any, count: int) -> Any:
    """Return the recorded extents of a file system."""
    from scmsim.lab import layout

    path = folder / f"{fs}-1{layout.SUFFIX}" if folder.is_dir() else folder
    if path == folder and count > 1:
        raise UsageError(f"{str(path)!r} has one file system, but --fs names {count}; give the folder of -o")
    found = layout.read(path)
    if len(found) and int(found["file"].max()) >= len(files):
        raise UsageError(f"{str(path)!r} has a file that {trace!r} does not have; give the trace that was run")
    layout.check_told(found, fs)
    return found


def _compare(
    made: dict[str, Any], source: Any, trace: str, fs: str, given: Any, real: Any, kernel: str | None, progress: Any
) -> None:
    """Add a cell (trace, file system) to the comparison `made`, or the reason to `left_out` if it cannot be compared."""
    import pathlib

    from scmsim.core import registry
    from scmsim.study.layout import judge
    from scmsim.study.tlb.judge import taken_from

    chosen = taken_from(kernel, [fs], {fs: given}, None).params if kernel else {fs: given}
    params = judge.on_the_guests_device(chosen.get(fs, {}), registry.literals("fs", fs)["PARAMS"])
    model = judge.of_model(source, fs, params, progress)
    if isinstance(model, str):
        made["left_out"].append({"fs": fs, "why": model.partition(": ")[2]})
        return
    extents, failed = model
    if failed:
        click.echo(f"scmsim: warning: {fs}: {failed:,} operations failed on the model", err=True)
    cell = {"trace": pathlib.Path(trace).stem, "fs": fs, "kernel": kernel, "model_failed_operations": failed}
    made["cells"].append({**cell, **judge.compared(real, extents, source.files)})
