"""Convert formats whose records have a file, an offset and a length: assign dense numbers, add rows, count lines.

The system-call formats need more (descriptors, positions, names): see `syscalls/importer.py`.
"""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    DATA_ONLY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    OFFSET_UNKNOWN,
    OP,
    PUNCH_HOLE,
    READ,
    WRITE,
    Files,
)
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import BadLine, Progress, blocks, clip
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

OUTSIDE = "outside of the chosen directory"
BLANK = "blank line"
EMPTY = "transfer of no bytes"
MOST_FILES = 1 << 20  # limit of files, because the side table is in memory
FAR = 1 << 60  # bytes: every offset, length and end is less
SECTOR = 512  # bytes of a sector in block traces
_MOST_THREADS = 1 << 20
_FIELDS = ("time_ns", "op", "file", "offset", "length", "thread", "flag", "file2", "buffer")  # order in the buffer
TRIM = PUNCH_HOLE | KEEP_SIZE  # flags of the FALLOCATE row of a discard

BLOCK_NOTE = (
    "block trace: each device is one big file that exists from the start. It suits models of a file system's data path, paging, "
    "TLB and medium. It lacks names, directories, creation, growth and the costs of fsync, and its requests have already passed "
    "the file system and the page cache of the traced machine"
)


@dataclass(frozen=True)
class Import:
    """Input, output and options of one import, as every importer gets them.

    Attributes
    ----------
    given : Input
        The opened input, read once, in blocks.
    writer : TraceWriter
        Receives the rows, and in its header the provenance that the input has.
    strict : bool
        Raise an error at the first line that cannot be understood, instead of counting such lines.
    progress : callable, optional
        Called with (bytes read, total bytes).
    under : str, optional
        Absolute path: keep only files at or below this directory.
    """

    given: Input
    writer: TraceWriter
    strict: bool = False
    progress: Progress | None = None
    under: str | None = None

    def builder(self, granularity: str = "file", *, from_zero: bool = False) -> "TraceBuilder":
        """Return a builder of the rows of this import."""
        return TraceBuilder(self, granularity, from_zero=from_zero)


class TraceBuilder:
    """Conversion in progress, which numbers files and threads, collects rows and counts lines.

    Parameters
    ----------
    job : Import
    granularity : "file", "block" or "object"
        Kind of object that a row accesses.  A block device has all its bytes from the start.
    from_zero : bool
        The input's times count from the start of the trace, not from another origin.
    """

    def __init__(self, job: Import, granularity: str = "file", *, from_zero: bool = False) -> None:
        self.given, self.writer, self.strict, self.progress = job.given, job.writer, job.strict, job.progress
        self.under = None if job.under is None else "/" + job.under.strip("/")
        self.from_zero = from_zero
        self.granularity = granularity
        self.report = Report()
        self.paths: list[str] = []
        self.first = array("q")  # bytes that a file had before the trace
        self.is_dir: list[bool] = []
        self._written = array("q")  # furthest byte that the trace wrote
        self._idents: dict[str, int] = {}
        self._threads: dict[Any, int] = {}
        self._buffer = array("q")
        self._start: int | None = None
        self._now = 0
        self.jumps = 0

    def file(self, path: str, first: int = 0) -> int:
        """Return the number of the file at a path (one character per byte), or -1 outside of the chosen directory.

        `first` is the size in bytes before the trace of a file seen for the first time, as far as known.
        """
        ident = self._idents.get(path)
        if ident is None:
            ident = self._idents[path] = self._new_file(path, first)
        return ident

    def _new_file(self, path: str, first: int) -> int:
        return self.make(decoded(path), first)

    def make(self, path: str, first: int, *, is_dir: bool = False, exact: bool = False) -> int:
        """Return the number of a new file, even if an earlier file had the path; -1 outside of the chosen directory.

        `first` is the file's size in bytes before the trace (-1: the trace creates the file).  Later reads may raise it, unless
        `exact`.
        """
        if not self._is_inside(path):
            return -1
        if len(self.paths) >= MOST_FILES:
            raise UsageError(
                f"{self.given.path!r} names more than {MOST_FILES} files; convert a part of it (--under, split)"
            )
        self.paths.append(path)
        self.first.append(first)
        self.is_dir.append(is_dir)
        self._written.append(FAR if exact else 0)
        return len(self.paths) - 1

    def _is_inside(self, path: str) -> bool:
        under = self.under
        return under is None or path == under or path.startswith(under if under == "/" else under + "/")

    def thread(self, key: Any) -> int:
        """Return the dense number of a thread; raise BadLine if there are too many."""
        if len(self._threads) >= _MOST_THREADS and key not in self._threads:
            raise BadLine(f"more than {_MOST_THREADS} threads")
        return self._threads.setdefault(key, len(self._threads))

    def at(self, ns: int) -> int:
        """Return a time stamp as ns since the first one; one that runs backwards or is far off gives the previous row's time."""
        if self._start is None:
            self._start = 0 if self.from_zero else ns
        if self._now <= ns - self._start < FAR:
            self._now = ns - self._start
        else:
            self.jumps += 1
        return self._now

    def read(self, now: int, file: int, offset: int, length: int, thread: int = 0) -> str | None:
        """Add a READ; return the reason why it was left out, or None."""
        return self._transfer(now, READ, file, offset, length, thread, 0)

    def write(self, now: int, file: int, offset: int, length: int, thread: int = 0, flag: int = 0) -> str | None:
        """Add a WRITE; return the reason why it was left out, or None."""
        return self._transfer(now, WRITE, file, offset, length, thread, flag)

    def _transfer(self, now: int, op: int, file: int, offset: int, length: int, thread: int, flag: int) -> str | None:
        end = offset + length
        if end >= FAR:
            raise BadLine(f"offset {offset} plus length {length} is beyond 2^60")
        if file < 0:
            return OUTSIDE
        if length == 0:
            return EMPTY
        self.transferred(op, file, end)
        return self.other(now, op, file, offset, length, thread, flag)

    def transferred(self, op: int, file: int, end: int) -> None:
        """Record the end of a read or write: bytes that are read before they are written existed before the trace."""
        if op == WRITE:
            self._written[file] = max(end, self._written[file])
        elif end > self._written[file]:
            self.first[file] = max(end, self.first[file])

    def other(
        self, now: int, op: int, file: int, offset: int = -1, length: int = 0, thread: int = 0, flag: int = 0
    ) -> str | None:
        """Add a row of any operation; return the reason why it was left out, or None."""
        if file < 0:
            return OUTSIDE
        self.row(now, op, file, offset, length, thread, flag)
        return None

    def row(
        self,
        now: int,
        op: int,
        file: int = -1,
        offset: int = -1,
        length: int = 0,
        thread: int = 0,
        flag: int = 0,
        file2: int = -1,
        buffer: int = 0,
    ) -> None:
        """Add a row unchanged; `file` may be -1."""
        if offset + length >= FAR:
            raise BadLine(f"offset {offset} plus length {length} is beyond 2^60")
        self._buffer.extend((now, op, file, offset, length, thread, flag, file2, buffer))

    def sync(self, now: int, file: int, thread: int = 0, *, data_only: bool = False, flag: int = 0) -> str | None:
        """Add an FSYNC; return the reason why it was left out, or None."""
        return self.other(now, FSYNC, file, thread=thread, flag=flag | (DATA_ONLY if data_only else 0))

    def trim(self, now: int, file: int, offset: int, length: int, thread: int = 0) -> str | None:
        """Add a FALLOCATE that punches a hole; return the reason why it was left out, or None."""
        return self.other(now, FALLOCATE, file, offset, length, thread, TRIM)

    def table(
        self,
        time_ns: np.ndarray,
        op: np.ndarray,
        file: np.ndarray,
        offset: np.ndarray,
        length: np.ndarray,
        thread: np.ndarray | int = 0,
        flag: np.ndarray | int = 0,
        *,
        with_empty: bool = False,
    ) -> None:
        """Add operations on data, one per record of the input, as int64 columns; `file` is -1 outside of `under`.

        Transfers of 0 bytes are left out, unless `with_empty` is set.
        """
        self.flush()
        self.report.lines += len(op)
        moves = (op == READ) | (op == WRITE)
        keep = (file >= 0) & ((length > 0) | ~moves | with_empty)
        outside, empty = int((file < 0).sum()), int(((file >= 0) & ~keep).sum())
        self.report.left_out += {reason: n for reason, n in ((OUTSIDE, outside), (EMPTY, empty)) if n}
        times = self._times(time_ns)[keep]
        rows = np.zeros(int(keep.sum()), OP)
        rows["time_ns"], rows["op"], rows["file"], rows["file2"] = times, op[keep], file[keep], -1
        rows["offset"], rows["length"] = offset[keep], length[keep]
        rows["thread"] = thread if isinstance(thread, int) else thread[keep]
        rows["flag"] = flag if isinstance(flag, int) else flag[keep]
        self._sizes(rows[moves[keep]])
        self._append(rows)
        self.report.calls += len(rows)

    def _times(self, time_ns: np.ndarray) -> np.ndarray:
        if not len(time_ns):
            return time_ns
        if self._start is None:
            self._start = int(time_ns[0])
        since = time_ns - self._start
        since[(since < 0) | (since >= FAR)] = -1
        times = np.maximum.accumulate(np.maximum(since, self._now))
        self.jumps += int((times != since).sum())
        self._now = int(times[-1])
        return times

    def _sizes(self, rows: np.ndarray) -> None:
        """Raise the first sizes of files to the ends of reads of bytes that the trace had not written."""
        order = np.argsort(rows["file"], kind="stable")
        rows = rows[order]
        starts = np.flatnonzero(np.diff(rows["file"], prepend=-1))
        for start, end in zip(starts, np.append(starts, len(rows))[1:], strict=True):
            file, group = int(rows["file"][start]), rows[start:end]
            ends, wrote = group["offset"] + group["length"], group["op"] == WRITE
            if self.granularity == "block":
                self.first[file] = max(self.first[file], int(ends.max()))
                continue
            written = np.maximum.accumulate(np.concatenate(([self._written[file]], np.where(wrote, ends, 0))))
            self._written[file] = int(written[-1])
            unseen = ends[~wrote & (ends > written[:-1])]
            self.first[file] = int(unseen.max(initial=self.first[file]))

    def lines(self, handle: Callable[[str], str | None], what: str) -> None:
        """Pass every line to `handle`: it adds rows and returns None, returns the reason why not, or raises BadLine."""
        for lines in blocks(self.given, what, self.progress):
            self.each(lines, handle)
            self.flush()
            self.report.expect_rows(self.given.path)

    def each(self, lines: Iterable[str], handle: Callable[[str], str | None]) -> None:
        """Pass some lines to `handle` as `lines` does; a later `flush` writes the rows."""
        report = self.report
        for line in lines:
            report.lines += 1
            try:
                reason = handle(line)
            except BadLine as error:
                self.bad(str(error), report.lines)
                continue
            if reason is None:
                report.calls += 1
            else:
                report.left_out[reason] += 1

    def bad(self, reason: str, line: int) -> None:
        """Count a line that cannot be understood, or raise UsageError for it."""
        if self.strict:
            raise UsageError(
                f"{self.given.path!r}, line {line}: {reason}; without --strict such lines are only counted"
            )
        self.report.add_bad(line, reason)

    def flush(self) -> None:
        """Pass the rows that were added one by one to the writer."""
        if not self._buffer:
            return
        table = np.array(self._buffer, "i8").reshape(-1, len(_FIELDS))
        self._buffer = array("q")
        rows = np.zeros(len(table), OP)
        for column, name in enumerate(_FIELDS):
            rows[name] = table[:, column]
        if self.granularity == "block":
            self._sizes(rows[np.isin(rows["op"], (READ, WRITE, FALLOCATE))])
        self._append(rows)

    def _append(self, rows: np.ndarray) -> None:
        self.report.rows += len(rows)
        self.report.unknown_offsets += int(np.count_nonzero(rows["flag"] & OFFSET_UNKNOWN))
        self.writer.append(rows)

    def finish(self, form: str, tool: str, *, clock: str, notes: Iterable[str] = (), **more: Any) -> Report:
        """Close the writer with the side table and the provenance; `clock` describes the time stamps."""
        self.flush()
        report = self.report
        if not report.calls:
            raise UsageError(f"{self.given.path!r} is not {tool}: {self._why_empty()}")
        report.files, report.duration_ns = len(self.paths), self._now
        report.notes += [*([BLOCK_NOTE] if self.granularity == "block" else []), *notes]
        if self.jumps:
            report.notes.append(
                f"the clock jumped (back, or far away) {self.jumps} times; such rows have the time of the row above"
            )
        report.check()
        self.writer.header.update(
            {
                "format": form,
                "source": self.given.name,
                "tool": tool,
                "granularity": self.granularity,
                "time": clock,
                "duration_ns": self._now,
                "under": self.under,
                **more,
                **report.provenance(),
            }
        )
        self.writer.close(Files(self.paths, np.array(self.first, "i8"), np.array(self.is_dir, bool)))
        return report

    def _why_empty(self) -> str:
        report = self.report
        reasons = [f"{count} times {reason!r}" for reason, count in report.left_out.most_common(3)]
        if report.bad:
            reasons.append(f"line {report.bad_lines[0][0]}: {clip(report.bad_lines[0][1])}")
        return f"none of its {report.lines} records makes a row ({'; '.join(reasons) or 'it is empty'})"


def decoded(path: str) -> str:
    """Return a path of one character per byte as text; bytes that are not UTF-8 become `\\xNN`."""
    return path if path.isascii() else path.encode("latin-1", "replace").decode("utf-8", "backslashreplace")
