"""`scmsim capture`: run a command and store what it did to files."""

from typing import Any

import click

SUMMARY = "Run a command and record its file operations as a trace."


@click.command(
    help=f"""{SUMMARY}

    The command runs as usual: its input, output and exit status are passed through.

    \b
    Example: scmsim capture -o load.parquet --under /var/tmp/db -- python3 load.py /var/tmp/db
    """,
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False},
)
@click.option("-o", "--output", "out", required=True, type=click.Path(), help="Trace to write (Parquet).")
@click.option("--backend", default="strace", show_default=True, help="How to record; see 'scmsim list capture'.")
@click.option("--under", type=click.Path(), help="Keep only files at or below this directory.")
@click.option("--keep-raw", type=click.Path(), help="Also keep the text that the back end wrote.")
@click.argument("command_line", metavar="CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(out: str, backend: str, under: str | None, keep_raw: str | None, command_line: tuple[str, ...]) -> int:
    from scmsim import registry
    from scmsim.cli.trace import progress_bar

    recorder = registry.load("capture", backend)
    with progress_bar("converting") as progress:
        captured = recorder.capture(command_line, out, keep_raw=keep_raw, under=under, progress=progress)
    click.echo(f"scmsim: {out}: {_outcome(captured.report)}", err=True)
    if captured.report.rows == 0:
        hint = f" below {under!r}; check --under" if under else ""
        click.echo(f"scmsim: warning: the command did no file operation{hint}", err=True)
    return int(captured.status)


def _outcome(report: Any) -> str:
    spots = len(report.blind_spots)
    blind = "no blind spots" if not spots else f"{spots} blind spot{'s' * (spots > 1)} (see 'scmsim trace info')"
    bad = f", {report.bad} lines not understood" if report.bad else ""
    return f"{report.rows} operations, {report.files} files, {blind}{bad}"
