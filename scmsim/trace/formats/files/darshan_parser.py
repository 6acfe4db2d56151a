"""Import text of darshan-parser: the counters of whole files, as a rough trace.

A row is `MODULE RANK RECORD_ID COUNTER VALUE FILE MOUNT_POINT FS_TYPE` with tabs between; the rows of a record follow each
other.  `_rough.py` makes the rows.  A rank is a thread; a file that all ranks share has one thread (rank -1).
"""

import os
import re

from scmsim.core.errors import UsageError
from scmsim.trace.formats.files._darshan_counters import MODULES, NOTES, Records
from scmsim.trace.formats.files.darshan_dxt import COUNTERS
from scmsim.trace.reading.builder import BLANK, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip
from scmsim.trace.reading.report import Report

SUMMARY = "text of darshan-parser: counters of whole files, which make a rough trace"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "stdio_buffer": (0, "bytes", "join calls of the C library into system calls of this size (0: each call is a row)"),
}
_TOOL = "text of darshan-parser"
_VALUE = re.compile(r"-?\d{1,20}(?:\.\d{1,40})?")
_PARTIAL = re.compile(r".*The (\S+) module contains incomplete data")
_SUM = re.compile(r"\w+:")
_COUNTER = "counter"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like text of darshan-parser."""
    return head.startswith(b"# darshan log version:") and COUNTERS in head


@importer
def convert(job: Import, stdio_buffer: int = 0) -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    text = _Text(job.builder(), stdio_buffer)
    text.builder.lines(text.take, _TOOL)
    return text.finish()


class _Text:
    """The conversion of one log."""

    def __init__(self, builder: TraceBuilder, stdio_buffer: int) -> None:
        self.builder, self.records = builder, Records(builder, stdio_buffer)
        self.key: tuple[str, str, str] | None = None
        self.path = ""
        self.values: dict[str, float] = {}
        self.job: dict[str, str] = {}

    def take(self, line: str) -> str | None:
        """Process a line; return why it makes no row by itself."""
        if line.startswith("#"):
            self._title(line)
            return "title"
        if not line.strip():
            return BLANK
        cells = line.split("\t")
        if len(cells) < 8:
            if _SUM.match(line):
                return "sum over all files (--total, --perf, --file)"
            raise BadLine("this is not a row of darshan-parser")
        if cells[0] not in MODULES:
            return f"{_COUNTER} of {clip(cells[0])}"
        self._counter(cells)
        return f"{_COUNTER} of a file"

    def _title(self, line: str) -> None:
        name, colon, value = line[1:].partition(":")
        if colon and name.strip() in ("nprocs", "run time", "exe"):
            self.job[name.strip().replace(" ", "_")] = value.strip()
        if line.startswith("#<rank>"):
            raise UsageError(
                f"{self.builder.given.path!r} is text of darshan-parser 2; read the log with darshan-parser 3"
            )
        if "DXT_POSIX module:" in line:
            self.builder.report.notes.append(
                "the log has extended tracing: the text of darshan-dxt-parser has every call"
            )
        if m := _PARTIAL.match(line):
            self.builder.report.blind_spots.append(f"files beyond the memory of Darshan's module {m[1]}")

    def _counter(self, cells: list[str]) -> None:
        module, rank, ident, name, value = cells[:5]
        if not _VALUE.fullmatch(value) or not re.fullmatch(r"-1|\d{1,9}", rank):
            raise BadLine(f"{clip(name)} {clip(value)!r} of rank {clip(rank)!r} is not a counter")
        if (key := (module, rank, ident)) != self.key:
            self.flush()
            self.key, self.path = key, "\t".join(cells[5:-2])
        self.values[name.removeprefix(MODULES[module])] = float(value) if "." in value else int(value)

    def flush(self) -> None:
        """Pass the record whose rows were read to `records`."""
        if self.key is not None:
            module, rank, ident = self.key
            self.records.add(module, ident, self.path, int(rank), self.values)
        self.key, self.values = None, {}

    def finish(self) -> Report:
        """Add the rows; each row counts as a line, in addition to the lines of the counters."""
        self.flush()
        self.records.finish()
        clock = "seconds since the program's start"
        return self.builder.finish("darshan-parser", _TOOL, clock=clock, notes=NOTES, **self.job)
