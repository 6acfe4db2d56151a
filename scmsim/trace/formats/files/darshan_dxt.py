"""Import text of darshan-dxt-parser (Darshan's extended tracing): POSIX reads and writes of a parallel program's ranks.

`# DXT, ... file_name: P` begins a file; a row is `MODULE RANK read|write SEGMENT OFFSET LENGTH START END [PTHREAD]`; on
Lustre, an `[OST]` follows END for each server that has a part of the segment.  Rows of X_MPIIO describe the same bytes
at a higher level and are left out.  A rank is a thread; a row has the time of its start.
"""

import os
import re

from scmsim.trace.formats.files._dxt import NOTES, OPS, Segments
from scmsim.trace.reading.builder import BLANK, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip, nanoseconds, whole
from scmsim.trace.reading.report import Report

SUMMARY = "text of darshan-dxt-parser (Darshan's extended tracing)"
COUNTERS = b"# description of columns:"  # only darshan-parser writes it
_TOOL = "text of darshan-dxt-parser"
_FILE = re.compile(r"# DXT, file_id: \d+, file_name: (.*)")
_OST = re.compile(r"\[\s*\d+\s*\]")  # object storage target of Lustre
_OTHER_MODULES = ("X_MPIIO", "X_STDIO")


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like text of darshan-dxt-parser."""
    return head.startswith(b"# darshan log version:") and (b"DXT" in head or b"dxt" in head) and COUNTERS not in head


@importer
def convert(job: Import) -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`)."""
    text = _Text(job.builder())
    text.builder.lines(text.take, _TOOL)
    text.finish()
    return text.builder.finish("darshan-dxt", _TOOL, clock="seconds since the program's start", notes=NOTES)


class _Text:
    """The conversion of one log."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self.segments = Segments(builder)
        self.path: str | None = None

    def take(self, line: str) -> str | None:
        """Process a line; return why it makes no row yet: a segment's row is added at the end, after sorting."""
        if not line.strip():
            return BLANK
        if line.startswith("#"):
            m = _FILE.match(line)
            self.path = m[1].strip() if m else self.path
            return "title"
        words = _OST.sub(" ", line).split()
        if not words:
            raise BadLine("this is not a row of darshan-dxt-parser")
        if words[0] in _OTHER_MODULES:
            return f"row of {words[0]} (X_POSIX has the bytes)"
        self._segment(words)
        return _KEPT

    def _segment(self, words: list[str]) -> None:
        if words[0] != "X_POSIX" or len(words) not in (8, 9):
            raise BadLine("this is not a row of darshan-dxt-parser")
        if self.path is None:
            raise BadLine("a row before the name of its file")
        if words[2] not in OPS:
            raise BadLine(f"{clip(words[2])!r} is not read or write")
        offset, length, ns = whole(words[4], "offset"), whole(words[5], "length"), nanoseconds(words[6], 10**9)
        thread = self.builder.thread(whole(words[1], "rank"))
        self.segments.add(ns, OPS[words[2]], self.builder.file(self.path), offset, length, thread)

    def finish(self) -> None:
        """Add the rows; their lines are not counted again, because `Segments.finish` counts them."""
        self.builder.report.lines -= self.builder.report.left_out.pop(_KEPT, 0)
        self.segments.finish()


_KEPT = "segment waiting to be sorted"
