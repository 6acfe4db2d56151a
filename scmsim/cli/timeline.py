"""`scmsim timeline`: a replay over time for Perfetto."""

import click

SUMMARY = "Replay a trace and write what each mechanism counts over time, for Perfetto (ui.perfetto.dev)."


@click.command(
    "timeline",
    help=f"""{SUMMARY}

The file is JSON that chrome://tracing reads too: the operations of the trace, and a counter track for each mechanism, whose
values add up to the count of the whole run.""",
)
@click.argument("trace", type=click.Path())
@click.option("-o", "--out", required=True, type=click.Path(), help="File to write (.json).")
@click.option("--fs", default="ext4,nova-cow", show_default=True, help="File systems: names, patterns, all.")
@click.option("--windows", default=200, show_default=True, type=click.IntRange(1, 10_000), help="Values of a track.")
@click.option(
    "--counter", "counters", multiple=True, help="What is counted; may be repeated.  [default: instructions and others]"
)
@click.option("--no-operations", is_flag=True, help="Leave out the operations.")
def command(
    trace: str, out: str, fs: str, windows: int, counters: tuple[str, ...], no_operations: bool
) -> None:  # fmt: skip
    from scmsim.cli._progress import Progress
    from scmsim.core import atomic, registry
    from scmsim.core.errors import UsageError
    from scmsim.export import perfetto, stacks
    from scmsim.pipeline.timeline import timeline
    from scmsim.trace import open_trace

    atomic.writable(out)
    source = open_trace(trace)
    if source.rows > perfetto.MOST_OPERATIONS and not no_operations:
        raise UsageError(
            f"{trace!r} has {source.rows:,} operations, more than a browser holds; "
            "add --no-operations, or cut it with 'scmsim trace cut'"
        )
    with Progress() as progress:
        found = [timeline(source, name, windows=windows, progress=progress) for name in registry.select("fs", fs)]
    names = stacks.chosen([each.run for each in found], counters)
    count = perfetto.write(out, source, found, names, operations=not no_operations)
    click.echo(f"{out}: {count:,} events; open it at ui.perfetto.dev")
