"""Import file-level traces of FIU ("Non-blocking Writes to Files", FAST'15): one file per core, columns between spaces.

`SEQ TIME_NS OP INODE INODE_SIZE [OFFSET LENGTH HIT|MISS|APPEND]`; OPEN, CLOSE, FSYNC and FDATASYNC end after the inode's
size.  An inode is the file `/inode/N`; its first size is in its first record (for an appending write, the offset).
The traces lack names, creation and removal.
"""

import os
import re

from scmsim.core.records import APPENDS, CLOSE, OPEN
from scmsim.trace.reading.builder import BLANK, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip, is_title, nanoseconds, rows_of, whole
from scmsim.trace.reading.report import Report

SUMMARY = "file trace of FIU, non-blocking writes (SEQ TIME_NS OP INODE SIZE [OFFSET LENGTH HIT|MISS|APPEND])"
_TOOL = "a file trace of FIU"
_LINE = re.compile(rb"\d+ \d+ (?:(?:OPEN|CLOSE|FSYNC|FDATASYNC) \d+ \d+|(?:READ|WRITE) \d+ \d+ \d+ \d+ [A-Z]+)\s*\n")
_HOW = ("HIT", "MISS", "APPEND")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line of a file has this format."""
    return b"\0" not in head and _LINE.match(rows_of(head, " ")) is not None


@importer
def convert(job: Import) -> Report:
    """Convert a file trace and close the writer (see `scmsim.trace.formats`)."""
    builder = job.builder()
    builder.lines(lambda line: _take(builder, line), _TOOL)
    return builder.finish("fiu-file", _TOOL, clock="nanoseconds of the tracer", names="inode numbers")


def _take(builder: TraceBuilder, line: str) -> str | None:
    words = line.split()
    if not words:
        return BLANK
    if not builder.report.calls and is_title(line, " "):
        return "title"
    if len(words) not in (5, 8):
        raise BadLine(f"{len(words)} columns instead of 5 or 8")
    ns, op, inode, size = nanoseconds(words[1], 1), words[2], whole(words[3], "inode"), whole(words[4], "size")
    if len(words) == 8:
        return _transfer(builder, ns, op, inode, size, words[5:])
    if op not in ("OPEN", "CLOSE", "FSYNC", "FDATASYNC"):
        raise BadLine(f"{clip(op)!r} in a line of 5 columns; these have OPEN, CLOSE, FSYNC or FDATASYNC")
    now, file = builder.at(ns), builder.file(f"/inode/{inode}", size)
    if op in ("OPEN", "CLOSE"):
        return builder.other(now, OPEN if op == "OPEN" else CLOSE, file)
    return builder.sync(now, file, data_only=op == "FDATASYNC")


def _transfer(builder: TraceBuilder, ns: int, op: str, inode: int, size: int, rest: list[str]) -> str | None:
    if op not in ("READ", "WRITE") or rest[2] not in _HOW:
        raise BadLine(f"{clip(op)!r} with 8 columns is not READ or WRITE with {', '.join(_HOW)}")
    offset, length = whole(rest[0], "offset"), whole(rest[1], "length")
    appends = rest[2] == "APPEND"
    now, file = builder.at(ns), builder.file(f"/inode/{inode}", offset if appends else size)
    if op == "READ":
        return builder.read(now, file, offset, length)
    return builder.write(now, file, offset, length, flag=APPENDS if appends else 0)
