"""`scmsim lab crash`: check the states in which a crash may leave a real kernel's files."""

import os
from typing import Any

import click

from scmsim.cli._crash_reports import conclude, lines_option, samples_option, seed_option
from scmsim.cli.lab._guests import cpus_option, guest_options, setting_of
from scmsim.core.text import printable

_SHOWN = 8  # most lost lines to print per failure
SUMMARY = "Crash a real kernel's file system at every fence of a trace, mount what may be left, and compare."


@click.command(
    "crash",
    help=f"""{SUMMARY}

TRACE runs on each file system, and every store to persistent memory, write-back and fence is recorded in order. Before
each fence and after each call, lines that may not be durable are dropped in every combination (for more than --lines
lines, in a sample of --samples combinations). The same kernel mounts each state, and every file must be in a promised
state. Exit code 0: every file is; 1: a file is not; the smallest counterexample shows the call, the lost lines and the
functions that stored them.

\b
Example: scmsim lab crash trace.parquet --fs ext4-dax,xfs-dax
""",
)
@click.argument("trace", type=click.Path())
@click.option("--fs", required=True, help="File systems of the lab with a device, separated by commas.")
@click.option(
    "--promise", type=click.Choice(["fsync", "call", "atomic"]), help="Promise to check.  [default: that of FS's model]"
)
@lines_option(6, 16)
@samples_option(64, 1 << 20)
@click.option(
    "--states",
    default=10_000,
    show_default=True,
    type=click.IntRange(1, 10_000_000),
    help="Most states to mount for each file system.",
)
@seed_option
@click.option(
    "--fences",
    "fences",
    type=click.Choice(["x86", "explicit"]),
    default="x86",
    show_default=True,
    help="Instructions that order write-backs. x86: all, also locked ones; explicit: SFENCE and MFENCE only.",
)
@click.option(
    "--drop-write-backs",
    "dropped",
    metavar="FUNCTION",
    default="",
    help="Inject a fault: drop the write-backs of this kernel function and of the functions that it calls.",
)
@click.option("--model", is_flag=True, help="Also compare the states with those of the model of the same name.")
@cpus_option
@guest_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object; a list for several file systems.")
def command(trace: str, fs: str, fences: str, as_json: bool, **given: Any) -> int:
    from scmsim.cli._progress import Progress
    from scmsim.core.signals import stopping
    from scmsim.core.units import parse_time
    from scmsim.crash import kernel
    from scmsim.lab import job, systems
    from scmsim.trace import open_trace

    source, rows = open_trace(trace), systems.load(given["systems"])
    cpus = given["cpus"] or 1
    chosen = [systems.get(rows, name, cpus) for name in job.systems_of(fs)]
    for system in chosen:
        kernel.guarantee_of(system.name, given["promise"] or "")
    timeout_s = parse_time(given["timeout"]) / 1e9 if given["timeout"] else job.Job.timeout_s
    loaded = job.Job(tuple(system.name for system in chosen), trace, timeout_s=timeout_s, cpus=cpus)
    setting = setting_of(loaded, given, any(system.dax for system in chosen))
    bounds = {name: given[name] for name in ("lines", "samples", "states", "seed", "dropped")}
    bounds |= {"workers": given["workers"] or len(os.sched_getaffinity(0)), "locked": fences == "x86"}
    reports = []
    with Progress() as progress, stopping("", setting.stop.set):
        for system in chosen:
            promise, model = given["promise"] or "", given["model"]
            reports.append(
                kernel.check(setting, system, source, promise=promise, model=model, progress=progress, **bounds)
            )
    return conclude(reports, as_json, _print)


def _print(report: Any) -> None:
    sampled = f", a sample at {report.sampled_points:,} of them" if report.sampled_points else ""
    more = " or more" if report.possible_states >= 10**18 else ""
    click.echo(f"{report.fs} on {report.kernel}: {report.claim}")
    click.echo(
        f"{report.operations:,} calls, {report.entries:,} stores, write-backs and fences, {report.crash_points:,} crash points"
        f"{sampled}; {report.states:,} states mounted of {report.possible_states:,}{more}, "
        f"{report.states / max(report.seconds, 0.01):,.0f} a second"
    )
    if report.not_followed:
        names = ", ".join(printable(path) for path in report.not_followed[:3])
        click.echo(
            f"{len(report.not_followed):,} files are not compared, because a write failed or one of several names changed: {names}"
        )
    if not report.failing_states:
        click.echo("every state is as promised" if report.promised else "nothing is promised, and nothing was found")
    else:
        promise = "are not as promised" if report.promised else "differ (nothing is promised)"
        click.echo(f"{report.failing_states:,} states of {report.failing_operations:,} calls {promise}")
    for failure in report.failures:
        click.echo(f"\n{failure.kind}: call {failure.operation}: {printable(failure.call)}")
        click.echo(f"  crash before {failure.before}")
        for line in failure.lost[:_SHOWN] or [None]:
            click.echo(f"  lost: {_said(line)}")
        if len(failure.lost) > _SHOWN:
            click.echo(f"  lost: and {len(failure.lost) - _SHOWN:,} more")
        click.echo(f"  {printable(failure.file)} {failure.wrong}")
        click.echo(f"  states of this call that fail: {failure.states:,}")
    if report.model_both is not None:
        _print_model(report)


def _print_model(report: Any) -> None:
    click.echo(f"\nstates of files that the kernel and the model {report.fs} both show: {report.model_both:,}")
    for one in report.model_differences:
        for whose, outcomes in (("kernel", one["kernel_only"]), ("model", one["model_only"])):
            more = f" (and {len(outcomes) - 1:,} more)" if len(outcomes) > 1 else ""
            if outcomes:
                click.echo(
                    f"  call {one['operation']}, {printable(one['file'])}, only the {whose}: {outcomes[0]}{more}"
                )


def _said(line: dict[str, Any] | None) -> str:
    if line is None:
        return "nothing"
    lines = f", {line['lines']} lines" if line["lines"] > 1 else ""
    stored = f"call {line['operation']} ({line['call']})" if line["operation"] >= 0 else "before the first call"
    return f"{line['line']}{lines}, stored in {stored} by {' < '.join(line['functions'][:8])}"
