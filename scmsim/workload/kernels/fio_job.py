"""One pass of one fio job: which file, which direction, which offset comes next.

Source: fio 3.33, io_u.c (get_next_file, get_rw_ddir, get_next_offset, get_next_buflen) and backend.c (do_io), for a
synchronous engine.
"""

import numpy as np

from scmsim.jit import kernel, subroutine
from scmsim.workload.kernels.fio_random import (
    DISTRIBUTION,
    LFSR,
    draw,
    is_done,
    lfsr_next,
    mark,
    next_free,
    skewed_next,
)

# values of `what` in a row of `out`: (what, file, offset, length)
READING, WRITING, SYNCING, DATASYNCING, OPENING, CLOSING = range(6)
ROUND_ROBIN, SEQUENTIAL, RANDOM = range(3)  # file services
MAPPED, UNMAPPED, BY_LFSR, SKEWED = range(4)  # how a random offset is found
BLOCKS, MIX, WHICH_FILE, READ_SIZE = range(4)  # random states; READ_SIZE + 1 is the state for sizes of writes

JOB = np.dtype(
    [
        ("reads", "i8"), ("writes", "i8"), ("random", "i8"), ("how", "i8"),
        ("least", "i8", (2,)), ("most", "i8", (2,)),  # bytes of one read and one write
        ("mix", "i8"),  # percentage of reads
        ("fsync", "i8"), ("fdatasync", "i8"),  # number of writes between two syncs
        ("service", "i8"), ("service_count", "i8"),
        ("bytes_limit", "i8"), ("ios_limit", "i8"),
        ("next_file", "i8"), ("current", "i8"), ("left", "i8"), ("finished", "i8"),
        ("issued", "i8", (2,)), ("bytes", "i8"),
        ("direction", "i8"), ("direction_until", "i8"), ("synced", "i8"),
        ("seeds", "i8", (5, 3)),
    ]
)  # fmt: skip
FILE = np.dtype(
    [
        ("start", "i8"), ("span", "i8"), ("end", "i8"),  # first byte, bytes of the job's range, size of the file
        ("position", "i8", (2,)), ("is_open", "i8"), ("is_done", "i8"),
        ("blocks", "i8"), ("words", "i8"), ("levels", "i8", (9,)),  # the map: first word and first word of each level
        ("lfsr_seed", "i8"), ("lfsr", LFSR), ("skew", DISTRIBUTION),
    ]
)  # fmt: skip

ROOM = 2  # most rows that one turn writes


@kernel
def fill(job, files, maps, out):
    """Write rows until the pass ends or `out` is full; return (rows, whether the pass has ended)."""
    j = job[0]
    count = 0
    while count + ROOM <= len(out):
        if j["bytes"] >= j["bytes_limit"] or (j["ios_limit"] and j["issued"][0] + j["issued"][1] >= j["ios_limit"]):
            return count, True
        number = next_file(j, files)
        if number < 0:
            return count, True
        if not files[number]["is_open"]:
            start_over(files[number], maps)
            count = put(out, count, OPENING, number, 0, 0)
        count = turn(j, files[number], maps, out, number, count)
    return count, False


@subroutine
def put(out, count, what, number, offset, length):
    """Write one row; return the number of rows."""
    out[count, 0], out[count, 1], out[count, 2], out[count, 3] = what, number, offset, length
    return count + 1


@subroutine
def turn(j, f, maps, out, number, count):
    """Make one read, write or sync on a file; a file that has nothing left is closed and done."""
    what = next_direction(j)
    if what >= SYNCING:
        j["synced"] = 1
        return put(out, count, what, number, 0, 0)
    offset = next_offset(j, f, maps, what)
    length = next_length(j, f, what, offset) if offset >= 0 else 0
    if length <= 0 or offset + length > f["end"]:
        f["is_open"], f["is_done"] = 0, 1
        j["finished"] += 1
        return put(out, count, CLOSING, number, 0, 0)
    # fio's random map shortens a transfer that runs into a block already done
    if j["random"] and j["how"] == MAPPED:
        length = mark_blocks(j, f, maps, what, offset, length)
    f["position"][what] = offset + length
    j["issued"][what] += 1
    j["bytes"] += length
    j["synced"] = 0
    return put(out, count, what, number, offset, length)


@subroutine
def next_file(j, files):
    """Return the number of the file that is served next, or -1."""
    if j["finished"] >= len(files):
        return -1
    current = j["current"]
    if current >= 0 and files[current]["is_open"]:
        if j["service"] == SEQUENTIAL:
            return current
        if j["left"] > 0:
            j["left"] -= 1
            return current
    while True:  # ends: a file that is not done is left
        if j["service"] == RANDOM:
            number = np.int64(float(len(files)) * (draw(j["seeds"][WHICH_FILE]) / 4294967296.0))
        else:
            number = j["next_file"]
            j["next_file"] = number + 1 if number + 1 < len(files) else 0
        if not files[number]["is_done"]:
            j["current"], j["left"] = number, j["service_count"] - 1
            return number


@subroutine
def start_over(f, maps):
    """Reset fio's record of a file, as fio does when it opens the file."""
    f["is_open"] = 1
    f["position"][0] = f["position"][1] = f["start"]
    maps[f["words"] : f["words"] + f["levels"][8]] = 0
    f["lfsr"]["drawn"] = 0
    f["lfsr"]["value"] = f["lfsr_seed"]


@subroutine
def next_direction(j):
    """Return READING, WRITING, or a sync that is due after a number of writes."""
    written = j["issued"][WRITING]
    if j["writes"] and not j["synced"] and written:
        if j["fsync"] and written % j["fsync"] == 0:
            return SYNCING
        if j["fdatasync"] and written % j["fdatasync"] == 0:
            return DATASYNCING
    if not (j["reads"] and j["writes"]):
        return READING if j["reads"] else WRITING
    now = j["direction"]
    if j["issued"][now] >= j["direction_until"]:
        # get_rand_ddir: a percentage from 1 to 100; set_rwmix_bytes: after a change, fio keeps the direction for a while
        drawn = READING if 1 + np.int64(100.0 * (draw(j["seeds"][MIX]) / 4294967296.0)) <= j["mix"] else WRITING
        if drawn != now:
            other = j["mix"] if now == WRITING else 100 - j["mix"]
            j["direction_until"] = j["issued"][now] * other // 100
        j["direction"] = drawn
    return j["direction"]


@subroutine
def next_offset(j, f, maps, what):
    """Return the offset of the next transfer in the file, or -1."""
    if not j["random"]:
        if f["position"][what] >= f["end"] or f["position"][what] - f["start"] >= f["span"]:
            return -1
        return f["position"][what]
    least = j["least"][what]
    blocks = min(f["span"], f["end"]) // least
    if blocks < 1:
        return -1
    if j["how"] == SKEWED:
        block = skewed_next(f["skew"])
    elif j["how"] == BY_LFSR:
        block = lfsr_next(f["lfsr"])
    else:
        block = np.int64(float(blocks) * (draw(j["seeds"][BLOCKS]) / 4294967296.0))
        if j["how"] == MAPPED:
            words = maps[f["words"] : f["words"] + f["levels"][8]]
            if is_done(words, block):
                block = next_free(words, f["levels"], block, f["blocks"])
    if block < 0 or block * least >= f["span"] or block * least + f["start"] >= f["end"]:
        return -1
    return block * least + f["start"]


@subroutine
def next_length(j, f, what, offset):
    """Return the bytes of the next transfer; 0 if not even the smallest block fits.

    The size is fixed, or drawn between two sizes until it fits.
    """
    least, most = j["least"][what], j["most"][what]
    if least == most:
        return least
    room = f["span"] + f["start"] - offset
    if room < least:
        return 0
    while True:
        length = least + np.int64(float(most) * (draw(j["seeds"][READ_SIZE + what]) / 4294967296.0))
        length = min(length - length % least, most)
        if length <= room:
            return length


@subroutine
def mark_blocks(j, f, maps, what, offset, length):
    """Mark the blocks of a transfer; return its length, shortened if it runs into a block that is done."""
    least = j["least"][what]
    words = maps[f["words"] : f["words"] + f["levels"][8]]
    block = (offset - f["start"]) // least
    wanted = (length + least - 1) // least
    free = np.int64(0)
    while free < wanted and block + free < f["blocks"] and not is_done(words, block + free):
        mark(words, f["levels"], block + free)
        free += 1
    return min(length, free * least)


@kernel
def drawn(seeds):
    """Draw one number, for the set-up (see fio_random.draw)."""
    return draw(seeds)


@kernel
def zeta(count, theta):
    """Return the sum of (1 / i) ** theta for i from 1 to count, added in this order."""
    total = 0.0
    for i in range(count):
        total += (1.0 / (i + 1)) ** theta
    return total
