"""Import block traces of Alibaba (2020): CSV without a title line, `device_id,opcode,offset,length,timestamp`.

Offset and length in bytes, time in microseconds (github.com/alibaba/block-traces).  A device is the file `/device/ID`.
"""

import re

from scmsim.core.records import READ, WRITE
from scmsim.trace.formats.blocks._tables import Blocks
from scmsim.trace.reading.columns import Column
from scmsim.trace.reading.importing import importer

SUMMARY = "block trace of Alibaba (CSV: device_id,opcode,offset,length,timestamp)"
TRACE = Blocks(
    name="alibaba",
    tool="a block trace of Alibaba",
    clock="microseconds",
    line=re.compile(rb"\d{1,9},[RW],\d+,\d+,\d{1,18}\s"),
    columns=[
        Column("device", 0, "word"), Column("kind", 1, "word", codes={"R": READ, "W": WRITE}),
        Column("offset", 2), Column("length", 3), Column("time", 4),
    ],
    width=5,
    delimiter=",",
    request=("time", "kind", "offset", "length"),
    device=("device",),
    path="/device/{}",
    tick_ns=1000,
)  # fmt: skip
sniff, convert = TRACE.sniff, importer(TRACE.convert)
