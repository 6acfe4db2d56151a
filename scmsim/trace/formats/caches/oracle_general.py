"""Import libCacheSim's oracleGeneral (usually .zst): requests of a cache, 24 bytes each, without an operation.

Little endian `<IQIq>`: time in seconds, object id, size in bytes, number of the next request of that object (-1 or 2^63-1:
none).  A request is a read of the whole object, which is a file `/object/ID` that exists from the start with the size of
its first request.  With `block`, ids are block numbers of one device instead, as in cloudPhysicsIO (block = 512).
"""

import os
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading import binary
from scmsim.trace.reading.builder import TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report

SUMMARY = (
    "cache trace of libCacheSim, oracleGeneral (binary, also .zst); objects are files, or blocks with --set block=512"
)
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "block": (0, "bytes", "ids are block numbers of one device with blocks of this many bytes (0: objects are files)"),
    "op": ("read", "read|write", "operation of each request; the format does not record it"),
}
RECORD = np.dtype([("time", "<u4"), ("ident", "<u8"), ("length", "<u4"), ("next", "<i8")])
_TOOL = "an oracleGeneral trace"
_NAME = "oracleGeneral"  # part of the usual file names
_ENOUGH = 4  # records needed to distinguish the format from other binary data
_LAST = np.iinfo("i8").max
_LARGEST = 1 << 31  # limit of an object's size, bytes
_FURTHEST = 1 << 40  # limit of the number of the next request
_NOTE = "oracleGeneral does not say what a request does: each is a {} here"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first bytes can be records: times do not fall, sizes and next requests are plausible."""
    records = np.frombuffer(head[: len(head) // RECORD.itemsize * RECORD.itemsize], RECORD)
    if head.isascii() or len(records) < (1 if _NAME in os.fspath(path) else _ENOUGH):
        return False
    return bool(_sane(records).all() and (records["length"] > 0).all() and _in_time(records).all())


def _sane(records: Any) -> Any:
    """Return a mask of the records that can be requests: their size is plausible, and their next request is absent or plausible."""
    following = records["next"]
    ahead = (following >= 0) & (following < _FURTHEST)
    return (records["length"] < _LARGEST) & ((following == -1) | (following == _LAST) | ahead)


def _in_time(records: Any) -> Any:
    """Return a mask of the records that are not earlier than the previous one and at most 4 years after the first."""
    times = records["time"].astype("i8")
    return (np.diff(times, prepend=times[:1]) >= 0) & (times - times[:1] < 1 << 27)


@importer
def convert(job: Import, block: int = 0, op: str = "read") -> Report:
    """Convert a cache trace and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    _check_head(job.given)
    kind = "block" if block else "object"
    builder = job.builder(kind)
    code = READ if op == "read" else WRITE
    binary.each_block(builder, RECORD, lambda records: _add(builder, records, code, block))
    return builder.finish("oracle-general", _TOOL, clock="seconds", notes=[_NOTE.format(op)], block=block)


def _check_head(given: Input) -> None:
    """Raise UsageError for other binary data: the format has no signature, but most first records must be plausible."""
    records = np.frombuffer(given.head[: len(given.head) // RECORD.itemsize * RECORD.itemsize], RECORD)
    good = int((_sane(records) & _in_time(records)).sum())
    if 2 * good < len(records):
        raise UsageError(
            f"{given.path!r} is not {_TOOL}: of its first {len(records)} records, {len(records) - good} run backwards in time "
            "or have an impossible size or next request; see 'scmsim list format' for others"
        )


def _add(builder: TraceBuilder, records: Any, op: int, block: int) -> None:
    good = _sane(records)
    binary.count_bad(builder, int((~good).sum()), "a request has an impossible size or next request")
    records = records[good]
    ops = np.full(len(records), op, "i8")
    binary.add(builder, records["time"].astype("i8"), records["ident"], records["length"].astype("i8"), ops, block)
