"""Import block traces of Tencent's cloud block storage (SNIA IOTTA 28064): CSV without a title line.

`Timestamp,Offset,Size,IOType,VolumeID`: seconds, sectors of 512 bytes, 0 = read, 1 = write.  A volume is the file
`/volume/ID`.  Time stamps are whole seconds.
"""

import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats.blocks._tables import Blocks
from scmsim.trace.reading.builder import SECTOR
from scmsim.trace.reading.columns import Column
from scmsim.trace.reading.importing import importer

SUMMARY = "block trace of Tencent CBS (CSV: Timestamp,Offset,Size,IOType,VolumeID; 512-byte sectors)"
TRACE = Blocks(
    name="tencent",
    tool="a block trace of Tencent CBS",
    clock="seconds since 1970",
    line=re.compile(rb"\d{9,11},\d+,\d+,[01],\d+\s"),
    columns=[
        Column("Timestamp", 0, "time", 10**9), Column("Offset", 1, unit=SECTOR), Column("Size", 2, unit=SECTOR),
        Column("IOType", 3, "word", codes={"0": READ, "1": WRITE}), Column("VolumeID", 4, "word"),
    ],
    width=5,
    delimiter=",",
    request=("Timestamp", "IOType", "Offset", "Size"),
    device=("VolumeID",),
    path="/volume/{}",
)  # fmt: skip
sniff, convert = TRACE.sniff, importer(TRACE.convert)
