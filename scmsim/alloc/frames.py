"""Physical frames of 4 KiB in one or two zones, allocated lowest first, as runs or as aligned pages of any power of two.

Unit: frames of 4096 bytes.  The bitmap has one bit per frame (1 = free) in 64-bit words; for each zone and order, a lower bound on
the first free page keeps a search short.  Zones begin and end at multiples of 2 MiB, and so at whole words.
"""

import numpy as np

from scmsim.alloc.bitmap import lowest_bit
from scmsim.jit import kernel, subroutine

FRAME = 4096
HUGE = 9  # log2 of the frames in 2 MiB
GIANT = 18  # log2 of the frames in 1 GiB, the largest page
ZONES, ORDERS = 2, GIANT + 1

FIELDS = [
    ("first", "i8", (ZONES,)),  # first bitmap word of a zone
    ("last", "i8", (ZONES,)),  # first word after the zone
    ("free", "i8", (ZONES,)),  # free frames
    ("low", "i8", (ZONES, ORDERS)),  # bitmap word; no free page of the order begins before it
    ("got", "i8"),  # length of the run that `take_run` returned
]

_ONE = np.int64(1)
_ALIGNED = np.array(  # by order: mask of the bits of a word at which an aligned page of 2**order frames can begin
    [-1] + [sum(1 << bit for bit in range(0, 64, 1 << order)) for order in range(1, 7)], np.int64
)


def attach(record: np.record, bits: np.ndarray, boundary: int) -> None:
    """Free all frames of `bits`; frames from `boundary` on (a multiple of 512) are the second zone, which 0 leaves empty."""
    bits[:] = -1
    words = len(bits)
    record.first[:], record.last[:] = (0, boundary >> 6 or words), (boundary >> 6 or words, words)
    record.free[:] = (record.last - record.first) * 64
    record.low[:] = record.first[:, None]


@kernel
def take_run(s, bits, zone, want):
    """Allocate up to `want` frames of the lowest free run; return the first frame, -1 if nothing is free.  Sets `s.got`."""
    w, end = s.low[zone, 0], s.last[zone]
    while w < end and bits[w] == 0:
        w += 1
    s.low[zone, 0] = w
    s.got = 0
    if w == end:
        return -1
    bit = lowest_bit(bits[w])
    start = w * 64 + bit
    while s.got < want and w < end and (bits[w] >> bit) & 1:
        if bit == 0 and bits[w] == -1 and want - s.got >= 64:
            bits[w] = 0
            s.got += 64
            w += 1
        else:
            bits[w] &= ~(_ONE << bit)
            s.got += 1
            bit = (bit + 1) & 63
            w += bit == 0
    s.free[zone] -= s.got
    return start


@kernel
def take_page(s, bits, zone, order):
    """Allocate the lowest free aligned page of 2**`order` frames; return its first frame, -1 if there is none."""
    frame = _in_words(s, bits, zone, order) if order >= 6 else _in_a_word(s, bits, zone, order)
    if frame >= 0:
        s.free[zone] -= _ONE << order
    return frame


@subroutine
def _in_words(s, bits, zone, order):
    """Allocate a page of one or more whole words."""
    step = _ONE << (order - 6)
    w, end = (s.low[zone, order] + step - 1) // step * step, s.last[zone]
    while w + step <= end:
        k = 0
        while k < step and bits[w + k] == -1:
            k += 1
        if k == step:
            break
        w += step
    s.low[zone, order] = w
    if w + step > end:
        return -1
    for k in range(step):
        bits[w + k] = 0
    return w << 6


@subroutine
def _in_a_word(s, bits, zone, order):
    """Allocate a page of up to 32 frames, inside one word."""
    w, end = s.low[zone, order], s.last[zone]
    while w < end:
        found = bits[w]
        for k in range(order):
            found &= found >> (_ONE << k)  # a bit stays set if 2**(k + 1) frames from it on are free
        found &= _ALIGNED[order]
        if found != 0:
            s.low[zone, order] = w
            bit = lowest_bit(found)
            bits[w] &= ~(((_ONE << (_ONE << order)) - 1) << bit)
            return w * 64 + bit
        w += 1
    s.low[zone, order] = w
    return -1


@kernel
def give(s, bits, start, count):
    """Free the frames [start, start + count), which must be in one zone."""
    frame, end = start, start + count
    while frame < end:
        if frame & 63 == 0 and end - frame >= 64:
            bits[frame >> 6] = -1
            frame += 64
        else:
            bits[frame >> 6] |= _ONE << (frame & 63)
            frame += 1
    zone = 1 if start >> 6 >= s.first[1] else 0
    s.free[zone] += count
    for order in range(ORDERS):
        step = _ONE << max(0, order - 6)
        s.low[zone, order] = min(s.low[zone, order], (start >> 6) // step * step)
