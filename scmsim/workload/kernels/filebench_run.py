"""Filebench's flowops: the calls that one step of one thread makes, and the threads taking turns.

Source: Filebench 1.5-alpha3, flowop_library.c, fileset.c (fileset_pick), threadflow.h.  Rows are STEPs (see _steps.FIELDS).
"""

from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import APPENDS, CLOSE, CREATE, FSYNC, OPEN, READ, STAT, UNLINK, WRITE
from scmsim.jit import kernel, subroutine

KINDS = (
    "createfile", "openfile", "closefile", "deletefile", "statfile", "fsync", "fsyncset", "readwholefile", "writewholefile",
    "appendfile", "appendfilerand", "read", "write", "semblock", "sempost", "nothing",
)  # fmt: skip
(
    _CREATEFILE, _OPENFILE, _CLOSEFILE, _DELETEFILE, _STATFILE, _FSYNC, _FSYNCSET, _READWHOLE, _WRITEWHOLE,
    _APPENDFILE, _APPENDRAND, _READ, _WRITE, _SEMBLOCK, _SEMPOST, _NOTHING,
) = range(len(KINDS))  # fmt: skip

DESCRIPTORS = 128  # descriptors per thread; opennext rotates through them
ROOM = DESCRIPTORS + 8  # most rows that one flowop writes
DRAWS = 4  # most numbers that one flowop draws
_WAITS = -1  # result of a flowop that finds no file, or whose semaphore is too low, in place of a number of rows

WORLD = np.dtype(
    [("left", "i8"), ("turn", "i8"), ("progress", "i8"), ("drawn", "i8"), ("stops", "i8"), ("first_id", "i8")]
)
SET = np.dtype([("first", "i8"), ("count", "i8"), ("new_rotor", "i8")])
FILE = np.dtype(
    [("exists", "i8"), ("length", "i8"), ("opened", "i8"), ("planned", "i8"), ("folder", "i8"), ("owner", "i8")]
)
THREAD = np.dtype(
    [("memory", "i8"), ("at", "i8"), ("done", "i8"), ("first", "i8"), ("count", "i8"), ("rotor", "i8"), ("posts", "i8")]
)
ACTION = np.dtype(
    [
        ("kind", "i8"), ("owner", "i8"), ("private", "i8"), ("fd", "i8"), ("source", "i8"), ("turns", "i8"), ("unit", "i8"),
        ("range", "i8"), ("random", "i8"), ("rotates", "i8"), ("value", "i8"), ("flag", "i8"), ("first_target", "i8"),
        ("targets", "i8"),
    ]
)  # fmt: skip


class Tables(NamedTuple):
    """All state: files are numbered through all sets; a slot is (open file, file last referred to, position)."""

    world: Any  # one WORLD
    sets: Any  # SET
    files: Any  # FILE
    threads: Any  # THREAD
    slots: Any  # int64 (threads, DESCRIPTORS + 1, 3)
    actions: Any  # ACTION: the flowops of each kind of thread
    rotors: Any  # int64 (sets, threads + 1): rotor 0 is shared, the others are for threads that use opennext
    posted: Any  # int64: semaphores, one per action of each thread
    targets: Any  # int64: semaphores to which an action posts
    draws: Any  # float64


@kernel
def play(t, out):
    """Play flowops in turn until `out` or the drawn numbers may not suffice, or the run has ended; return the number of rows."""
    w = t.world[0]
    n = 0
    while w["left"] > 0 and n + ROOM <= len(out) and w["drawn"] + DRAWS <= len(t.draws):
        i = w["turn"]
        thread = t.threads[i]
        a = t.actions[thread["first"] + thread["at"]]
        after = act(t, i, a, out, n)
        if after >= 0:
            n = after
            w["left"] -= 1
            w["progress"] = 1
            advance(thread, a)
        elif w["stops"] and a["owner"] >= 0:
            w["left"] = 0
        w["turn"] = i + 1
        if i + 1 == len(t.threads):
            # a whole round in which every thread waits is a deadlock: end the run
            if not w["progress"]:
                w["left"] = 0
            w["turn"] = w["progress"] = 0
    return n


@subroutine
def advance(thread, a):
    """Go on to the thread's next flowop, or repeat the same (iters)."""
    thread["done"] += 1
    if thread["done"] >= a["turns"]:
        thread["done"] = 0
        thread["at"] = thread["at"] + 1 if thread["at"] + 1 < thread["count"] else 0


@subroutine
def act(t, i, a, out, n):
    """Play one flowop; return the number of rows, or _WAITS."""
    kind = a["kind"]
    if kind >= _READWHOLE and kind <= _WRITE:
        return transfer(t, i, a, out, n)
    if kind == _SEMBLOCK:
        return n if taken(t, i, a) else _WAITS
    if kind == _SEMPOST:
        for target in t.targets[a["first_target"] : a["first_target"] + a["targets"]]:
            t.posted[target] += a["value"]
        return n
    if kind == _NOTHING:
        return n
    if kind == _STATFILE:
        return stat_file(t, i, a, out, n)
    if kind == _DELETEFILE:
        return delete_file(t, i, a, out, n)
    fd = descriptor(t, i, a)
    file = t.slots[i, fd, 0]
    if kind == _OPENFILE:
        return n if file >= 0 else open_file(t, i, a, fd, out, n)
    if kind == _CREATEFILE:
        return n if file >= 0 or a["owner"] < 0 else create_file(t, i, a, fd, out, n)
    if kind == _FSYNCSET:
        return fsync_set(t, i, a, out, n)
    if file < 0:
        return n
    if kind == _CLOSEFILE:
        t.slots[i, fd, 0] = -1
        t.files[file]["opened"] -= 1
        return call(t, out, n, CLOSE, file, i)
    return call(t, out, n, FSYNC, file, i)


@subroutine
def call(t, out, n, op, file, thread):
    """Write a row without a transfer."""
    return put(out, n, op, t.world[0]["first_id"] + file, thread)


@subroutine
def put(out, n, op, id, thread):
    out[n, :] = 0
    out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 5] = op, id, -1, thread, -1
    return n + 1


@subroutine
def move(t, i, out, n, op, file, flag, offset, length, unit, buffer):
    """Write a row that moves bytes; all its pieces use the same buffer."""
    n = call(t, out, n, op, file, i)
    out[n - 1, 4], out[n - 1, 5], out[n - 1, 6], out[n - 1, 9] = flag, offset, length, buffer
    out[n - 1, 7] = out[n - 1, 8] = unit
    return n


@subroutine
def upto(t, most):
    """Draw a whole number from 0 to `most`; `most` itself almost never occurs."""
    w = t.world[0]
    w["drawn"] += 1
    return np.int64(t.draws[w["drawn"] - 1] * most)


@subroutine
def buffer_of(t, i, a, length):
    """Return the buffer's place in the thread's memory.

    It is a random multiple of the transfer's size, or the flowop's private buffer.
    """
    memory = t.threads[i]["memory"]
    if memory == 0 or length == 0:
        return a["private"]
    return upto(t, max(memory - length, 0)) // length * length


@subroutine
def descriptor(t, i, a):
    thread = t.threads[i]
    if a["fd"] or not a["rotates"]:
        return a["fd"]
    thread["rotor"] = thread["rotor"] - 1 if thread["rotor"] else DESCRIPTORS - 1
    return thread["rotor"]


@subroutine
def scan(t, s, start, exists):
    """Return the first file of a set from `start` on (wrapping around) that exists or does not, or -1."""
    first, count = t.sets[s]["first"], t.sets[s]["count"]
    for k in range(start, count):
        if t.files[first + k]["exists"] == exists:
            return k
    for k in range(min(start, count)):
        if t.files[first + k]["exists"] == exists:
            return k
    return -1


@subroutine
def pick_old(t, s, rotor):
    """Return the next existing file of a set, or -1."""
    found = scan(t, s, t.rotors[s, rotor], 1)
    t.rotors[s, rotor] = found + 1
    return t.sets[s]["first"] + found if found >= 0 else -1


@subroutine
def open_file(t, i, a, fd, out, n):
    last = t.slots[i, fd, 1]
    if a["owner"] < 0 and last < 0:
        return n
    s = a["owner"] if a["owner"] >= 0 else t.files[last]["owner"]
    file = pick_old(t, s, i + 1 if a["rotates"] else 0)
    if file < 0:
        return _WAITS
    t.files[file]["opened"] += 1
    t.slots[i, fd, 0] = t.slots[i, fd, 1] = file
    t.slots[i, fd, 2] = 0
    return call(t, out, n, OPEN, file, i)


@subroutine
def create_file(t, i, a, fd, out, n):
    s = a["owner"]
    found = scan(t, s, t.sets[s]["new_rotor"], 0)
    t.sets[s]["new_rotor"] = found + 1
    if found < 0:
        return _WAITS
    file = t.sets[s]["first"] + found
    f = t.files[file]
    f["exists"], f["length"], f["opened"] = 1, 0, 1
    t.slots[i, fd, 0] = t.slots[i, fd, 1] = file
    t.slots[i, fd, 2] = 0
    n = put(out, n, STAT, f["folder"], i)
    n = call(t, out, n, CREATE, file, i)
    out[n - 1, 2] = f["folder"]
    return n


@subroutine
def delete_file(t, i, a, out, n):
    """Delete a file; one that another descriptor has open is skipped, and the flowop counts as done."""
    file, mine, fd = np.int64(-1), 0, a["fd"]
    if fd and t.slots[i, fd, 1] >= 0:
        file, mine = t.slots[i, fd, 1], 1 if t.slots[i, fd, 0] >= 0 else 0
        t.slots[i, fd, 1] = -1
    elif a["owner"] < 0:
        return n
    else:
        file = pick_old(t, a["owner"], 0)
    if file < 0:
        return _WAITS
    f = t.files[file]
    if f["opened"] > mine or not f["exists"]:
        return n
    f["exists"] = 0
    n = call(t, out, n, UNLINK, file, i)
    out[n - 1, 2] = f["folder"]
    return n


@subroutine
def stat_file(t, i, a, out, n):
    file = t.slots[i, a["fd"], 0] if a["fd"] else -1
    if file < 0:
        if a["owner"] < 0:
            return n
        file = pick_old(t, a["owner"], 0)
    return call(t, out, n, STAT, file, i) if file >= 0 else _WAITS


@subroutine
def fsync_set(t, i, a, out, n):
    for fd in range(DESCRIPTORS + 1):
        file = t.slots[i, fd, 0]
        if file >= 0 and t.files[file]["owner"] == a["owner"]:
            n = call(t, out, n, FSYNC, file, i)
    return n


@subroutine
def taken(t, i, a):
    """Return whether the semaphore of this thread's flowop was high enough; if so, lower it."""
    at = t.threads[i]["posts"] + t.threads[i]["at"]
    if t.posted[at] < a["value"]:
        return False
    t.posted[at] -= a["value"]
    return True


@subroutine
def transfer(t, i, a, out, n):
    """Play a flowop that reads or writes, which opens its file first if it is not open."""
    kind, length = a["kind"], a["unit"]
    if kind == _APPENDRAND:  # appendfilerand appends 0 to iosize - 1 bytes; for 0 it makes no call
        length = upto(t, max(length - 1, 0))
        if length == 0:
            return n
    fd = descriptor(t, i, a)
    if t.slots[i, fd, 0] < 0:
        n = open_file(t, i, a, fd, out, n)
        if n < 0 or t.slots[i, fd, 0] < 0:
            return n
    if kind == _READWHOLE:
        return read_whole(t, i, a, fd, out, n)
    if kind == _WRITEWHOLE:
        return write_whole(t, i, a, fd, out, n)
    buffer = buffer_of(t, i, a, length)
    if kind == _READ:
        return read_piece(t, i, a, fd, buffer, out, n)
    if kind == _WRITE:
        return write_piece(t, i, a, fd, buffer, out, n)
    end = t.files[t.slots[i, fd, 0]]["length"]
    return written(t, i, fd, out, n, a["flag"] | APPENDS, end, length, length, buffer)


@subroutine
def written(t, i, fd, out, n, flag, offset, length, unit, buffer):
    file = t.slots[i, fd, 0]
    t.slots[i, fd, 2] = offset + length
    t.files[file]["length"] = max(t.files[file]["length"], offset + length)
    return move(t, i, out, n, WRITE, file, flag, offset, length, unit, buffer)


@subroutine
def read_whole(t, i, a, fd, out, n):
    """Read until a read returns nothing; an iosize of 0 reads the file at once."""
    file = t.slots[i, fd, 0]
    length, unit = t.files[file]["length"], a["unit"] or a["range"] or max(t.files[file]["planned"], 1)
    buffer = buffer_of(t, i, a, unit)
    if length:
        n = move(t, i, out, n, READ, file, 0, 0, length, unit, buffer)
    t.slots[i, fd, 2] = length
    return move(t, i, out, n, READ, file, 0, length, 0, 0, buffer)


@subroutine
def write_whole(t, i, a, fd, out, n):
    """Write as many bytes as were drawn for the file, rounded up to a multiple of iosize if more than one iosize (sic)."""
    like = t.slots[i, a["source"], 1]
    like = like if like >= 0 else t.slots[i, fd, 0]
    total = t.files[like]["planned"]
    unit = a["unit"] or a["range"] or total
    if total > unit:
        total = (total + unit - 1) // unit * unit
    if total == 0:
        return n
    buffer = buffer_of(t, i, a, unit)
    return written(t, i, fd, out, n, a["flag"], t.slots[i, fd, 2], total, unit, buffer)


@subroutine
def anywhere(t, a, file):
    """Draw a multiple of iosize within the file (or the working set)."""
    return upto(t, max((a["range"] or t.files[file]["planned"]) - a["unit"], 0)) // a["unit"] * a["unit"]


@subroutine
def read_piece(t, i, a, fd, buffer, out, n):
    file = t.slots[i, fd, 0]
    offset = anywhere(t, a, file) if a["random"] else t.slots[i, fd, 2]
    length = max(0, min(a["unit"], t.files[file]["length"] - offset))
    if not a["random"]:  # at the end of the file, restart at offset 0
        t.slots[i, fd, 2] = offset + length if length else 0
    return move(t, i, out, n, READ, file, 0, offset, length, 0, buffer)


@subroutine
def write_piece(t, i, a, fd, buffer, out, n):
    before = t.slots[i, fd, 2]
    offset = anywhere(t, a, t.slots[i, fd, 0]) if a["random"] else before
    n = written(t, i, fd, out, n, a["flag"], offset, a["unit"], 0, buffer)
    # a random write leaves the position unchanged
    if a["random"]:
        t.slots[i, fd, 2] = before
    return n
