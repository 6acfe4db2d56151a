"""`scmsim trace`: look at, check and convert traces."""

import json
import shutil
from typing import Any

import click

from scmsim.cli import Group, group
from scmsim.cli.trace import _convert
from scmsim.cli.trace._convert import allow_loss
from scmsim.cli.trace._tools import COMMANDS
from scmsim.core.errors import UsageError
from scmsim.core.text import percent, printable, words

SUMMARY = "Look at, check, convert and rewrite traces: info, stats, plot, convert, filter, cut, ..."

_SHOWN_APART = ("counts", "bad_lines", "blind_spots", "notes", "duration_ns")  # shown in other lines

command = group("trace", SUMMARY, Group)
for _tool in COMMANDS:
    command.add_command(_tool)


@command.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(file: str, as_json: bool) -> None:
    """Show totals, operations and provenance of a trace."""
    from scmsim.trace import open_trace
    from scmsim.trace.summary import totals

    trace = open_trace(file)
    found = totals(trace)
    if as_json:
        click.echo(json.dumps({"file": file, **found, "header": trace.header}, indent=2))
        return
    ops, duration = found.pop("ops"), found.pop("duration_ns")
    for name, value in found.items():
        click.echo(f"{name.replace('_', ' '):16} {value:>15,}")
    click.echo(f"{'duration':16} {_seconds(duration):>17}")
    for name, value in sorted(ops.items(), key=lambda item: -item[1]):
        click.echo(f"  {name:14} {value:>15,}")
    for name, value in trace.header.items():
        if name not in _SHOWN_APART and value is not None:
            click.echo(_fact(name, value))
    _print_concerns(trace.header)


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:,.6g} s"


def _fact(name: str, value: Any) -> str:
    """Return an entry of a header as one line, cut to the terminal's width; the JSON has the whole entry."""
    if name.endswith("_ns") and isinstance(value, int):
        name, value = name.removesuffix("_ns"), _seconds(value)
    text = f"{value:,}" if type(value) is int else words(value)
    line = printable(f"{name.replace('_', ' '):16} {text}")
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else f"{line[: max(width - 3, 17)]}..."


def _print_concerns(header: dict[str, Any]) -> None:
    for spot in header.get("blind_spots", []):
        click.echo(printable(f"blind spot: {spot}"))
    for note in header.get("notes", []):
        click.echo(printable(f"note: {note}"))
    from scmsim.trace.reading.report import uncertain

    bad = header.get("bad_lines", {})
    if header.get("lost_events"):
        click.echo(f"incomplete: {header['lost_events']:,} events lost by the recorder")
    for what in uncertain(header):
        click.echo(what)
    if bad.get("count"):
        share = f" ({percent(bad['count'] / lines)})" if (lines := header.get("counts", {}).get("lines")) else ""
        click.echo(f"{bad['count']:,} lines of the input{share} were not understood, the first of them:")
        for entry in bad["first"]:
            click.echo(printable(f"  line {entry['line']}: {entry['reason']}"))


@command.command()
@click.argument("file", type=click.Path())
@click.option("-n", "--rows", default=10, show_default=True, type=click.IntRange(min=0), help="Rows to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def head(file: str, rows: int, as_json: bool) -> None:
    """Show the first rows of a trace."""
    from scmsim.trace import open_trace

    trace = open_trace(file)
    found: list[dict[str, Any]] = []
    for batch in trace.batches(max(rows, 1)):
        found += [_row(trace, record) for record in batch[: rows - len(found)]]
        if len(found) >= rows:
            break
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f"{'time ns':>15} {'thread':>6} {'operation':10} {'offset':>14} {'length':>12}  file")
    for row in found:
        path = row["path"] or "-"
        path = printable(path)
        tail = f"{path}{'  ' + ' '.join(row['flags']) if row['flags'] else ''}"
        where = f"{row['offset']:>14} {row['length']:>12}"
        click.echo(f"{row['time_ns']:>15} {row['thread']:>6} {row['op']:10} {where}  {tail}")


def _row(trace: Any, record: Any) -> dict[str, Any]:
    from scmsim.core.records import FLAGS, OPS

    row = {name: int(record[name]) for name in ("time_ns", "thread", "file", "file2", "offset", "length")}
    flags = [name for bit, name in enumerate(FLAGS) if int(record["flag"]) & 1 << bit]
    path = trace.files.path[row["file"]] if row["file"] >= 0 else None
    return {**row, "op": OPS[int(record["op"])], "flags": flags, "path": path}


@command.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: str, as_json: bool) -> int:
    """Check every row of a trace; exit code 2 if it has problems, all of which are listed."""
    from scmsim.trace import open_trace
    from scmsim.trace.reading.report import rough
    from scmsim.trace.summary import all_problems

    reason = ""
    try:
        trace = open_trace(file)
        reason = rough(trace.header)
        problems = all_problems(trace)
        rows: int | None = trace.rows
    except UsageError as error:
        if not as_json:
            raise
        problems, rows = [str(error)], None
    if as_json:
        click.echo(
            json.dumps(
                {"file": file, "ok": not problems, "rows": rows, "problems": problems, "rough": reason}, indent=2
            )
        )
    elif not problems:
        click.echo(f"{file}: {rows} rows, no problems")
    if reason and not as_json:
        click.echo(f"{file}: a rough trace, {reason}")
    for problem in () if as_json else problems:
        click.echo(f"{file}: {problem}")
    return 2 if problems else 0


@command.command()
@click.argument("source", metavar="IN", type=click.Path(allow_dash=True))
@click.argument("out", metavar="OUT", required=False, type=click.Path())
@click.option("-o", "--out", "named", type=click.Path(), help="The same as OUT.")
@click.option("--format", "name", help="Format of IN (default: found by its content); see 'scmsim list format'.")
@click.option(
    "--to", help="Write the trace IN in this format, such as fio-iolog.  [default: by the ending of OUT: .csv, .jsonl]"
)
@click.option("--under", type=click.Path(), help="Keep only files at or below this directory.")
@click.option(
    "--columns", metavar="MAP", help="Columns of table IN: time=ts,op=type,offset=off,length=len,file=name,thread=cpu."
)
@click.option(
    "--set", "options", multiple=True, metavar="NAME=VALUE", help="Option of a format (scmsim list format NAME)."
)
@click.option("--strict", is_flag=True, help="Stop at the first line that is not understood.")
@allow_loss
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def convert(
    source: str, out: str | None, name: str | None, to: str | None, options: tuple[str, ...], **more: Any
) -> int:
    """Convert the output of a tracer to a trace, or (--to) a trace to another format.  IN may be - (standard input)."""
    as_json, named, allowed = more.pop("as_json"), more.pop("named"), more.pop("allow_loss")
    given = [name for name in (out, named) if name is not None]
    if len(given) != 1:
        raise UsageError("give exactly one output file, either as OUT or with -o")
    out = given[0]
    to = to or _convert.by_ending(out)
    name, report = _convert.convert(source, out, name, to, _convert.pairs(options), **more)
    code = _convert.loss(out, report, allowed)
    if report.rough:
        click.echo(f"scmsim: {out} is a rough trace, {report.rough}", err=True)
    if as_json:
        click.echo(_convert.as_json(source, out, name, report))
        return code
    click.echo(_convert.summary_line(out, name, report, exported=bool(to)))
    for line in _convert.left_out(report):
        click.echo(line)
    _print_concerns(report.provenance())
    return code
