"""Track which stores may have arrived in persistent memory when power fails, by the rules of x86.

A stored line may be written back at any time (eviction), so each line persists with some prefix of its stores in program order,
independently of other lines.  After FLUSH and FENCE, or NTSTORE and FENCE, all earlier stores to the line have arrived.
Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 3, memory ordering, and CLWB, CLFLUSHOPT, SFENCE.

Simplified: in each of the first pages of a long run, three pieces persist independently: the first line, the last line, and all
lines between.  Later pages persist in larger pieces.  All lines of a run mean the same to a recovery, so the loss of any other
single line would show nothing new.
"""

import itertools
import math
import random
from bisect import bisect_left, insort
from collections.abc import Iterator

from scmsim.fs.recovery.image import LINE, PAGE, Image, Word, Write

FINE_PAGES = 512  # first pages of a run, which are split into lines
COARSE = 2 << 20  # later pages persist in pieces of this many bytes


class Extent:
    """The lines of bytes [low, high) and their stores that may not have arrived: (number, write) in program order.

    `flushed[cpu]` is n if the next fence of this CPU makes the first n of these stores durable.
    """

    __slots__ = ("flushed", "high", "low", "writes")

    def __init__(
        self, low: int, high: int, writes: list[tuple[int, Write]], flushed: dict[int, int] | None = None
    ) -> None:
        self.low, self.high, self.writes, self.flushed = low, high, writes, flushed or {}


class Cache:
    """All extents, and the image of the stores that have certainly arrived (`durable`)."""

    def __init__(self) -> None:
        self.durable = Image()
        self._starts: list[int] = []
        self._extents: dict[int, Extent] = {}

    def extents(self) -> list[Extent]:
        """Return the extents with stores that may be lost, by address."""
        return [self._extents[start] for start in self._starts]

    def store(self, number: int, write: Write, non_temporal: bool, cpu: int = 0) -> None:
        """Execute a store; `number` is its position among all stores."""
        length = 1 if isinstance(write, Word) else write.length
        for low, high in _pieces(write.addr, write.addr + length):
            for extent in self._cover(low, high, create=True):
                extent.writes.append((number, write))
                if non_temporal:
                    extent.flushed[cpu] = len(extent.writes)

    def flush(self, low: int, high: int, cpu: int = 0) -> None:
        """Begin to write back the lines of bytes [low, high)."""
        for extent in self._cover(low // LINE * LINE, -(-high // LINE) * LINE, create=False):
            extent.flushed[cpu] = len(extent.writes)

    def fence(self, cpu: int = 0) -> None:
        """Make durable what this CPU has flushed or stored non-temporally; a fence does not order other CPUs' stores."""
        arrived = []
        for extent in self.extents():
            if done := extent.flushed.pop(cpu, 0):
                arrived += [(number, write, extent) for number, write in extent.writes[:done]]
                del extent.writes[:done]
                extent.flushed = {other: count - done for other, count in extent.flushed.items() if count > done}
        for _, write, extent in sorted(arrived, key=lambda one: one[0]):
            self.durable.apply(write, extent.low, extent.high)
        self._extents = {start: extent for start, extent in self._extents.items() if extent.writes}
        self._starts = sorted(self._extents)

    def drain(self) -> None:
        """Make all stores durable, because with time all lines leave the cache, even without a flush."""
        for extent in self.extents():
            extent.flushed = {0: len(extent.writes)}
        self.fence()

    def after(self, extents: list[Extent], kept: tuple[int, ...]) -> Image:
        """Return the device's image after a crash in which extent i persisted its first `kept[i]` stores."""
        image = Image(self.durable)
        chosen = [
            (number, write, extent)
            for extent, count in zip(extents, kept, strict=True)
            for number, write in extent.writes[:count]
        ]
        chosen.sort(key=lambda one: one[0])
        for _, write, extent in chosen:
            image.apply(write, extent.low, extent.high)
        return image

    def _split(self, at: int) -> None:
        i = bisect_left(self._starts, at) - 1
        if i < 0:
            return
        extent = self._extents[self._starts[i]]
        if extent.low < at < extent.high:
            self._add(Extent(at, extent.high, list(extent.writes), dict(extent.flushed)))
            extent.high = at

    def _add(self, extent: Extent) -> Extent:
        insort(self._starts, extent.low)
        self._extents[extent.low] = extent
        return extent

    def _cover(self, low: int, high: int, create: bool) -> list[Extent]:
        """Return the extents of [low, high), split at its ends; with `create`, also create extents in the gaps."""
        self._split(low)
        self._split(high)
        found, at = [], low
        while at < high:
            i = bisect_left(self._starts, at)
            following = self._starts[i] if i < len(self._starts) else high
            if following == at:
                found.append(self._extents[at])
                at = found[-1].high
                continue
            stop = min(following, high)
            if create:
                found.append(self._add(Extent(at, stop, [])))
            at = stop
        return found


def _pieces(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield the pieces of the lines of bytes [low, high) that persist independently."""
    low, high = low // LINE * LINE, -(-high // LINE) * LINE
    fine = low + FINE_PAGES * PAGE
    while low < high:
        step = PAGE if low < fine else COARSE
        stop = min((low // step + 1) * step, high)
        if step == PAGE:
            yield from itertools.pairwise(sorted({low, min(low + LINE, stop), max(stop - LINE, low), stop}))
        else:
            yield low, stop
        low = stop


def choices(extents: list[Extent], lines: int, samples: int, seed: str) -> tuple[int, Iterator[tuple[int, ...]]]:
    """Return (number of possible states, states to check): all states for at most `lines` extents, else a sample.

    A sample begins with two states: all stores lost, and all stores arrived.  For up to `samples` / 4 extents, those of words
    before those of data, it has two more states each: only this extent lost, and only this extent arrived.  The remaining of the
    `samples` states are random.
    """
    most = [len(extent.writes) for extent in extents]
    total = math.prod(count + 1 for count in most)
    if len(extents) <= lines and total <= 4**lines:
        return total, itertools.product(*(range(count + 1) for count in most))
    return total, _sample(extents, most, samples, random.Random(seed))


def _sample(extents: list[Extent], most: list[int], samples: int, draw: random.Random) -> Iterator[tuple[int, ...]]:
    seen: set[tuple[int, ...]] = set()
    singles = sorted(range(len(most)), key=lambda i: (not isinstance(extents[i].writes[-1][1], Word), draw.random()))
    planned: list[tuple[int, ...]] = [tuple(0 for _ in most), tuple(most)]
    for i in singles[: samples // 4]:
        planned.append(tuple(0 if k == i else count for k, count in enumerate(most)))
        planned.append(tuple(count if k == i else 0 for k, count in enumerate(most)))
    for kept in planned[:samples]:
        if kept not in seen:
            seen.add(kept)
            yield kept
    for _ in range(2 * samples):
        if len(seen) >= samples:
            return
        share = draw.choice((0.1, 0.5, 0.9))
        kept = tuple(count if draw.random() < share else draw.randint(0, count) for count in most)
        if kept not in seen:
            seen.add(kept)
            yield kept
