"""Capture with strace: complete, no root needed; slow where a program does little but tiny file operations."""

import contextlib
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

from scmsim import __version__
from scmsim.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Captured, check_command
from scmsim.trace.formats._lines import Progress

SUMMARY = "strace with a seccomp filter: no root needed, complete, about 20 us for each file operation"

_OPTIONS = ("-f", "-ttt", "-T", "-y", "-s", "0", "-e", "signal=none")
_FILTER = "--seccomp-bpf"
# not file operations, but with a seccomp filter a new thread stops at every call until it has made these two
_THREAD_START = ("rseq", "set_robust_list")
_FORWARDED = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_WATCHED = _FORWARDED | {signal.SIGCHLD}
_SENT_BY_KERNEL = 0x80  # si_code SI_KERNEL: typed at the terminal, so the command has it already
_POLL_S = 0.5


def capture(
    command: Sequence[str],
    out: str | os.PathLike[str],
    *,
    keep_raw: str | os.PathLike[str] | None = None,
    under: str | None = None,
    progress: Progress | None = None,
) -> Captured:
    """Run a command under strace and store what it did to files.

    Parameters
    ----------
    command : sequence of str
        Program and arguments; never passed through a shell.  Its standard streams are those of this process.
    out : path-like
        The trace to write; replaced only when it is complete.
    keep_raw : path-like, optional
        Keep the text of strace here; without it the text goes to a temporary folder beside `out`, or to TMPDIR.
    under : str, optional
        Keep only files at or below this directory.
    progress : callable, optional
        Called with (bytes read, bytes in all) while the text is converted.
    """
    if not command:
        raise UsageError("no command to run; give it after '--'")
    _check_output(pathlib.Path(out), keep_raw)
    check_command(command)
    with _raw_file(pathlib.Path(out), keep_raw) as raw:
        with _signals_held() as before:
            strace, version, options = _probe()
            start = time.monotonic_ns()
            status = _run([strace, *options, "-o", os.fspath(raw), "--", *command], raw, before)
            ran = {"command": list(command), "status": status, "wall_ns": time.monotonic_ns() - start}
        tool = {"tool_version": version, "options": options[:-2]}  # without the long list of calls
        host = {"kernel": platform.release(), "host": platform.machine()}
        header = {"scmsim": __version__, **tool, **ran, **host}
        return Captured(status, _convert(raw, out, header, under, progress))


def _convert(raw: pathlib.Path, out: Any, header: dict[str, Any], under: str | None, progress: Progress | None) -> Any:
    from scmsim.trace.formats import strace as text
    from scmsim.trace.store import TraceWriter

    if not raw.exists() or raw.stat().st_size == 0:
        raise EnvironmentProblem("strace wrote nothing; see its message above, and try the command without scmsim")
    with TraceWriter(out, header) as writer:
        base = os.path.realpath(under) if under else None
        return text.convert(raw, writer, progress=progress, under=base, cwd=os.getcwd())


def _check_output(out: pathlib.Path, keep_raw: Any) -> None:
    """Find a bad output name before the command runs, not after."""
    for path in [out] + ([pathlib.Path(keep_raw)] if keep_raw is not None else []):
        if path.is_dir():
            raise UsageError(f"{str(path)!r} is a directory; give the name of the file to write")
        if not path.parent.is_dir():
            raise UsageError(f"no directory {str(path.parent)!r} to write {path.name!r} into; make it first")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"{str(path.parent)!r} is not writable; choose another place for {path.name!r}")
    if keep_raw is not None and pathlib.Path(keep_raw).absolute() == out.absolute():
        raise UsageError(f"{str(out)!r} cannot be both the trace and the raw text; give --keep-raw another name")


@contextlib.contextmanager
def _raw_file(out: pathlib.Path, keep_raw: Any) -> Iterator[pathlib.Path]:
    if keep_raw is not None:
        pathlib.Path(keep_raw).unlink(missing_ok=True)
        yield pathlib.Path(keep_raw)
        return
    try:
        folder = tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.absolute().parent)
    except OSError:
        folder = tempfile.mkdtemp(prefix="scmsim-")
    try:
        yield pathlib.Path(folder) / "strace.txt"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _probe() -> tuple[str, str, list[str]]:
    """Path and version of strace and the options that work here; raises EnvironmentProblem if it cannot trace."""
    from scmsim.trace.formats.strace import CALLS

    strace = shutil.which("strace")
    if strace is None:
        raise EnvironmentProblem("strace is not installed; install it, on Debian and Ubuntu with 'apt install strace'")
    version = subprocess.run([strace, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\S+)", version)
    calls = "trace=" + ",".join(f"?{name}" for name in (*sorted(CALLS), *_THREAD_START))
    trouble = ""
    for filters in ([_FILTER], []):
        options = [*_OPTIONS, *filters, "-e", calls]
        test = [strace, *options, "-o", os.devnull, "--", shutil.which("true") or "/bin/true"]
        result = subprocess.run(test, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if result.returncode == 0 and not result.stderr:
            return strace, found[1] if found else "", options
        trouble = (result.stderr.strip().splitlines() or [f"exit status {result.returncode}"])[0]
        if "ermitted" in trouble or "ermission" in trouble:
            break
    raise EnvironmentProblem(_advice(trouble))


def _advice(trouble: str) -> str:
    if "ermitted" in trouble or "ermission" in trouble:
        hint = "in a container add --cap-add=SYS_PTRACE, else see 'sysctl kernel.yama.ptrace_scope', or run as root"
        return f"strace may not trace here ({trouble}); {hint}"
    return f"strace does not work here ({trouble}); update it, or trace elsewhere and use 'scmsim trace convert'"


@contextlib.contextmanager
def _signals_held() -> Iterator[Any]:
    """Block the signals that are for the command; yields the mask that it starts with.

    Threads that start meanwhile (NumPy's) inherit the blocked mask, so that no signal can reach one of them instead.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(argv: list[str], raw: pathlib.Path, mask: Any) -> int:
    """Run strace, passing signals on to the command that it traces; returns the exit status of the command."""

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    process = subprocess.Popen(argv, preexec_fn=unblock)
    while process.poll() is None:
        received = signal.sigtimedwait(_WATCHED, _POLL_S)
        if received is not None and received.si_signo in _FORWARDED and received.si_code != _SENT_BY_KERNEL:
            _pass_on(process.pid, received.si_signo, raw)
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def _pass_on(strace: int, number: int, raw: pathlib.Path) -> None:
    """Send a signal to the traced command: the child of strace, which itself ignores it while it writes a file."""
    try:
        children = pathlib.Path(f"/proc/{strace}/task/{strace}/children").read_text().split()
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN: the first line of the text begins with the process
        with contextlib.suppress(OSError):
            children = raw.read_text(errors="replace").split(maxsplit=1)[:1]
    for child in children[:1]:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(child), number)
