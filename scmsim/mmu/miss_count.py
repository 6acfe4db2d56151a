"""Count the misses of one or two TLB arrays and nothing else, fast: exact LRU, up to 16 ways, one page size.

Rows of 16 tags of 32 bits make this twice as fast as the whole MMU.  A tag is a page number of 24 bits and the number of a
region of 2**24 pages (64 GiB of small pages); regions are numbered in order of appearance.  Programs touch fewer than 255
regions.  With more regions, `Tlbs.add` returns False; `mmu.simulate` has no such limit.
"""

from typing import NamedTuple

import numpy as np

from scmsim.jit import kernel, subroutine
from scmsim.jit.vectors import touch16_short

WAYS = 16  # most ways per set: slots of a row
BATCH = 1 << 15  # addresses that go through the first array before the second starts
REGION = 24  # log2 of the pages of a region
REGIONS = 255  # region number 255 would yield the tag of an empty slot
_FULL = -1


class Shape(NamedTuple):
    """One TLB array."""

    entries: int
    ways: int

    @property
    def sets(self) -> int:
        return self.entries // self.ways


class Tlbs:
    """One or two arrays and the regions seen so far.

    Parameters
    ----------
    first, second : Shape
        At most 16 ways; the number of sets is a power of two.  `second` may be None.
    order : int
        log2 of the page size.
    """

    def __init__(self, first: Shape, second: Shape | None, order: int) -> None:
        shapes = [first, *([second] if second else [])]
        self.order = order
        self.shape = np.array([(s.sets - 1, s.ways - 1) for s in shapes])
        self.tags = [_rows(s.sets) for s in shapes]
        self.regions = np.full(REGIONS, -1, np.int64)
        self.short = np.empty(BATCH, np.int64)
        self.misses = np.zeros(2, np.int64)

    def add(self, addresses: np.ndarray) -> bool:
        """Look up int64 addresses; return False and change nothing if the addresses touch too many regions."""
        seen = self.regions.copy()
        if not note_regions(addresses, self.order + REGION, seen):
            return False
        self.regions = seen
        _add(addresses, self.order, (self.regions, self.short), (self.tags[0], self.tags[-1]), self.shape, self.misses)
        return True


def _rows(sets: int) -> np.ndarray:
    """Return empty rows that start at a cache line."""
    room = np.full(sets * WAYS + 16, -1, np.int32)
    start = -room.ctypes.data % 64 // 4
    return room[start : start + sets * WAYS]


@kernel
def note_regions(addresses, shift, regions):
    """Assign a number to every region that the addresses touch; return False if there are too many."""
    differ = 0
    for i in range(addresses.size):  # addresses nearly always have one region, and LLVM vectorises this loop
        differ |= addresses[i] ^ addresses[0]
    if differ >> shift == 0:
        return number_of(regions, addresses[0] >> shift & 0x7FFFFFFFFF) != _FULL
    last = ~(addresses[0] >> shift)
    for i in range(addresses.size):
        region = addresses[i] >> shift
        if region != last:
            last = region
            if number_of(regions, region & 0x7FFFFFFFFF) == _FULL:
                return False
    return True


@subroutine
def number_of(regions, region):
    """Return the number of a region, assigning one if the region is new; -1 if all numbers are taken."""
    for k in range(regions.size):
        if regions[k] == region:
            return k
        if regions[k] < 0:
            regions[k] = region
            return k
    return _FULL


@kernel
def _add(addresses, order, room, tags, shape, misses):
    regions, short = room
    for start in range(0, addresses.size, BATCH):
        n = first_level(addresses[start : start + BATCH], order, regions, tags[0], shape[0], short)
        misses[0] += n
        if shape.shape[0] > 1:
            misses[1] += second_level(short, n, tags[1], shape[1])


@subroutine
def first_level(addresses, order, regions, tags, shape, short):
    """Write the 32-bit tags of the accesses that miss to `short`; return the number of misses."""
    shift, n, mask, last = order + REGION, 0, shape[0], shape[1]
    region, base, previous = ~(addresses[0] >> shift), 0, ~(addresses[0] >> order)
    for i in range(addresses.size):
        address = addresses[i]
        page = address >> order
        if page == previous:
            continue
        previous = page
        if address >> shift != region:
            region = address >> shift
            base = number_of(regions, region & 0x7FFFFFFFFF) << REGION
        tag = base | (page & 0xFFFFFF)
        short[n] = tag
        n += touch16_short(tags, (tag & mask) * WAYS, tag, last) == 0
    return n


@subroutine
def second_level(short, n, tags, shape):
    """Return how many of the accesses short[:n] miss."""
    mask, last, missed = shape[0], shape[1], 0
    for i in range(n):
        tag = short[i]
        missed += touch16_short(tags, (tag & mask) * WAYS, tag, last) == 0
    return missed
