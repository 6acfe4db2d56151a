"""Capture with a bpftrace program (`calls.bt`): all calls with names, io_uring with offsets; needs root and BTF."""

import contextlib
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator

from scmsim.core.errors import EnvironmentProblem
from scmsim.trace.capture import Captured, Options, _initial_descriptors
from scmsim.trace.capture import _run as common
from scmsim.trace.capture._perf import TOUCHES, has_event

SUMMARY = (
    "bpftrace: every call with its names, io_uring with offsets; a third of the cost of strace; needs root and BTF"
)

_PROGRAM = pathlib.Path(__file__).with_name("calls.bt")
_BTF = pathlib.Path("/sys/kernel/btf/vmlinux")
_PATIENCE_S = 180.0  # time limit of bpftrace's start, s; it takes a minute on an emulated CPU
_STRLEN = "200"  # maximum characters of a path; more do not fit on the stack of a BPF program
_HARMLESS = re.compile(r"RLIMIT_MEMLOCK|Addrspace is not set|^\s*$")
_BORN = re.compile(r"n \d+ (\d+) \d+ (\d+) ")  # parent, child; part of a path that contains a line break may also match
_ELSE = "or use --backend strace"


@common.recorder
def capture(job: common.Job) -> Captured:
    """Run a command, or attach to a process, and store its file operations."""
    from scmsim.trace.formats.tracers import bpftrace as text

    options = job.options
    with job.prepared() as (work, raw):
        with common.signals_held() as before:
            version, start, status, cwd = probe(), time.monotonic_ns(), 0, os.getcwd()
            seeds = _initial_descriptors.descriptors(os.getpid(), inherited_only=True)
            since = 0
            with _recording(work, options) as recorded:
                if options.pid is None:
                    status, root = common.run(job.command, before, os.kill)
                    roots = [root]
                else:
                    with _initial_descriptors.frozen(options.pid):
                        cwd, seeds = _initial_descriptors.running(options.pid)
                        roots = _initial_descriptors.thread_ids(options.pid)
                        since = time.clock_gettime_ns(time.CLOCK_BOOTTIME)  # the clock of bpftrace's nsecs
                    common.wait_for_stop(lambda: _initial_descriptors.alive(roots[0]), options.seconds)
        header = {"tool": "bpftrace", "tool_version": version, "options": [_PROGRAM.name]}
        header |= job.facts(status, start)
        header["notes"] = [TOUCHES] if options.page_touches else []
        with (
            common.disk_watched(raw, kept=job.is_kept),
            open(raw, "w", encoding="latin-1", newline="\n") as file,
        ):
            file.write(text.TITLE + "\n")
            file.writelines(f"{roots[0]} {seed.decode('latin-1')}\n" for seed in seeds)
            file.writelines(_theirs(recorded, roots, since))
        return job.store(status, raw, header, cwd=cwd, convert=text.convert, tool="bpftrace")


def probe() -> str:
    """Return the version of bpftrace; raise EnvironmentProblem if it cannot work here."""
    bpftrace = shutil.which("bpftrace")
    if bpftrace is None:
        raise EnvironmentProblem(
            f"bpftrace is not installed; install it, on Debian with 'apt install bpftrace', {_ELSE}"
        )
    if platform.machine() != "x86_64":
        raise EnvironmentProblem(
            f"calls.bt has the system-call numbers of x86-64, not of {platform.machine()!r}; use --backend strace"
        )
    if os.geteuid() != 0:
        raise EnvironmentProblem(f"the back end bpf needs root; run as root, {_ELSE}")
    if not _BTF.exists():
        raise EnvironmentProblem(
            f"this kernel has no type information ({_BTF} is missing); boot one with CONFIG_DEBUG_INFO_BTF, {_ELSE}"
        )
    if not has_event("raw_syscalls:sys_enter"):
        raise EnvironmentProblem(
            f"no tracepoints here; mount tracefs ('mount -t tracefs none /sys/kernel/tracing'), {_ELSE}"
        )
    found = subprocess.run([bpftrace, "--version"], capture_output=True, text=True, check=False).stdout
    return found.strip().removeprefix("bpftrace ").removeprefix("v")


@contextlib.contextmanager
def _recording(work: pathlib.Path, options: Options) -> Iterator[pathlib.Path]:
    """Run bpftrace; yield its output file once all probes are attached.  The file is complete when the context ends."""
    lines, said = work / "calls.txt", work / "bpftrace.err"
    lines.touch()
    argv = ["bpftrace", "-q", "-B", "full", "-o", os.fspath(lines), os.fspath(_PROGRAM)]
    argv += [str(os.getpid()), str(int(options.page_touches)), str(options.pid or 0)]
    environment = {**os.environ, "BPFTRACE_STRLEN": _STRLEN, "BPFTRACE_PERF_RB_PAGES": str(options.pages)}
    with open(said, "wb") as errors:
        process = common.start(
            argv, (), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, env=environment, start_new_session=True
        )
        try:
            if not _all_recorded(process, lines, common.stop_if_asked):
                raise EnvironmentProblem(
                    f"bpf does not work here ({_message(said)}); see 'bpftrace -e BEGIN{{exit()}}', {_ELSE}"
                )
            yield lines
            good = _all_recorded(process, lines, lambda: None)
            if _stopped(process) not in (0, -signal.SIGINT) or not good:
                raise EnvironmentProblem(f"bpftrace failed while it recorded ({_message(said)}); no trace was written")
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    lost = re.findall(r"^Lost \d+ events", said.read_text(errors="replace"), re.MULTILINE)
    with open(lines, "a") as file:
        file.writelines(f"{line}\n" for line in lost)


def _all_recorded(process: subprocess.Popen[bytes], lines: pathlib.Path, meanwhile: Callable[[], None]) -> bool:
    """Run a test process on each CPU; return whether bpftrace recorded the start and end of each before a time limit.

    If so, all probes are attached, because the probes of process start and end are the first and last of calls.bt.  All
    earlier events are then recorded, too: without a later event, bpftrace may not read the rest of a CPU's buffer.
    """
    end, at, missing, born = time.monotonic() + _PATIENCE_S, lines.stat().st_size, os.sched_getaffinity(0), {}
    while missing and process.poll() is None and time.monotonic() < end:
        meanwhile()
        for cpu in missing:
            with subprocess.Popen([shutil.which("cat") or "/bin/cat"], stdin=subprocess.PIPE) as child:
                os.sched_setaffinity(child.pid, {cpu})
                born[str(child.pid)] = cpu
        time.sleep(0.2)  # bpftrace reads its buffers ten times a second
        with open(lines, encoding="latin-1") as file:
            file.seek(at)
            seen = file.read()
        dead = set(re.findall(r"^e \d+ (\d+) ", seen, re.MULTILINE))
        dead &= set(re.findall(r"^n \d+ \d+ \d+ (\d+) ", seen, re.MULTILINE))
        missing = missing - {born.get(pid, -1) for pid in dead}
    return not missing


def _stopped(process: subprocess.Popen[bytes]) -> int:
    """Stop bpftrace and return its exit status; repeat the signal, as bpftrace misses it while it processes events."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        process.send_signal(signal.SIGINT if time.monotonic() < end else signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(2)


def _message(said: pathlib.Path) -> str:
    told = [line.strip() for line in said.read_text(errors="replace").splitlines() if not _HARMLESS.search(line)]
    return next((line for line in told if "rror" in line), told[0] if told else f"no event after {_PATIENCE_S:.0f} s")[
        :300
    ]


def _theirs(lines: pathlib.Path, roots: Iterable[int], since: int) -> Iterator[str]:
    """Yield the lines of the threads `roots` and their descendants from the time `since` (ns) on, and lines about lost events."""
    born: dict[str, list[str]] = {}
    with open(lines, encoding="latin-1", newline="\n") as file:
        for line in file:
            if found := _BORN.match(line):
                born.setdefault(found[1], []).append(found[2])
    members, new = set(), [str(root) for root in roots]
    while new:
        members.update(new)
        new = [child for parent in new for child in born.get(parent, ()) if child not in members]
    with open(lines, encoding="latin-1", newline="\n") as file:
        for line in file:
            parts = line.split(" ", 4)
            is_theirs = (
                len(parts) >= 4 and parts[2] in members and parts[3].strip().isdigit() and int(parts[3]) >= since
            )
            if is_theirs or line.startswith("Lost "):
                yield line
