"""Capture with strace for calls on paths and perf for all others: complete, and fast for programs that move data."""

import os
import pathlib
import platform
import time
from collections.abc import Sequence

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.trace.capture import Captured, Options, _initial_descriptors, _perf, strace
from scmsim.trace.capture import _run as common
from scmsim.trace.capture._merge import Merge, Merged, StraceCalls
from scmsim.trace.reading.lines import Progress
from scmsim.trace.syscalls.from_numbers import NEEDS_MEMORY

SUMMARY = (
    "strace for calls on paths, perf for data: fast where a program moves data; needs perf and root or CAP_PERFMON"
)


def capture(
    command: Sequence[str],
    out: str | os.PathLike[str],
    *,
    keep_raw: str | os.PathLike[str] | None = None,
    under: str | None = None,
    progress: Progress | None = None,
    options: Options | None = None,
) -> Captured:
    """Run a command under strace and perf at once and store its file operations; see `strace.capture`.

    With `keep_raw`, the merged text is kept: it has the format of strace's text and converts like it.
    """
    from scmsim.trace.syscalls.numbers import names

    options = options or Options()
    if options.pid is not None:
        raise UsageError(
            "hybrid cannot attach: strace has no filter then and stops at every call; use --backend perf or strace"
        )
    numbers = names(platform.machine())
    with common.prepared(command, out, keep_raw, options) as (work, raw):
        calls = work / "names.txt"
        with common.signals_held() as before:
            tracer, version, flags = strace.probe(_named_calls())
            seeds = _initial_descriptors.descriptors(os.getpid(), inherited_only=True)
            start = time.monotonic_ns()
            with (
                common.collected(calls, kept=False) as pipe,
                _perf.recording(work, os.getpid(), _perf.events(options), _others(), options.pages) as recorded,
            ):
                argv = [tracer, *flags, "-o", pipe, "--", *command]
                status, _ = common.run(argv, before, lambda pid, number: strace.pass_on(pid, number, calls))
        header = common.facts(command, options, status, start)
        header |= {"tool": "strace, perf", "tool_version": f"{version}, {recorded.version}"}
        header |= {"options": [*flags[:-2], *recorded.options]}
        with common.disk_watched(raw, kept=keep_raw is not None):
            merged = _write(raw, calls, recorded, numbers, seeds)
        header |= _perf.account(recorded, merged, options)
        return Captured(status, common.store(raw, out, header, under=under, progress=progress, options=options))


def _named_calls() -> list[str]:
    from scmsim.trace.syscalls.conversion import CALLS

    return sorted(NEEDS_MEMORY & set(CALLS))


def _others() -> list[str]:
    """Return the conditions of the kernel's filter: neither this process nor strace."""
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
