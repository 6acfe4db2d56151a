"""`scmsim timeline`: write a replay over time for Perfetto, or as a picture."""

import click

from scmsim.cli._figures import chosen, figure_style, figure_title

SUMMARY = "Replay a trace and write the counts of each mechanism over time, for Perfetto or as a picture."


@click.command(
    "timeline",
    help=f"""{SUMMARY}

The file of -o is JSON that chrome://tracing reads too: the operations of the trace, and a counter track for each mechanism, whose
values add up to the count of the whole run.  The picture of --plot stacks the mechanisms' counts per call (by
default instructions).""",
)
@click.argument("trace", type=click.Path())
@click.option("-o", "--out", type=click.Path(), help="File to write (.json).")
@click.option(
    "--plot", type=click.Path(), help="Draw the counts: F.svg, F.png, F.pdf, F.html (needs the extra 'report')."
)
@click.option("--fs", default="ext4,nova-cow", show_default=True, help="File systems: names, patterns, all.")
@click.option("--windows", default=200, show_default=True, type=click.IntRange(1, 10_000), help="Values per track.")
@click.option(
    "--counter", "counters", multiple=True, help="Counter to use; may be repeated.  [default: instructions and others]"
)
@click.option("--no-operations", is_flag=True, help="Leave out the operations.")
@figure_title
@figure_style
def command(
    trace: str,
    out: str | None,
    plot: str | None,
    fs: str,
    windows: int,
    counters: tuple[str, ...],
    no_operations: bool,
    title: str,
    width: int | None,
    palette: str,
) -> None:
    from scmsim.cli._progress import Progress
    from scmsim.core import atomic, registry
    from scmsim.core.errors import UsageError
    from scmsim.export import perfetto, stacks
    from scmsim.pipeline.timeline import timeline
    from scmsim.trace import open_trace

    if not out and not plot:
        raise UsageError("nothing to write; give -o F.json, --plot F.svg, or both")
    style = chosen(width, title, palette)
    if out:
        atomic.writable(out)
    if plot:
        from scmsim.plot import files

        files.check(plot)
    source = open_trace(trace)
    if out and source.rows > perfetto.MOST_OPERATIONS and not no_operations:
        raise UsageError(
            f"{trace!r} has {source.rows:,} operations, more than a browser holds; "
            "add --no-operations, or cut it with 'scmsim trace cut'"
        )
    with Progress() as progress:
        found = [timeline(source, name, windows=windows, progress=progress) for name in registry.select("fs", fs)]
    names = stacks.chosen([each.run for each in found], counters)
    if out:
        count = perfetto.write(out, source, found, names, operations=not no_operations)
        click.echo(f"{out}: {count:,} events; open it at ui.perfetto.dev")
    if plot:
        from scmsim.plot import over_time

        over_time.draw(found, names if counters else names[:1], plot, trace, style)
        click.echo(f"wrote {plot}", err=True)
