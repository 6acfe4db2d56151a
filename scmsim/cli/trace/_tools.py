"""The subcommands of `scmsim trace` that measure, draw and rewrite traces."""

import json
from typing import Any

import click

from scmsim.cli._figures import chosen, figure_style, figure_title
from scmsim.core.text import printable

_FILE = click.Path()
_OUT = click.option("-o", "--out", required=True, type=_FILE, help="Trace to write (.parquet).")
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _told(out: str, rows: int, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"out": out, "rows": rows}))
    else:
        click.echo(f"{out}: {rows:,} rows")


def _nanoseconds(text: str | None) -> int | None:
    from scmsim.core.units import parse_time

    return None if text is None else parse_time(text)


@click.command("stats")
@click.argument("file", type=_FILE)
@click.option("--setup", is_flag=True, help="Count the preparation too.")
@_JSON
def stats_command(file: str, setup: bool, as_json: bool) -> None:
    """Show the operation mix, sizes, order, working set, overwrites and buffers of a trace."""
    from scmsim.trace import open_trace
    from scmsim.trace.stats import stats

    found = stats(open_trace(file), setup=setup)
    if as_json:
        click.echo(json.dumps({"file": file, **found}, indent=2))
        return
    for name, value in _lines(found):
        click.echo(f"{name:24} {value}")
    for way in ("read", "write"):
        if found[way]["sizes"]:
            click.echo(f"\n{way} calls by size")
            _histogram(found[way]["sizes"])
    if found["top"]:
        click.echo("\nfiles with the most bytes read and written")
    for entry in found["top"]:
        click.echo(f"{entry['bytes']:>16,} bytes  {printable(entry['path'])}")


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines (name, text) that are printed above the histograms."""
    lines = [(name.replace("_", " "), f"{found[name]:,}") for name in ("rows", "calls", "setup_rows", "threads")]
    lines += [("duration", f"{found['duration_ns'] / 1e9:,.6g} s")]
    for name, op in sorted(found["ops"].items(), key=lambda item: -item[1]["calls"]):
        lines.append((f"  {name}", f"{op['calls']:>14,} calls {op['bytes']:>20,.0f} bytes"))
    for way in ("read", "write"):
        if found[way]["calls"]:
            lines.append((f"{way}: mean size", f"{found[way]['mean_size']:,.0f} bytes"))
            lines.append((f"{way}: sequential", _share(found[way]["sequential"])))
    at_least = "" if found["working_set"]["complete"] else "at least "
    lines += [
        ("overwritten bytes", _share(found["overwritten"])),
        ("appending writes", _share(found["appends"])),
        ("working set", f"{at_least}{found['working_set']['bytes']:,} bytes in 4 KiB pages"),
        ("  of it written", f"{at_least}{found['working_set']['written_bytes']:,} bytes"),
        ("files", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in found["files"].items())),
        ("buffers", f"{found['buffers']['bytes']:,} bytes in 4 KiB pages"),
        ("  used for another file", _share(found["buffers"]["shared"])),
    ]
    return lines


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _histogram(sizes: dict[str, int]) -> None:
    from scmsim.core.units import format_bytes

    most = max(sizes.values(), default=0)
    for size, count in sizes.items():
        click.echo(f"  from {format_bytes(int(size)):>7} {count:>14,}  {'#' * -(-40 * count // most)}")


@click.command("filter")
@click.argument("file", type=_FILE)
@_OUT
@click.option("--op", "ops", multiple=True, help="Keep only this operation (may be given several times).")
@click.option("--under", help="Keep only files at or below this path.")
@click.option("--match", help="Keep only files whose path matches this pattern, like '*.db'.")
@click.option("--thread", "threads", multiple=True, type=int, help="Keep only this thread (may be repeated).")
@click.option("--no-setup", is_flag=True, help="Drop the preparation.")
@_JSON
def filter_command(
    file: str, out: str, ops: tuple[str, ...], under: str | None, match: str | None, threads: tuple[int, ...],
    no_setup: bool, as_json: bool,
) -> None:  # fmt: skip
    """Keep the rows of some operations, files or threads."""
    from scmsim.trace.filter import filter_trace

    rows = filter_trace(file, out, ops=ops, under=under, match=match, threads=threads, setup=not no_setup)
    _told(out, rows, as_json)


@click.command("merge")
@click.argument("files", nargs=-1, required=True, type=_FILE)
@_OUT
@click.option(
    "--prepare",
    type=_FILE,
    metavar="TRACE",
    help="Replay this trace first, uncounted, e.g. to age the device (synth ageing).",
)
@_JSON
def merge_command(files: tuple[str, ...], out: str, prepare: str | None, as_json: bool) -> None:
    """Merge traces into one, ordered by time; each keeps its own files and threads."""
    from scmsim.trace.merge import merge_traces

    _told(out, merge_traces(files, out, prepare), as_json)


@click.command("cut")
@click.argument("file", type=_FILE)
@_OUT
@click.option("--from", "start", default="0ns", show_default=True, help="Start of the span, like 1.5s.")
@click.option("--to", "stop", help="End of the span (default: the end of the trace).")
@click.option("--prepare", is_flag=True, help="Keep the rows before the span as preparation, which is not counted.")
@_JSON
def cut_command(file: str, out: str, start: str, stop: str | None, prepare: bool, as_json: bool) -> None:
    """Keep the rows of a span of time; files start with their sizes at the start of the span."""
    from scmsim.trace.cut import cut_trace

    rows = cut_trace(file, out, start=_nanoseconds(start) or 0, stop=_nanoseconds(stop), prepare=prepare)
    _told(out, rows, as_json)


@click.command("scale")
@click.argument("file", type=_FILE)
@_OUT
@click.option("--times", required=True, type=int, help="Number of copies, including the original.")
@click.option("--together", is_flag=True, help="All copies run at once, each on its own threads.")
@_JSON
def scale_command(file: str, out: str, times: int, together: bool, as_json: bool) -> None:
    """Repeat a trace, each time on fresh files."""
    from scmsim.trace.scale import scale_trace

    _told(out, scale_trace(file, out, times=times, together=together), as_json)


@click.command("plot")
@click.argument("file", type=_FILE)
@click.option("-o", "--out", required=True, type=_FILE, help="Picture to write: .svg, .png, .pdf or .html.")
@click.option("--files", default=6, show_default=True, type=click.IntRange(1, 50), help="Files to draw, busiest first.")
@click.option(
    "--points",
    default=1500,
    show_default=True,
    type=click.IntRange(1, 200_000),
    help="Most reads (and most writes) to draw per file.",
)
@click.option("--heat", is_flag=True, help="Draw a heat map of the bytes of all transfers, by time and offset.")
@figure_title
@figure_style
@_JSON
def plot_command(
    file: str, out: str, files: int, points: int, heat: bool, title: str, width: int | None, palette: str, as_json: bool
) -> None:
    """Draw the offsets of reads and writes over time, one panel per file (needs the extra 'report')."""
    from scmsim.plot.trace import plot_heat, plot_trace

    style = chosen(width, title, palette)
    if heat:
        drawn = plot_heat(file, out, files=files, style=style)
    else:
        drawn = plot_trace(file, out, files=files, points=points, style=style)
    if as_json:
        click.echo(json.dumps({"out": out, **drawn}))
    else:
        click.echo(f"{out}: {drawn['transfers']:,} of {drawn['of']:,} transfers of {drawn['files']} files")


COMMANDS = (stats_command, filter_command, merge_command, cut_command, scale_command, plot_command)
