"""`scmsim perf import`: convert measurements made with other tools to a result of scmsim."""

import click

from scmsim.core.errors import UsageError
from scmsim.core.text import printable

SUMMARY = "Turn perf's output, or the thesis' columns, into a result that can be compared."


@click.command(
    "import",
    help=f"""{SUMMARY}

FILES are outputs of perf stat (-j, -x or plain) or perf script, CSV of an emulated machine (fs,op,unit,calls,ins_call,
...), or columns form_<event>_<FS>.txt of the thesis: give the columns of all events and file systems at once. Several
files of perf stat for one cell are its repeats.""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="Result to write: .json, .parquet or .csv.")
@click.option(
    "--fs", "systems", multiple=True, metavar="NAME|OLD=NEW", help="File system of perf's files; OLD=NEW renames one."
)
@click.option("--operation", help="What perf's files measured: write, rewrite, read, ...")
@click.option("--file-size", help="Size of the file, e.g. 64MiB.")
@click.option("--unit", help="Bytes of a call, e.g. 4KiB.")
@click.option("--calls", type=click.IntRange(0), default=0, help="Calls that each of perf's files covers.")
@click.option("--events", "table", help="Event table of the measured CPU (scmsim list events).")
@click.option(
    "--mode",
    type=click.Choice(["user", "kernel"]),
    help="Mode that perf counted, if --all-user or --all-kernel was given: event names do not show it.",
)
@click.option("--cpu", default="", help="CPU of the measured machine, for the comparison's warnings.")
@click.option("--kernel", default="", help="Kernel of the measured machine, e.g. 5.13.13.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=10, show_default=True, help="Thesis columns: repeats.")
@click.option("--total", default="10GiB", show_default=True, help="Bytes moved in each cell of the thesis' columns.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: path, runs, file systems, counters.")
def command(
    files: tuple[str, ...],
    out: str,
    systems: tuple[str, ...],
    operation: str | None,
    file_size: str | None,
    unit: str | None,
    calls: int,
    table: str | None,
    mode: str | None,
    cpu: str,
    kernel: str,
    repeats: int,
    total: str,
    as_json: bool,
) -> None:
    import json

    from scmsim.core.units import parse_bytes
    from scmsim.perf.importer import About, import_files
    from scmsim.result import check_writable

    check_writable(out)
    label, names = _systems(systems)
    sizes = {"file_bytes": file_size, "unit_bytes": unit}
    cell: dict[str, str | int] = {"operation": operation} if operation else {}
    cell |= {key: parse_bytes(text) for key, text in sizes.items() if text}
    about = About(label, names, cell, calls, table, mode or "", cpu, kernel, repeats, parse_bytes(total))
    result = import_files(files, about)
    result.write(out)
    fs = sorted({run.fs for run in result.runs})
    counters = sorted({name for run in result.runs for name in run.counters})
    if as_json:
        click.echo(json.dumps({"path": out, "runs": len(result.runs), "fs": fs, "counters": counters}, indent=2))
        return
    for warning in dict.fromkeys(warning for run in result.runs for warning in run.warnings):
        click.echo(f"scmsim: warning: {printable(warning)}", err=True)
    click.echo(
        f"{out}: {len(result.runs):,} runs of {printable(', '.join(fs))}, {len(counters)} counters; next: scmsim compare SIM {out}"
    )


def _systems(given: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Parse e.g. "ext4" and "NOVA=nova-cow" to (label, renames)."""
    names = dict(text.split("=", 1) for text in given if "=" in text)
    labels = [text for text in given if "=" not in text]
    if len(labels) > 1 or "" in names or "" in names.values() or "" in labels:
        raise UsageError("--fs takes one label, and renames like NOVA=nova-cow")
    return labels[0] if labels else "", names
