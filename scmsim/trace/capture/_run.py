"""Share the steps of all captures: check the arguments, hold signals, run the command, convert the text, store."""

import contextlib
import dataclasses
import fcntl
import functools
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scmsim import __version__
from scmsim.core.atomic import OF_THE_DISK, writable
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace._path import trace_path
from scmsim.trace.capture import Captured, Options, check_target
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report

FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_WATCHED = FORWARDED | {signal.SIGCHLD}
_SENT_BY_KERNEL = 0x80  # si_code SI_KERNEL: typed at the terminal, so the command has received it too
_POLL_S = 0.5
Sieve = Callable[[bytes], bytes]
_PIPE = 1 << 20  # size of the pipe between a tracer and its file, bytes; the tracer waits while it is full
_NAP_S = 0.002  # pause between two reads of the pipe, s: a read per line would take CPU time from the program


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of capturing: a command, or the process that `options` names, and where to store its calls.

    Attributes
    ----------
    command : sequence of str
        Program and arguments; never passed through a shell.  Its standard streams are those of this process.
        Empty if `options` names a process.
    out : path-like
        The trace to write; replaced only when it is complete.
    keep_raw : path-like, optional
        Keep the tracer's text here; if None, the text goes to a temporary folder beside `out`, or to TMPDIR.
    under : str, optional
        Keep only files at or below this directory.
    progress : callable, optional
        Called with (bytes read, total bytes) while the text is converted.
    """

    command: Sequence[str]
    out: str | os.PathLike[str]
    keep_raw: str | os.PathLike[str] | None
    under: str | None
    progress: Progress | None
    options: Options

    @property
    def is_kept(self) -> bool:
        """Return whether the user named the file for the tracer's text."""
        return self.keep_raw is not None

    @contextlib.contextmanager
    def prepared(self) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
        """Check the arguments; yield a temporary folder, and the file for the tracer's text.

        The file is `keep_raw` if given, else in the folder, which is removed at the end.
        """
        check_target(self.command, self.options.pid)
        _check_output(pathlib.Path(self.out), self.keep_raw)
        with _work_folder(pathlib.Path(self.out)) as work:
            if self.keep_raw is None:
                yield work, work / "strace.txt"
            else:
                pathlib.Path(self.keep_raw).unlink(missing_ok=True)
                yield work, pathlib.Path(self.keep_raw)

    def facts(self, status: int, started_ns: int) -> dict[str, Any]:
        """Return the entries of a trace's header about the captured program, the machine and the wall-clock time."""
        what = {"command": list(self.command)} if self.options.pid is None else {"pid": self.options.pid}
        ran = {**what, "status": status, "wall_ns": time.monotonic_ns() - started_ns}
        return {"scmsim": __version__, **ran, "kernel": platform.release(), "host": platform.machine()}

    def store(
        self,
        status: int,
        raw: pathlib.Path,
        header: dict[str, Any],
        *,
        cwd: str | None = None,
        convert: Callable[..., Report] | None = None,
        tool: str = "strace",
    ) -> Captured:
        """Convert the tracer's text `raw` to the trace, by default as strace text; `header` overrides the importer's entries."""
        from scmsim.trace.capture._writer import CaptureWriter
        from scmsim.trace.formats.tracers import strace

        convert = convert or strace.convert
        if not raw.exists() or raw.stat().st_size == 0:
            raise EnvironmentProblem(f"{tool} wrote no text; see its message above, and try the command without scmsim")
        with CaptureWriter(self.out, {**header, **self.options.facts}, self.options.anonymize) as writer:
            base = os.path.realpath(self.under) if self.under else None
            report = convert(raw, writer, progress=self.progress, under=base, cwd=cwd or os.getcwd())
        report.blind_spots, report.notes = writer.header["blind_spots"], writer.header["notes"]
        report.lost_events, report.unpaired = writer.header["lost_events"], writer.header.get("unpaired_calls", 0)
        return Captured(status, report)


def recorder(record: Callable[[Job], Captured]) -> Callable[..., Captured]:
    """Turn a function of a `Job` into a back end's `capture`, whose parameters are the fields of the job."""

    @functools.wraps(record)
    def capture(
        command: Sequence[str],
        out: str | os.PathLike[str],
        *,
        keep_raw: str | os.PathLike[str] | None = None,
        under: str | None = None,
        progress: Progress | None = None,
        options: Options | None = None,
    ) -> Captured:
        return record(Job(command, out, keep_raw, under, progress, options or Options()))

    return capture


def _check_output(out: pathlib.Path, keep_raw: Any) -> None:
    """Raise an error for a bad output name before the command runs."""
    trace_path(out)
    if keep_raw is not None:
        writable(keep_raw)
    if keep_raw is not None and pathlib.Path(keep_raw).absolute() == out.absolute():
        raise UsageError(f"{str(out)!r} cannot be both the trace and the raw text; give --keep-raw another name")


@contextlib.contextmanager
def _work_folder(out: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a temporary folder beside `out`, or in TMPDIR; remove it with its contents at the end."""
    try:
        folder = tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent)
    except OSError:
        folder = tempfile.mkdtemp(prefix="scmsim-")
    try:
        yield pathlib.Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def disk_watched(path: pathlib.Path, *, kept: bool) -> Iterator[None]:
    """Raise EnvironmentProblem (one line) for a full or broken disk; `kept`: whether the user named the file `path`."""
    try:
        yield
    except OSError as error:
        if error.errno not in OF_THE_DISK:
            raise
        raise no_room(path, os.strerror(error.errno), kept=kept) from None


def no_room(path: pathlib.Path, reason: str, *, kept: bool) -> EnvironmentProblem:
    """Return the error for a recording that does not fit on the disk; for a temporary recording, name the folder."""
    where = os.fspath(path if kept else path.absolute().parent.parent)
    return EnvironmentProblem(
        f"cannot write the recording to {where!r}: {reason.lower()}; the command ran, but there is no trace: "
        "free disk space, or name another disk with -o or --keep-raw"
    )


@contextlib.contextmanager
def collected(raw: pathlib.Path, *, kept: bool, sieve: Sieve | None = None) -> Iterator[str]:
    """Yield the path of a pipe for a tracer; append what the tracer writes to `raw`.

    `sieve` returns the part of each block to append; its last call gets an empty block.
    Without a pipe, a tracer on a full disk would print an error for each line on the command's stderr.

    Raises EnvironmentProblem if the text did not fit on the disk.  The command has then run to its end, and `raw` is
    empty if it is a temporary file.
    """
    source, sink = os.pipe()
    with contextlib.suppress(OSError):  # an ordinary user may be limited to a smaller pipe
        fcntl.fcntl(sink, fcntl.F_SETPIPE_SZ, _PIPE)
    problems: list[OSError] = []
    with open(raw, "ab", buffering=0) as file:
        thread = threading.Thread(target=_copy, args=(source, file, problems, kept, sieve), daemon=True)
        thread.start()
        try:
            yield f"/proc/{os.getpid()}/fd/{sink}"
        finally:
            os.close(sink)
            thread.join()
            os.close(source)
    with disk_watched(raw, kept=kept):
        for problem in problems:
            raise problem


def _copy(source: int, file: Any, problems: list[OSError], kept: bool, sieve: Sieve | None) -> None:
    """Copy a pipe to a file until all writers have closed the pipe; after an error, read without writing."""
    is_open = True
    while is_open:
        read = os.read(source, _PIPE)
        is_open = bool(read)
        block = memoryview(read if sieve is None else sieve(read))
        try:
            while block and not problems:
                block = block[file.write(block) :]
        except OSError as error:
            problems.append(error)
            if not kept:  # the command may need the disk space
                file.truncate(0)
        if sieve is None:
            time.sleep(_NAP_S)


@contextlib.contextmanager
def signals_held() -> Iterator[Any]:
    """Block the signals that are for the command; yield the previous mask, for the command.

    NumPy starts threads when it is loaded. It is loaded here because threads inherit the blocked mask, so that none of
    them can receive a signal instead.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        import numpy  # noqa: F401

        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_if_asked() -> None:
    """Exit if a signal arrived before the command runs; later signals are for the command."""
    received = signal.sigtimedwait(FORWARDED, 0)
    if received is not None and received.si_signo == signal.SIGINT:
        raise KeyboardInterrupt
    if received is not None:
        raise SystemExit(128 + received.si_signo)


def start(argv: Sequence[str], mask: Any, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process with a signal mask, never through a shell."""

    def unblock() -> None:
        for number in FORWARDED:  # a signal before execve must end the child, not run a Python handler
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return subprocess.Popen(argv, preexec_fn=unblock, **options)


def run(argv: Sequence[str], mask: Any, passed_on: Callable[[int, int], None]) -> tuple[int, int]:
    """Run a program; return its exit status and its pid.

    Call `passed_on(pid of the program, signal)` for each signal that another process sends to this process meanwhile.
    """
    stop_if_asked()
    process = start(argv, mask, close_fds=False)  # execve closes Python's descriptors; the command inherits the others
    while process.poll() is None:
        received = signal.sigtimedwait(_WATCHED, _POLL_S)
        if received is not None and received.si_signo in FORWARDED and received.si_code != _SENT_BY_KERNEL:
            passed_on(process.pid, received.si_signo)
    while signal.sigtimedwait(_WATCHED, 0):  # drop signals that came just before the command ended: they were for it
        pass
    return 128 - process.returncode if process.returncode < 0 else process.returncode, process.pid


def wait_for_stop(alive: Callable[[], bool], seconds: float | None) -> None:
    """Wait until the process ends, a signal arrives, or the time is over; the caller must hold signals."""
    end = None if seconds is None else time.monotonic() + seconds
    while alive():
        left = _POLL_S if end is None else min(_POLL_S, end - time.monotonic())
        received = signal.sigtimedwait(_WATCHED, max(left, 0))
        if received is not None and received.si_signo in FORWARDED:
            return
        if end is not None and time.monotonic() >= end:
            return
