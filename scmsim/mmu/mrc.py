"""Count the misses of every geometry in one pass: all set counts and associativities, and every capacity.

Under LRU the pages of a set of w ways are the w most recent pages of that set (stack property, Mattson et al., IBM
Systems Journal 1970): the position at which an access finds its page determines for every w whether it misses.  So one
table of 16 ways for each number of sets yields all associativities up to 16 (Hill and Smith, IEEE TC 1989), and the
number of distinct pages since the last access (`stack_distances`) yields the misses of a fully associative TLB of any
capacity.  Both are exact.

`Sample` follows only a share of the pages (SHARDS, Waldspurger et al., FAST 2015).  At TLB sizes its miss ratios are off by
percentage points.  It is for capacities of 100,000 pages and more, and states an interval from the spread between 16 groups
of pages.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scmsim.core.errors import UsageError, shown
from scmsim.core.units import is_whole
from scmsim.jit import kernel, subroutine
from scmsim.jit.vectors import touch16_short
from scmsim.mmu.miss_count import REGION, REGIONS, WAYS, note_regions, number_of
from scmsim.mmu.stack_distances import Curve, checked_order
from scmsim.mmu.state import ADDRESS

SETS = tuple(1 << k for k in range(12))
_GROUPS = 16  # groups of pages, for the interval of a sample
_T_95 = 2.131  # Student's t, 97.5 %, 15 degrees of freedom: the spread of 16 groups is itself an estimate
_HASH_BITS = 24


class Geometries:
    """Misses of all set counts x associativities for one page size.

    Parameters
    ----------
    order : int
        log2 of the page size.
    sets : sequence of int
        Powers of two.

    Raises ValueError from `add` for more than 255 regions of 2**24 pages.
    """

    def __init__(self, order: int, sets: Sequence[int] = SETS) -> None:
        if not isinstance(sets, Iterable) or not all(is_whole(n) and n > 0 and n & (n - 1) == 0 for n in sets):
            raise UsageError(f"sets must be a list of powers of two, not {shown(sets)}")
        self.order, self.sets, self.accesses = checked_order(order), np.array(sets, np.int64), 0
        self._tags = np.full(int(self.sets.sum()) * WAYS + 16, -1, np.int32)
        self._start = -self._tags.ctypes.data % 64 // 4
        # indexed by the mask that a look-up returns
        self._found = np.zeros((len(sets), (1 << WAYS) // 2 + 1), np.int64)
        self._regions, self._short = np.full(REGIONS, -1, np.int64), np.empty(1 << 15, np.int64)
        self._skipped = 0

    def add(self, addresses: np.ndarray) -> None:
        """Look up int64 addresses."""
        if not len(addresses):
            return
        if not note_regions(addresses, self.order + REGION, self._regions):
            raise ValueError("more than 255 regions")
        self.accesses += len(addresses)
        self._skipped += _add(
            addresses, self.order, (self._regions, self._short), self._tags[self._start :], self.sets, self._found
        )

    def misses(self) -> np.ndarray:
        """Return the misses with 1 to 16 ways: int64, shape (sets, 16)."""
        hits = np.stack([self._found[:, 1 << way] for way in range(WAYS)], axis=1)
        hits[:, 0] += self._skipped  # accesses to the same page as the previous access hit in every geometry
        return self.accesses - np.cumsum(hits, axis=1)


@kernel
def _add(addresses, order, room, tags, sets, found):
    regions, short = room
    skipped = 0
    for start in range(0, addresses.size, short.size):
        part_ = addresses[start : start + short.size]
        n = shorten(part_, order, regions, short)
        skipped += part_.size - n
        first = 0
        for k in range(sets.size):
            look_up(short, n, tags[first:], sets[k] - 1, found[k])
            first += sets[k] * WAYS
    return skipped


@subroutine
def shorten(addresses, order, regions, short):
    """Write the 32-bit tags of the accesses, except repeats of the previous page, to `short`; return the number of tags."""
    shift, n = order + REGION, 0
    region, previous, base = ~(addresses[0] >> shift), ~(addresses[0] >> order), 0
    for i in range(addresses.size):
        address = addresses[i]
        page = address >> order
        if page == previous:
            continue
        previous = page
        if address >> shift != region:
            region = address >> shift
            base = number_of(regions, region & 0x7FFFFFFFFF) << REGION
        short[n] = base | (page & 0xFFFFFF)
        n += 1
    return n


@subroutine
def look_up(short, n, tags, mask, found):
    """Look up tags in one table of 16 ways, and count them by the mask of the way where each is found."""
    for i in range(n):
        tag = short[i]
        found[touch16_short(tags, (tag & mask) * WAYS, tag, WAYS - 1)] += 1


class Sample:
    """Misses of large fully associative TLBs, estimated from a share of the pages.

    Parameters
    ----------
    order : int
        log2 of the page size.
    rate : float
        Share of the pages that are followed, 0 < rate <= 1.
    capacities : sequence of int
        TLB sizes, in entries; the estimate is meaningful if rate x capacity is at least some thousands.
    """

    def __init__(self, order: int, rate: float, capacities: Sequence[int]) -> None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
            raise UsageError(f"rate must be a share of the pages, more than 0 and at most 1, not {shown(rate)}")
        self.order, self.accesses = checked_order(order), 0
        self._limit = max(1, round(rate * (1 << _HASH_BITS)))
        self.rate = self._limit / (1 << _HASH_BITS)
        self.capacities = np.array(sorted(capacities), np.int64)
        self._curve = Curve(order)
        self._taken = np.zeros(_GROUPS, np.int64)
        self._hits = np.zeros((_GROUPS, len(self.capacities)), np.int64)

    def add(self, addresses: np.ndarray) -> None:
        """Count the stack distances of int64 addresses on sampled pages."""
        self.accesses += len(addresses)
        pages = (addresses & ADDRESS) >> self.order
        mixed = pages * np.int64(0x1E3779B97F4A7C15)
        mixed ^= mixed >> np.int64(29)
        mixed *= np.int64(0x3F58476D1CE4E5B9)
        chosen = (mixed >> np.int64(32)) & ((1 << _HASH_BITS) - 1) < self._limit
        kept = addresses[chosen]
        distances = np.empty(len(kept), np.int64)
        self._curve.add(kept, distances)
        group = (mixed[chosen] >> np.int64(57)) & (_GROUPS - 1)
        self._taken += np.bincount(group, minlength=_GROUPS)
        seen = distances >= 0
        # index of the smallest capacity at which the access hits
        fits = np.searchsorted(self.capacities, distances[seen] / self.rate, side="right")
        columns = len(self.capacities) + 1
        cells = np.bincount(group[seen] * columns + fits, minlength=_GROUPS * columns).reshape(_GROUPS, columns)
        self._hits += np.cumsum(cells, axis=1)[:, :-1]

    @property
    def pages(self) -> int:
        """Return the estimated number of distinct pages."""
        return round(self._curve.pages / self.rate)

    def misses(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimated misses for each capacity, and the half-width of their 95 % interval, as floats.

        The interval comes from leaving out one of 16 groups of pages at a time (jackknife).  The estimate corrects for the
        number of accesses by which the sample differs from its expected share (SHARDS-adj).
        """
        expected = self.accesses * self.rate

        def ratio(hits: np.ndarray, taken: float, share: float) -> np.ndarray:
            return np.clip(1 - (hits + expected * share - taken) / max(expected * share, 1), 0, 1)

        whole = ratio(self._hits.sum(0), self._taken.sum(), 1)
        less = np.array(
            [
                ratio(self._hits.sum(0) - self._hits[g], self._taken.sum() - self._taken[g], 1 - 1 / _GROUPS)
                for g in range(_GROUPS)
            ]
        )
        spread = np.sqrt((_GROUPS - 1) / _GROUPS * ((less - less.mean(0)) ** 2).sum(0))
        return whole * self.accesses, _T_95 * spread * self.accesses


def geometries(
    addresses: Iterable[np.ndarray], orders: Sequence[int] = (12,), sets: Sequence[int] = SETS
) -> dict[int, np.ndarray]:
    """Return the misses of all shapes: log2 of the page size -> int64 array of shape (sets, 16 ways); see `Geometries`."""
    tables = {order: Geometries(order, sets) for order in orders}
    for part_ in addresses:
        for table in tables.values():
            table.add(part_)
    return {order: table.misses() for order, table in tables.items()}
