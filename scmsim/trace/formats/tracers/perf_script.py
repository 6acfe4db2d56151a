"""Import the text of perf script with system-call tracepoints, raw_syscalls:* or syscalls:*.

    perf record -m 4096 -e raw_syscalls:sys_enter,raw_syscalls:sys_exit -o DATA -- CMD
    perf script -i DATA --ns --show-lost-events -F pid,tid,time,event,trace

Rules
-----
- An enter and the next exit of its thread are one call, which makes its row at the exit; an exit without an enter belongs
  to a call from before the trace.  Failed calls make no row.
- perf records no names: each open makes an object of its own, calls on paths (stat, unlink, rename, mkdir) are left out.
  Two opens of one file thus look like two files; capture with strace, or with both, where that matters.
- Descriptors, positions, appends and sizes are followed as for strace.  Threads of a process (`pid,tid` in -F) share its
  descriptors; a new process inherits those of the forking process.  Without `pid`, each child shares its parent's descriptors.
- Call numbers are those of x86-64, or with `--set arch=arm64` those of asm-generic (arm64, riscv64).
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, DATA_ONLY, FSYNC, OPEN, READ, WRITE
from scmsim.trace.formats.tracers import _perf_calls
from scmsim.trace.kernels import file_rules
from scmsim.trace.reading.builder import FAR
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import LONGEST, byte_blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
from scmsim.trace.syscalls import importer as why
from scmsim.trace.syscalls import runs as runs
from scmsim.trace.syscalls.importer import Importer, blind_spots
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.state import Maps, Place, Table, Task

SUMMARY = "text of perf script with raw_syscalls:* or syscalls:* tracepoints (no file names: descriptors only)"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "arch": (
        "x86-64",
        "x86-64|arm64",
        "architecture that defines the call numbers of raw_syscalls; arm64 also for riscv64",
    )
}
_LINE = re.compile(rb"^[^\n]*\d\.\d{1,9}:\s+(?:raw_)?syscalls:sys_(?:enter|exit)", re.MULTILINE)
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost (\d{1,15})|LOST (\d{1,15}) events")
_BLOCK = 1 << 22
_MOST_CHILDREN = 1 << 12  # maximum number of children that a fork has returned and no line has shown yet
_SHARES = ((0x100, "CLONE_VM"), (0x200, "CLONE_FS"), (0x400, "CLONE_FILES"))  # linux/sched.h
_ERRNOS = 4095  # results of -4095 to -1 are errors
_ENTER = "entry of a call (its exit makes the row)"
_OTHER = "another event"
# calls that can be converted in bulk (`runs.py`): names, operation, flags of the row; calls with an offset, then opens, are last
_PLAIN = (
    ("lseek", -1, 0), ("read readv", READ, 0), ("write writev", WRITE, 0), ("fsync", FSYNC, 0), ("fdatasync", FSYNC, DATA_ONLY),
    ("close", CLOSE, 0), ("pread64 preadv", READ, 0), ("pwrite64 pwritev", WRITE, 0), ("open", OPEN, 0), ("openat", OPEN, 0),
    ("creat", OPEN, 0),
)  # fmt: skip
_SEEK, _POSITIONED, _OPEN, _OPENAT, _CREAT = 0, 6, 8, 9, 10
_MOST_FD = 1 << 16  # a larger descriptor is left to the handlers
_SPOT = "perf records no file names: each open is an object of its own, calls on paths are left out"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether one of the first lines is a system-call tracepoint."""
    return b"\0" not in head and _LINE.search(head) is not None


class Dialect(NamedTuple):
    """A tool's form of events: format, tool, name of the text, and `as_perf`, which rewrites lines in perf's form."""

    form: str
    tool: str
    text: str
    as_perf: Callable[[bytes], bytes]


_PERF = Dialect("perf-script", "perf", "text of perf script with system calls", lambda block: block)


@importer
def convert(job: Import, arch: str = "x86-64", dialect: Dialect = _PERF) -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    if job.under is not None:
        raise UsageError(f"--under needs file names, which {dialect.tool} does not record; leave it out")
    work = Conversion(job.given, job.strict, arch, dialect)
    for block in byte_blocks(job.given, dialect.text, job.progress, _BLOCK):
        work.take(dialect.as_perf(block))
        work.report.expect_rows(job.given.path)
        work.imp.drain(job.writer)
    return work.finish(job.writer)


class _Calls(NamedTuple):
    """Finished calls as columns; `enters` has the rows of the entries, `line` the line numbers of the exits."""

    now: np.ndarray
    line: np.ndarray
    enters: np.ndarray
    call: np.ndarray
    result: np.ndarray

    def part(self, start: int, end: int) -> "_Calls":
        """Return the calls [start, end)."""
        return _Calls(*(column[start:end] for column in self))


class Conversion:
    """The conversion of one text: pairs entries with exits, and gives each call to its handler."""

    def __init__(self, given: Input, strict: bool, arch: str, dialect: Dialect) -> None:
        from scmsim.trace.kernels import file_calls, perf_text

        self.dialect = dialect
        self.given, self.strict, self.text, self.file_calls = given, strict, perf_text, file_calls
        self.imp = Importer(Names(None), "")
        self.report = self.imp.report
        self.handlers: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        for name, (intel, generic, handler) in _perf_calls.CALLS.items():
            number = intel if arch == "x86-64" else generic
            for key in (perf_text.call_hash(name), *([number] if number >= 0 else [])):
                self.handlers[key], self.names[key] = handler, name
        self.rings = {*map(perf_text.call_hash, _perf_calls.RINGS), *_perf_calls.RING_NUMBERS}
        self.forks = {key for key, name in self.names.items() if name in _perf_calls.FORKS}
        self.fork_calls = np.array(sorted(self.forks), "i8")
        self.known = np.array(sorted(self.handlers), "i8")
        kinds = {name: i for i, (names, _, _) in enumerate(_PLAIN) for name in names.split()}
        self.plain = np.array([kinds.get(self.names[key], -1) for key in self.known.tolist()], "i8")
        self.waiting = np.empty((0, perf_text.WIDTH), "i8")  # entries without their exit so far
        self.tasks: dict[int, Task] = {}
        self.processes: dict[int, Task] = {}
        self.children: dict[int, Task] = {}  # children whose fork has returned, without an event so far
        self.parents: dict[
            int, tuple[int, str]
        ] = {}  # child -> (parent, shared state): forks that return in this block
        self.start: int | None = None
        self.lost = self.jumps = self.rung = 0
        self.arch = arch

    def take(self, block: bytes) -> None:
        """Convert a block of whole lines."""
        text = self.text
        characters = np.frombuffer(block, np.uint8)
        lines = int(np.count_nonzero(characters == ord("\n"))) + (not block.endswith(b"\n"))
        table = np.empty((lines, text.WIDTH), "i8")
        text.take_apart(characters, table)
        table[:, text.LINE] = np.arange(self.report.lines + 1, self.report.lines + lines + 1)
        usual = (table[:, text.KIND] == text.ENTER) | (table[:, text.KIND] == text.EXIT)
        odd = np.flatnonzero(~usual)
        if len(odd):
            self._odd(block, table, odd)
            table = table[usual]
        self.report.lines += lines
        if len(table):
            self._pair(np.concatenate((self.waiting, table)) if len(self.waiting) else table)

    def _odd(self, block: bytes, table: np.ndarray, odd: np.ndarray) -> None:
        lines = block.split(b"\n")
        for i in odd.tolist():
            number, line = self.report.lines + i + 1, lines[i][:LONGEST].decode("latin-1")
            if table[i, self.text.KIND] == self.text.BAD or "syscalls:sys_" in line:
                self._bad(number, "a system-call tracepoint without a time, a thread or its numbers")
            elif not line.strip():
                self.report.left_out[why.BLANK] += 1
            elif line.startswith("#"):
                self.report.left_out["title"] += 1
            elif m := _LOST.search(line):
                self.lost += int(m[1] or m[2])
                self.report.left_out["lost events"] += 1
            elif ":" in line:
                self.report.left_out[_OTHER] += 1
            else:
                self._bad(number, f"this is not a line of {self.dialect.text}")

    def _bad(self, number: int, reason: str) -> None:
        if self.strict:
            raise UsageError(
                f"{self.given.path!r}, line {number}: {reason}; without --strict such lines are only counted"
            )
        self.report.add_bad(number, reason)

    def _pair(self, table: np.ndarray) -> None:
        """Join entries and exits of each thread; keep entries without an exit for the next block."""
        text, out = self.text, self.report.left_out
        order = np.argsort(table[:, text.TID], kind="stable")
        kind, tid, call = (table[order, column] for column in (text.KIND, text.TID, text.CALL))
        enter = kind == text.ENTER
        follows = np.append((tid[1:] == tid[:-1]), False)  # the next row is of the same thread
        answered = enter & follows & np.append(~enter[1:] & (call[1:] == call[:-1]), False)
        waiting = enter & ~follows
        out[_ENTER] += int(answered.sum())
        never = int((enter & ~answered & ~waiting).sum())
        lone = int((~enter).sum() - answered.sum())
        out.update({why.NEVER_RETURNED: never, why.NO_FIRST_HALF: lone})
        self.waiting = table[order[waiting]]
        at = np.flatnonzero(answered)
        by_time = np.argsort(order[at + 1], kind="stable")
        enters, exits = order[at][by_time], order[at + 1][by_time]
        self._calls(table[enters], *(table[exits, column] for column in (text.TIME, text.LINE, text.FIRST)))

    def _calls(self, enters: np.ndarray, now: np.ndarray, lines: np.ndarray, result: np.ndarray) -> None:
        """Convert finished calls, in the order in which they returned."""
        text, report = self.text, self.report
        call = enters[:, text.CALL]
        known = np.isin(call, self.known)
        self._count(call[~known], why.NOT_A_FILE_OPERATION, report.other)
        failed = known & (result < 0) & (result >= -_ERRNOS)
        self._count(call[failed], why.FAILED_CALL, report.failed)
        good = known & ~failed
        forked = np.isin(call, self.fork_calls) & (result > 0)
        columns = (result[forked], enters[forked, text.TID], call[forked], enters[forked, text.FIRST])
        self.parents = {
            child: (tid, self._shares(number, flags))
            for child, tid, number, flags in zip(*(column.tolist() for column in columns), strict=True)
        }
        calls = _Calls(self._times(now[good]), lines[good], enters[good], call[good], result[good])
        kind, done = self._plain(calls), 0
        for start, end in runs.stretches(kind >= 0):
            self._some(calls, done, start)
            runs.in_parts(
                start,
                end,
                lambda i, j: self._stretch(calls.part(i, j), kind[i:j]),
                lambda i, j: self._some(calls, i, j),
            )
            done = end
        self._some(calls, done, len(kind))

    def _plain(self, calls: _Calls) -> np.ndarray:
        """Return for each call its index in _PLAIN, or -1 if the call cannot be converted in bulk."""
        kind = self.plain[np.searchsorted(self.known, calls.call)]
        a = calls.enters[:, self.text.FIRST :]
        opens = kind >= _OPEN
        fd = np.where(opens, calls.result, a[:, 0].astype(np.int32))
        odd = (kind == _SEEK) & ((a[:, 2] > 1) | (a[:, 2] < 0))  # SEEK_END shows a size
        odd |= (kind >= _POSITIONED) & ~opens & ((a[:, 3] < 0) | (a[:, 3] >= FAR))
        odd |= opens & (_perf_calls.is_path_only(self._open_flags(calls, kind)))
        return np.where(odd | (fd < 0) | (fd >= _MOST_FD) | (calls.result < 0) | (calls.result >= FAR), -1, kind)

    def _open_flags(self, calls: _Calls, kind: np.ndarray) -> np.ndarray:
        """Return the O_* flags of the calls that open, as Linux numbers them."""
        a = calls.enters[:, self.text.FIRST :]
        return np.select([kind == _OPEN, kind == _OPENAT], [a[:, 1], a[:, 2]], _perf_calls.CREAT_FLAGS)

    def _stretch(self, calls: _Calls, kind: np.ndarray) -> int:
        """Convert the first of these calls (all are in _PLAIN) in bulk; return the number of converted calls."""
        text, tids = self.text, calls.enters[:, self.text.TID]
        first, which = runs.distinct(tids)
        pairs = calls.enters[first][:, [text.PID, text.TID]].tolist()
        new = [i for i, (_, tid) in enumerate(pairs) if tid not in self.tasks and first[i] > 0]
        # a new thread or process inherits its parent's state as of its first call, so this batch ends just before that call
        stop = int(first[new[0]]) if new else len(kind)
        tasks = [self.tasks.get(tid) or self._task(pid, tid) for pid, tid in pairs[: new[0] if new else None]]
        calls, kind, which = calls.part(0, stop), kind[:stop], which[:stop]
        opens, a = kind >= _OPEN, calls.enters[:, text.FIRST :]
        fds, slot = np.unique(np.where(opens, calls.result, a[:, 0].astype(np.int32)), return_inverse=True)
        kernel = self.file_calls
        rows = np.empty((stop, kernel.WIDTH), "i8")
        rows[:, kernel.OP], plain_flags = np.array([row[1:] for row in _PLAIN])[kind].T
        rows[:, kernel.NOW], rows[:, kernel.TASK], rows[:, kernel.FD] = calls.now, which, slot
        rows[:, kernel.RAW], rows[:, kernel.ASKED] = kernel.NO_RAW, 0
        rows[:, [kernel.PATH, kernel.PATH2]] = -1
        rows[:, kernel.AT] = np.where((kind >= _POSITIONED) & ~opens, a[:, 3], file_rules.HERE)
        rows[:, kernel.MOVED] = calls.result
        rows[:, kernel.FLAGS] = np.where(opens, _perf_calls.open_flags(self._open_flags(calls, kind)), plain_flags)
        done = runs.Stretch(self.imp, tasks, fds.tolist()).follow(rows)
        if done:
            self.imp.now = int(calls.now[done - 1])
        return done

    def _impossible(self, calls: _Calls, i: int, error: Exception) -> None:
        self._bad(int(calls.line[i]), f"{self.names[int(calls.call[i])]}: {error}")

    def _some(self, calls: _Calls, start: int, end: int) -> None:
        """Convert the calls [start, end) one by one."""
        calls = calls.part(start, end)
        text, enters, report = self.text, calls.enters, self.report
        arguments = enters[:, text.FIRST : text.FIRST + text.ARGUMENTS].tolist()
        columns = (calls.now, calls.call, enters[:, text.PID], enters[:, text.TID], calls.result)
        rows = zip(*(column.tolist() for column in columns), arguments, strict=True)
        imp, handlers, left_out, tasks, kept = self.imp, self.handlers, report.left_out, self.tasks, 0
        for i, (now, number, pid, tid, value, a) in enumerate(rows):
            imp.now, imp.doubt = now, 0
            task = tasks.get(tid) or self._task(pid, tid)
            try:
                reason = handlers[number](imp, task, a, value)
            except ValueError as error:
                report.extra_rows = imp.next_row() - report.calls - kept  # rows made before the error stay
                self._impossible(calls, i, error)
                continue
            if reason is None:
                kept += 1
            else:
                if reason is why.UNKNOWN_FD and imp.doubt:
                    reason = why.LOST_FD
                    report.lost_rows += 1
                left_out[reason] += 1
                if number in self.forks:
                    self._fork(task, pid, value, self._shares(number, a[0]))
        report.calls += kept

    def _count(self, calls: np.ndarray, reason: str, names: Counter[str]) -> None:
        numbers, counts = np.unique(calls, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.report.left_out[reason] += count
            names[self.names.get(number, f"call {number}" if 0 <= number < 1000 else "others")] += count
            self.rung += count if number in self.rings else 0

    def _times(self, times: np.ndarray) -> np.ndarray:
        if not len(times):
            return times
        if self.start is None:
            self.start = int(times[0])
        since = np.maximum.accumulate(np.maximum(times - self.start, self.imp.now))
        self.jumps += int((since != times - self.start).sum())
        return since

    def _task(self, pid: int, tid: int) -> Task:
        """Make the task of a new thread: one of a known process, a child of a pending fork, or one of unknown origin."""
        tasks = self.tasks
        origin = self.processes.get(pid) if pid >= 0 else None
        if origin is not None:
            task = origin.spawn(str(tid), "CLONE_FILES CLONE_FS CLONE_VM")
        elif (child := self.children.pop(tid, None)) is not None:
            task = child
        elif (found := self._in_fork(tid)) is not None and (parent := tasks.get(found[0])) is not None:
            task = parent.spawn(str(tid), found[1])
        else:
            task = Task(str(tid), Table(), Place(), Maps())
        tasks[tid] = task
        if pid >= 0:
            self.processes.setdefault(pid, task)
        return task

    def _in_fork(self, child: int) -> tuple[int, str] | None:
        """Return (parent, what parent and child share): the thread whose fork returns this child, else any thread in a fork."""
        text = self.text
        if child in self.parents:
            return self.parents[child]
        forks = (row for row in self.waiting if int(row[text.CALL]) in self.forks)
        return next(
            ((int(row[text.TID]), self._shares(int(row[text.CALL]), int(row[text.FIRST]))) for row in forks), None
        )

    def _shares(self, call: int, flags: int) -> str:
        """Return the names of the CLONE_* flags for what a child shares; "" for clone3, because its flags are in memory."""
        known = flags if self.names[call] == "clone" else 0
        return " ".join(word for bit, word in _SHARES if known & bit)

    def _fork(self, task: Task, pid: int, child: int, shares: str) -> None:
        """Make the task of a fork's child, if the child has not been seen yet."""
        if child > 0 and child not in self.tasks and len(self.children) < _MOST_CHILDREN:
            shares = "CLONE_FILES CLONE_FS CLONE_VM" if pid < 0 else shares
            self.children[child] = task.spawn(str(child), shares)

    def finish(self, writer: TraceWriter) -> Report:
        """Write the remaining rows, the side table and the provenance."""
        imp, report = self.imp, self.report
        form, tool, text, _ = self.dialect
        report.left_out[why.NEVER_RETURNED] += len(self.waiting)
        report.left_out = +report.left_out
        if not report.calls and not report.left_out[_ENTER]:
            raise UsageError(
                f"{self.given.path!r} is not {text}: none of its {report.lines} lines is a finished call; record file calls, "
                "or name the file's format (--format)"
            )
        imp.drain(writer, 0)
        files = imp.files()
        report.files, report.duration_ns, report.lost_events = len(files), imp.now, self.lost
        report.blind_spots = [
            _SPOT,
            *([f"io_uring: {self.rung} calls; what they start is not in the trace"] * (self.rung > 0)),
            *blind_spots(report),
        ]
        if self.lost:
            report.blind_spots.append(f"{tool} lost {self.lost} events: positions and sizes after that may be wrong")
        if self.jumps:
            report.notes.append(f"the clock jumped back {self.jumps} times; such rows have the time of the row above")
        report.check()
        writer.header.update(
            {
                "format": form, "source": self.given.name, "tool": tool, "granularity": "descriptor",
                "time": f"clock of {tool}", "duration_ns": imp.now, "arch": self.arch, "lost_events": self.lost,
                **report.provenance(),
            }
        )  # fmt: skip
        writer.close(files)
        return report
