"""Count traffic to the device: bytes stored and loaded, write-backs of dirty lines, media bytes at three granules.

Models a CPU cache of recent dirty lines (direct-mapped; a displaced line is written back) and a write-combining buffer in the
device (more partial writes to a granule cost nothing while the granule is in the buffer).

A non-temporal store of at most 256 bytes waits, unless its granule is among the last granules that non-temporal stores wrote
(as many granules as the buffer holds).  Granules that the cache wrote back do not count, because the device may still have to
read the rest of such a granule.  Longer stores stream.  A load run waits for the medium once,
at its first line (a strided run: once per page), unless that line was recently loaded or stored; the following lines are
prefetched, and use bandwidth.

Units: bytes, 64-byte lines.  Source: buffer of 16 KiB = 64 lines of 256 bytes as reported for Optane DCPMM (Yang et al.,
FAST 2020); the cache has the size of a 256 KiB L2.
"""

import numpy as np

from scmsim.core.records import FENCE, FLUSH, KINDS, LOAD, NTSTORE, PM, STORE
from scmsim.jit import inlined, kernel, subroutine

DIRTY_SLOTS = 4096
GROUP = 64  # slots for the lines of one page
RECENT_SLOTS = 4096  # first lines of recent runs; 4096 runs of 4 KiB fill a last-level cache of 16 MiB
BUFFER_SLOTS = 64
MANY = 8  # minimum number of lines for which checking all of them first is faster
SHIFT_64, SHIFT_256, SHIFT_4096 = np.int64(6), np.int64(8), np.int64(12)

STATE = np.dtype(
    (
        np.record,
        [
            ("dirty", "i8", (DIRTY_SLOTS,)),  # number of a dirty line + 1, 0 = empty
            ("may_hold", "u1", (DIRTY_SLOTS // GROUP,)),  # 0: all slots of this group are empty
            ("recent", "i8", (RECENT_SLOTS,)),  # line number + 1 of a run's first line
            ("buffer_64", "i8", (BUFFER_SLOTS,)),  # granule number + 1
            ("buffer_256", "i8", (BUFFER_SLOTS,)),
            ("buffer_4096", "i8", (BUFFER_SLOTS,)),
            # granules of 256 bytes, number + 1, that non-temporal stores wrote last
            ("streamed", "i8", (BUFFER_SLOTS,)),
            ("mask_64", "i8"),  # granules that fit the buffer (a power of two) - 1; -1 without a buffer
            ("mask_256", "i8"),
            ("mask_4096", "i8"),
            ("kind_of", "i8", (256,)),  # site -> kind
            ("stored", "i8", (len(KINDS),)),  # bytes stored by kind
        ],
    )
)


def start(kinds: list[str], buffer_bytes: int) -> np.recarray:
    """Return the empty state; `kinds[i]` is the kind of bytes that site i stores, `buffer_bytes` the write buffer's size."""
    state = np.zeros(1, STATE).view(np.recarray)
    state.kind_of[0, : len(kinds)] = [KINDS.index(kind) for kind in kinds]
    for granule in (64, 256, 4096):
        slots = min(BUFFER_SLOTS, buffer_bytes // granule)
        state[f"mask_{granule}"] = (1 << slots.bit_length() >> 1) - 1
    return state


@subroutine
def enter_write_buffer(buffer, mask, granule):
    """Return 0 if the granule is in the write buffer, else put it there and return 1; always 1 without a buffer."""
    if mask < 0:
        return 1
    if buffer[granule & mask] == granule + 1:
        return 0
    buffer[granule & mask] = granule + 1
    return 1


@subroutine
def granules(buffer, mask, shift, addr, end):
    """Return how many granules of 2**shift bytes the medium writes for the bytes [addr, end).

    A granule written whole counts once; one written in part counts only if it is not in the write buffer.
    """
    first, last = addr >> shift, (end - 1) >> shift
    whole = (end >> shift) - ((addr + (1 << shift) - 1) >> shift)  # -1: both ends are inside one granule
    if whole < 0:
        return enter_write_buffer(buffer, mask, first)
    cost = whole
    if addr & ((1 << shift) - 1):
        cost += enter_write_buffer(buffer, mask, first)
    if end & ((1 << shift) - 1):
        cost += enter_write_buffer(buffer, mask, last)
    return cost


@subroutine
def write_back(m, c, addr, end):
    """Count the bytes [addr, end) as written from the CPU caches to the device."""
    c.lines_written_back += ((end - 1) >> 6) - (addr >> 6) + 1
    c.media_bytes_64 += granules(m.buffer_64, m.mask_64, SHIFT_64, addr, end) << SHIFT_64
    c.media_bytes_256 += granules(m.buffer_256, m.mask_256, SHIFT_256, addr, end) << SHIFT_256
    c.media_bytes_4096 += granules(m.buffer_4096, m.mask_4096, SHIFT_4096, addr, end) << SHIFT_4096


@subroutine
def write_back_lines(m, c, first, last):
    """Do `write_back` for each of the lines [first, last], in order.

    Line after line of a granule finds that granule in the buffer, so only the first line is looked up.
    """
    c.lines_written_back += last - first + 1
    c.media_bytes_64 += (last - first + 1) << SHIFT_64
    c.media_bytes_256 += granules_by_line(m.buffer_256, m.mask_256, SHIFT_256, first, last) << SHIFT_256
    c.media_bytes_4096 += granules_by_line(m.buffer_4096, m.mask_4096, SHIFT_4096, first, last) << SHIFT_4096


@subroutine
def granules_by_line(buffer, mask, shift, first, last):
    """Return the sum of `granules` over each of the lines [first, last], for granules larger than a line."""
    if mask < 0:
        return last - first + 1
    cost = 0
    for granule in range(first >> shift - SHIFT_64, (last >> shift - SHIFT_64) + 1):
        cost += enter_write_buffer(buffer, mask, granule)
    return cost


@inlined
def try_mark_dirty(m, first, last):
    """Make the lines [first, last] dirty if no other line is displaced and the slots do not wrap; return whether done.

    These loops have no branches, so LLVM can vectorise them: storing or flushing a page takes 20 ns instead of 60 ns.
    """
    slot, empty, same = first & (DIRTY_SLOTS - 1), 0, 0
    slots = m.dirty[slot : slot + last - first + 1]  # shorter at the array's end: then the test below fails
    for k in range(slots.size):
        empty += slots[k] == 0
        same += slots[k] == first + k + 1
    if empty + same != last - first + 1:
        return False
    for k in range(slots.size):
        slots[k] = first + k + 1
    m.may_hold[slot // GROUP : (slot + last - first) // GROUP + 1] = 1
    return True


@inlined
def try_clean(m, first, last):
    """Make the lines [first, last] clean if all are dirty and their slots do not wrap; return whether done."""
    slot, same = first & (DIRTY_SLOTS - 1), 0
    slots = m.dirty[slot : slot + last - first + 1]
    for k in range(slots.size):
        same += slots[k] == first + k + 1
    if same != last - first + 1:
        return False
    for k in range(slots.size):
        slots[k] = 0
    return True


@subroutine
def make_dirty(m, c, first, last):
    """Make the lines [first, last] dirty, for cached stores; write back each line displaced from the cache."""
    if last - first >= MANY and try_mark_dirty(m, first, last):
        return
    start, end = 0, 0  # displaced lines [start, end): a sequential copy displaces lines of an earlier copy, in order
    for line in range(first, last + 1):
        slot = line & (DIRTY_SLOTS - 1)
        gone = m.dirty[slot] - 1  # -1: empty
        if gone >= 0 and gone != line:
            if gone != end:
                if start < end:
                    write_back_lines(m, c, start, end - 1)
                start = gone
            end = gone + 1
        m.dirty[slot] = line + 1
        m.may_hold[slot // GROUP] = 1
    if start < end:
        write_back_lines(m, c, start, end - 1)


@subroutine
def clean(m, c, first, last):
    """Write back the dirty lines among [first, last], one run of adjacent lines at a time."""
    if last - first >= MANY and try_clean(m, first, last):
        write_back(m, c, first << 6, (last + 1) << 6)
        return
    start = -1
    for line in range(first, last + 1):
        slot = line & (DIRTY_SLOTS - 1)
        if m.dirty[slot] == line + 1:
            m.dirty[slot] = 0
            if start < 0:
                start = line
        elif start >= 0:
            write_back(m, c, start << 6, line << 6)
            start = -1
    if start >= 0:
        write_back(m, c, start << 6, (last + 1) << 6)


@subroutine
def invalidate(m, first, last):
    """Remove the lines [first, last] from the caches, for a non-temporal store, which also writes their dirty bytes."""
    while first <= last:
        end, left, group = min(last, first | GROUP - 1) + 1, 0, (first & DIRTY_SLOTS - 1) // GROUP
        if m.may_hold[group]:
            for line in range(first, end):
                slot = line & (DIRTY_SLOTS - 1)
                if m.dirty[slot] == line + 1:
                    m.dirty[slot] = 0
                left |= m.dirty[slot]
            if left == 0 and end - first == GROUP:  # the whole group was checked and is empty: later drops skip it
                m.may_hold[group] = 0
        first = end


@subroutine
def moved(e):
    """Return the bytes that a run moves: its length, or for a strided run the bytes in each touched 4096-byte page."""
    if e.negated_page_bytes >= 0:
        return e.length
    return -e.negated_page_bytes * (((e.addr + e.length - 1) >> 12) - (e.addr >> 12) + 1)


@subroutine
def touch_recent(m, addr):
    """Return 0 if the line of `addr` was the first line of a recent run, else 1; remember the line."""
    line = addr >> 6
    slot = line & (RECENT_SLOTS - 1)
    missed = m.recent[slot] != line + 1
    m.recent[slot] = line + 1
    return missed


@subroutine
def load(m, c, e):
    """Count a LOAD run in persistent memory."""
    c.pm_loaded_bytes += moved(e)
    c.pm_dependent_loads += touch_recent(m, e.addr)
    if e.negated_page_bytes < 0:
        for page in range((e.addr >> 12) + 1, ((e.addr + e.length - 1) >> 12) + 1):
            c.pm_dependent_loads += touch_recent(m, (page << 12) + (e.addr & 4095))


@subroutine
def enter_streamed(m, c, addr, end):
    """Count a small non-temporal store whose granule no such store wrote recently; remember its last granule."""
    granule, last = addr >> SHIFT_256, (end - 1) >> SHIFT_256
    # a longer run streams: the wait for its first granule is hidden in the time of its bytes
    if end - addr <= 256 and m.streamed[granule & m.mask_256] != granule + 1:
        c.write_buffer_misses += 1
        c.write_buffer_miss_lines += ((end - 1) >> SHIFT_64) - (addr >> SHIFT_64) + 1
    m.streamed[last & m.mask_256] = last + 1


@subroutine
def store(m, c, e, counted):
    """Count a STORE or NTSTORE run in persistent memory."""
    size = moved(e)
    first = e.addr >> 6
    last = (e.addr + e.length - 1) >> 6
    c.pm_stored_bytes += size
    if counted:
        m.stored[m.kind_of[e.site]] += size
    if e.code == NTSTORE:
        c.nt_stored_bytes += size
        invalidate(m, first, last)
        if m.mask_256 >= 0:
            enter_streamed(m, c, e.addr, e.addr + e.length)
        write_back(m, c, e.addr, e.addr + e.length)
        m.recent[first & (RECENT_SLOTS - 1)] = 0  # no longer cached: the next load waits for the medium
        return
    if e.negated_page_bytes < 0 and last - first >= 64:  # strided over several pages
        for page in range(e.addr >> 12, ((e.addr + e.length - 1) >> 12) + 1):
            at = (page << 12) + (e.addr & 4095)
            make_dirty(m, c, at >> 6, (at - e.negated_page_bytes - 1) >> 6)
    else:
        make_dirty(m, c, first, last)
    touch_recent(m, e.addr)


@subroutine
def flush(m, c, e):
    """Count a FLUSH run: each line `flush_count` times; for a strided run, each of its lines in every page once."""
    if e.negated_page_bytes >= 0:
        first, last = e.addr >> 6, (e.addr + e.length - 1) >> 6
        c.flushes += (last - first + 1) * max(1, e.flush_count)
        if e.space == PM:
            clean(m, c, first, last)
        return
    for page in range(e.addr >> 12, ((e.addr + e.length - 1) >> 12) + 1):
        at = (page << 12) + (e.addr & 4095)
        first, last = at >> 6, (at - e.negated_page_bytes - 1) >> 6
        c.flushes += last - first + 1
        if e.space == PM:
            clean(m, c, first, last)


@inlined
def begin_event(m, i):
    """Prepare for event `i` of the buffer; a medium that records its write-backs binds this hook."""


@kernel
def simulate(medium, counters, events, bins, n):
    """Count the first `n` events in the rows `bins` of the counters; the last row is for events that do not count."""
    m = medium[0]
    for i in range(n):
        begin_event(m, i)
        e = events[i]
        if e.length <= 0:
            continue
        c = counters[bins[i]]
        if e.code == FENCE:
            c.fences += e.fence_count
        elif e.code == FLUSH:
            flush(m, c, e)
        elif e.space == PM:
            if e.code == LOAD:
                load(m, c, e)
            elif e.code == STORE or e.code == NTSTORE:
                store(m, c, e, bins[i] != counters.size - 1)
