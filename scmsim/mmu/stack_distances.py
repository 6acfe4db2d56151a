"""Exact LRU stack distances: for each access, the number of distinct pages since the previous access to the same page.

Every access has a time, and a bit for each time records whether a page was last used then: the distance is the number
of set bits between a page's last use and now.  The bits of all future times are set, so an access only clears one bit.
The bits are counted in a tree: a row of 512 bits has one count, 16 counts are a row of the next level, and so on.
Computing a distance reads one row of each level; the bits of 4 million times take half a MiB.  (A Fenwick tree of
times, as in Olken 1981, takes 20 dependent steps, three times per access.)

The last-use times of 16 neighbouring pages share a cache line; a hash table leads to the line.
"""

from collections.abc import Sequence

import numpy as np

from scmsim.core.errors import UsageError, shown
from scmsim.core.units import is_whole
from scmsim.jit import kernel, subroutine
from scmsim.jit.vectors import take_bit, take_one
from scmsim.mmu.state import ADDRESS

BATCH = 1 << 10  # accesses whose pages are found before the first distance is counted
_BITS = 512  # bits of a row
_LANES = 16  # counts of a row, and pages of a group
_NOW, _GROUPS, _PAGES = range(3)
_LONGEST = 1 << 31  # times are signed 32-bit numbers


def checked_order(order: int) -> int:
    """Return the order of a page size; raises UsageError for an order out of range."""
    if not is_whole(order) or not 12 <= order <= 30:
        raise UsageError(f"order must be log2 of a page size, from 12 (4KiB) to 30 (1GiB), not {shown(order)}")
    return int(order)


class Curve:
    """Exact LRU stack distances: the misses of a fully associative TLB of any capacity.

    Memory use grows with the number of distinct pages, not with the number of accesses.

    Parameters
    ----------
    order : int
        log2 of the page size.
    """

    def __init__(self, order: int) -> None:
        self.order, self.accesses = checked_order(order), 0
        # open-addressing hash table: page // 16 -> number of the group, whose times of last use are in `_used`
        self._table = np.full((4 * BATCH, 2), -1, np.int64)
        self._used = np.zeros(2 * BATCH * _LANES, np.int32)  # time of the last use, 0 = never
        self._counts = np.zeros(3, np.int64)
        self._times(4 * BATCH)
        self.found = np.zeros(2 * BATCH, np.int64)  # accesses by stack distance (0: same page as the previous access)

    def add(self, addresses: np.ndarray, out: np.ndarray | None = None) -> None:
        """Count the stack distances of int64 addresses; also write them to `out` if given (-1 for a first access)."""
        distances, i = out if out is not None else np.zeros(0, np.int64), 0
        self.accesses += len(addresses)
        room = np.empty((3, BATCH), np.int64)
        while i < len(addresses):
            pages, tree = (self._table, self._used), (self._bits, self._sums, self._level)
            i = _distances((self._counts, pages, tree), (self.found, distances), addresses, i, self.order, room)
            if i < len(addresses):
                self._make_room()

    def _make_room(self) -> None:
        groups, pages = int(self._counts[_GROUPS]), int(self._counts[_PAGES])
        if 2 * (groups + BATCH) > len(self._table):
            old, self._table = self._table, np.full((2 * len(self._table), 2), -1, np.int64)
            _rehash(old, self._table)
        self._used = _longer(self._used, (groups + BATCH) * _LANES)
        self.found = _longer(self.found, pages + BATCH)
        if self._counts[_NOW] + BATCH >= self._last:
            self._number_anew(self._used[: groups * _LANES])
            self._counts[_NOW] = pages
            self._times(4 * (pages + BATCH))

    def _number_anew(self, used: np.ndarray) -> None:
        """Renumber the last uses as 1, 2, 3 ... in the same order; time 0 means never used."""
        times = np.cumsum(np.unpackbits(self._bits.view(np.uint8), bitorder="little"), dtype=np.int32)
        used[:] = times[used] - 1

    def _times(self, times: int) -> None:
        """Allocate a tree for at least `times` times, with all bits set."""
        rows = -(-times // (_BITS * _LANES)) * _LANES
        if rows * _BITS >= _LONGEST:
            raise UsageError("found more than 500 million distinct pages; use a share (--sample), or larger pages")
        self._last = rows * _BITS - 1
        self._bits, levels = _rows(rows * 8, np.int64), [np.full(rows, _BITS, np.int32)]
        self._bits[:] = -1
        while len(levels[-1]) > _LANES:
            sums = levels[-1].reshape(-1, _LANES).sum(axis=1, dtype=np.int32)
            levels.append(np.concatenate([sums, np.zeros(-len(sums) % _LANES, np.int32)]))
        self._sums = _rows(sum(map(len, levels)), np.int32)
        self._sums[:] = np.concatenate(levels)
        self._level = np.cumsum([0, *map(len, levels)])  # start of each level, and the end

    def misses(self, capacities: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the int64 misses for each capacity in entries."""
        hits = np.concatenate([[0], np.cumsum(self.found)])
        return self.accesses - hits[np.minimum(np.asarray(capacities, np.int64), len(hits) - 1)]

    @property
    def pages(self) -> int:
        """Return the number of distinct pages so far."""
        return int(self._counts[_PAGES])


def _rows(lanes: int, kind: type) -> np.ndarray:
    """Return an uninitialised array that starts at a cache line."""
    room: np.ndarray = np.empty(lanes + 64 // np.dtype(kind).itemsize, kind)
    start = -room.ctypes.data % 64 // room.itemsize
    return room[start : start + lanes]


def _longer(array: np.ndarray, least: int) -> np.ndarray:
    """Return the array, extended to twice its length if it is shorter than `least`."""
    return array if len(array) >= least else np.concatenate([array, np.zeros(len(array), array.dtype)])


@kernel
def _distances(state, out, addresses, start, order, room):
    """Process accesses until the arrays are full; return the index of the first unprocessed access."""
    counts, pages, tree = state
    found, distances = out
    while start < addresses.size:
        full = 2 * (counts[_GROUPS] + BATCH) > pages[0].shape[0] or counts[_PAGES] + BATCH > found.size
        if full or (counts[_GROUPS] + BATCH) * _LANES > pages[1].size or counts[_NOW] + BATCH >= 64 * tree[0].size - 1:
            break
        part = addresses[start : start + BATCH]
        n = find_pages(counts, pages, part, order, room)
        found[0] += part.size - n
        distances[start : start + part.size] = 0
        count_distances(counts, pages[1], tree, room, n, (found, distances[start:]))
        start += part.size
    return start


@subroutine
def find_pages(counts, pages, addresses, order, room):
    """Write the place of each page's last use to room[0], skipping repeats of the previous page; return the number of places.

    room[1] has the indices of the accesses.  room[2] prefetches: it reads each last-use time so that many cache misses
    overlap.
    """
    (table, used), n, previous = pages, 0, -1
    for i in range(addresses.size):
        page = (addresses[i] & ADDRESS) >> order
        if page == previous:
            continue
        previous = page
        row = slot(table, page >> 4)
        if table[row, 0] < 0:
            table[row, 0], table[row, 1] = page >> 4, counts[_GROUPS]
            counts[_GROUPS] += 1
        at = table[row, 1] * _LANES + (page & 15)
        room[0, n], room[1, n], room[2, n] = at, i, used[at]
        n += 1
    return n


@subroutine
def count_distances(counts, used, tree, room, n, out):
    """Count the stack distances of the accesses that `find_pages` wrote."""
    (found, distances), (bits, sums, level) = out, tree
    now, last, known = counts[_NOW], 64 * bits.size - 1, 0
    for k in range(n):
        at = room[0, k]
        before, distance = used[at], -1
        now += 1
        used[at] = now
        if before > 0:
            # bits of future times are all set, so subtract the future ones
            distance = ones_behind(bits, sums, level, before) - (last - now + 1)
            room[2, known] = distance
            known += 1
        if distances.size > 0:
            distances[room[1, k]] = distance
    for k in range(known):
        found[room[2, k]] += 1
    counts[_NOW] = now
    counts[_PAGES] += n - known


@subroutine
def ones_behind(bits, sums, level, time):
    """Clear the bit of a time; return how many later bits are set."""
    row = time >> 9
    ones = take_bit(bits, row * 8, time & 511)
    for k in range(level.size - 1):
        ones += take_one(sums, level[k] + (row & -16), row & 15)
        row >>= 4
    return ones


@subroutine
def slot(table, wanted):
    """Return the hash table's row for a group of pages: the row that has the group, or the empty row to insert it in."""
    row = (wanted * 0x1E3779B97F4A7C15 >> 24) & (table.shape[0] - 1)
    while table[row, 0] != wanted and table[row, 0] != -1:
        row = (row + 1) & (table.shape[0] - 1)
    return row


@kernel
def _rehash(old, table):
    for i in range(old.shape[0]):
        if old[i, 0] != -1:
            row = slot(table, old[i, 0])
            table[row, 0], table[row, 1] = old[i, 0], old[i, 1]
