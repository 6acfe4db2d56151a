"""Filebench's threads taking turns, one flowop each.

Source: Filebench 1.5-alpha3, flowop.c, threadflow.h.
"""

from scmsim.core.records import CLOSE, FSYNC, OPEN, READ, WRITE
from scmsim.jit import kernel, subroutine
from scmsim.workload.kernels.filebench_files import (
    change_dir,
    create_file,
    delete_file,
    descriptor,
    fsync_set,
    list_dir,
    open_file,
    stat_file,
)
from scmsim.workload.kernels.filebench_tables import (
    CLOSEFILE,
    CREATEFILE,
    DELETEFILE,
    DRAWS,
    FINISHBYTES,
    FINISHCOUNT,
    FINISHED,
    FSYNCSET,
    LISTDIR,
    MAKEDIR,
    MARGIN,
    NOTHING,
    OPENFILE,
    READWHOLE,
    REMOVEDIR,
    ROOM,
    SEMBLOCK,
    SEMPOST,
    STATFILE,
    WAITS,
    WRITEPIECE,
    call,
)
from scmsim.workload.kernels.filebench_transfers import transfer


@kernel
def play(t, out):
    """Play flowops in turn until `out` or the drawn numbers may not suffice, or the run has ended; return the number of rows."""
    w = t.world[0]
    n = 0
    while w["left"] > 0 and n + ROOM <= len(out) and w["drawn"] + DRAWS <= len(t.draws) and enough(t):
        i = w["turn"]
        thread = t.threads[i]
        if not thread["ended"]:
            a = t.actions[thread["first"] + thread["at"]]
            after = act(t, i, a, out, n)
            if after >= 0:
                count(t, i, a, out, n, after)
                n = after
                w["left"] -= 1
                w["progress"] = 1
                advance(thread, a)
                if w["failed"]:
                    w["left"] = 0
            elif after == FINISHED:
                finish(w, thread)
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
def enough(t):
    """Return whether every random variable has values left for one flowop."""
    for used in t.used:
        if used + MARGIN > t.values.shape[1]:
            return False
    return True


@subroutine
def finish(w, thread):
    """End a thread; the run ends with its first thread or with its last (set mode quit)."""
    thread["ended"] = 1
    w["running"] -= 1
    w["progress"] = 1
    if w["one_ends_all"] or not w["running"]:
        w["left"] = 0


@subroutine
def count(t, i, a, out, n, after):
    """Count a flowop that is done, as Filebench's statistics do: a transfer that opened its file counts twice."""
    thread = t.threads[i]
    at, times, moved = thread["posts"] + thread["at"], 0, 0
    transfers = READWHOLE <= a["kind"] <= WRITEPIECE
    for row in range(n, after):
        if out[row, 0] == READ or out[row, 0] == WRITE:
            moved += out[row, 6]
        elif out[row, 0] == OPEN and transfers:
            times += 1
    if transfers or a["kind"] > FSYNCSET or after > n:
        times += 1
    if a["kind"] == FSYNCSET:  # also counts the closed descriptors whose last file is in the set
        times = 0
        for last in t.slots[i, :, 1]:
            if last >= 0 and t.files[last]["owner"] == a["owner"]:
                times += 1
    t.counts[at, 0] += times
    t.counts[at, 1] += moved
    t.totals[thread["process"], 0] += times  # also kinds without a call: Filebench tests kinds as bit masks
    t.totals[thread["process"], 1] += moved


@subroutine
def is_finished(t, i, a):
    """Return whether the count or bytes of the watched flowop, or else of the whole process, have reached the limit."""
    thread, what = t.threads[i], 0 if a["kind"] == FINISHCOUNT else 1
    found = t.totals[thread["process"], what]
    if a["watched"] >= 0:
        found = t.counts[thread["posts"] + a["watched"], what]
    return found > a["value"] - (1 - what)


@subroutine
def advance(thread, a):
    """Go on to the thread's next flowop, or repeat the same (iters)."""
    thread["done"] += 1
    if thread["done"] >= a["turns"]:
        thread["done"] = 0
        thread["at"] = thread["at"] + 1 if thread["at"] + 1 < thread["count"] else 0


@subroutine
def act(t, i, a, out, n):
    """Play one flowop; return the number of rows, WAITS or FINISHED."""
    kind = a["kind"]
    if kind >= READWHOLE and kind <= WRITEPIECE:
        return transfer(t, i, a, out, n)
    if kind == SEMBLOCK:
        return n if taken(t, i, a) else WAITS
    if kind == SEMPOST:
        for target in t.targets[a["first_target"] : a["first_target"] + a["targets"]]:
            t.posted[target] += a["value"]
        return n
    if kind == NOTHING:
        return n
    if kind == FINISHCOUNT or kind == FINISHBYTES:
        return FINISHED if is_finished(t, i, a) else n
    if kind == MAKEDIR or kind == REMOVEDIR:
        return change_dir(t, i, a, out, n)
    if kind == LISTDIR:
        return list_dir(t, i, a, out, n)
    if kind == STATFILE:
        return stat_file(t, i, a, out, n)
    if kind == DELETEFILE:
        return delete_file(t, i, a, out, n)
    fd = descriptor(t, i, a)
    file = t.slots[i, fd, 0]
    if kind == OPENFILE or kind == CREATEFILE:
        if file >= 0:  # Filebench ends when a descriptor is opened twice
            t.world[0]["failed"] = 1
            return n
        if kind == OPENFILE:
            return open_file(t, i, a, fd, out, n)
        return n if a["owner"] < 0 else create_file(t, i, a, fd, out, n)
    if kind == FSYNCSET:
        return fsync_set(t, i, a, out, n)
    if file < 0:
        return n
    if kind == CLOSEFILE:
        t.slots[i, fd, 0] = -1
        t.files[file]["opened"] -= 1
        return call(t, out, n, CLOSE, file, i)
    return call(t, out, n, FSYNC, file, i)


@subroutine
def taken(t, i, a):
    """Return whether the semaphore of this thread's flowop was high enough; if so, lower it."""
    at = t.threads[i]["posts"] + t.threads[i]["at"]
    if t.posted[at] < a["value"]:
        return False
    t.posted[at] -= a["value"]
    return True
