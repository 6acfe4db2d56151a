"""Define Filebench's tables: flowops as numbers, the state of files and threads, and rows of the output.

Source: Filebench 1.5-alpha3, flowop_library.c, fileset.c.  Rows are STEPs (see _steps.FIELDS).
"""

from typing import Any, NamedTuple

import numpy as np

from scmsim.jit import subroutine

KINDS = (
    "createfile", "openfile", "closefile", "deletefile", "statfile", "fsync", "fsyncset", "readwholefile", "writewholefile",
    "appendfile", "appendfilerand", "read", "write", "semblock", "sempost", "makedir", "removedir", "listdir",
    "finishoncount", "finishonbytes", "nothing",
)  # fmt: skip
(
    CREATEFILE, OPENFILE, CLOSEFILE, DELETEFILE, STATFILE, FSYNCFILE, FSYNCSET, READWHOLE, WRITEWHOLE,
    APPENDFILE, APPENDRAND, READPIECE, WRITEPIECE, SEMBLOCK, SEMPOST, MAKEDIR, REMOVEDIR, LISTDIR,
    FINISHCOUNT, FINISHBYTES, NOTHING,
) = range(len(KINDS))  # fmt: skip

DESCRIPTORS = 128  # descriptors per thread; opennext rotates through them
ROOM = DESCRIPTORS + 8  # maximum rows that one flowop writes
DRAWS = 4  # maximum numbers that one flowop draws
WAITS = -1  # returned instead of a number of rows by a flowop that finds no file or whose semaphore is too low
FINISHED = -2  # returned instead of a number of rows by a flowop that ends its thread or the run
MARGIN = 8  # maximum values that one flowop takes from a random variable

WORLD = np.dtype(
    [
        ("left", "i8"),
        ("turn", "i8"),
        ("progress", "i8"),
        ("drawn", "i8"),
        ("stops", "i8"),
        ("first_id", "i8"),
        ("one_ends_all", "i8"),
        ("running", "i8"),
        ("failed", "i8"),  # a flowop failed, which ends the run
    ]
)
SET = np.dtype(
    [("first", "i8"), ("count", "i8"), ("new_rotor", "i8"), ("first_dir", "i8"), ("dirs", "i8"), ("dir_rotor", "i8")]
)
FILE = np.dtype(
    [("exists", "i8"), ("length", "i8"), ("opened", "i8"), ("planned", "i8"), ("folder", "i8"), ("owner", "i8")]
)
THREAD = np.dtype(
    [
        ("memory", "i8"),
        ("at", "i8"),
        ("done", "i8"),
        ("first", "i8"),
        ("count", "i8"),
        ("rotor", "i8"),
        ("posts", "i8"),
        ("process", "i8"),
        ("ended", "i8"),
    ]
)
ACTION = np.dtype(
    [
        ("kind", "i8"), ("owner", "i8"), ("private", "i8"), ("fd", "i8"), ("source", "i8"), ("turns", "i8"), ("unit", "i8"),
        ("range", "i8"), ("random", "i8"), ("rotates", "i8"), ("value", "i8"), ("flag", "i8"), ("first_target", "i8"),
        ("targets", "i8"), ("unit_of", "i8"), ("index", "i8"), ("index_of", "i8"), ("watched", "i8"),
    ]
)  # fmt: skip


class Tables(NamedTuple):
    """All state: files are numbered across all sets; a slot is a descriptor: (open file, file last referred to, position)."""

    world: Any  # one WORLD record
    sets: Any  # SET records
    files: Any  # FILE records
    threads: Any  # THREAD records
    slots: Any  # int64 (threads, DESCRIPTORS + 1, 3)
    actions: Any  # ACTION records: the flowops of each kind of thread
    rotors: Any  # int64 (sets, threads + 1): rotor 0 is shared, the others are for threads that use opennext
    posted: Any  # int64: semaphores, one per action of each thread
    targets: Any  # int64: semaphores to which an action posts
    draws: Any  # float64: random numbers drawn beforehand
    values: Any  # float64 (random variables, values drawn beforehand)
    used: Any  # int64: values used up of each random variable
    totals: Any  # int64 (processes, 2): flowops done that count, and their bytes
    counts: Any  # int64 (actions of all threads, 2): the same counts for each flowop
    entries: Any  # int64: entries of each directory


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
    """Draw a whole number from 0 to `most`, which itself almost never occurs."""
    w = t.world[0]
    w["drawn"] += 1
    return np.int64(t.draws[w["drawn"] - 1] * most)


@subroutine
def value_of(t, variable):
    """Return the next value of a random variable."""
    t.used[variable] += 1
    return t.values[variable, t.used[variable] - 1]
