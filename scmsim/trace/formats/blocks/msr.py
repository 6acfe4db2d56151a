"""Import block traces of MSR Cambridge (SNIA IOTTA 388): CSV without a title line, one file per disk.

`Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: times in 100 ns since 1601, Offset and Size in bytes.  A
disk is the file `/HOST/DISK`.  Rows have the time of the request; the response time is dropped.
"""

import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats.blocks._tables import Blocks
from scmsim.trace.reading.columns import Column
from scmsim.trace.reading.importing import importer

SUMMARY = "block trace of MSR Cambridge (CSV: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime)"
TRACE = Blocks(
    name="msr",
    tool="a block trace of MSR Cambridge",
    clock="100 ns since 1601 (Windows)",
    line=re.compile(rb"\d{9,18},[^,\s]+,\d+,(?:Read|Write),\d+,\d+,\d+\s", re.IGNORECASE),
    columns=[
        Column("Timestamp", 0), Column("Hostname", 1, "word"), Column("DiskNumber", 2, "word"),
        Column("Type", 3, "word", codes={"Read": READ, "Write": WRITE, "read": READ, "write": WRITE}),
        Column("Offset", 4), Column("Size", 5),
    ],
    width=7,
    delimiter=",",
    request=("Timestamp", "Type", "Offset", "Size"),
    device=("Hostname", "DiskNumber"),
    path="/{}",
    separator="/",
    tick_ns=100,
)  # fmt: skip
sniff, convert = TRACE.sniff, importer(TRACE.convert)
