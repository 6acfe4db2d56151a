"""Sum up the bytes and calls that operations request, and choose the row of counters for each event.

The row is (operation or file of the event's cause) x (site), or the trash row, which no result includes.
"""

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
            ("operations", "i8"),  # SETUP is not counted, here and in `calls`, `written` and `read`
            ("calls", "i8"),
            ("written", "i8"),  # bytes
            ("read", "i8"),
            ("unknown_offsets", "i8"),
            ("objects", "i8"),  # operations on memory objects
            ("touches", "i8"),  # loads, stores, write-backs and fences of the program, which are not calls
            ("loaded", "i8"),  # bytes, through mappings
            ("stored", "i8"),
        ],
    )
)
BY_OP, BY_FILE = 1, 2
NO_END = (1 << 63) - 1  # size of a file made from a memory object: the trace does not record the size


@kernel
def follow_size(sizes, o):
    """Update the file's size for operation `o`; return how many bytes a READ finds before end of file, else 0.

    `sizes` has the size of each file, by row of the side table.
    """
    if o.file < 0 or o.op > FILE_TO_MM:
        return 0
    size, end = sizes[o.file], o.offset + o.length
    if o.op == READ:
        return max(0, min(o.length, size - o.offset))
    if o.op == WRITE and o.length > 0:
        sizes[o.file] = max(size, end)
    elif o.op == TRUNCATE:
        sizes[o.file] = o.new_size
    elif o.op == FALLOCATE and o.length > 0 and not o.flag & (KEEP_SIZE | PUNCH_HOLE):
        sizes[o.file] = max(size, end)
    elif o.op == CREATE:
        sizes[o.file] = max(size, 0)
    elif o.op >= MALLOC:
        sizes[o.file] = NO_END
    return 0


@kernel
def follow_sizes(ops, sizes, sums):
    """Add the bytes that reads return to `sums`; `ops` are as the model executed them, so refused bytes are not there to read."""
    s = sums[0]
    for i in range(ops.size):
        o = ops[i]
        found = follow_size(sizes, o)
        if o.op == READ and not o.flag & SETUP:
            s.read += found if o.file >= 0 else o.length  # a read past the end is short


@kernel
def first_rows(ops, by, sites, sums, out):
    """Set out[i] to the first row of operation i's group, -1 for SETUP; add to `sums`.

    Groups: by operation (BY_OP), by file (BY_FILE), else one group.
    """
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
    """Set bins[k] to first_row[op of event k] + its site, or to `trash` where first_row is negative (SETUP)."""
    for k in range(n):
        e = events[k]
        row = first_row[e.op]
        bins[k] = trash if row < 0 else row + e.site
