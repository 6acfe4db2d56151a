"""Import block traces of FIU (I/O deduplication, FAST'10; SNIA IOTTA 391): space-separated columns, one hash per block.

`TIME_NS PID PROCESS SECTOR SECTORS R|W MAJOR MINOR MD5`; sectors have 512 bytes.  A device is the file
`/dev/block/MAJOR:MINOR`; the hashes are dropped.
"""

import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats.blocks._tables import Blocks
from scmsim.trace.reading.builder import SECTOR
from scmsim.trace.reading.columns import Column
from scmsim.trace.reading.importing import importer

SUMMARY = "block trace of FIU, I/O deduplication (TIME_NS PID PROCESS SECTOR SECTORS R|W MAJOR MINOR MD5)"
TRACE = Blocks(
    name="fiu-block",
    tool="a block trace of FIU",
    clock="nanoseconds of the tracer",
    line=re.compile(rb"\d+ \d+ \S+ \d+ \d+ [RW] \d+ \d+ [0-9a-f]+\s"),
    columns=[
        Column("time", 0, "time", 1), Column("process", 1, "word"), Column("sector", 3, unit=SECTOR),
        Column("length", 4, unit=SECTOR), Column("type", 5, "word", codes={"R": READ, "W": WRITE}),
        Column("major", 6, "word"), Column("minor", 7, "word"),
    ],
    width=9,
    delimiter=" ",
    request=("time", "type", "sector", "length"),
    device=("major", "minor"),
    path="/dev/block/{}",
    separator=":",
    thread="process",
)  # fmt: skip
sniff, convert = TRACE.sniff, importer(TRACE.convert)
