"""`scmsim capture`: run a command, or attach to a process, and store its file operations."""

from typing import Any

import click

from scmsim.cli._progress import amount
from scmsim.cli.trace._convert import allow_loss, loss
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.text import printable

SUMMARY = "Run a command and record its file operations as a trace."
# files that every program reads before its own: the loader, libraries, locales
_SYSTEM = (
    "/lib/",
    "/lib64/",
    "/usr/lib/",
    "/usr/lib64/",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/etc/ld.so",
    "/etc/locale",
)


@click.command(
    help=f"""{SUMMARY}

    The command runs as usual: its input, output and exit status are passed through.  With --pid, a process that already
    runs is recorded until it ends, --seconds are over or Ctrl-C is pressed; the process itself goes on.  If more than
    --allow-loss was lost, the trace is still written, but the exit code is 4 instead of the command's.

    \b
    Examples:
      scmsim capture -o load.parquet --under /var/tmp/db -- python3 load.py /var/tmp/db
      scmsim capture -o server.parquet --backend perf --pid 4711 --seconds 10
      scmsim capture --calibrate
    """,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-o", "--out", type=click.Path(), help="Trace to write (Parquet).")
@click.option("--backend", default="strace", show_default=True, help="How to record; see 'scmsim list capture'.")
@click.option("--under", type=click.Path(), help="Keep only files at or below this directory.")
@click.option("--keep-raw", type=click.Path(), help="Also keep the raw output of the back end in this file.")
@click.option("--pid", type=click.IntRange(min=1), help="Attach to this process instead of running a command.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="With --pid: seconds to record.")
@click.option("--mmap", "page_touches", is_flag=True, help="Also record first touches of mapped pages (hybrid, perf).")
@click.option("--anonymize", is_flag=True, help="Replace names by hashes; depth, lengths and sizes are kept.")
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the slow-down first; without -o and CMD, only measure that of every back end.",
)
@click.option(
    "--buffer", "pages", type=click.IntRange(2, 65536), help="Pages of perf's buffer per CPU.  [default: 4096]"
)
@allow_loss
@click.argument("command_line", metavar="[CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(
    out: str | None, backend: str, under: str | None, calibrate: bool, command_line: tuple[str, ...], **more: Any
) -> int:
    from scmsim.core import registry
    from scmsim.trace.capture import PAGES, Options, check_target

    if calibrate and out is None and not command_line:
        return _print_calibration([name for name in registry.names("capture") if _calibrates(name)])
    if out is None:
        raise UsageError("no name for the trace; give it with -o NAME.parquet")
    keep_raw, pages = more.pop("keep_raw"), more.pop("pages") or PAGES
    allowed = more.pop("allow_loss")
    options = Options(pages=pages, **more)
    _check(options, keep_raw)
    recorder = registry.load("capture", backend)
    check_target(command_line, options.pid)
    if calibrate:
        options.facts["calibration"] = _calibration(backend)
    with amount("converting") as progress:
        captured = recorder.capture(
            command_line, out, keep_raw=keep_raw, under=under, progress=progress, options=options
        )
    lost = loss(out, captured.report, allowed)
    click.echo(f"scmsim: {out}: {_outcome(captured.report)}", err=True)
    if captured.report.rows == 0:
        nameless = (
            "; perf knows only the names of files open at its start, so take another back end or leave --under out"
        )
        hint = f" below {under!r}{nameless if backend == 'perf' else '; check --under'}" if under else ""
        click.echo(f"scmsim: warning: the command did no file operation{hint}", err=True)
    if not under and (hint := _system_files(out)):
        click.echo(f"scmsim: hint: {hint}", err=True)
    return lost or int(captured.status)


def _system_files(out: str) -> str:
    """Return a hint if a trace has libraries, locales and the loader besides the program's files; else ""."""
    from scmsim.trace import open_trace

    files = open_trace(out).files
    theirs = [i for i, path in enumerate(files.path) if path.startswith(_SYSTEM) and not files.is_dir[i]]
    if not theirs:
        return ""
    most = max(theirs, key=lambda i: files.first_size[i])
    size = files.first_size[theirs].clip(0).sum() / 1e6
    return printable(
        f"{len(theirs)} of {len(files)} files are the system's own ({size:,.1f} MB, such as {files.path[most]}); "
        "--under DIR keeps only the files that you ask about"
    )


def _check(options: Any, keep_raw: str | None) -> None:
    if options.pages & (options.pages - 1):
        raise UsageError(f"--buffer {options.pages} is not a power of two; give {1 << options.pages.bit_length()}")
    if options.anonymize and keep_raw is not None:
        raise UsageError("--keep-raw would keep the names that --anonymize removes; give one of them")
    if options.seconds is not None and options.pid is None:
        raise UsageError("--seconds is for --pid, because a command is recorded until it ends; leave --seconds out")


def _calibrates(backend: str) -> bool:
    from scmsim.core import registry

    return bool(registry.literals("capture", backend).get("CALIBRATES", True))


def _calibration(backend: str) -> dict[str, Any]:
    if not _calibrates(backend):
        raise UsageError(
            f"--calibrate measures costs per call, but {backend!r} costs time per instruction; leave --calibrate out"
        )
    from scmsim.trace.capture._calibrate import calibrate

    measured = calibrate([backend])[backend]
    if "problem" in measured:
        raise EnvironmentProblem(measured["problem"])
    return measured


def _print_calibration(backends: list[str]) -> int:
    from scmsim.trace.capture._calibrate import calibrate

    click.echo(f"{'back end':10} {'ns per call':>12} {'slow-down':>10}")
    measured = calibrate(backends)
    base = next((found["base_ns"] for found in measured.values() if "base_ns" in found), None)
    if base is not None:
        click.echo(f"{'none':10} {base:>12,} {1:>9.1f}x")
    for name, found in measured.items():
        if "problem" in found:
            click.echo(f"{name:10} {'':>12} {'':>10}  {found['problem']}")
        else:
            click.echo(f"{name:10} {found['traced_ns']:>12,} {found['factor']:>9.1f}x")
    return 0 if base is not None else 3


def _outcome(report: Any) -> str:
    spots = len(report.blind_spots)
    losses = report.losses()
    blind = [f"{spots} blind spot{'s' * (spots > 1)} (see 'scmsim trace info')"] if spots else []
    told = blind + losses or ["no blind spots"]
    return ", ".join([f"{report.rows} operations", f"{report.files} files", *told])
