"""Run `perf stat` as a child process: check the permission, probe events, and count one run of a program.

The program runs under `perf stat -D -1 --control`, which leaves counting off until the program itself switches it on around
its loop, or under a plain `perf stat` for a program without that support.  No shell is involved.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf.counts import Event
from scmsim.perf.machine import Machine
from scmsim.perf.parse import parse_stat

TEMPORARY = "scmsim-perf-"  # prefix of the names of temporary folders
_MAX_TEXT = 1 << 24  # bytes of output that are read back
_PR_SET_PDEATHSIG = 1
STDERR = 2  # file descriptor for a measured program's output, because stdout is for results


class Ran(NamedTuple):
    """A counted run: the output of perf stat, the program's output, its exit status, and its messages."""

    stat: str
    stdout: str
    status: int
    stderr: str


class Perf:
    """A perf binary that works here; its temporary files go to `folder`.

    Raises EnvironmentProblem if perf is missing, or counts nothing.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder if folder and "," not in folder else None  # perf splits the fifos' paths at a comma
        path = shutil.which("perf")
        if path is None:
            raise EnvironmentProblem(
                "perf is not installed; install it, on Debian with 'apt install linux-perf', on Ubuntu linux-tools-generic"
            )
        self.path = path
        self.version = self._run(["--version"]).stdout.strip().removeprefix("perf version ")
        self.style = ["-j"]
        if self._run(["stat", "-j", "-e", "task-clock", "--", "true"]).returncode:
            self.style = ["-x", ";"]  # before perf 5.17 there was no -j
            done = self._run(["stat", *self.style, "-e", "task-clock", "--", "true"])
            if done.returncode:
                raise EnvironmentProblem(f"perf stat does not work here: {_first_line(done.stderr)}")

    def why_not(self, event: str) -> str | None:
        """Return None if perf counts the event here, else the reason why it does not."""
        done = self._run(["stat", *self.style, "-e", event, "--", "true"])
        if done.returncode:
            return f"perf does not know {event!r} here"
        try:
            readings = parse_stat(done.stderr)
        except UsageError as error:
            return str(error)
        counted = any(reading.value is not None for reading in readings)
        return None if counted else f"perf: {event} {readings[0].reason}"

    def region(self, command: Sequence[str], events: Sequence[Event], timeout_s: float | None) -> Ran:
        """Count a bundled program (argv, no shell), which switches counting on and off around its loop.

        "{ctl}" and "{ack}" in `command` are replaced by the two fifos.  The program is killed after `timeout_s` seconds.
        Raises EnvironmentProblem if perf was killed, or the run took too long.
        """
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self.folder) as folder:
            out, ctl, ack, stdout, stderr = (
                os.path.join(folder, name) for name in ("stat", "ctl", "ack", "stdout", "stderr")
            )
            os.mkfifo(ctl, 0o600)
            os.mkfifo(ack, 0o600)
            command = [{"{ctl}": ctl, "{ack}": ack}.get(word, word) for word in command]
            argv = self._stat(out, events, command, ["-D", "-1", "--control", f"fifo:{ctl},{ack}"])
            with open(stdout, "wb") as to, open(stderr, "wb") as messages:
                status = run(argv, timeout_s, stdin=subprocess.DEVNULL, stdout=to, stderr=messages, env=_environment())
            return Ran(_read(out), _read(stdout), status, _read(stderr))

    def program(self, command: Sequence[str], events: Sequence[Event]) -> Ran:
        """Count any program from start to end; it keeps the standard input, and its output goes to this process's stderr."""
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=self.folder) as folder:
            out = os.path.join(folder, "stat")
            status = run(self._stat(out, events, command, []), None, own_group=False, stdout=STDERR)
            return Ran(_read(out), "", status, "")

    def _stat(self, out: str, events: Sequence[Event], command: Sequence[str], control: list[str]) -> list[str]:
        asked = ",".join(dict.fromkeys(event.asked() for event in events))  # one event may supply two fields
        return [self.path, "stat", *self.style, *control, "-e", asked, "-o", out, "--", *command]

    def _run(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                [self.path, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                env=_environment(),
                timeout=60,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EnvironmentProblem(f"perf cannot be run: {str(error).lower()}") from None


def run(argv: Sequence[str], timeout_s: float | None, *, own_group: bool = True, **streams: Any) -> int:
    """Run perf until it ends and return its exit status.

    perf never outlives this call or this process, even if the process is killed.  With `own_group`, perf and the program are in
    a process group of their own, which can be ended as a whole; a program that reads from the terminal must stay in ours.
    """
    libc = ctypes.CDLL(None)

    def die_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    try:
        child = subprocess.Popen(argv, process_group=0 if own_group else None, preexec_fn=die_with_parent, **streams)
    except OSError as error:
        raise EnvironmentProblem(f"{argv[0]!r} cannot be run: {(error.strerror or str(error)).lower()}") from None
    try:
        status = child.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise EnvironmentProblem(f"perf stat did not end within {timeout_s:.0f} s; is the file system hung?") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL) if own_group else child.kill()
        child.wait()
    if status < 0:
        raise EnvironmentProblem(f"perf was killed by {signal.Signals(-status).name}; run the same command again")
    return status


def check_permission(count: str, machine: Machine) -> None:
    """Raise EnvironmentProblem unless this process may count in the modes of `count` ("all", "split" or "user").

    Levels: Documentation/admin-guide/sysctl/kernel.rst (2: no kernel mode); 3 and 4 are patches of Debian and Ubuntu and
    allow nothing.
    """
    level = machine.paranoia()
    remedy = "run as root, give perf CAP_PERFMON, or 'sysctl kernel.perf_event_paranoid=1'"
    if level >= 3:
        raise EnvironmentProblem(f"kernel.perf_event_paranoid is {level}: nothing may be counted; {remedy}")
    if level == 2 and count != "user":
        raise EnvironmentProblem(
            f"kernel.perf_event_paranoid is {level}: the kernel, where a file system runs, may not be counted; {remedy}, or "
            "count only user mode (--count user; in a matrix file count = 'user')"
        )


def why_no_tracepoints(machine: Machine) -> str | None:
    """Return None if system calls can be counted by their tracepoints, else the reason why not."""
    if machine.paranoia() > -1:
        return f"tracepoints need root or CAP_PERFMON while kernel.perf_event_paranoid is {machine.paranoia()}"
    if not machine.names("/sys/kernel/tracing/events/raw_syscalls"):
        return "tracefs is not readable; 'mount -t tracefs nodev /sys/kernel/tracing'"
    return None


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}  # numbers with a point, messages in English


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_TEXT).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "it said nothing")
