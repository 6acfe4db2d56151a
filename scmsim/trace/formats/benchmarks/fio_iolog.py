"""Read and write fio's I/O log, versions 2 and 3.

Source: iolog.c and HOWTO of fio 3.33 (`--write_iolog`, `--read_iolog`).

Rules
-----
- Version 3: `USEC FILE ACTION [OFFSET LENGTH]`, microseconds since the job started.  Version 2 has no time but `wait T`:
  microseconds since the previous wait according to the manual, milliseconds since the job started according to the code
  of fio 3.33; the importer follows the code.
- add declares a file and is not an operation.  The offset and length of sync and datasync have no meaning.  trim punches
  a hole.
- Every file existed before the log; its first size is the furthest byte that the log reads before it writes that byte.
- A log has one stream, without threads.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import atomic
from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, CREATE, DATA_ONLY, FALLOCATE, FSYNC, OPEN, OPS, PUNCH_HOLE, READ, SETUP, WRITE
from scmsim.trace.reading.builder import BLANK, FAR, TRIM, TraceBuilder
from scmsim.trace.reading.columns import Column, Reader
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, Progress, byte_blocks, clip, nanoseconds, whole
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls.runs import stretches

SUMMARY = "fio's I/O log, version 2 or 3 (fio --write_iolog=FILE)"
WRITES = True
PARAMS: dict[str, tuple[str | int, str, str]] = {}
EXPORT_PARAMS: dict[str, tuple[str | int, str, str]] = {"version": ("3", "2|3", "version of the log to write")}
_TOOL = "an I/O log of fio"
_TITLES = {"fio version 2 iolog": 2, "fio version 3 iolog": 3}
_US, _MS = 1000, 10**6  # ns per microsecond, per millisecond
_TRANSFERS = ("read", "write", "trim", "sync", "datasync")
_ROWS = np.array([(READ, 0), (WRITE, 0), (FALLOCATE, TRIM), (FSYNC, 0), (FSYNC, DATA_ONLY)], "i8")  # operation, flag
_BLOCK = 1 << 22
_READER = Reader(
    [
        Column("time", 0, unit=_US), Column("file", 1, "word"),
        Column("action", 2, "word", codes={action: i for i, action in enumerate(_TRANSFERS)}),
        Column("offset", 3), Column("length", 4),
    ],
    5,
    " ",
)  # fmt: skip
_OTHER_BLANK = np.array(
    [chr(i).isspace() and chr(i) not in " \n" for i in range(256)]
)  # other white space at which str.split cuts


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line of a file is the title of an I/O log."""
    return head.split(b"\n", 1)[0].decode("latin-1").strip() in _TITLES


@importer
def convert(job: Import) -> Report:
    """Convert an I/O log and close the writer (see `scmsim.trace.formats`)."""
    log = _Log(job.builder())
    for block in byte_blocks(job.given, _TOOL, job.progress, _BLOCK):
        log.block(block)
    clock = "microseconds of fio" if log.version == 3 else "milliseconds of fio's waits"
    return log.builder.finish("fio-iolog", _TOOL, clock=clock, version=log.version)


def _transfers(block: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of runs of lines that can be transfers: with four blanks and no other white space."""
    characters = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(characters == ord("\n")) + 1
    if not len(ends):
        return
    starts = np.concatenate(([0], ends[:-1]))
    blanks = np.diff(np.searchsorted(np.flatnonzero(characters == ord(" ")), ends), prepend=0)
    blanks[np.searchsorted(ends, np.flatnonzero(_OTHER_BLANK[characters[: ends[-1]]]), side="right")] = 0
    for first, last in stretches(blanks == 4):
        yield int(starts[first]), int(ends[last - 1])


class _Log:
    """The conversion of one log."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self.version = 0
        self.now = 0

    def block(self, block: bytes) -> None:
        """Process whole lines: runs of transfers at once, other lines one by one."""
        if not self.version:
            title, end, block = block.partition(b"\n")
            self._each(title + end)
        done = 0
        for start, stop in _transfers(block) if self.version == 3 else ():
            self._each(block[done:start])
            if not self._table(block[start:stop]):
                self._each(block[start:stop])
            done = stop
        self._each(block[done:])

    def _each(self, lines: bytes) -> None:
        if lines:
            self.builder.each(lines.decode("latin-1").removesuffix("\n").split("\n"), self.take)

    def _table(self, lines: bytes) -> bool:
        """Add transfers at once; return False without adding any if one of them is irregular."""
        table = _READER.fast(lines)
        if table is None or "" in table["file"].values:
            return False
        offset, length = table["offset"], table["length"]
        if len(offset) != lines.count(b"\n") or (offset + length >= FAR).any():
            return False
        op, flag = _ROWS[table["action"]].T
        sync = op == FSYNC
        offset[sync], length[sync] = -1, 0
        self.builder.table(table["time"], op, table["file"].numbers(self.builder.file), offset, length, flag=flag)
        return True

    def take(self, line: str) -> str | None:
        """Process a line; return why it makes no row, or None."""
        if not self.version:
            self.version = _TITLES.get(line.strip(), 0)
            if not self.version:
                raise UsageError(
                    f"{self.builder.given.path!r} is not {_TOOL}: it does not begin with 'fio version 3 iolog'; "
                    "record it with --write_iolog, or give another --format"
                )
            return "title"
        words = line.split()
        if not words:
            return BLANK
        if self.version == 3:
            now = nanoseconds(words.pop(0), _US)
            if len(words) < 2:
                raise BadLine("a line needs a time, a file and an action")
            self.now = self.builder.at(now)
        elif len(words) < 2:
            raise BadLine("a line needs a file and an action")
        return self._act(words[0], words[1], words[2:])

    def _act(self, name: str, action: str, rest: list[str]) -> str | None:
        if action in _TRANSFERS:
            if len(rest) != 2:
                raise BadLine(f"{action} needs an offset and a length")
            return self._transfer(action, self.builder.file(name), whole(rest[0], "offset"), whole(rest[1], "length"))
        if action == "wait" and self.version == 2:
            self.now = self.builder.at(nanoseconds(rest[0] if rest else "", _MS))
            return "wait"
        if action not in ("add", "open", "close"):
            raise BadLine(f"unknown action {clip(action)!r}")
        if rest:
            raise BadLine(f"{action} has no offset")
        file = self.builder.file(name)
        if action == "add":
            return "file made known"
        return self.builder.other(self.now, OPEN if action == "open" else CLOSE, file)

    def _transfer(self, action: str, file: int, offset: int, length: int) -> str | None:
        builder, now = self.builder, self.now
        if action == "read":
            return builder.read(now, file, offset, length)
        if action == "write":
            return builder.write(now, file, offset, length)
        if action == "trim":
            return builder.trim(now, file, offset, length)
        return builder.sync(now, file, data_only=action == "datasync")


class _Row(NamedTuple):
    time_ns: int
    op: int
    file: int
    offset: int
    length: int
    flag: int


def export(
    trace: Any, path: str | os.PathLike[str], *, progress: Progress | None = None, version: str | int = 3
) -> Report:
    """Write a trace as an I/O log.

    Rows of the preparation (SETUP) and operations that a log cannot express are left out; the report counts them by
    name.  A file used without an open row is opened first; a file that is opened again while open is opened only once.

    For the parameters, see `scmsim.trace.formats`; `version` is 2 or 3, and version 2 has no times.
    """
    work = _Export(trace.files.path, int(version))
    with atomic.whole(path) as draft:
        with open(draft, "w", encoding="utf-8", errors="surrogateescape") as out:
            out.write(f"fio version {int(version)} iolog\n")
            for batch in trace.batches(1 << 16):
                out.writelines(work.lines(batch))
                if progress is not None:
                    progress(work.report.lines, trace.rows)
            out.writelines(work.closes())
        if not work.report.rows:
            raise UsageError("the trace has no operation that an I/O log can express; see 'scmsim trace info'")
    return work.done()


class _Export:
    """The state of a log being written: the files that it has declared and those that are open."""

    def __init__(self, paths: list[str], version: int) -> None:
        self.paths, self.version = paths, version
        self.report = Report()
        self.opened: dict[str, int] = {}  # name -> number of opens without a close
        # a name with white space would be split; a name with control characters could steer a terminal
        self.unfit = {i for i, path in enumerate(paths) if path.split() != [path] or not path.isprintable()}
        self.added: Counter[str] = Counter()
        self.now = 0

    def lines(self, batch: Any) -> Iterator[str]:
        """Yield the lines of a batch."""
        columns = (batch[name].tolist() for name in ("time_ns", "op", "file", "offset", "length", "flag"))
        for row in map(_Row._make, zip(*columns, strict=True)):
            self.report.lines += 1
            reason = self._why_not(row)
            if reason is not None:
                self.report.left_out[reason] += 1
                continue
            self.now = row.time_ns
            self.report.calls += 1
            yield from self._row(row, self.paths[row.file])

    def _why_not(self, row: _Row) -> str | None:
        if row.flag & SETUP:
            return "preparation of the file system"
        action = row.op in (CREATE, OPEN, CLOSE, READ, WRITE, FSYNC) or (row.op == FALLOCATE and row.flag & PUNCH_HOLE)
        if not action:
            return f"not expressible in an I/O log: {OPS[row.op]}"
        if row.file in self.unfit:
            return "not expressible in an I/O log: a file name with white space or control characters, or none"
        if row.op in (READ, WRITE) and row.length == 0:
            return "transfer of no bytes"
        return None

    def _row(self, row: _Row, name: str) -> Iterator[str]:
        if row.op == CLOSE:
            yield from self._close(name)
            return
        if row.op in (CREATE, OPEN):
            yield from self._open(name)
            return
        if not self.opened.get(name):
            yield from self._open(name)
        action = {READ: "read", WRITE: "write", FALLOCATE: "trim"}.get(row.op)
        if action is None:
            yield self._line(name, "datasync 0 0" if row.flag & DATA_ONLY else "sync 0 0")
        else:
            yield self._line(name, f"{action} {row.offset} {row.length}")

    def _open(self, name: str) -> Iterator[str]:
        if not self.added[name]:
            self.added[name] = 1
            yield self._line(name, "add")
        if not self.opened.get(name):
            yield self._line(name, "open")
        self.opened[name] = self.opened.get(name, 0) + 1

    def _close(self, name: str) -> Iterator[str]:
        count = self.opened.get(name, 0)
        if count == 1:
            yield self._line(name, "close")
        self.opened[name] = max(count - 1, 0)

    def closes(self) -> Iterator[str]:
        """Yield the closes of the files that are still open."""
        for name, count in self.opened.items():
            if count:
                yield self._line(name, "close")

    def _line(self, name: str, action: str) -> str:
        self.report.rows += 1
        return f"{self.now // _US} {name} {action}\n" if self.version == 3 else f"{name} {action}\n"

    def done(self) -> Report:
        """Return the report: its lines are rows of the trace, its rows are lines of the log."""
        report = self.report
        report.files = len(self.added)
        report.extra_rows = report.rows - report.calls
        report.notes = ["an I/O log has one stream: the rows of all threads are in it, in the order of the trace"]
        if self.version == 2:
            report.notes.append("version 2 of an I/O log has no times")
        return report
