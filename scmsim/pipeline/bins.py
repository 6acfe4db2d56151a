"""What operations ask for, and which row of the counters each event goes to: (operation or file of its cause) x (site), or the row
that counts nothing."""

import numpy as np

from scmsim.core.records import (
    CONTINUES,
    CREATE,
    FALLOCATE,
    FILE_TO_MM,
    KEEP_SIZE,
    MALLOC,
    OFFSET_UNKNOWN,
    PUNCH_HOLE,
    READ,
    SETUP,
    TRUNCATE,
    UFLUSH,
    ULOAD,
    USTORE,
    WRITE,
)
from scmsim.jit import kernel

SUMS = np.dtype(
    (
        np.record,
        [
            ("rows", "i8"),
            ("operations", "i8"),  # without SETUP, as are the next three
            ("calls", "i8"),
            ("written", "i8"),  # bytes
            ("read", "i8"),
            ("unknown_offsets", "i8"),
            ("objects", "i8"),  # operations on memory objects
            ("touches", "i8"),  # loads, stores, write-backs and fences of the program: no calls
            ("loaded", "i8"),  # bytes, through mappings
            ("stored", "i8"),
        ],
    )
)
BY_OP, BY_FILE = 1, 2
NO_END = (1 << 63) - 1  # size of what memory objects are turned into: the trace does not say it


@kernel
def follow_size(sizes, o):
    """Return how many bytes a READ finds before the end of its file, 0 for other operations; note what they make of the size.

    `sizes` are those of all files by row of the side table.
    """
    if o.file < 0 or o.op > FILE_TO_MM:
        return 0
    size, end = sizes[o.file], o.offset + o.length
    if o.op == READ:
        return max(0, min(o.length, size - o.offset))
    if o.op == WRITE and o.length > 0:
        sizes[o.file] = max(size, end)
    elif o.op == TRUNCATE:
        sizes[o.file] = o.offset
    elif o.op == FALLOCATE and o.length > 0 and not o.flag & (KEEP_SIZE | PUNCH_HOLE):
        sizes[o.file] = max(size, end)
    elif o.op == CREATE:
        sizes[o.file] = max(size, 0)
    elif o.op >= MALLOC:
        sizes[o.file] = NO_END
    return 0


@kernel
def follow_sizes(ops, sizes, sums):
    """Add the bytes that reads find to `sums`; `ops` are as the model did them, so that nothing finds what had no room."""
    s = sums[0]
    for i in range(ops.size):
        o = ops[i]
        found = follow_size(sizes, o)
        if o.op == READ and not o.flag & SETUP:
            s.read += found if o.file >= 0 else o.length  # a read past the end is short


@kernel
def first_rows(ops, by, sites, sums, out):
    """out[i] = first row of the group (by 1: operation, 2: file, else one) of operation i, -1 for SETUP; adds to `sums`."""
    s = sums[0]
    for i in range(ops.size):
        o = ops[i]
        s.rows += 1
        s.unknown_offsets += o.flag & OFFSET_UNKNOWN
        s.objects += MALLOC <= o.op <= FILE_TO_MM
        if o.flag & SETUP:
            out[i] = -1
            continue
        s.operations += 1
        s.calls += o.flag & CONTINUES == 0
        if o.op == WRITE:
            s.written += o.length
        elif o.op == ULOAD or o.op == USTORE or o.op >= UFLUSH:
            s.touches += o.flag & CONTINUES == 0
            s.loaded += o.length if o.op == ULOAD else 0
            s.stored += o.length if o.op == USTORE else 0
        group = 0
        if by == BY_OP:
            group = o.op
        elif by == BY_FILE and o.file > 0:
            group = o.file
        out[i] = group * sites


@kernel
def assign_bins(events, n, first_row, trash, bins):
    """bins[k] = first_row[op of event k] + its site, or `trash` where first_row is negative (SETUP operations)."""
    for k in range(n):
        e = events[k]
        row = first_row[e.op]
        bins[k] = trash if row < 0 else row + e.site
