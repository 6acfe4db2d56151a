"""Turn lines of strace into rows: the loop over the lines, for strace and for importers that write such lines.

Rules
-----
- A call makes its row when it has returned, with the result as the row's length (short reads and writes); a failed
  call makes no row.  `time_ns` is the time of the line that completes the call, so rows are in the order in which
  calls completed.  Without -t, -tt or -ttt, `time_ns` is the number of that line.
- Positions belong to the open file description: dup and fork share them.  A description whose open is not in the trace
  (an inherited descriptor) starts at an assumed position 0; its rows carry OFFSET_UNKNOWN until an lseek.  Without -y
  nothing is known about such a descriptor and its calls are left out.
- A write with O_APPEND goes to the end of the file, even with an offset (Linux appends in pwrite, too); the row carries
  OFFSET_UNKNOWN where the end is not known.
- O_CREAT: the file existed if the trace has seen it; it is new with O_EXCL, if a call has shown that the name was
  free, or in a directory that the trace has made. Otherwise: with O_TRUNC the file is taken as new (it is empty either
  way); without, it is assumed to be new, and the CREATE is changed to OPEN if a stat, seek or read soon shows bytes
  that the trace has not written. "Soon" means within at least 65536 rows. The header's counts `creates` report how
  often each case occurred.
- first_size of a file that existed: the length that the first stat or seek shows before the trace changes it, else the
  furthest byte read that the trace has not written before.
- An unlinked file remains the same object for its open descriptors; a new file of that name is another object.
- O_TRUNC on an existing file adds a TRUNCATE; a copy inside the kernel (sendfile, copy_file_range, splice) is a READ
  and a WRITE: the second row carries CONTINUES.  access and faccessat are STAT, sync_file_range is FSYNC with a range.
- The closes that an exit or execve implies make no row.
- With `under`, only files at or below that directory make rows; a rename into it brings an existing file in, a rename
  out of it is an UNLINK.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
from scmsim.trace.syscalls import importer as why
from scmsim.trace.syscalls import loss, memory, mixed, raw, table
from scmsim.trace.syscalls.bulk_lines import BulkLines
from scmsim.trace.syscalls.clock import Clock
from scmsim.trace.syscalls.forms import Forms, needs_work
from scmsim.trace.syscalls.handlers import ENDS, SPECS, Spec
from scmsim.trace.syscalls.importer import Importer, not_in_the_trace
from scmsim.trace.syscalls.state import Description, Task
from scmsim.trace.syscalls.text import (
    CALL,
    EVENT,
    EXITED,
    FAILED,
    FD,
    NAME,
    NEVER,
    RESUMED,
    SECOND_HALF,
    SHOWS_RESULT,
    SUMMARY,
    UNFINISHED,
    belongs,
    parts,
)

_FORMAT = "strace output"
_SHORT = 1 << 20  # bytes; a shorter text is converted faster without loading the compiled kernels
_FD = re.compile(FD)


class Conversion:
    """The loop over the lines: takes each apart, joins split calls, and counts every line once."""

    def __init__(self, path: str, strict: bool, imp: Importer, form: str = "strace", tool: str = _FORMAT) -> None:
        self.path, self.strict, self.form, self.tool = path, strict, form, tool
        self.imp = imp
        self.report = imp.report
        self.clock = Clock()
        self.forms = Forms(imp)
        self.understood = False  # whether some line was a complete call
        self._taken = 0  # bytes converted so far

    def take(self, block: bytes) -> None:
        """Convert the next lines; in a long text, convert stretches of plain calls in bulk."""
        if max(self._taken, len(block)) >= _SHORT and self.clock.kind:
            if BulkLines(self.imp, self.clock, self.forms, block, self._text).work():
                self.understood = True
        else:
            self._text(block.removesuffix(b"\n"))
        self._taken += len(block)

    def _text(self, text: bytes) -> None:
        """Convert the lines of a text one by one, in whichever form they are."""
        lines = text.decode("latin-1").split("\n")
        self._lines(self.forms.usual(lines) if self.forms.piece is not None or needs_work(text) else lines)

    def _lines(self, lines: list[str]) -> None:
        """Convert lines in the usual form one by one."""
        imp, tasks, clock, specs = self.imp, self.imp.tasks, self.clock, SPECS
        number, second_half = self.report.lines, SECOND_HALF.match
        self.report.lines += len(lines)
        for line in lines:
            number += 1
            m = CALL(line) or second_half(line)
            if m is None:
                self._unusual(line, number)
                continue
            pid, seconds, fraction, name = m.groups()
            imp.now = clock.seconds(seconds, fraction) if seconds is not None else clock.count(number)
            if m.re is SECOND_HALF:
                self._second_half(pid, name, line[m.end() :], number)
                continue
            task = tasks.get(pid)
            if task is None:
                task = imp.task(pid)
            if line.endswith(UNFINISHED):
                self._first_half(task, name, line[m.start(4) :])
                continue
            spec = specs.get(name)
            if spec is None:
                self._other(task, name, line[m.start(4) :], number)
            else:
                self._call(task, name, spec, line, m.end(), number)

    def line(self, line: str) -> None:
        """Convert one line."""
        self._lines([line])

    def leave_out(self, reason: str, call: str = "") -> None:
        """Count a line that makes no row; doubt the state that `call`, whose result is unknown, may have changed."""
        self.report.lines += 1
        self.report.left_out[reason] += 1
        if call:
            self._lose(call)

    def bad(self, reason: str, call: str = "") -> None:
        """Count a line that cannot be understood (strict: raise UsageError); `call` is the readable part of its call."""
        self.report.lines += 1
        self._bad(self.report.lines, reason)
        self._lose(call)

    def _lose(self, call: str) -> None:
        if m := CALL(call):
            task = self.imp.tasks.get(m[1]) or self.imp.task(m[1])
            loss.lost_call(self.imp, task, m[4], call[m.start(4) :])
        else:
            loss.lost_line(self.imp, None)

    def _call(self, task: Task, name: str, spec: Spec, text: str, start: int, number: int) -> None:
        """Handle a complete call whose arguments begin at `start`."""
        m = spec.match(raw.decode(name, text, start) if spec.raw_first else text, start)
        if m is None:
            decoded = mixed.without_output(raw.decode(name, text, start), start)
            m = spec.match(decoded, start) if decoded != text else None
        if m is None:
            self._no_match(task, name, text[start - len(name) - 1 :], number)
            return
        result = m[spec.result]
        if result[0] in "-?":
            self._failed(task, name, spec, m)
            return
        self.understood = True
        self.imp.doubt = 0
        try:
            reason = spec.handler(self.imp, task, m)
        except ValueError as error:
            # rows that the call made before the error stay: an mmap may have unmapped the mappings that it replaces
            self.report.extra_rows = self.imp.next_row() - self.report.calls
            self._bad(number, f"{name}: {error}")
            loss.lost_call(self.imp, task, name, text[start - len(name) - 1 :])
            return
        if reason is None:
            self.report.calls += 1
            return
        task.lacked |= reason is why.UNKNOWN_FD
        if reason is why.UNKNOWN_FD and self.imp.doubt:
            reason = why.LOST_FD
            self.report.lost_rows += 1
            self.report.lost_bytes += int(result) if name in loss.MOVERS else 0
        self.report.left_out[reason] += 1
        if reason is why.NOT_A_FILE_OPERATION or reason is why.NO_MODEL:
            self.report.other[name] += 1

    def _failed(self, task: Task, name: str, spec: Spec, m: re.Match[str]) -> None:
        self.understood = True
        task.closing = None
        if m[spec.result] == "?":
            self.report.left_out[why.NEVER_RETURNED] += 1
            return
        self._count_failed(name)
        self.imp.forks.pop(task.pid, None)
        if spec.path is not None and m[spec.path] and m.string.startswith(" ENOENT ", m.end(spec.result)):
            where = (m[1], m[2], m[3]) if spec.path == 3 else ("AT_FDCWD", None, m[1])
            self.imp.names.table[self.imp.path(task, *where)] = None

    def _count_failed(self, name: str) -> None:
        self.report.left_out[why.FAILED_CALL] += 1
        self.report.failed[name] += 1

    def _no_match(self, task: Task, name: str, text: str, number: int) -> None:
        if NEVER(text):
            self.report.left_out[why.NEVER_RETURNED] += 1
        elif FAILED(text):
            self._count_failed(name)
        else:
            self._bad(number, f"the arguments or the result of {name} are not complete or not of a known form")
            loss.lost_call(self.imp, task, name, text)

    def _other(self, task: Task, name: str, text: str, number: int) -> None:
        """Count a call without a handler; `text` begins with the call's name."""
        if name in ENDS:
            self.forms.ending(task.pid)
        if NEVER(text) and " = " not in text:
            self.report.left_out[why.NEVER_RETURNED] += 1
            return
        if " = " not in text:
            self._bad(number, f"{name} has no result")
            loss.lost_call(self.imp, task, name, text)
            return
        does = table.does(name)
        if does is None and not FAILED(text) and not NEVER(text):
            loss.lost_call(self.imp, task, name, text)
        elif does is not None and "blind" in does and not FAILED(text):
            self.report.blind[name] += 1
        self.report.left_out[why.UNKNOWN_CALL if does is None else why.NOT_A_FILE_OPERATION] += 1
        self.report.other[name] += 1

    def _bad(self, number: int, reason: str) -> None:
        if self.strict:
            raise UsageError(f"{self.path!r}, line {number}: {reason}; without --strict such lines are only counted")
        self.report.add_bad(number, reason, rows=0)  # `loss` counts the lost rows

    def _unusual(self, line: str, number: int) -> None:
        pid, short_pid, seconds, fraction, of_day, day_fraction, body = parts(line)
        if short_pid is not None:
            self.forms.meet(short_pid, body)
        pid = pid or short_pid
        if about := belongs(line):
            self.report.left_out[about] += 1
            return
        called = NAME(body)
        if called or seconds is not None or of_day is not None:
            self.imp.now = self.clock.any(seconds, fraction, of_day, day_fraction, number)
        if EVENT(body):
            self._event(pid, body)
        elif resumed := RESUMED(body):
            self._second_half(pid, resumed[1], body[resumed.end() :], number)
        elif called:
            self._first_half_or_call(pid, called, body, number)
        elif not line.strip():
            self.report.left_out[why.BLANK] += 1
        elif (half := self.forms.last_half) and SHOWS_RESULT(body):  # -z can leave `<... NAME resumed>` out
            self._second_half(half[0], half[1], body, number)
        else:
            self._bad(number, "this is not a line of strace")
            loss.lost_line(self.imp, pid)

    def _event(self, pid: str | None, body: str) -> None:
        self.report.left_out[why.PROCESS_EVENT] += 1
        if EXITED(body):
            task = self.forms.leaves(pid)
            if task is not None:
                self._drop_pending(task)
        elif not self.forms.superseded(pid, body):
            self.forms.message(body)

    def _first_half_or_call(self, pid: str | None, called: re.Match[str], body: str, number: int) -> None:
        name, task = called[1], self.imp.tasks.get(pid) or self.imp.task(pid)
        spec = SPECS.get(name)
        if body.endswith(UNFINISHED):
            self._first_half(task, name, body)
        elif spec is None:
            self._other(task, name, body, number)
        else:
            self._call(task, name, spec, body, called.end(), number)

    def _first_half(self, task: Task, name: str, body: str) -> None:
        """Keep the first half of a split call; `body` begins with the call's name."""
        self.forms.begins(task, name)
        if name not in SPECS:
            self.report.left_out[why.NOT_A_FILE_OPERATION] += 1
            self.report.other[name] += 1
            return
        if task.pending is not None:  # the previous call's second half is missing
            loss.lost_call(self.imp, task, *task.pending)
        self._drop_pending(task)
        self.report.left_out[why.FIRST_HALF] += 1
        task.pending = name, body[: -len(UNFINISHED)]
        if name in memory.FORKS:
            self.imp.forks[task.pid] = body
        elif name == "close" and (m := _FD.match(body, len(name) + 1)):
            # the kernel frees the descriptor at once: another thread may get its number before this call returns
            task.closing = self.imp.describe(task, m[1], m[2]) or Description(None)
            task.table.slots.pop(m[1], None)

    def _second_half(self, pid: str | None, name: str, tail: str, number: int) -> None:
        is_known = pid in self.imp.tasks
        task = self.imp.tasks.get(pid) or self.imp.task(pid)
        spec = SPECS.get(name)
        self.forms.ends(task, name)
        if spec is None:
            self.report.left_out[why.NOT_A_FILE_OPERATION] += 1
            self.report.other[name] += 1
        elif task.pending is None or task.pending[0] != name:
            self.report.left_out[why.NO_FIRST_HALF] += 1
            if is_known and not FAILED(tail):  # its first half is missing in the middle of the trace
                loss.lost_call(self.imp, task, name, f"{name}({tail}")
        else:
            text = task.pending[1] + tail
            task.pending = None
            self._call(task, name, spec, text, len(name) + 1, number)

    def _drop_pending(self, task: Task) -> None:
        """Count the call that waits for its second half as one that never returned."""
        if task.pending is not None:
            self.report.left_out[why.FIRST_HALF] -= 1
            self.report.left_out[why.NEVER_RETURNED] += 1
            task.pending = task.closing = None

    def finish(self, writer: TraceWriter, blind_spots: Iterable[str] = ()) -> Report:
        """Write the remaining rows, the side table and the provenance; `blind_spots` adds those of the recorder."""
        imp, report = self.imp, self.report
        if report.left_out[SUMMARY] and not (self.understood or report.calls):
            raise UsageError(f"{self.path!r} has only the summary of 'strace -c'; record without -c, or with -C")
        if not (self.understood or report.calls):
            raise UsageError(
                f"{self.path!r} is not {self.tool}: none of its {report.lines} lines is a file operation; give its --format"
            )
        for task in imp.tasks.values():
            self._drop_pending(task)
        unknown = report.left_out[why.UNKNOWN_FD]
        if unknown and not imp.next_row() and not report.left_out[why.OUTSIDE]:
            raise UsageError(
                f"{self.path!r} makes no row: {unknown} of {report.lines} lines are calls on descriptors that it never opens; "
                "record with 'strace -y', which prints the file of each descriptor, or record the opens too"
            )
        imp.drain(writer, 0)
        files = imp.files()
        report.files, report.duration_ns = len(files), self.clock.now
        report.left_out = +report.left_out  # drops zeros
        report.blind_spots, report.notes = [*not_in_the_trace(imp), *blind_spots], _notes(imp, self.clock)
        report.check()
        writer.header.update(_header(self.path, imp, self.clock, self.form))
        writer.close(files)
        return report


def _notes(imp: Importer, clock: Clock) -> list[str]:
    out = []
    if clock.kind.startswith("line"):
        out.append("the input has no time stamps: time_ns counts its lines (strace -ttt writes them)")
    if clock.jumps:
        out.append(
            f"the clock jumped (back, or far away) {clock.jumps} times; such rows have the time of the row above"
        )
    if imp.mistaken:
        out.append(f"{imp.mistaken} child processes may have inherited the descriptors of another process")
    return out


def _header(path: str, imp: Importer, clock: Clock, form: str) -> dict[str, Any]:
    return {
        "format": form,
        "source": os.path.basename(path),
        "tool": form,
        "granularity": "file",
        "program": imp.program,
        "time": clock.kind if form == "strace" else f"clock of {form}",
        "duration_ns": clock.now,
        "under": imp.names.under,
        "lost_events": imp.report.lost_events,
        **imp.report.provenance(),
    }
