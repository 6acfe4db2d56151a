"""Convert rows of a trace to lines of text and back; shared by `ops-csv` and `ops-jsonl`.

A line has named cells.  `op` is the name of an operation, or `file`, which declares an object: its number (`file`),
`path`, bytes before the trace (`length`; -1: the trace creates it) and whether it is a `directory` (`flags`).  The other
cells are the columns of a trace; an empty or missing cell is 0, except `time_ns` (time of the line above), `offset`,
`file` and `file2` (none).

An operation refers to its object by number (`file`, `file2`), as in exported traces, or by name (`path`, `path2`).  Only
operations by name change names: `create` adds an object, `rename` and `link` give it the name `path2`, `unlink` removes a
name.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scmsim.core import atomic
from scmsim.core.records import CREATE, FLAGS, LINK, MKDIR, OPS, RENAME
from scmsim.trace.reading.builder import OUTSIDE, TraceBuilder
from scmsim.trace.reading.by_path import Names
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.lines import BadLine, Progress, clip
from scmsim.trace.reading.report import Report
from scmsim.trace.rules import NEEDS_NO_FILE, NEEDS_OFFSET, THREAD_BYTES, ends_too_far

CELLS = ("op", "time_ns", "thread", "file", "path", "offset", "length", "flags", "file2", "path2", "buffer")
FILE = "file"
MADE_KNOWN = "file made known"
Cells = Mapping[str, Any]
_CODES = {name: code for code, name in enumerate(OPS)}
_BITS = {name: 1 << bit for bit, name in enumerate(FLAGS)}
_LARGEST = 10**18
_MOST_THREADS = 1 << 31
_TWO_NAMES = (RENAME, LINK)


class Operations:
    """The conversion of one trace's lines, whose cells are texts or whole numbers."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder, self.names = builder, Names(builder)
        self._files: dict[int, int] = {}  # number in the text -> number in the trace, -1: outside of `under`
        self._paths: dict[int, str] = {}
        self._now = 0

    def take(self, cells: Cells) -> str | None:
        """Process a line; return the reason why it makes no row, or None."""
        name = cells.get("op")
        if name == FILE:
            return self._make_known(cells)
        op = _CODES.get(name) if isinstance(name, str) else None
        if op is None:
            raise BadLine(f"unknown operation {clip(str(name or ''))!r}; known: {FILE}, {', '.join(OPS)}")
        offset, length = _number(cells, "offset", -1), _number(cells, "length", 0, low=0)
        thread, buffer = _number(cells, "thread", 0, 0, _MOST_THREADS), _number(cells, "buffer", 0, 0, THREAD_BYTES)
        flag, ns = _flag(cells), _number(cells, "time_ns", self._now, low=0)
        if offset < 0 and op in NEEDS_OFFSET:
            raise BadLine(f"{name} needs an offset")
        if ends_too_far(op, offset, length):
            raise BadLine(f"{name} of {length} bytes ends beyond 2^44 (16 TiB), the models' largest file")
        numbers = self._numbers(op, cells)
        if numbers is None:
            path, path2 = self._named(op, cells)
            self._now = self.builder.at(ns)
            places = {"offset": offset, "length": length, "thread": thread, "flag": flag, "buffer": buffer}
            return self.names.emit(self._now, op, path, path2, **places)
        file, file2 = numbers
        if file < 0 and op not in NEEDS_NO_FILE:
            return OUTSIDE
        self._now = self.builder.at(ns)
        self.builder.row(self._now, op, file, offset, length, thread, flag, file2, buffer)
        return None

    def _make_known(self, cells: Cells) -> str:
        number, first, path = _number(cells, "file", -1), _number(cells, "length", 0), _path(cells, "path")
        if not path:
            raise BadLine("a file needs a path")
        if number in self._files or (number < 0 and self.names.is_there(path)):
            raise BadLine(
                f"file {clip(path) if number < 0 else number!r} is known already; declare a file once, before its first use"
            )
        ident = self.names.add(path, first, is_dir=bool(_flag(cells) & _BITS["directory"]))
        if number >= 0:
            self._files[number], self._paths[number] = ident, path
        return MADE_KNOWN

    def _numbers(self, op: int, cells: Cells) -> tuple[int, int] | None:
        """Return the object numbers of an operation (-1: no object); None if the operation names objects by path."""
        found = []
        for name in ("file", "file2"):
            number = _number(cells, name, -1)
            if number >= 0 and number not in self._files:
                raise BadLine(f"{name} {number} was not declared by a line '{FILE}'")
            found.append(self._files.get(number, -1))
        path = _path(cells, "path")
        number = _number(cells, "file", -1)
        if number >= 0:
            if path and path != self._paths[number]:
                raise BadLine(f"file {number} is {clip(self._paths[number])!r}, not {clip(path)!r}")
        elif path:
            return None
        elif op not in NEEDS_NO_FILE:
            raise BadLine(f"{OPS[op]} needs a path or a file")
        return found[0], found[1]

    def _named(self, op: int, cells: Cells) -> tuple[str, str]:
        """Return the names of an operation; raise BadLine if they contradict earlier operations."""
        path, path2 = _path(cells, "path"), _path(cells, "path2")
        if op in _TWO_NAMES and not path2:
            raise BadLine(f"{OPS[op]} needs a path2, the new name")
        there = self.names.is_there(path)
        if op in (CREATE, MKDIR):
            if there:
                raise BadLine(f"{clip(path)!r} is there already; open it, or unlink it first")
        elif there is False:
            raise BadLine(f"{clip(path)!r} was removed or renamed before; create it again, or use its new name")
        if op == LINK and self.names.is_there(path2):
            raise BadLine(f"{clip(path2)!r} is there already; unlink it first")
        return path, path2


def _number(cells: Cells, name: str, default: int, low: int = -1, limit: int = _LARGEST) -> int:
    """Return the whole number in a cell; raise BadLine if the cell has no valid one."""
    value = cells.get(name, "")
    if value == "" or value is None:
        return default
    if isinstance(value, str):
        value = value.strip()
        digits = value.removeprefix("-")
        number = int(value) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else None
    else:
        number = value if type(value) is int else None
    if number is None or not low <= number < limit:
        raise BadLine(f"{name} {clip(str(value))!r} is not a whole number from {low} to {limit - 1}")
    return number


def _flag(cells: Cells) -> int:
    """Return the bits of the words in the cell `flags`, which are joined by +; raise BadLine for an unknown word."""
    text = cells.get("flags", "") or ""
    if not isinstance(text, str):
        raise BadLine(f"flags {clip(str(text))!r} are not text")
    found = 0
    for word in filter(None, text.strip().split("+")):
        if word not in _BITS:
            raise BadLine(f"unknown flag {clip(word)!r}; known: {', '.join(FLAGS)}")
        found |= _BITS[word]
    return found


def _path(cells: Cells, name: str) -> str:
    text = cells.get(name, "") or ""
    if not isinstance(text, str) or "\0" in text:
        raise BadLine(f"{name} {clip(str(text))!r} is not a path")
    return text.encode("utf-8", "backslashreplace").decode()


def convert(job: Import, form: str, tool: str, cells: Callable[[str, TraceBuilder], Cells | str]) -> Report:
    """Convert lines; `cells` returns the cells of a line, or the reason why the line makes no row."""
    builder = job.builder(from_zero=True)
    operations = Operations(builder)

    def take(line: str) -> str | None:
        found = cells(line, builder)
        return found if isinstance(found, str) else operations.take(found)

    builder.lines(take, tool)
    return builder.finish(form, tool, clock="nanoseconds since the start of the trace")


def export(
    trace: Any, path: str | os.PathLike[str], begin: str, line: Callable[[Cells], str], progress: Progress | None
) -> Report:
    """Write a trace as lines: first `begin`, then lines that `line` makes from their nonempty cells."""
    report = Report(files=len(trace.files))
    with atomic.whole(path) as draft:
        with open(draft, "w", encoding="utf-8", newline="") as out:
            out.write(begin)
            out.writelines(line(cells) for cells in _files(trace.files))
            for batch in trace.batches(1 << 16):
                out.writelines(line(cells) for cells in _rows(batch, trace.files.path))
                report.lines += len(batch)
                if progress is not None:
                    progress(report.lines, trace.rows)
    report.calls, report.extra_rows = report.lines, len(trace.files) + begin.count("\n")
    report.rows = report.calls + report.extra_rows
    return report


def _files(files: Any) -> Iterator[Cells]:
    for number, (path, first, is_dir) in enumerate(zip(files.path, files.first_size, files.is_dir, strict=True)):
        cells = {"op": FILE, "file": number, "path": path, "length": int(first)}
        yield {**cells, "flags": "directory"} if is_dir else cells


def _rows(batch: Any, paths: list[str]) -> Iterator[Cells]:
    names = ("op", "time_ns", "thread", "file", "offset", "length", "flag", "file2", "buffer")
    for row in zip(*(batch[name].tolist() for name in names), strict=True):
        op, time_ns, thread, file, offset, length, flag, file2, buffer = row
        cells: dict[str, Any] = {"op": OPS[op], "time_ns": time_ns}
        if thread:
            cells["thread"] = thread
        if file >= 0:
            cells |= {"file": file, "path": paths[file]}
        if offset >= 0:
            cells["offset"] = offset
        if length:
            cells["length"] = length
        if flag:
            cells["flags"] = "+".join(name for name, bit in _BITS.items() if flag & bit)
        if file2 >= 0:
            cells["file2"] = file2
        if buffer:
            cells["buffer"] = buffer
        yield cells
