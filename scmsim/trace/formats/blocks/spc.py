"""Import block traces of the Storage Performance Council (UMass: Financial, WebSearch): CSV without a title line.

`ASU,LBA,Size,Opcode,Timestamp`: LBA in sectors of 512 bytes, Size in bytes, Timestamp in seconds since the start (SPC
trace file format, revision 1.0.1).  Further columns are allowed.  An application storage unit is the file `/asu/ID`.
"""

import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats.blocks._tables import Blocks
from scmsim.trace.reading.builder import SECTOR
from scmsim.trace.reading.columns import Column
from scmsim.trace.reading.importing import importer

SUMMARY = (
    "block trace of the Storage Performance Council (CSV: ASU,LBA,Size,Opcode,Timestamp; LBA in sectors, Size in bytes)"
)
TRACE = Blocks(
    name="spc",
    tool="a block trace of the Storage Performance Council",
    clock="seconds since the start",
    line=re.compile(rb"\d{1,9},\d+,\d+,[RWrw],\d+\.\d+(?:,[^\n]*)?\s"),
    columns=[
        Column("ASU", 0, "word"), Column("LBA", 1, unit=SECTOR), Column("Size", 2),
        Column("Opcode", 3, "word", codes={"R": READ, "W": WRITE, "r": READ, "w": WRITE}),
        Column("Timestamp", 4, "time", 10**9),
    ],
    width=None,
    delimiter=",",
    request=("Timestamp", "Opcode", "LBA", "Size"),
    device=("ASU",),
    path="/asu/{}",
)  # fmt: skip
sniff, convert = TRACE.sniff, importer(TRACE.convert)
