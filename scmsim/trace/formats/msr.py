"""Block traces of MSR Cambridge (SNIA IOTTA 388): CSV without a title line, one file a disk.

`Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: times in 100 ns since 1601, Offset and Size in bytes.  A disk
is the file `/HOST/DISK`.  Rows have the time of the request; the response time has no place in a trace.
"""

import os
import re

import numpy as np

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats._columns import Column, tables
from scmsim.trace.formats._input import Input
from scmsim.trace.formats._intake import Intake
from scmsim.trace.formats._lines import Progress
from scmsim.trace.formats._report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "block trace of MSR Cambridge (CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)"
_TOOL = "a block trace of MSR Cambridge"
_TICK_NS = 100
_FAR_TICKS = 1 << 53  # 28 years: a time stamp that far from the first is damaged
_LINE = re.compile(rb"\d{9,18},[^,\s]+,\d+,(?:Read|Write),\d+,\d+,\d+\s", re.IGNORECASE)
_TYPES = {"Read": READ, "Write": WRITE, "read": READ, "write": WRITE}
_COLUMNS = [
    Column("Timestamp", 0), Column("Hostname", 1, "word"), Column("DiskNumber", 2, "word"),
    Column("Type", 3, "word", codes=_TYPES), Column("Offset", 4), Column("Size", 5),
]  # fmt: skip


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Whether the first line of a file is one of these traces."""
    return _LINE.match(head) is not None


def convert(
    path: str | os.PathLike[str] | Input,
    writer: TraceWriter,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    under: str | None = None,
) -> Report:
    """Convert a block trace; closes the writer (see `scmsim.trace.formats`)."""
    with Input.of(path) as given:
        intake = Intake(given, writer, strict=strict, under=under, granularity="block")
        start = None
        for table in tables(intake, _COLUMNS, 7, ",", _TOOL, progress):
            ticks = table["Timestamp"]
            if start is None and len(ticks):
                start = int(ticks[0])
            since = np.clip(ticks - (start or 0), -1, _FAR_TICKS)
            disk = table["Hostname"].joined(table["DiskNumber"], "/")
            file = disk.numbers(lambda name: intake.file(f"/{name}"))
            intake.table(since * _TICK_NS, table["Type"], file, table["Offset"], table["Size"])
        return intake.finish("msr", _TOOL, clock="100 ns since 1601 (Windows)")
