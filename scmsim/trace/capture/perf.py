"""Capture with perf alone: least slow-down, can attach to running processes; names only of files open at the start."""

import contextlib
import os
import pathlib
import platform
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scmsim.trace.capture import Captured, Options, _initial_descriptors, _perf
from scmsim.trace.capture import _run as common
from scmsim.trace.capture._merge import Merge
from scmsim.trace.syscalls.from_numbers import fd, open_flags

SUMMARY = "perf alone: for programs that keep their files open (--pid); sees no names of files opened later"

_FLAGS_AT = {"open": 1, "openat": 2}  # index of the flags argument
_OPENS = {"open": "", "openat": "", "openat2": "O_RDWR", "creat": "O_WRONLY|O_CREAT|O_TRUNC"}
_COPIES = {
    "sendfile": (2,),
    "copy_file_range": (1, 3),
    "splice": (1, 3),
}  # indexes of the arguments that point to an offset
_FORK = "sched:sched_process_fork"
_CLONE_FILES = 0x400


@common.recorder
def capture(job: common.Job) -> Captured:
    """Run a command, or attach to a process, and store what perf sees of its calls.

    Each open during the capture makes a new file /unnamed/N; files open when the capture began have their names from
    /proc.  Calls on paths (unlink, rename, stat, ...) make no row; the header counts them.
    """
    from scmsim.trace.syscalls.numbers import names

    options = job.options
    numbers, texts = names(platform.machine()), Nameless()
    with job.prepared() as (work, raw):
        with common.signals_held() as before:
            start = time.monotonic_ns()
            seen = _launch(work, job.command, options, before) if options.pid is None else _attach(work, options)
        header = job.facts(seen.status, start)
        merge = Merge(numbers, texts, _perf.boot_s(), seen.threads)
        events = seen.recorded.lines()
        if options.pid is None:
            events = _after_exec(events, seen.threads[0], numbers)
        with common.disk_watched(raw, kept=job.is_kept), open(raw, "wb") as file:
            _perf.write(file, merge.lines(events), seen.threads[0], seen.seeds)
        header |= {"tool": "perf", "tool_version": seen.recorded.version, "options": seen.recorded.options}
        header |= _perf.account(seen.recorded, merge.report, options)
        header["blind_spots"] = texts.blind_spots()
        return job.store(seen.status, raw, header, cwd=seen.cwd)


class _Seen(NamedTuple):
    """A recorded run: exit status, first threads (the process first), working directory, open descriptors, recording."""

    status: int
    threads: list[int]
    cwd: str
    seeds: list[bytes]
    recorded: _perf.Recording


def _launch(work: pathlib.Path, command: Sequence[str], options: Options, mask: Any) -> _Seen:
    seeds = _initial_descriptors.descriptors(os.getpid(), inherited_only=True)
    mine = [f"common_pid != {os.getpid()}"]
    with _perf.recording(work, os.getpid(), _perf.events(options, _FORK), mine, options.pages) as recorded:
        status, pid = common.run(command, mask, os.kill)
    return _Seen(status, [pid], os.getcwd(), seeds, recorded)


def _attach(work: pathlib.Path, options: Options) -> _Seen:
    assert options.pid is not None
    with contextlib.ExitStack() as stack:
        with _initial_descriptors.frozen(options.pid):
            cwd, seeds = _initial_descriptors.running(options.pid)
            threads = _initial_descriptors.thread_ids(options.pid)
            start = _perf.recording(work, options.pid, _perf.events(options, _FORK), (), options.pages)
            recorded = stack.enter_context(start)
        common.wait_for_stop(lambda: _initial_descriptors.alive(threads[0]), options.seconds)
    return _Seen(0, threads, cwd, seeds, recorded)


def _after_exec(events: Iterator[str], pid: int, numbers: dict[int, str]) -> Iterator[str]:
    """Skip the events of the new process before its execve of the command."""
    number = next(number for number, name in numbers.items() if name == "execve")
    begins = re.compile(rf" *{pid}/{pid} .*sys_exit: NR {number} = 0$").match
    for line in events:
        if begins(line):
            break
    return events


class Nameless:
    """Makes up the text of calls whose arguments are in the program's memory; counts the calls that it cannot describe."""

    knows_forks = False

    def __init__(self) -> None:
        self._opened = 0
        self._unseen: Counter[str] = Counter()

    def take(self, tid: int, name: str, value: int | None, args: Sequence[int]) -> str | None:
        """Return a call as strace text, built from its numbers; a call without a possible row becomes prctl(), which is ignored."""
        if value is None or value < 0:
            return f"{name}() = -1 EFAILED"
        if name in _OPENS:
            self._opened += 1
            at = _FLAGS_AT.get(name)
            flags = open_flags(args[at]) if at is not None else _OPENS[name]
            return f'openat(AT_FDCWD, "/unnamed/{self._opened}", {flags}) = {value}'
        if name in ("execve", "execveat"):
            return f'execve("", []) = {value}'
        if name in _COPIES and not any(args[i] for i in _COPIES[name]):
            source, target = (args[1], args[0]) if name == "sendfile" else (args[0], args[2])
            return f"copy_file_range({fd(source)}, NULL, {fd(target)}, NULL, {value}, 0) = {value}"
        if name == "unshare":
            return f"unshare({'CLONE_FILES' if args[0] & _CLONE_FILES else '0'}) = 0"
        if name == "io_submit":
            return f"io_submit(0x0, 0, []) = {value}"
        self._unseen[name] += 1
        return "prctl() = 0"

    def blind_spots(self) -> list[str]:
        """Return the lines about blind spots for the header of the trace."""
        out = []
        if self._opened:
            out.append(
                f"{self._opened} opens: perf sees no names, so each open makes a new file /unnamed/N of unknown length"
            )
        if self._unseen:
            most = ", ".join(f"{name} {count}" for name, count in self._unseen.most_common(8))
            out.append(f"calls on paths and with offsets in memory make no row: {most}")
        return out
