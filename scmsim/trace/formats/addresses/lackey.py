r"""Import text of Valgrind's lackey with --trace-mem=yes: loads and stores, joined with the calls that map files.

    valgrind --tool=lackey --trace-mem=yes --trace-syscalls=yes --trace-sched=yes --log-file=run.lackey CMD

With --trace-syscalls=yes the text itself has the calls (`_valgrind_calls.py`).  Otherwise `calls` names the text of a strace
of the same run, which recorded Valgrind's writes of its log; their lengths give the bytes of the log before each call:

    strace -f -y -s 0 -o run.strace valgrind --tool=lackey --trace-mem=yes --log-file=run.lackey CMD

Both orders are exact.  Strace stops the program at each write of the log, so an access takes 50 us, not 1 us.
Rows: see `_accesses.py`.  The text has no times; `time_ns` counts its lines.
"""

import os
import re
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.trace.formats.addresses import _accesses
from scmsim.trace.formats.addresses._joined import Joined
from scmsim.trace.formats.addresses._valgrind_calls import Calls
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import blocks, byte_blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls.as_strace import NoCall, take_line
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import unescape

SUMMARY = "text of Valgrind's lackey, --trace-mem=yes, with --trace-syscalls=yes or a strace of the same run"
PARAMS = {
    "calls": (
        "",
        "file",
        "text of the strace -f -y that recorded Valgrind writing this text; none: this text contains the calls",
    ),
    "smaps": (
        "",
        "file",
        "copy of /proc/PID/smaps of the same run; the header then lists the page sizes of each file's mappings",
    ),
}

_TOOL = "text of Valgrind's lackey with --trace-mem=yes"
_FETCH = "instruction fetch"
_LOG = "write of Valgrind's log"
_KINDS = np.full(256, -1, "i1")
_KINDS[list(b"LSM")] = _accesses.LOADS, _accesses.STORES, _accesses.BOTH
_HEX = np.full(256, -1, "i1")
_HEX[list(b"0123456789abcdef")] = range(16)
_HEX[list(b"ABCDEF")] = range(10, 16)
_DIGITS = 12  # maximum hexadecimal digits of a program's address (47 bits)
_LARGEST = 1 << 20  # maximum bytes of an access
_FETCHES = -2  # kind of an instruction fetch; a smaller value: not an access
_SNIFF = re.compile(rb"^(?:I  | [LSM] )[0-9a-fA-F]{5,16},\d{1,4}$|^SYSCALL\[\d+,\d+\]\(", re.MULTILINE)
_WRITE = re.compile(
    r"(?>(?:\d+ +)?)(?>(?:[\d.:]+ +)?)(?:write\(\d+<([^<>]*)>|<\.\.\. write resumed>).*\) += (\d{1,18})(?: <[\d.]+>)?$"
).match
_HOW = (
    "record both in one run, with 'strace -f -y -s 0 -o RUN.strace valgrind --tool=lackey --trace-mem=yes "
    "--log-file=RUN.lackey CMD'"
)


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first lines hold accesses or calls of Valgrind."""
    return b"\0" not in head and _SNIFF.search(head) is not None


@importer
def convert(job: Import, cwd: str = "", calls: str = "", smaps: str = "") -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    work = _Joined(job, cwd)
    work.read_smaps(smaps)
    parts = _by_strace(work, calls) if calls else byte_blocks(job.given, _TOOL, job.progress)
    for block in parts:
        work.take(block)
        work.imp.drain(job.writer)
    return work.finish()


class _Joined(Joined):
    """The conversion of one text: accesses in blocks, other lines one by one."""

    def __init__(self, job: Import, cwd: str) -> None:
        how = "record with --trace-syscalls=yes, or name a strace of the same run with --set calls=FILE"
        super().__init__(job, "lackey", _TOOL, how, cwd)
        self.calls = Calls()
        self.by_strace = False  # whether the calls come from strace
        self.process: str | None = None  # process of the current accesses, in strace's numbers

    def take(self, block: bytes) -> None:
        """Process a block of lines."""
        text = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", "u1")
        ends = np.flatnonzero(text == ord("\n"))
        starts = np.append(0, ends[:-1] + 1)
        kind, address, length = _parse(text, starts, ends)
        others = np.flatnonzero(kind < _FETCHES)
        begin = 0
        for other in [*others.tolist(), len(starts)]:
            if other > begin:
                self._accesses(kind[begin:other], address[begin:other], length[begin:other])
            if other < len(starts):
                self._line(block[starts[other] : ends[other]].decode("latin-1"))
            begin = other + 1

    def _accesses(self, kind: np.ndarray, address: np.ndarray, length: np.ndarray) -> None:
        report, clock = self.work.report, self.work.clock
        number = report.lines + 1
        fetches = int((kind == _FETCHES).sum())
        if fetches:
            report.left_out[_FETCH] += fetches
        data = np.flatnonzero(kind >= 0)
        report.lines += fetches
        clock.count(number)
        now = data + number if clock.is_counted else np.full(len(data), clock.now)
        pid = self.process if self.by_strace else self.calls.task()
        task = self.imp.tasks.get(pid) or self._task(pid)
        self.accesses.take(task, now, kind[data].astype("i8"), address[data], length[data])
        clock.count(report.lines)

    def _task(self, pid: str | None) -> Task:
        """Return a new task; a thread of Valgrind's process shares everything with the first thread."""
        first = self.imp.tasks.get(self.calls.process)
        if first is None or pid is None or self.by_strace:
            return self.imp.task(pid)
        task = self.imp.tasks[pid] = first.spawn(pid, "CLONE_FILES CLONE_FS CLONE_VM")
        return task

    def _line(self, line: str) -> None:
        self.accesses.end_run()
        if self.by_strace:
            self.work.leave_out("message of Valgrind")
            return
        take_line(self.work, self._told, line)

    def _told(self, line: str) -> str | NoCall:
        """Return a line as strace would write it, and add its task; return a NoCall if the line is not a call."""
        made = self.calls.take(line)
        if not isinstance(made, NoCall) and self.calls.process is not None and self.calls.task() not in self.imp.tasks:
            self._task(self.calls.task())
        return made

    def finish(self) -> Report:
        """Write the remaining rows and the blind spots."""
        spots = ["what the kernel loads and stores for the program in mapped files (read into a mapping) is not seen"]
        if self.calls.started:
            spots.append(f"{self.calls.started} forks and execs: what they started is not in the trace")
        if self.calls.children:
            spots.append(
                f"{self.calls.children} calls of forked children: their accesses count as those of the first process"
            )
        return self.close(spots)


def _parse(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return kind (-2: fetch, -3: no access), address and length of each line."""
    sizes = ends - starts
    last = len(text) - 1
    first, second, third = (text[np.minimum(starts + i, last)] for i in range(3))
    kind = np.where((first == ord(" ")) & (third == ord(" ")), _KINDS[second], -1)
    data = np.flatnonzero((kind >= 0) & (sizes >= 6))
    address, length = np.zeros(len(starts), "i8"), np.zeros(len(starts), "i8")
    at, value, digits = _number(text, starts[data] + 3, ends[data], _HEX, 16)
    sound = (digits > 0) & (value < 1 << 4 * _DIGITS) & (text[np.minimum(at, last)] == ord(","))
    stop, size, digits = _number(text, at + 1, ends[data], _HEX, 10)
    sound &= (digits > 0) & (stop == ends[data]) & (size > 0) & (size <= _LARGEST)
    address[data], length[data] = value, size
    good = data[sound]
    out = np.full(len(starts), _FETCHES - 1)
    out[(first == ord("I")) & (second == ord(" ")) & (third == ord(" "))] = _FETCHES
    out[good] = kind[good]
    return out, address, length


def _number(
    text: np.ndarray, at: np.ndarray, ends: np.ndarray, table: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parse a number (at most 16 digits) at each position; return the end positions, the values and digit counts."""
    at, value, digits = at.copy(), np.zeros(len(at), "i8"), np.zeros(len(at), "i8")
    active = np.arange(len(at))
    for _ in range(16):
        active = active[at[active] < ends[active]]
        digit = table[text[at[active]]]
        active = active[(digit >= 0) & (digit < base)]
        if not len(active):
            break
        value[active] = np.minimum(value[active], 1 << 56) * base + table[text[at[active]]]
        digits[active] += 1
        at[active] += 1
    return at, value, digits


def _by_strace(work: _Joined, calls: str) -> Iterator[bytes]:
    """Yield lackey's text in pieces, one per write of the log, and process strace's lines between them."""
    given = work.job.given
    log = _Log(work.job)
    halves: set[str | None] = set()  # processes with an unfinished write of the log
    work.by_strace = True
    with Input(calls) as text:
        for lines in blocks(text, "text of strace"):
            for line in lines:
                pid = line.split(maxsplit=1)[0] if line[:1].isdigit() else None
                if line.endswith("<unfinished ...>") and " write(" in line and f"/{given.name}>" in line:
                    halves.add(pid)
                    work.work.leave_out(_LOG)
                elif (m := _WRITE(line)) and (
                    pid in halves if m[1] is None else unescape(m[1]).endswith("/" + given.name)
                ):
                    halves.discard(pid)
                    work.work.leave_out(_LOG)
                    work.process = pid
                    yield log.take(int(m[2]))
                else:
                    work.accesses.end_run()
                    work.work.line(line)
    if not log.is_empty():
        raise UsageError(f"{given.name!r} is longer than the {log.taken} bytes whose writes {calls!r} recorded; {_HOW}")


class _Log:
    """The text of lackey, read in pieces of given lengths."""

    def __init__(self, job: Import) -> None:
        self._name = job.given.path
        self._blocks = byte_blocks(job.given, _TOOL, job.progress)
        self._ready, self._at = b"", 0  # a block (1 MiB), and the start in it of the next piece (a line)
        self.taken = 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        while len(self._ready) - self._at < count:
            block = next(self._blocks, b"")
            if not block:
                raise UsageError(f"{self._name!r} is shorter than what strace recorded as written to it; {_HOW}")
            self._ready, self._at = self._ready[self._at :] + block, 0
        piece = self._ready[self._at : self._at + count]
        self._at += count
        self.taken += count
        return piece

    def is_empty(self) -> bool:
        """Return whether the whole text was taken."""
        return self._at == len(self._ready) and not next(self._blocks, b"")
