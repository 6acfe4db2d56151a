"""Read binary records of requests for whole objects, or for blocks of one device, and add their rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.trace.reading.builder import FAR, TraceBuilder

_RECORDS = 1 << 16  # records per block


def each_block(builder: TraceBuilder, record: np.dtype, add: Callable[[Any], None]) -> None:
    """Pass the records of a file to `add`, block by block; count a truncated last record as a bad line."""
    given = builder.given
    for piece in given.blocks(_RECORDS * record.itemsize):
        whole = len(piece) // record.itemsize * record.itemsize
        add(np.frombuffer(piece[:whole], record))
        if whole < len(piece):
            count_bad(builder, 1, f"the last record has {len(piece) - whole} of {record.itemsize} bytes")
        if builder.progress is not None:
            builder.progress(given.taken, given.total)


def add(builder: TraceBuilder, seconds: Any, idents: Any, lengths: Any, ops: Any, block: int) -> None:
    """Add requests for whole objects: object ID is the file `/object/ID`, whose size is that of its first request.

    If `block` is not 0, ids are instead the numbers of blocks of `block` bytes on the file `/device`.
    """
    if not block:
        found, places, codes = np.unique(idents, return_index=True, return_inverse=True)
        order = np.argsort(places)  # numbers in the order of first use
        numbers = np.empty(len(found), "i8")
        for i in order:
            numbers[i] = builder.file(f"/object/{found[i]}", int(lengths[places[i]]))
        builder.table(seconds * 10**9, ops, numbers[codes], np.zeros(len(codes), "i8"), lengths)
        return
    if not 1 <= block <= 1 << 30:
        raise UsageError(f"a block of {block} bytes is not between 1 byte and 1 GiB; give --set block=512")
    good = idents < (FAR >> 1) // block
    for row in np.flatnonzero(~good):
        count_bad(builder, 1, f"block {idents[row]} starts beyond 2^59 bytes")
    file = np.full(int(good.sum()), builder.file("/device"), "i8")
    builder.table(seconds[good] * 10**9, ops[good], file, idents[good].astype("i8") * block, lengths[good])


def count_bad(builder: TraceBuilder, count: int, reason: str) -> None:
    """Count records that cannot be understood as bad lines."""
    for _ in range(count):
        builder.report.lines += 1
        builder.bad(reason, builder.report.lines)
