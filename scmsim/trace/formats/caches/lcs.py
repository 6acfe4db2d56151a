"""Import libCacheSim's lcs, versions 1 to 8 (usually .zst): a header of 8192 bytes, then requests with their operation.

Little endian; the header begins and ends with 0x123456789abcdef0, its second 8 bytes are the version
(libCacheSim/traceReader/customizedReader/lcs.h).  get, gets and read are reads of the whole object; set, add, cas,
replace, append, prepend, incr, decr, write and update are writes of it (enum req_op).  A delete is left out, since
objects have no names here.  Version 1 has no operation: its requests get the operation `op`.  Objects are
files; with `block` they are blocks of one device, as for oracleGeneral.
"""

import os
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import READ, WRITE
from scmsim.trace.reading import binary
from scmsim.trace.reading.builder import TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.report import Report

SUMMARY = "cache trace of libCacheSim, lcs (binary, also .zst), with operations; objects are files, or blocks with --set block=512"
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "block": (0, "bytes", "ids are block numbers of one device with blocks of this many bytes (0: objects are files)"),
    "op": ("read", "read|write", "operation of a request for which the trace records none"),
}
_TOOL = "an lcs trace"
_MAGIC = (0x123456789ABCDEF0).to_bytes(8, "little")
_HEADER = 8192  # bytes of the file's header
_FEATURES = {4: 1, 5: 2, 6: 4, 7: 8, 8: 16}  # version -> number of 32-bit features in a request
_READS, _WRITES, _DELETE = (1, 2, 12), (3, 4, 5, 6, 7, 8, 10, 11, 13, 14), 9
_LARGEST = 1 << 40  # limit of an object's size, bytes


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether a file has the header of an lcs trace."""
    return head[:8] == _MAGIC and head[_HEADER - 8 : _HEADER] == _MAGIC


@importer
def convert(job: Import, block: int = 0, op: str = "read") -> Report:
    """Convert a cache trace and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    head = job.given.read(_HEADER)
    if not sniff(head, job.given.path):
        raise UsageError(f"{job.given.path!r} is not {_TOOL}: its header of {_HEADER} bytes has no magic numbers")
    version = int.from_bytes(head[8:16], "little")
    builder = job.builder("block" if block else "object")
    record = _record(version, job.given.path)
    other = READ if op == "read" else WRITE
    binary.each_block(builder, record, lambda records: _add(builder, records, other, block))
    return builder.finish("lcs", _TOOL, clock="seconds", block=block, version=version)


def _record(version: int, path: str) -> np.dtype:
    if not 1 <= version <= 8:
        raise UsageError(f"{path!r} is an lcs trace of version {version}; 1 to 8 can be read")
    fields = [("time", "<u4"), ("ident", "<u8"), ("length", "<i8" if version >= 3 else "<u4")]
    fields += [("op", "<u4")] if version >= 2 else []
    fields += [("ttl", "<u4")] if version >= 3 else []
    fields += [("next", "<i8")]
    if version in _FEATURES:
        fields.append(("features", f"<{_FEATURES[version]}u4"))
    return np.dtype(fields)


def _add(builder: TraceBuilder, records: Any, other: int, block: int) -> None:
    length = records["length"].astype("i8")
    codes = records["op"] & 0xFF if "op" in records.dtype.names else np.zeros(len(records), "u4")
    known = np.isin(codes, (0, *_READS, *_WRITES))
    good, deleted = known & (length >= 0) & (length < _LARGEST), codes == _DELETE
    builder.report.lines += int(deleted.sum())
    builder.report.left_out["delete of an object"] += int(deleted.sum())
    binary.count_bad(builder, int((~good & ~deleted).sum()), "a request has an impossible size or operation")
    ops = np.where(np.isin(codes, _WRITES), WRITE, READ)
    ops = np.where(codes == 0, other, ops)[good].astype("i8")
    binary.add(builder, records["time"][good].astype("i8"), records["ident"][good], length[good], ops, block)
