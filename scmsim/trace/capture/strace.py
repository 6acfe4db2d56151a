"""Capture with strace: complete, no root needed; slow for programs that do little but tiny file operations."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Captured, _initial_descriptors
from scmsim.trace.capture import _run as common

SUMMARY = "strace with a seccomp filter: no root needed, complete, about 20 us for each file operation"

_OPTIONS = ("-f", "-ttt", "-T", "-y", "-s", "0", "-e", "signal=none")
_FILTER = "--seccomp-bpf"
# not file operations, but with a seccomp filter a new thread stops at every call until it has made both calls
THREAD_START = ("rseq", "set_robust_list")
_ATTACH_S = 10.0


@common.recorder
def capture(job: common.Job) -> Captured:
    """Run a command under strace, or attach strace to a process, and store its file operations."""
    options = job.options
    if options.page_touches:
        raise UsageError("strace sees no page touches; use --mmap with --backend hybrid or --backend perf")
    with job.prepared() as (_, raw):
        with common.signals_held() as before:
            strace, version, flags = probe(filtered=options.pid is None)
            start = time.monotonic_ns()
            with common.collected(raw, kept=job.is_kept) as pipe:
                argv = [strace, *flags, "-o", pipe]
                if options.pid is None:
                    status, _ = common.run([*argv, "--", *job.command], before, lambda pid, n: pass_on(pid, n, raw))
                    cwd = None
                else:
                    status, cwd = 0, _attach(argv, options.pid, options.seconds, raw, before)
        tool = {"tool_version": version, "options": flags[:-2]}  # without the long list of calls
        header = {**tool, **job.facts(status, start)}
        return job.store(status, raw, header, cwd=cwd)


def probe(calls: Sequence[str] | None = None, *, filtered: bool = True) -> tuple[str, str, list[str]]:
    """Return strace's path, its version and the options that work here; raise EnvironmentProblem if it cannot trace.

    Parameters
    ----------
    calls : sequence of str, optional
        The calls to record; by default all calls that the importer knows.
    filtered : bool
        Use a seccomp filter if strace can (it cannot when attaching).
    """
    from scmsim.trace.syscalls.handlers import CALLS

    strace = shutil.which("strace")
    if strace is None:
        raise EnvironmentProblem("strace is not installed; install it, on Debian and Ubuntu with 'apt install strace'")
    version = subprocess.run([strace, "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\S+)", version)
    listed = "trace=" + ",".join(f"?{name}" for name in (*sorted(calls or CALLS), *THREAD_START))
    trouble = ""
    for filters in ([_FILTER], []) if filtered else ([],):
        options = [*_OPTIONS, *filters, "-e", listed]
        test = [strace, *options, "-o", os.devnull, "--", shutil.which("true") or "/bin/true"]
        result = subprocess.run(test, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        common.stop_if_asked()
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


def pass_on(strace: int, number: int, raw: pathlib.Path) -> None:
    """Send a signal to the traced command, the child of strace; strace itself ignores signals while it writes a file."""
    try:
        children = pathlib.Path(f"/proc/{strace}/task/{strace}/children").read_text().split()
    except OSError:  # a kernel without CONFIG_PROC_CHILDREN: the first line of the text begins with the process
        with contextlib.suppress(OSError):
            children = raw.read_text(errors="replace").split(maxsplit=1)[:1]
    for child in children[:1]:
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(child), number)


def _attach(argv: list[str], pid: int, seconds: float | None, raw: pathlib.Path, mask: Any) -> str:
    """Trace a running process until it ends or a signal stops the capture; return its working directory.

    The text begins with lines that describe the process's open descriptors; strace's lines follow.
    """
    with _initial_descriptors.frozen(pid):
        cwd = _initial_descriptors.write(pid, raw)
        tracer = common.start(
            [*argv, "-q", "-p", str(pid)],
            mask,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        problem = _wait_attached(tracer, pid)
    if problem is None:
        common.wait_for_stop(lambda: tracer.poll() is None, seconds)
    if tracer.poll() is None:
        tracer.send_signal(signal.SIGINT)  # strace then detaches, the process goes on
    _, said = tracer.communicate()
    if problem is not None:
        raise EnvironmentProblem(_advice(said.decode(errors="replace").strip().partition("\n")[0] or problem))
    return cwd


def _wait_attached(tracer: subprocess.Popen[bytes], pid: int) -> str | None:
    """Wait until every thread of a process is traced; return the problem, or None."""
    end = time.monotonic() + _ATTACH_S
    while time.monotonic() < end:
        if tracer.poll() is not None:
            return f"exit status {tracer.returncode}"
        if _initial_descriptors.traced(pid):
            return None
        time.sleep(0.01)
    return f"not attached after {_ATTACH_S:.0f} s"
