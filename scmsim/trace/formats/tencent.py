"""Block traces of Tencent's cloud block storage (SNIA IOTTA 28064): CSV without a title line.

`Timestamp,Offset,Size,IOType,VolumeID`: seconds, sectors of 512 bytes, 0 = read, 1 = write.  A volume is the file
`/volume/ID`.  The time stamps have whole seconds only.
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

SUMMARY = "block trace of Tencent CBS (CSV: Timestamp,Offset,Size,IOType,VolumeID; 512-byte sectors)"
_TOOL = "a block trace of Tencent CBS"
_LINE = re.compile(rb"\d{9,11},\d+,\d+,[01],\d+\s")
_COLUMNS = [
    Column("Timestamp", 0, "time", 10**9), Column("Offset", 1, unit=SECTOR),
    Column("Size", 2, unit=SECTOR),
    Column("IOType", 3, "word", codes={"0": READ, "1": WRITE}), Column("VolumeID", 4, "word"),
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
        for table in tables(intake, _COLUMNS, 5, ",", _TOOL, progress):
            file = table["VolumeID"].numbers(lambda name: intake.file(f"/volume/{name.strip()}"))
            intake.table(table["Timestamp"], table["IOType"], file, table["Offset"], table["Size"])
        return intake.finish("tencent", _TOOL, clock="seconds since 1970")
