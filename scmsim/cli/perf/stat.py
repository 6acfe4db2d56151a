"""`scmsim perf stat`: count the events of any program."""

import click

SUMMARY = "Count a program's events: the counters and metrics that the models predict."


@click.command(
    "stat",
    help=f"""{SUMMARY}

    The program runs once for each pass over the events, so that no event shares a counter. With --one-pass, it
    runs once, and perf extrapolates. The program's output goes to standard error; its exit status is returned.

    \b
    Example: scmsim perf stat -r 5 --fs ext4-dax -o measured.json -- ./file_write /mnt/pmem/f 1 4
    """,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option(
    "-r", "--repeat", "repeats", default=1, show_default=True, type=click.IntRange(1, 1000), help="Number of repeats."
)
@click.option("--backend", "name", default="perf", show_default=True, help="How to count; see 'scmsim list backend'.")
@click.option("--counters", help="Counter fields, separated by commas (default: the thesis' events).")
@click.option(
    "--count",
    "mode",
    default="all",
    show_default=True,
    type=click.Choice(["all", "split", "user"]),
    help="Modes to count: user and kernel mode together, each apart, or user mode only.",
)
@click.option("--one-pass", is_flag=True, help="Count all events in one run; perf scales events that shared a counter.")
@click.option("--require-pmu", is_flag=True, help="Stop (exit code 3) unless hardware events can be counted.")
@click.option("--fs", "label", default="program", show_default=True, help="Name of the file system in the result.")
@click.option("-o", "--out", type=click.Path(), help="Also write the result: .json, .csv or .parquet.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.argument("command_line", metavar="CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    repeats: int,
    name: str,
    counters: str | None,
    mode: str,
    one_pass: bool,
    require_pmu: bool,
    label: str,
    out: str | None,
    as_json: bool,
    command_line: tuple[str, ...],
) -> int:
    from scmsim.core import registry
    from scmsim.perf import program
    from scmsim.perf.backend import Request
    from scmsim.result import Result, check_writable, provenance
    from scmsim.trace.capture import check_command

    if out:
        check_writable(out)
    check_command(command_line)
    wanted = tuple(field for field in (counters or "").split(",") if field)
    backend = registry.load("backend", name).start(Request(mode, wanted, one_pass, require_pmu))
    for warning in backend.warnings:
        click.echo(f"scmsim: warning: {warning}", err=True)
    if len(backend.passes) > 1:
        click.echo(
            f"scmsim: the program runs {repeats * len(backend.passes)} times: {len(backend.passes)} passes", err=True
        )
    counted = program.count(backend, command_line, label=label, repeats=repeats, allow_multiplexing=one_pass)
    harness = {**backend.facts, "command": list(command_line), "warnings": list(backend.warnings)}
    result = Result(provenance.build(harness=harness), counted.runs)
    if out:
        result.write(out)
    click.echo(result.to_json() if as_json else "\n".join(program.table(counted.runs)))
    return counted.status
