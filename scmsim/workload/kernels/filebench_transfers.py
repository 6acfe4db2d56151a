"""Filebench's flowops that read and write.

Source: Filebench 1.5-alpha3, flowop_library.c.
"""

import numpy as np

from scmsim.core.records import APPENDS, READ, WRITE
from scmsim.jit import subroutine
from scmsim.workload.kernels.filebench_files import descriptor, open_file
from scmsim.workload.kernels.filebench_tables import (
    APPENDRAND,
    READPIECE,
    READWHOLE,
    WRITEPIECE,
    WRITEWHOLE,
    move,
    upto,
    value_of,
)


@subroutine
def buffer_of(t, i, a, length):
    """Return the buffer's offset in the thread's memory.

    It is a random multiple of the transfer's size, or the flowop's private buffer.
    """
    memory = t.threads[i]["memory"]
    if memory == 0 or length == 0:
        return a["private"]
    return upto(t, max(memory - length, 0)) // length * length


@subroutine
def transfer(t, i, a, out, n):
    """Play a flowop that reads or writes, which opens its file first if it is not open."""
    kind, length = a["kind"], a["unit"]
    if a["unit_of"] >= 0:
        length = max(np.int64(value_of(t, a["unit_of"])), 0)
    unit = length
    if kind == APPENDRAND:  # appendfilerand appends 0 to iosize - 1 bytes; for 0 it makes no call
        length = upto(t, max(length - 1, 0))
        if length == 0:
            return n
    fd = descriptor(t, i, a)
    if t.slots[i, fd, 0] < 0:
        n = open_file(t, i, a, fd, out, n)
        if n < 0 or t.slots[i, fd, 0] < 0:
            return n
    if kind == READWHOLE:
        return read_whole(t, i, a, fd, unit, out, n)
    if kind == WRITEWHOLE:
        return write_whole(t, i, a, fd, unit, out, n)
    planned = t.files[t.slots[i, fd, 0]]["planned"]
    if a["random"] and (a["range"] or planned) < unit and (kind == READPIECE or kind == WRITEPIECE):
        t.world[0]["failed"] = 1  # as in Filebench: the file is smaller than iosize
        return n
    buffer = buffer_of(t, i, a, length)
    if kind == READPIECE:
        return read_piece(t, i, a, fd, unit, buffer, out, n)
    if kind == WRITEPIECE:
        return write_piece(t, i, a, fd, unit, buffer, out, n)
    end = t.files[t.slots[i, fd, 0]]["length"]
    return written(t, i, fd, out, n, a["flag"] | APPENDS, end, length, length, buffer)


@subroutine
def written(t, i, fd, out, n, flag, offset, length, unit, buffer):
    file = t.slots[i, fd, 0]
    t.slots[i, fd, 2] = offset + length
    t.files[file]["length"] = max(t.files[file]["length"], offset + length)
    return move(t, i, out, n, WRITE, file, flag, offset, length, unit, buffer)


@subroutine
def read_whole(t, i, a, fd, unit, out, n):
    """Read until a read returns nothing; an iosize of 0 reads the file at once."""
    file = t.slots[i, fd, 0]
    length, unit = t.files[file]["length"], unit or a["range"] or max(t.files[file]["planned"], 1)
    buffer = buffer_of(t, i, a, unit)
    if length:
        n = move(t, i, out, n, READ, file, 0, 0, length, unit, buffer)
    t.slots[i, fd, 2] = length
    return move(t, i, out, n, READ, file, 0, length, 0, 0, buffer)


@subroutine
def write_whole(t, i, a, fd, unit, out, n):
    """Write as many bytes as were drawn for the file, rounded up to a multiple of iosize if more than one iosize (sic)."""
    like = t.slots[i, a["source"], 1]
    like = like if like >= 0 else t.slots[i, fd, 0]
    total = t.files[like]["planned"]
    unit = unit or a["range"] or total
    if total > unit:
        total = (total + unit - 1) // unit * unit
    if total == 0:
        return n
    buffer = buffer_of(t, i, a, unit)
    return written(t, i, fd, out, n, a["flag"], t.slots[i, fd, 2], total, unit, buffer)


@subroutine
def anywhere(t, a, file, unit):
    """Draw a multiple of iosize within the file (or the working set)."""
    return upto(t, max((a["range"] or t.files[file]["planned"]) - unit, 0)) // max(unit, 1) * unit


@subroutine
def read_piece(t, i, a, fd, unit, buffer, out, n):
    file = t.slots[i, fd, 0]
    offset = anywhere(t, a, file, unit) if a["random"] else t.slots[i, fd, 2]
    length = max(0, min(unit, t.files[file]["length"] - offset))
    if not a["random"]:  # at the end of the file, restart at offset 0
        t.slots[i, fd, 2] = offset + length if length else 0
    return move(t, i, out, n, READ, file, 0, offset, length, 0, buffer)


@subroutine
def write_piece(t, i, a, fd, unit, buffer, out, n):
    before = t.slots[i, fd, 2]
    offset = anywhere(t, a, t.slots[i, fd, 0], unit) if a["random"] else before
    n = written(t, i, fd, out, n, a["flag"], offset, unit, 0, buffer)
    # a random write leaves the position unchanged
    if a["random"]:
        t.slots[i, fd, 2] = before
    return n
