"""Capture with strace for calls on paths and perf for all others: complete, and fast for programs that move data."""

import os
import pathlib
import platform
import time

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Captured, _initial_descriptors, _perf, strace
from scmsim.trace.capture import _run as common
from scmsim.trace.capture._merge import Merge, Merged, StraceCalls
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY

SUMMARY = (
    "strace for calls on paths, perf for data: fast where a program moves data; needs perf and root or CAP_PERFMON"
)


@common.recorder
def capture(job: common.Job) -> Captured:
    """Run a command under strace and perf at once and store its file operations.

    With `keep_raw`, the merged text is kept: it has the format of strace's text and converts like it.
    """
    from scmsim.trace.syscalls.numbers import names

    if job.options.pid is not None:
        raise UsageError(
            "hybrid cannot attach: an attached strace has no filter, and stops at every call; use --backend perf or strace"
        )
    numbers = names(platform.machine())
    with job.prepared() as (work, raw):
        calls = work / "names.txt"
        with common.signals_held() as before:
            tracer, version, flags = strace.probe(_named_calls())
            seeds = _initial_descriptors.descriptors(os.getpid(), inherited_only=True)
            start = time.monotonic_ns()
            with (
                common.collected(calls, kept=False) as pipe,
                _perf.recording(work, os.getpid(), _perf.events(job.options), _others(), job.options.pages) as recorded,
            ):
                argv = [tracer, *flags, "-o", pipe, "--", *job.command]
                status, _ = common.run(argv, before, lambda pid, number: strace.pass_on(pid, number, calls))
        header = job.facts(status, start)
        header |= {"tool": "strace, perf", "tool_version": f"{version}, {recorded.version}"}
        header |= {"options": [*flags[:-2], *recorded.options]}
        with common.disk_watched(raw, kept=job.is_kept):
            merged = _write(raw, calls, recorded, numbers, seeds)
        header |= _perf.account(recorded, merged, job.options)
        return job.store(status, raw, header)


def _named_calls() -> list[str]:
    from scmsim.trace.syscalls.handlers import CALLS

    return sorted(NEEDS_MEMORY & set(CALLS))


def _others() -> list[str]:
    """Return the kernel's filter conditions that leave out this process and strace."""
    return [f"common_pid != {os.getpid()}", 'comm != "strace"']


def _write(
    raw: pathlib.Path, calls: pathlib.Path, recorded: _perf.Recording, numbers: dict[int, str], seeds: list[bytes]
) -> Merged:
    """Write the merged text; return the counts of merged calls."""
    with open(calls, encoding="latin-1", newline="\n") as text, open(raw, "wb") as file:
        texts = StraceCalls(text)
        if texts.root < 0:
            raise EnvironmentProblem("strace wrote nothing; see its message above, and try the command without scmsim")
        merge = Merge(numbers, texts, _perf.boot_s(), [texts.root])
        _perf.write(file, merge.lines(recorded.lines()), texts.root, seeds)
        merge.report.unpaired += texts.left()
    return merge.report
