"""Allocation of a file's units of 2 MiB: one run, or strips in several buckets of the device.

Source: famfs src/famfs_alloc.c (famfs_file_alloc_contiguous, famfs_file_strided_alloc, bucket_series_alloc).
famfs shuffles the buckets by rand(), seeded with the time; here a generator with a fixed seed does so.
"""

from scmsim.alloc import first_fit
from scmsim.fs.engine import file_row, table
from scmsim.fs.engine.arena import has_room
from scmsim.fs.engine.operations import DONE, FULL, NO_ROOM
from scmsim.fs.famfs import state, templates
from scmsim.jit import subroutine


@subroutine
def units_of(length):
    """Return the number of units that `length` bytes occupy."""
    return (length + templates.UNIT - 1) >> templates.UNIT_SHIFT


@subroutine
def shuffle_buckets(s):
    """Put the buckets into a random order (bucket_series_alloc: Fisher-Yates)."""
    for i in range(s.bucket_count):
        s.buckets[i] = i
    for i in range(s.bucket_count - 1, 0, -1):
        s.random = (s.random * 1103515245 + 12345) & 0x7FFFFFFF
        j = (s.random >> 8) % (i + 1)
        s.buckets[i], s.buckets[j] = s.buckets[j], s.buckets[i]


@subroutine
def is_free(s, arena, unit):
    """Return whether a unit of the device is free."""
    return arena[s.bits + (unit >> 6)] >> (unit & 63) & 1 != 0


@subroutine
def run_in(s, arena, low, high, count):
    """Return the first unit of the lowest free run of `count` units in [low, high), or -1 if there is no such run."""
    run = 0
    for unit in range(low, high):
        run = run + 1 if is_free(s, arena, unit) else 0
        if run == count:
            return unit - count + 1
    return -1


@subroutine
def put_strip(s, arena, row, strip, first, count):
    """Assign a strip's units [first, first + count) to the file's chunks that are in this strip."""
    first_fit.claim(s, arena, first, count)
    for k in range(count):
        stripe, inside = k // s.chunk_units, k % s.chunk_units
        table.put(arena, row + state.UNITS, (stripe * s.strips + strip) * s.chunk_units + inside, first + k)


@subroutine
def allocate_strips(s, arena, row, units):
    """Allocate an interleaved file; return the outcome.  A strip is one run in a bucket that has no other strip of the file."""
    stripes = (units + s.strips * s.chunk_units - 1) // (s.strips * s.chunk_units)
    count, bucket = stripes * s.chunk_units, s.blocks // s.bucket_count
    if not has_room(s, arena, table.words_to_hold(arena, row + state.UNITS, count * s.strips)):
        return NO_ROOM
    shuffle_buckets(s)
    found = 0  # move the buckets that have room to the front before allocating: too few of them must change nothing
    for i in range(s.bucket_count):
        low = s.buckets[i] * bucket
        if found < s.strips and run_in(s, arena, low, low + bucket, count) >= 0:
            s.buckets[found] = s.buckets[i]
            found += 1
    if found < s.strips:
        return FULL
    table.reserve(s, arena, row + state.UNITS, count * s.strips)
    for strip in range(s.strips):
        low = s.buckets[strip] * bucket
        put_strip(s, arena, row, strip, run_in(s, arena, low, low + bucket, count), count)
    arena[row + file_row.MAPPED], arena[row + state.EXTENTS] = count * s.strips, s.strips
    arena[row + state.CHUNK] = s.chunk_units
    s.data_units += count * s.strips
    return DONE


@subroutine
def add_run(s, arena, row, first, count):
    """Append a run of units to a file's simple map."""
    have = arena[row + file_row.MAPPED]
    for k in range(count):
        table.put(arena, row + state.UNITS, have + k, first + k)
    follows = have > 0 and table.get(arena, row + state.UNITS, have - 1) == first - 1
    arena[row + file_row.MAPPED] += count
    arena[row + state.EXTENTS] += not follows
    s.data_units += count


@subroutine
def allocate(s, arena, row, length):
    """Allocate the units that a file of `length` bytes lacks; return the outcome.

    A new file is one run or interleaved.  A file that grows (growth = logged) gets the lowest free runs.
    """
    have, units = arena[row + file_row.MAPPED], units_of(length)
    if have == 0 and s.strips and length >= s.chunk_units << templates.UNIT_SHIFT:
        return allocate_strips(s, arena, row, units)
    missing = units - have
    if missing > s.free_blocks:
        return FULL
    if not has_room(s, arena, table.words_to_hold(arena, row + state.UNITS, units)):
        return NO_ROOM
    table.reserve(s, arena, row + state.UNITS, units)
    if have == 0:
        first = first_fit.allocate_whole(s, arena, units)
        if first < 0:
            return FULL
        add_run(s, arena, row, first, units)
        return DONE
    while arena[row + file_row.MAPPED] < units:
        first = first_fit.allocate(s, arena, units - arena[row + file_row.MAPPED])
        add_run(s, arena, row, first, s.got)
    return DONE


@subroutine
def release_from(s, arena, row, first):
    """Free a file's units from unit `first` of the file on (growth = logged)."""
    for k in range(first, arena[row + file_row.MAPPED]):
        unit = table.get(arena, row + state.UNITS, k)
        if unit:  # freed one by one, because the end of an interleaved file is not one run
            first_fit.release(s, arena, unit, 1)
            table.put(arena, row + state.UNITS, k, 0)
    s.data_units -= max(arena[row + file_row.MAPPED] - first, 0)
    arena[row + file_row.MAPPED] = min(arena[row + file_row.MAPPED], first)


@subroutine
def extent_end(arena, row, unit):
    """Return the first unit after the extent that contains the file's unit `unit` (after its chunk if interleaved)."""
    chunk, stop = arena[row + state.CHUNK], arena[row + file_row.MAPPED]
    if chunk:
        return min((unit // chunk + 1) * chunk, stop)
    end = unit + 1
    while end < stop and table.get(arena, row + state.UNITS, end) == table.get(arena, row + state.UNITS, end - 1) + 1:
        end += 1
    return end


@subroutine
def extents_before(arena, row, unit):
    """Return how many extents precede a unit of the file in the file's list of extents."""
    chunk, count = arena[row + state.CHUNK], 0
    if chunk:
        return unit // chunk
    if arena[row + state.EXTENTS] > 1:
        for k in range(1, unit + 1):
            count += table.get(arena, row + state.UNITS, k) != table.get(arena, row + state.UNITS, k - 1) + 1
    return count
