"""Choose sizes for calls of which only counters are known: a histogram, common sizes, and the sum of the bytes.

The number of calls and their bytes always equal the counters.  The sizes follow the histogram and the common sizes
as far as the counters agree with each other.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

LARGEST = (
    100,
    1 << 10,
    10 << 10,
    100 << 10,
    1 << 20,
    4 << 20,
    10 << 20,
    100 << 20,
    1 << 30,
    1 << 60,
)  # largest size of each class of Darshan's histograms, bytes
_TRIES = 50  # maximum number of moves of calls between reads and writes
Known = tuple[int, int]  # a size, and how many calls have it


class Total(NamedTuple):
    """The calls of one direction: their number, their bytes and their numbers by class of size (empty: not counted)."""

    calls: int
    bytes: int
    classes: tuple[int, ...] = ()


def class_of(size: int) -> int:
    """Return the class of a size in Darshan's histograms."""
    return bisect_left(LARGEST, size)


def sizes(reads: Total, writes: Total, known: Sequence[Known]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes of the reads and of the writes as int64 arrays, equal sizes spread evenly.

    `known` has the sizes that were counted over reads and writes together.
    """
    shares = _Shares(reads, writes, [(size, count) for size, count in known if size <= LARGEST[-1] and count > 0])
    shares.improve()
    return tuple(_spread(_groups(total, fixed)) for total, fixed in shares.sides())  # type: ignore[return-value]


@dataclass
class _Shares:
    """The number of reads among the calls of each known size; the rest are writes."""

    reads: Total
    writes: Total
    known: list[Known]

    def __post_init__(self) -> None:
        left = [dict(enumerate(total.classes)) for total in (self.reads, self.writes)]
        self.of_reads: list[int] = []
        for index, (size, count) in enumerate(self.known):
            k = class_of(size)
            rest = [classes.get(k, 0) for classes in left]
            count = min(count, sum(rest))
            self.known[index] = size, count
            share = round(count * rest[0] / max(sum(rest), 1))
            share = min(max(share, count - rest[1]), rest[0])
            self.of_reads.append(share)
            left[0][k], left[1][k] = rest[0] - share, rest[1] - count + share

    def sides(self) -> list[tuple[Total, list[Known]]]:
        """Return, for reads and for writes, the total and the known sizes with their numbers of calls."""
        pairs = list(zip(self.known, self.of_reads, strict=True))
        reads = [(size, share) for (size, _), share in pairs if share]
        writes = [(size, count - share) for (size, count), share in pairs if count > share]
        return [(self.reads, reads), (self.writes, writes)]

    def _excess(self) -> int:
        return sum(abs(_excess(total, fixed)) for total, fixed in self.sides())

    def improve(self) -> None:
        """Move calls between reads and writes while a move brings the sums of bytes nearer to the counters."""
        for _ in range(_TRIES):
            before = self._excess()
            if not before or not any(self._try(move, before) for move in self._moves()):
                return

    def _moves(self) -> Iterable[dict[int, int]]:
        """Yield changes of the numbers of reads, by known size."""
        excess = _excess(*self.sides()[0]) or -_excess(*self.sides()[1])
        for i, (size, _) in enumerate(self.known):
            for other in (0 if class_of(size) == 0 else LARGEST[class_of(size) - 1] + 1, LARGEST[class_of(size)]):
                for step in _steps(excess, size - other):
                    yield {i: step}
        for (i, (one, _)), (j, (other, _)) in combinations(enumerate(self.known), 2):
            if class_of(one) == class_of(other):
                for step in _steps(excess, one - other):
                    yield {i: step, j: -step}

    def _try(self, move: dict[int, int], before: int) -> bool:
        """Make a move if it is possible and helps; return whether it was made."""
        old, self.of_reads = self.of_reads, self.of_reads.copy()
        for i, step in move.items():
            self.of_reads[i] += step
        if all(0 <= self.of_reads[i] <= self.known[i][1] for i in move):
            if all(min(_free(*side), default=0) >= 0 for side in self.sides()) and self._excess() < before:
                return True
        self.of_reads = old
        return False


def _steps(excess: int, difference: int) -> tuple[int, ...]:
    if not difference:
        return ()
    step = excess // difference
    return step, step + 1


def _free(total: Total, fixed: Sequence[Known]) -> list[int]:
    """Return how many calls of each class have no known size."""
    free = list(total.classes)
    for size, count in fixed:
        free[class_of(size)] -= count
    return free


def _range(total: Total, fixed: Sequence[Known]) -> tuple[int, int]:
    """Return the least and the most bytes that the calls without a known size can have."""
    free = _free(total, fixed)
    least = sum(count * (LARGEST[k - 1] + 1) for k, count in enumerate(free) if k)
    return least, sum(count * LARGEST[k] for k, count in enumerate(free))


def _excess(total: Total, fixed: Sequence[Known]) -> int:
    """Return how many bytes no choice of sizes can reach (positive) or avoid (negative); 0 if some choice has the right sum."""
    rest = total.bytes - sum(size * count for size, count in fixed)
    least, most = _range(total, fixed)
    return min(rest - least, 0) or max(rest - most, 0)


def _groups(total: Total, fixed: list[Known]) -> list[Known]:
    """Return pairs of a size and its number of calls, which add up to the calls and the bytes of `total`."""
    if _excess(total, fixed):
        fixed = []
    if sum(total.classes) != total.calls or _excess(
        total, fixed
    ):  # no histogram, or counters that contradict each other
        low, more = divmod(total.bytes, max(total.calls, 1))
        return [(low, total.calls - more), (low + 1, more)]
    rest = total.bytes - sum(size * count for size, count in fixed)
    least, most = _range(total, fixed)
    above, room, out = rest - least, most - least, list(fixed)
    for k, count in enumerate(_free(total, fixed)):
        if count:
            low = LARGEST[k - 1] + 1 if k else 0
            own = count * (LARGEST[k] - low)
            extra = above * own // room if room else 0
            above, room = above - extra, room - own
            each, more = divmod(extra, count)
            out += [(low + each, count - more), (low + each + 1, more)]
    return out


def _spread(groups: Sequence[Known]) -> np.ndarray:
    """Return the sizes in an order in which each group is spread evenly; a size that occurs once is at the end."""
    groups = sorted(((size, count) for size, count in groups if count), reverse=True)
    if not groups:
        return np.empty(0, np.int64)
    places = np.concatenate([np.arange(1, count + 1) / count for _, count in groups])
    lengths = np.repeat([size for size, _ in groups], [count for _, count in groups]).astype(np.int64)
    return lengths[np.argsort(places, kind="stable")]
