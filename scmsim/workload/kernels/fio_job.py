"""Run one pass of one fio job: choose the file, the direction and the offset of each transfer.

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
ROUND_ROBIN, SEQUENTIAL, RANDOM = range(3)  # values of `service`: how the next file is chosen
MAPPED, UNMAPPED, BY_LFSR, SKEWED = range(4)  # how a random offset is found
# random states; READ_SIZE + 1 and IN_ORDER + 1 are the states for writes
BLOCKS, MIX, WHICH_FILE, READ_SIZE, _, ZONE, IN_ORDER = range(7)
PARTS = 64  # maximum number of parts of bssplit

# Pairs are (of reads, of writes), indexed by READING and WRITING.
JOB = np.dtype(
    [
        ("reads", "i8"), ("writes", "i8"), ("random", "i8"),  # flags: the job reads; the job writes; the job seeks at random
        ("how", "i8"),  # how a random offset is found, MAPPED to SKEWED
        ("least", "i8", (2,)), ("most", "i8", (2,)),  # bytes of the smallest and the largest transfer
        ("mix", "i8"),  # percentage of reads in a mixed job
        ("fsync", "i8"), ("fdatasync", "i8"),  # writes between two syncs, 0: no syncs
        ("service", "i8"), ("service_count", "i8"),  # ROUND_ROBIN to RANDOM; calls on a file before another file is served
        ("bytes_limit", "i8"), ("ios_limit", "i8"),  # limits of the whole job; ios_limit 0: no limit
        ("next_file", "i8"),  # file whose turn is next (ROUND_ROBIN, SEQUENTIAL)
        ("current", "i8"), ("left", "i8"),  # file that is being served, -1: none; calls left before the next file
        ("finished", "i8"),  # files that have nothing left in this pass
        ("issued", "i8", (2,)), ("bytes", "i8"),  # transfers and bytes so far
        ("direction", "i8"), ("direction_until", "i8"),  # mixed job: READING or WRITING; `issued` at which it may change
        ("synced", "i8"),  # 1: the last row is a sync
        ("seeds", "i8", (8, 3)),  # random states, BLOCKS to IN_ORDER + 1
        ("pass_limit", "i8"), ("pass_bytes", "i8"),  # bytes after which a pass ends; bytes transferred in this pass
        ("align", "i8", (2,)), ("unaligned", "i8"),  # unit of random offsets, bytes; 1: any length between least and most
        ("parts", "i8", (2,)), ("splits", "i8", (2, PARTS, 2)),  # bssplit: number of parts; the bytes and percentage of each part
        ("sequence", "i8"), ("until_fresh", "i8"),  # rw=randread:N: N, and the transfers until the next random offset
        ("repeats", "i8"), ("in_order", "i8"),  # flags: the N transfers have one offset; the last offset was not random
        ("seq_add", "i8"),  # bytes from the end of a sequential transfer to the next one (rw=read:-8k)
        ("percent_random", "i8", (2,)),
        # random_distribution=zoned: flag; flags: zones are given; first and end of the zone of each percent of the transfers,
        # in percent of the file
        ("zoned", "i8"), ("zoned_ways", "i8", (2,)), ("zones", "i8", (2, 100, 2)),
        # zonemode=strided, bytes: to transfer per zone (0: no zones), of a zone, between two zones, transferred in this zone
        ("zone_size", "i8"), ("zone_range", "i8"), ("zone_skip", "i8"), ("zone_bytes", "i8"),
    ]
)  # fmt: skip
FILE = np.dtype(
    [
        ("start", "i8"), ("span", "i8"), ("end", "i8"),  # first byte and bytes of the job's range, size of the file
        ("origin", "i8"),  # `start` before zones move it
        ("position", "i8", (2,)), ("last", "i8", (2,)),  # end of the last transfer, at first `start`; its offset, -1: none
        ("is_open", "i8"), ("is_done", "i8"),
        # the map of transferred blocks: its blocks, its first word in `maps`, the first word of each level and the number of words
        ("blocks", "i8"), ("words", "i8"), ("levels", "i8", (9,)),
        ("lfsr_seed", "i8"), ("lfsr", LFSR), ("skew", DISTRIBUTION),
    ]
)  # fmt: skip

ROOM = 2  # maximum rows that one turn writes


@kernel
def fill(job, files, maps, out):
    """Write rows until the pass ends or `out` is full; return (rows, whether the pass has ended)."""
    j = job[0]
    count = 0
    while count + ROOM <= len(out):
        if j["bytes"] >= j["bytes_limit"] or (j["ios_limit"] and j["issued"][0] + j["issued"][1] >= j["ios_limit"]):
            return count, True
        if j["pass_bytes"] >= j["pass_limit"]:
            return count, True
        number = next_file(j, files)
        if number < 0:
            return count, True
        if not files[number]["is_open"]:
            files[number]["is_open"] = 1
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
    """Make one read, write or sync on a file; close a file that has nothing left."""
    what = next_direction(j)
    if what >= SYNCING:
        j["synced"] = 1
        return put(out, count, what, number, 0, 0)
    if j["zone_size"]:
        enter_zone(j, f, maps, what)
    offset = next_offset(j, f, maps, what)
    length = next_length(j, f, what, offset) if offset >= 0 else 0
    if length <= 0 or offset + length > f["end"]:
        f["is_open"], f["is_done"] = 0, 1
        j["finished"] += 1
        return put(out, count, CLOSING, number, 0, 0)
    # fio's random map shortens a transfer that runs into a block already done
    if j["random"] and j["how"] == MAPPED and not j["in_order"]:
        length = mark_blocks(j, f, maps, what, offset, length)
    f["position"][what], f["last"][what] = offset + length, offset
    j["zone_bytes"] += length
    j["pass_bytes"] += length
    j["issued"][what] += 1
    j["bytes"] += length
    j["synced"] = 0
    return put(out, count, what, number, offset, length)


@subroutine
def next_file(j, files):
    """Return the number of the file that is served next; -1 if there is none."""
    if j["finished"] >= len(files):
        return -1
    current = j["current"]
    if current >= 0 and files[current]["is_open"]:
        if j["service"] == SEQUENTIAL:
            return current
        if j["left"] > 0:
            j["left"] -= 1
            return current
    while True:  # this ends, because some file is not done
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
    f["last"][0] = f["last"][1] = -1
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
        drawn = READING if percent(j["seeds"][MIX]) <= j["mix"] else WRITING
        if drawn != now:
            other = j["mix"] if now == WRITING else 100 - j["mix"]
            j["direction_until"] = j["issued"][now] * other // 100
        j["direction"] = drawn
    return j["direction"]


@subroutine
def enter_zone(j, f, maps, what):
    """Enter the next zone after `zone_size` bytes; at the end of a zone, continue at its start (zonemode=strided)."""
    if j["zone_bytes"] >= j["zone_size"]:
        j["zone_bytes"] = 0
        f["start"] += j["zone_range"] + j["zone_skip"]
        if f["start"] >= f["end"]:
            f["start"] = f["origin"]
        f["position"][what] = f["start"]
    if f["position"][what] >= f["start"] + j["zone_range"]:
        f["position"][what] = f["start"]
    if j["zone_bytes"] % j["zone_range"] == 0:
        start_over(f, maps)


@subroutine
def next_offset(j, f, maps, what):
    """Return the offset of the next transfer in the file; -1 if there is none."""
    j["in_order"] = 1
    j["until_fresh"] -= 1
    if not j["until_fresh"]:
        j["until_fresh"] = j["sequence"]
        if j["random"] and is_random(j, what):
            j["in_order"] = 0
            place = random_place(j, f, maps, what)
        else:
            place = place_in_order(j, f, what)
            if place < 0 and j["random"]:
                place = random_place(j, f, maps, what)
    elif j["repeats"]:
        place = f["last"][what] - f["start"] if f["last"][what] >= 0 else np.int64(0)
    else:
        place = place_in_order(j, f, what)
        if place < 0:
            place = random_place(j, f, maps, what)
    if place < 0 or place >= f["span"] or place + f["start"] >= f["end"]:
        return np.int64(-1)
    return place + f["start"]


@subroutine
def is_random(j, what):
    """Return whether the next offset is drawn at random (percentage_random)."""
    share = j["percent_random"][what]
    return share == 100 or percent(j["seeds"][IN_ORDER + what]) <= share


@subroutine
def percent(seeds):
    """Draw a whole number from 1 to 100."""
    return 1 + np.int64(100.0 * (draw(seeds) / 4294967296.0))


@subroutine
def place_in_order(j, f, what):
    """Return the next sequential offset, in bytes from `start`: the end of the last transfer plus `seq_add`.

    Return -1 if the last transfer ended at the end of the file.
    """
    if f["position"][what] >= f["end"]:
        return np.int64(-1)
    top = min(f["span"], f["end"])
    if f["position"][what] == f["start"] and f["start"] and j["seq_add"] < 0:
        f["position"][what] = top
    place = f["position"][what] - f["start"]
    if place and j["seq_add"]:
        place += j["seq_add"]
        # fio's numbers are unsigned: an offset before the beginning counts as one beyond the end
        if place < 0 or place >= f["end"]:
            place = f["start"] if j["seq_add"] > 0 else top + j["seq_add"]
    return place


@subroutine
def random_place(j, f, maps, what):
    """Draw a random offset, in bytes from the start of the range; negative if no block fits or is left."""
    unit = j["align"][what]
    if j["how"] == SKEWED:
        return skewed_next(f["skew"]) * unit
    reach = j["zone_range"] if j["zone_size"] else min(f["span"], f["end"])
    blocks = (reach - max(j["least"][what] - unit, 0)) // unit
    if blocks < 1:
        return np.int64(-1)
    if not (j["zoned"] and j["zoned_ways"][what]):
        return random_block(j, f, maps, blocks) * unit
    zone = j["zones"][what, percent(j["seeds"][ZONE]) - 1]
    first = zone[0] * blocks // 100
    block = random_block(j, f, maps, blocks * (zone[1] - zone[0]) // 100)
    return (block + first) * unit if block >= 0 else np.int64(-1)


@subroutine
def random_block(j, f, maps, blocks):
    """Draw a block below `blocks`; with a map or an LFSR, draw a block not yet done, -1 if all are done."""
    if j["how"] == BY_LFSR:
        return lfsr_next(f["lfsr"])
    block = np.int64(float(blocks) * (draw(j["seeds"][BLOCKS]) / 4294967296.0))
    if j["how"] == MAPPED:
        words = maps[f["words"] : f["words"] + f["levels"][8]]
        if is_done(words, block):
            block = next_free(words, f["levels"], block, f["blocks"])
    return block


@subroutine
def next_length(j, f, what, offset):
    """Return the bytes of the next transfer; 0 if not even the smallest block fits.

    The size is fixed, or drawn between two sizes or from a list of sizes until it fits.
    """
    least, most = j["least"][what], j["most"][what]
    if least == most:
        return least
    room = f["span"] + f["origin"] - offset
    if room < least:
        return np.int64(0)
    while True:
        number = draw(j["seeds"][READ_SIZE + what])
        if j["parts"][what]:
            length = one_part(j, what, number, room)
        else:
            length = least + np.int64(float(most) * (number / 4294967296.0))
        if not j["unaligned"]:
            length -= length % least
        length = min(length, most)
        if length <= room:
            return length


@subroutine
def one_part(j, what, number, room):
    """Return the size of the part of bssplit on which `number` falls, or of a later part that fits into `room`."""
    share, length = np.int64(0), np.int64(0)
    for i in range(j["parts"][what]):
        length = j["splits"][what, i, 0]
        share += j["splits"][what, i, 1]
        if number // share <= 42949672 and length <= room:  # the greatest 32-bit number / 100
            break
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
