"""Record tracepoints with perf: start perf on a process and its descendants, stop it, read its events."""

import contextlib
import errno
import itertools
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

from scmsim.core.errors import EnvironmentProblem
from scmsim.trace.capture import Options, _initial_descriptors
from scmsim.trace.capture import _run as common
from scmsim.trace.capture._merge import Merged

CALLS = ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit")
FAULTS = ("exceptions:page_fault_user",)
DAX_FAULTS = ("fs_dax:dax_pmd_fault_done", "fs_dax:dax_pte_fault_done")  # tracepoints that only some kernels have
TOUCHES = (
    "page touches: load and store rows are page faults of mapped files, so each is the first touch of a page since it was "
    "mapped, written back or evicted; later touches, and pages that the kernel maps along with a neighbour, are not seen"
)
_TRACING = (pathlib.Path("/sys/kernel/tracing"), pathlib.Path("/sys/kernel/debug/tracing"))
_READY_S = 20.0
_SAID = "perf.err"  # file with perf's messages
_LOST = re.compile(r"PERF_RECORD_LOST lost (\d+)")
_LOST_SAMPLES = re.compile(
    r"LOST_SAMPLES events: +(\d+)$", re.MULTILINE
)  # lines that go on with a percentage count records, not events

# pattern of perf's message -> advice; the first match counts
_HELP = (
    ("mlock|mapping pages", "take a smaller --buffer, or allow more with 'sysctl kernel.perf_event_mlock_kb=65536'"),
    (
        "tracing/events|tracefs|debugfs|unknown tracepoint|trace events",
        "mount tracefs ('mount -t tracefs none /sys/kernel/tracing') and make it readable, or run as root",
    ),
    (
        "permission|paranoid|not permitted|access to performance",
        "allow it with 'sysctl kernel.perf_event_paranoid=-1', or run as root (or with CAP_PERFMON)",
    ),
    ("control|unknown option", "perf is too old (5.10 or newer is needed): update perf"),
    ("", "see 'scmsim list capture' for other back ends"),
)
_TELLS = re.compile(r"permission|^access to|not found|no such|can't|failed", re.IGNORECASE).search


def events(options: Options, *tasks: str) -> list[str]:
    """Return the tracepoints that a capture needs; `tasks` are those that it needs for new processes."""
    out = [*CALLS, "sched:sched_process_exit", *tasks]
    if options.page_touches:
        if not has_event(FAULTS[0]):
            raise EnvironmentProblem(
                f"no tracepoint {FAULTS[0]} here; mount tracefs ('mount -t tracefs none /sys/kernel/tracing') "
                "or capture without --mmap"
            )
        out += [*FAULTS, *filter(has_event, DAX_FAULTS)]
    return out


def boot_s() -> int:
    """Return the time when the machine booted, in seconds since 1970: perf's clock counts from there."""
    return int(time.time() - time.clock_gettime(time.CLOCK_MONOTONIC))


def write(file: IO[bytes], lines: Iterator[str], root: int, seeds: list[bytes]) -> None:
    """Write `seeds` (calls that describe the open descriptors of process `root`) at the first line's time, then the lines."""
    first = next(lines, None)
    if first is None:
        raise EnvironmentProblem("perf recorded no call of the command; see 'perf record -e raw_syscalls:* true'")
    file.write(_initial_descriptors.lines(root, seeds, first.split(" ", 2)[1]))
    for line in itertools.chain((first,), lines):
        file.write(line.encode("latin-1"))


def account(recorded: "Recording", merged: Merged, options: Options) -> dict[str, Any]:
    """Return the header's entries about a recording of perf."""
    lost, notes = recorded.count_lost(), []
    if lost:
        more = f"--buffer {4 * options.pages}"
        notes.append(
            f"{lost} events were lost: rows are missing, positions after them may be wrong; {more} loses fewer"
        )
    if merged.unpaired:
        notes.append(f"{merged.unpaired} calls were seen by only one of strace and perf; they have no row")
    out: dict[str, Any] = {"lost_events": lost, "unpaired_calls": merged.unpaired}
    out |= {"calls_with_names": merged.paired, "calls_from_perf": merged.plain}
    if options.page_touches:
        out["page_faults"] = merged.faults
        notes.append(TOUCHES)
        if merged.dax:
            out["dax_faults"] = dict(sorted(merged.dax.items()))
    return {**out, "notes": notes}


class Recording:
    """A running `perf record`; once it has been stopped, `lines` decodes its data."""

    def __init__(self, process: subprocess.Popen[bytes], data: pathlib.Path, version: str, options: list[str]) -> None:
        self.version = version
        self.options = options
        self._lost = 0
        self._process = process
        self._data = data

    def stop(self) -> None:
        """Stop perf, wait until it has written its buffers and ended; raise EnvironmentProblem if perf failed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        ended = self._process.wait()
        said = (self._data.parent / _SAID).read_text(errors="replace").strip().splitlines() or [f"status {ended}"]
        full = os.strerror(errno.ENOSPC)
        if any(full in line for line in said):
            raise common.no_room(self._data, full, kept=False)
        if ended not in (0, -signal.SIGINT):
            raise EnvironmentProblem(f"perf failed while it recorded ({said[-1].strip()}); no trace was written")

    def lines(self) -> Iterator[str]:
        """Yield the events by time, as `perf script` writes them."""
        argv = [
            _perf(),
            "script",
            "-i",
            os.fspath(self._data),
            "--ns",
            "--show-lost-events",
            "-F",
            "pid,tid,time,event,trace",
        ]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="latin-1") as script:
            assert script.stdout is not None
            for line in script.stdout:
                if "PERF_RECORD_LOST" in line and (found := _LOST.search(line)):
                    self._lost += int(found[1])
                else:
                    yield line
        if script.returncode:
            raise EnvironmentProblem(
                f"perf script failed (exit status {script.returncode}); update perf, or use strace"
            )

    def count_lost(self) -> int:
        """Return how many events the kernel dropped.

        Kernels since 6.0 count dropped events exactly (LOST_SAMPLES).  Older kernels report them once the buffer has
        space again (LOST), so the count is known only after `lines` has been read to its end.
        """
        argv = [_perf(), "report", "-i", os.fspath(self._data), "--stats"]
        told = subprocess.run(argv, capture_output=True, encoding="latin-1", stdin=subprocess.DEVNULL, check=False)
        return max(self._lost, sum(map(int, _LOST_SAMPLES.findall(told.stdout))))


def _perf() -> str:
    perf = shutil.which("perf")
    if perf is None:
        raise EnvironmentProblem(
            "perf is not installed; install it, on Debian with 'apt install linux-perf', or use --backend strace"
        )
    return perf


def has_event(event: str) -> bool:
    """Return whether the kernel has a tracepoint; False also if tracefs cannot be read."""
    return any((root / "events" / event.replace(":", "/")).is_dir() for root in _TRACING)


@contextlib.contextmanager
def recording(
    folder: pathlib.Path, pid: int, events: Sequence[str], conditions: Sequence[str], pages: int
) -> Iterator[Recording]:
    """Record tracepoints of a process and of the processes that it starts from now on.

    Parameters
    ----------
    folder : path
        Folder for perf's files.
    pid : int
        An existing process; the pid of this Python process records the children that it starts.
    events : sequence of str
        Tracepoints, group:name.
    conditions : sequence of str
        Conditions of the kernel's filter, joined by &&.
    pages : int
        Size of the ring buffer per CPU, in pages of 4 KiB.

    Raises EnvironmentProblem if perf is missing or may not record here; the message has a command that helps.
    """
    data, control, answer = folder / "perf.data", folder / "control", folder / "answer"
    for name in (control, answer):
        os.mkfifo(name)
    condition = ["--filter", " && ".join(conditions)] if conditions else []
    argv = [_perf(), "record", "-N", "-B", "-D", "-1", "--control", f"fifo:{control},{answer}"]
    for event in events:
        argv += ["-e", event, *condition]
    argv += ["-m", str(pages), "-o", os.fspath(data), "-p", str(pid)]
    options = ["-m", str(pages), "-e", ",".join(events), *condition]
    # in its own session: Ctrl-C is for the command only; perf is stopped after the command ended
    with open(folder / _SAID, "w+b") as said:
        process = common.start(argv, (), stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
        try:
            _enable(process, control, answer, said)
            found = subprocess.run([argv[0], "--version"], capture_output=True, text=True, check=False).stdout
            version = found.removeprefix("perf version ").strip()
            recorded = Recording(process, data, version, options)
            yield recorded
            recorded.stop()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _enable(process: subprocess.Popen[bytes], control: pathlib.Path, answer: pathlib.Path, said: Any) -> None:
    """Switch on perf's events, and wait until perf confirms it."""
    # both pipes are opened for reading and writing, so that neither open waits for a perf that has failed
    sender, receiver = os.open(control, os.O_RDWR), os.open(answer, os.O_RDWR)
    try:
        os.write(sender, b"enable\n")
        end = time.monotonic() + _READY_S
        while process.poll() is None and time.monotonic() < end:
            if select.select([receiver], [], [], 0.05)[0]:
                os.read(receiver, 64)
                return
    finally:
        os.close(sender)
        os.close(receiver)
    said.seek(0)
    raise EnvironmentProblem(advice(said.read().decode(errors="replace")))


def advice(said: str) -> str:
    """Return one line with perf's message and advice."""
    parts = (line.strip().removeprefix("Error:").strip().rstrip(".:") for line in said.splitlines())
    lines = [part for part in parts if re.search(r"[a-z]{3}", part)] or ["no message"]
    first = next((line for line in lines if _TELLS(line)), lines[0])
    help_ = next(text for sign, text in _HELP if re.search(sign, said, re.IGNORECASE))
    return f"perf may not record here ({first}); {help_}, or use --backend strace"
