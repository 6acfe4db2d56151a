"""`scmsim demo`: show, step by step, how a real program's file operations become a table of counters."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import click

SUMMARY = "Capture a real program, replay it on ext4, ext4-DAX and NOVA, and show the comparison."

FILE_SYSTEMS = "ext4,ext4-dax,nova-cow,nova-inplace"
MACHINE = "i7-8700k"
_TRACES = (pathlib.Path(__file__).parents[1] / "traces", pathlib.Path(__file__).parents[2] / "traces")
STORED = "sqlite-load.parquet"
PROGRAM = "make_sqlite.py"


@click.command("demo", help=SUMMARY)
@click.option("--keep", type=click.Path(), help="Keep the captured trace here (.parquet).")
def command(keep: str | None) -> None:
    from scmsim.cli.replay import run_all
    from scmsim.core.atomic import whole, writable
    from scmsim.pipeline import DEFAULTS

    if keep is not None:
        writable(keep)
    folder = next(path for path in _TRACES if (path / STORED).exists())
    with tempfile.TemporaryDirectory(prefix="scmsim-demo-") as scratch:
        trace = _capture(folder / PROGRAM, pathlib.Path(scratch)) or folder / STORED
        if keep is not None:
            with whole(keep) as draft:
                shutil.copyfile(trace, draft)
        click.echo(f"\n2. replaying it on {FILE_SYSTEMS.replace(',', ', ')} with the TLB of {MACHINE}\n")
        job = {"trace": str(trace), "fs": FILE_SYSTEMS, "params": {}, **DEFAULTS, "machine": MACHINE}
        click.echo(run_all([job], {}, None).table())
    click.echo(_NEXT.format(trace=keep or os.path.relpath(folder / STORED)))


def _capture(program: pathlib.Path, scratch: pathlib.Path) -> pathlib.Path | None:
    """Capture a trace of an SQLite load under strace; print why and return None if that is impossible here."""
    click.echo("1. capturing a real program: an SQLite load through Python's own sqlite3 module, under strace")
    if shutil.which("strace") is None:
        click.echo(f"   strace is not installed (apt-get install strace); using the stored trace {STORED}")
        return None
    trace, database = scratch / "sqlite.parquet", scratch / "database"
    database.mkdir()
    line = [sys.executable, "-m", "scmsim", "capture", "--under", str(database), "-o", str(trace), "--"]
    line += [sys.executable, str(program), str(database)]
    # in its own session, so that Ctrl-C does not reach it: the program would print a Python traceback
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, start_new_session=True) as child:
        try:
            status = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    if status or not trace.exists():
        click.echo(f"   capturing did not work here (exit status {status}); using the stored trace {STORED}")
        return None
    return trace


_NEXT = """
What to try next
  scmsim capture -o mine.parquet -- YOUR-PROGRAM ...     the file operations of your own program
  scmsim replay {trace} --fs ext4-dax,nova-cow --by site      which mechanism causes what
  scmsim replay {trace} --fs nova-cow --paging base-4k   small pages in place of 1 GiB ones
  scmsim synth microbench --op rewrite --unit 1KiB -o micro.parquet && scmsim replay micro.parquet
  scmsim list fs                                         all models; also machine, paging, medium, workload, format
"""
