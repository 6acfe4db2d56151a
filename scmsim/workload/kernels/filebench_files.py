"""Filebench's flowops on files and directories: which file comes next, open, create, delete, stat.

Source: Filebench 1.5-alpha3, fileset.c (fileset_pick), flowop_library.c.
"""

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CREATE,
    DIRECTORY,
    DOTS_BYTES,
    ENTRY_BYTES,
    FSYNC,
    MKDIR,
    OPEN,
    READDIR,
    RMDIR,
    STAT,
    UNLINK,
)
from scmsim.jit import subroutine
from scmsim.workload.kernels.filebench_tables import DESCRIPTORS, MAKEDIR, WAITS, call, put, value_of


@subroutine
def descriptor(t, i, a):
    thread = t.threads[i]
    if a["fd"] or not a["rotates"]:
        return a["fd"]
    thread["rotor"] = thread["rotor"] - 1 if thread["rotor"] else DESCRIPTORS - 1
    return thread["rotor"]


@subroutine
def scan(t, s, start, exists):
    """Return the index in the set of the first file from `start` on (wrapping around) that exists, or with `exists` 0 does not.

    Return -1 if there is none.
    """
    first, count = t.sets[s]["first"], t.sets[s]["count"]
    for k in range(start, count):
        if t.files[first + k]["exists"] == exists:
            return k
    for k in range(min(start, count)):
        if t.files[first + k]["exists"] == exists:
            return k
    return -1


@subroutine
def index_of(t, a, s):
    """Return the index that the attribute `indexed` gives."""
    if a["index_of"] < 0:
        return a["index"] % t.sets[s]["count"]
    return np.int64(value_of(t, a["index_of"])) % t.sets[s]["count"]


@subroutine
def pick_old(t, a, s, rotor):
    """Return the number of a set's next existing file, with `indexed` from that index on; -1 if no file exists."""
    if a["index"] >= 0 or a["index_of"] >= 0:
        found = scan(t, s, index_of(t, a, s), 1)
    else:
        found = scan(t, s, t.rotors[s, rotor], 1)
        t.rotors[s, rotor] = found + 1
    return t.sets[s]["first"] + found if found >= 0 else -1


@subroutine
def open_file(t, i, a, fd, out, n):
    last = t.slots[i, fd, 1]
    if a["owner"] < 0 and last < 0:
        return n
    s = a["owner"] if a["owner"] >= 0 else t.files[last]["owner"]
    file = pick_old(t, a, s, i + 1 if a["rotates"] else 0)
    if file < 0:
        return WAITS
    t.files[file]["opened"] += 1
    t.slots[i, fd, 0] = t.slots[i, fd, 1] = file
    t.slots[i, fd, 2] = 0
    return call(t, out, n, OPEN, file, i)


@subroutine
def pick_new(t, a, s):
    """Return the index of the next file of a set that does not exist; -1 if all exist."""
    if a["index"] >= 0 or a["index_of"] >= 0:
        return scan(t, s, index_of(t, a, s), 0)
    found = scan(t, s, t.sets[s]["new_rotor"], 0)
    t.sets[s]["new_rotor"] = found + 1
    return found


@subroutine
def create_file(t, i, a, fd, out, n):
    s = a["owner"]
    found = pick_new(t, a, s)
    if found < 0:
        return WAITS
    file = t.sets[s]["first"] + found
    f = t.files[file]
    f["exists"], f["length"], f["opened"] = 1, 0, 1
    t.entries[f["folder"]] += 1
    t.slots[i, fd, 0] = t.slots[i, fd, 1] = file
    t.slots[i, fd, 2] = 0
    n = put(out, n, STAT, f["folder"], i)
    n = call(t, out, n, CREATE, file, i)
    out[n - 1, 2] = f["folder"]
    return n


@subroutine
def delete_file(t, i, a, out, n):
    """Delete a file; skip a file that another descriptor has open: the flowop still counts as done."""
    file, mine, fd = np.int64(-1), 0, a["fd"]
    if fd and t.slots[i, fd, 1] >= 0:
        file, mine = t.slots[i, fd, 1], 1 if t.slots[i, fd, 0] >= 0 else 0
        t.slots[i, fd, 1] = -1
    elif a["owner"] < 0:
        return n
    else:
        file = pick_old(t, a, a["owner"], 0)
    if file < 0:
        return WAITS
    f = t.files[file]
    if f["opened"] > mine or not f["exists"]:
        return n
    f["exists"] = 0
    t.entries[f["folder"]] -= 1
    n = call(t, out, n, UNLINK, file, i)
    out[n - 1, 2] = f["folder"]
    return n


@subroutine
def stat_file(t, i, a, out, n):
    file = t.slots[i, a["fd"], 0] if a["fd"] else -1
    if file < 0:
        if a["owner"] < 0:
            return n
        file = pick_old(t, a, a["owner"], 0)
    return call(t, out, n, STAT, file, i) if file >= 0 else WAITS


@subroutine
def fsync_set(t, i, a, out, n):
    for fd in range(DESCRIPTORS + 1):
        file = t.slots[i, fd, 0]
        if file >= 0 and t.files[file]["owner"] == a["owner"]:
            n = call(t, out, n, FSYNC, file, i)
    return n


@subroutine
def change_dir(t, i, a, out, n):
    """Make the next missing leaf directory of a set, or remove the next existing leaf directory."""
    s, makes = a["owner"], a["kind"] == MAKEDIR
    found = pick_new(t, a, s) + t.sets[s]["first"] if makes else pick_old(t, a, s, 0)
    if found < t.sets[s]["first"]:
        return WAITS
    f = t.files[found]
    f["exists"] = 1 if makes else 0
    t.entries[f["folder"]] += 1 if makes else -1
    n = call(t, out, n, MKDIR if makes else RMDIR, found, i)
    out[n - 1, 2], out[n - 1, 4] = f["folder"], DIRECTORY
    return n


@subroutine
def list_dir(t, i, a, out, n):
    """Read the next directory of a set."""
    s = t.sets[a["owner"]]
    at = s["dir_rotor"] if s["dir_rotor"] < s["dirs"] else np.int64(0)
    s["dir_rotor"] = at + 1
    folder = s["first_dir"] + at
    for op in (OPEN, READDIR, READDIR, CLOSE):  # the second read finds the end
        n = put(out, n, op, folder, i)
        out[n - 1, 4] = DIRECTORY
    out[n - 3, 6] = DOTS_BYTES + ENTRY_BYTES * t.entries[folder]
    return n
