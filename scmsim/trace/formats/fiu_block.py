"""Block traces of FIU (I/O deduplication, FAST'10; SNIA IOTTA 391): separated by spaces, with a hash of each block.

`TIME_NS PID PROCESS SECTOR SECTORS R|W MAJOR MINOR MD5`; sectors have 512 bytes.  A device is the file `/dev/block/MAJOR:MINOR`;
the hashes have no place in a trace.
"""

import os
import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats._columns import Column, tables
from scmsim.trace.formats._input import Input
from scmsim.trace.formats._intake import SECTOR, Intake
from scmsim.trace.formats._lines import Progress
from scmsim.trace.formats._report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "block trace of FIU, I/O deduplication (TIME_NS PID PROCESS SECTOR SECTORS R|W MAJOR MINOR MD5)"
_TOOL = "a block trace of FIU"
_LINE = re.compile(rb"\d+ \d+ \S+ \d+ \d+ [RW] \d+ \d+ [0-9a-f]+\s")
_COLUMNS = [
    Column("time", 0, "time", 1), Column("process", 1, "word"), Column("sector", 3, unit=SECTOR),
    Column("length", 4, unit=SECTOR), Column("type", 5, "word", codes={"R": READ, "W": WRITE}),
    Column("major", 6, "word"), Column("minor", 7, "word"),
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
        for table in tables(intake, _COLUMNS, 9, " ", _TOOL, progress):
            device = table["major"].joined(table["minor"], ":")
            file = device.numbers(lambda name: intake.file(f"/dev/block/{name}"))
            thread = table["process"].numbers(intake.thread)
            intake.table(table["time"], table["type"], file, table["sector"], table["length"], thread)
        return intake.finish("fiu-block", _TOOL, clock="nanoseconds of the tracer")
