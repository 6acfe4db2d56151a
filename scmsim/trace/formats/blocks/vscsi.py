"""Import VMware's vscsi traces (CloudPhysics), versions 1 and 2: binary SCSI commands of a virtual disk.

Records of 32 or 40 bytes, little endian (libCacheSim/traceReader/customizedReader/vscsi.h); `ver >> 8` is the version,
`len` the length in bytes, `lbn` a sector of 512 bytes, `ts` the time in microseconds, `cmd` the command's operation code
(SBC-3): READ and WRITE of 6, 10, 12 and 16 bytes are rows of the device `/device`, other commands are left out.
"""

import os
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading import binary
from scmsim.trace.reading.builder import FAR, SECTOR, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.report import Report

SUMMARY = "vscsi trace of a virtual disk, version 1 or 2 (binary; CloudPhysics)"
_TOOL = "a vscsi trace"
_RECORDS = {
    1: np.dtype([("sn", "<u4"), ("len", "<u4"), ("nsg", "<u4"), ("cmd", "<u2"), ("ver", "<u2"), ("lbn", "<u8"), ("ts", "<u8")]),
    2: np.dtype(
        [("cmd", "<u2"), ("ver", "<u2"), ("sn", "<u4"), ("len", "<u4"), ("nsg", "<u4"), ("lbn", "<u8"), ("ts", "<u8"),
         ("rt", "<u8")]
    ),
}  # fmt: skip
_READS, _WRITES = (0x08, 0x28, 0xA8, 0x88), (0x0A, 0x2A, 0xAA, 0x8A)
_ENOUGH = 2  # records needed to distinguish the format from other binary data
_LONGEST = 1 << 30  # limit of a command's length, bytes
_FAR_TICKS = FAR // 1000 + 1  # us; a time stamp at this distance from the first is damaged


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first records are of one version and have possible lengths."""
    return not head.isascii() and _version(head) is not None


def _version(head: bytes) -> int | None:
    for version, record in _RECORDS.items():
        records = np.frombuffer(head[: len(head) // record.itemsize * record.itemsize], record)
        if len(records) >= _ENOUGH and (records["ver"] >> 8 == version).all() and (records["len"] < _LONGEST).all():
            return version
    return None


@importer
def convert(job: Import) -> Report:
    """Convert the trace of a disk and close the writer (see `scmsim.trace.formats`)."""
    version = _version(job.given.head[: _ENOUGH * _RECORDS[2].itemsize])
    if version is None:
        raise UsageError(f"{job.given.path!r} is not {_TOOL}: its first records are not of version 1 or 2")
    builder = job.builder("block")
    start: list[int] = []
    binary.each_block(builder, _RECORDS[version], lambda records: _add(builder, records, version, start))
    return builder.finish("vscsi", _TOOL, clock="microseconds", version=version)


def _add(builder: TraceBuilder, records: Any, version: int, start: list[int]) -> None:
    codes = records["cmd"] & 0xFF
    sane = (records["ver"] >> 8 == version) & (records["len"] < _LONGEST) & (records["lbn"] < FAR // (2 * SECTOR))
    binary.count_bad(
        builder, int((~sane).sum()), "a command of another version, or with an impossible size or position"
    )
    wanted = sane & np.isin(codes, (*_READS, *_WRITES))
    others = int((sane & ~wanted).sum())
    builder.report.lines += others
    builder.report.left_out["another SCSI command"] += others
    records, codes = records[wanted], codes[wanted]
    if not len(records):
        return
    if not start:
        start.append(int(records["ts"][0]))
    # a time before the first gives a huge unsigned difference
    ticks = np.minimum(records["ts"] - np.uint64(start[0]), np.uint64(_FAR_TICKS)).astype("i8")
    ops = np.where(np.isin(codes, _WRITES), WRITE, READ).astype("i8")
    file = np.full(len(records), builder.file("/device"), "i8")
    builder.table(ticks * 1000, ops, file, records["lbn"].astype("i8") * SECTOR, records["len"].astype("i8"))
