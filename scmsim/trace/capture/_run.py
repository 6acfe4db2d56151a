"""What every capture does: check the output name, hold the signals, run the command, convert the text, store."""

import contextlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scmsim import __version__
from scmsim.drafts import writable
from scmsim.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Options
from scmsim.trace.formats._lines import Progress
from scmsim.trace.formats._report import Report

FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_WATCHED = FORWARDED | {signal.SIGCHLD}
_SENT_BY_KERNEL = 0x80  # si_code SI_KERNEL: typed at the terminal, so the command has it already
_POLL_S = 0.5


def check_output(out: pathlib.Path, keep_raw: Any) -> None:
    """Find a bad output name before the command runs, not after."""
    for path in [out] + ([pathlib.Path(keep_raw)] if keep_raw is not None else []):
        writable(path)
    if keep_raw is not None and pathlib.Path(keep_raw).absolute() == out.absolute():
        raise UsageError(f"{str(out)!r} cannot be both the trace and the raw text; give --keep-raw another name")


@contextlib.contextmanager
def work_folder(out: pathlib.Path) -> Iterator[pathlib.Path]:
    """A temporary folder beside `out`, or in TMPDIR; removed with all that is in it."""
    try:
        folder = tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent)
    except OSError:
        folder = tempfile.mkdtemp(prefix="scmsim-")
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def raw_file(out: pathlib.Path, keep_raw: Any) -> Iterator[pathlib.Path]:
    """Where the text of a tracer goes: the name given, or one that is removed in the end."""
    if keep_raw is not None:
        pathlib.Path(keep_raw).unlink(missing_ok=True)
        yield pathlib.Path(keep_raw)
        return
    with work_folder(out) as folder:
        yield folder / "strace.txt"


@contextlib.contextmanager
def signals_held() -> Iterator[Any]:
    """Block the signals that are for the command; yields the mask that it starts with.

    Threads that start meanwhile (NumPy's) inherit the blocked mask, so that no signal can reach one of them instead.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(argv: Sequence[str], mask: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process with a signal mask; never through a shell."""

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return subprocess.Popen(argv, preexec_fn=unblock, **options)


def run(argv: Sequence[str], mask: Any, passed_on: Callable[[int, int], None]) -> tuple[int, int]:
    """Run a program; returns its exit status and its number.

    `passed_on(pid of the program, signal)` is called for each signal that somebody sends to this process meanwhile.
    """
    process = start(argv, mask, close_fds=False)  # Python's own are closed by execve; the others are for the command
    while process.poll() is None:
        received = signal.sigtimedwait(_WATCHED, _POLL_S)
        if received is not None and received.si_signo in FORWARDED and received.si_code != _SENT_BY_KERNEL:
            passed_on(process.pid, received.si_signo)
    return 128 - process.returncode if process.returncode < 0 else process.returncode, process.pid


def wait_for_stop(alive: Callable[[], bool], seconds: float | None) -> None:
    """Wait until the process has ended, a signal says stop, or the time is over; signals must be held."""
    end = None if seconds is None else time.monotonic() + seconds
    while alive():
        left = _POLL_S if end is None else min(_POLL_S, end - time.monotonic())
        received = signal.sigtimedwait(_WATCHED, max(left, 0))
        if received is not None and received.si_signo in FORWARDED:
            return
        if end is not None and time.monotonic() >= end:
            return


def facts(command: Sequence[str], options: Options, status: int, started_ns: int) -> dict[str, Any]:
    """The part of a trace's header that says what was captured, where, and how long it took."""
    what = {"command": list(command)} if options.pid is None else {"pid": options.pid}
    ran = {**what, "status": status, "wall_ns": time.monotonic_ns() - started_ns}
    return {"scmsim": __version__, **ran, "kernel": platform.release(), "host": platform.machine()}


def store(
    raw: pathlib.Path,
    out: str | os.PathLike[str],
    header: dict[str, Any],
    *,
    under: str | None,
    progress: Progress | None,
    options: Options,
    cwd: str | None = None,
) -> Report:
    """Convert the text of a capture to the trace; `header` wins over what the importer says."""
    from scmsim.trace.capture._writer import CaptureWriter
    from scmsim.trace.formats import strace as text

    if not raw.exists() or raw.stat().st_size == 0:
        raise EnvironmentProblem("strace wrote nothing; see its message above, and try the command without scmsim")
    with CaptureWriter(out, {**header, **options.facts}, options.anonymize) as writer:
        base = os.path.realpath(under) if under else None
        report = text.convert(raw, writer, progress=progress, under=base, cwd=cwd or os.getcwd())
    report.blind_spots, report.notes = writer.header["blind_spots"], writer.header["notes"]
    return report
