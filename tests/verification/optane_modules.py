"""Interleaved modules or channels: a closed network of readers and writers, and a simulation of accesses at random places.

`mixed_gb_s` solves the network exactly.  Its stations are equal, and serve all lines that are there at once, each with an equal
share of the time, as those of `scmsim.result.queues`, but the lines of readers and of writers take different times.
`read_gb_s` and `store_gb_s` follow each granule of the threads' accesses through queues that serve in order and in constant
time.  A module accepts stores while its write buffer has room, so the buffer decouples the threads from the modules.

Units: bytes, ns.
"""

import heapq
import math
import random
from typing import NamedTuple

import numpy as np

PAGE = 4096  # bytes of an interleaved module before the next module follows
PLACES = 1 << 20  # accesses of a thread begin at that many places, all equally likely
COUNT = 20_000  # granules of a simulation; the first fifth is not measured


class Kind(NamedTuple):
    """Lines of the readers or of the writers."""

    lines: int  # in flight, of all threads together
    delay: float  # time of a line outside of the modules, ns
    service: float  # time of a line at its module, ns


def mixed_gb_s(readers: Kind, writers: Kind, modules: int) -> float:
    """Return the GB/s of readers and writers whose lines meet at the modules, each line at a random module."""
    whole = _log_weight(readers, writers, modules)
    rate = 0.0
    if readers.lines:
        rate += math.exp(_log_weight(readers._replace(lines=readers.lines - 1), writers, modules) - whole)
    if writers.lines:
        rate += math.exp(_log_weight(readers, writers._replace(lines=writers.lines - 1), modules) - whole)
    return 64 * rate


def _log_weight(readers: Kind, writers: Kind, modules: int) -> float:
    """Return the logarithm of the network's normalising constant, summed over the lines that are at the modules."""
    factorial = np.array([math.lgamma(n + 1) for n in range(readers.lines + writers.lines + modules)])
    reads, writes = np.arange(readers.lines + 1)[:, None], np.arange(writers.lines + 1)[None, :]
    found = factorial[reads + writes + modules - 1] - factorial[modules - 1]  # ways to spread them over equal modules
    for kind, here in ((readers, reads), (writers, writes)):
        away = kind.lines - here
        found = found - factorial[here] + here * math.log(kind.service / modules) - factorial[away]
        found = found + (away * math.log(kind.delay) if kind.delay else np.where(away, -np.inf, 0.0))
    largest = found.max()
    return float(largest + np.log(np.exp(found - largest).sum()))


class _Thread:
    """Where a thread's next granule is: accesses of `size` bytes, each at a random place that its size aligns."""

    def __init__(self, size: int, piece: int, chance: random.Random) -> None:
        self.size, self.piece, self.chance = size, piece, chance
        self.align = size & -size  # the study aligns to powers of two
        self._start()

    def _start(self) -> None:
        self.base, self.offset = int(self.chance.random() * PLACES) * self.align, 0

    def module(self, modules: int) -> int:
        """Return the module of the next granule, and go on to the one after it."""
        found = (self.base + self.offset) // PAGE % modules
        self.offset += self.piece
        if self.offset >= self.size:
            self._start()
        return found


def store_gb_s(threads: int, size: int, own: float, module: float, buffer: int, modules: int, granule: int) -> float:
    """Return the GB/s of threads that store `size` bytes at random places.

    `own` is the GB/s of a thread alone, `module` that of one module, `buffer` the size of its write buffer, `granule` the bytes
    that it writes at once.  Part of a granule takes the time of the whole.
    """
    chance = random.Random(1)
    piece, service = min(size, granule), granule / module
    placed = [_Thread(size, piece, chance) for _ in range(threads)]
    free = [0.0] * modules  # when the module will have written everything that its buffer holds
    waits = (buffer - granule) / module  # how long before that the buffer has room for one more granule
    soon = [(chance.random(), number) for number in range(threads)]
    heapq.heapify(soon)
    times = []
    for _ in range(COUNT):
        now, number = heapq.heappop(soon)
        at = placed[number].module(modules)
        accepted = max(now, free[at] - waits)
        free[at] = max(free[at], accepted) + service
        heapq.heappush(soon, (accepted + piece / own, number))
        times.append(accepted)
    return _rate(times, piece)


def read_gb_s(threads: int, size: int, own: float, window: float, module: float, modules: int, granule: int) -> float:
    """Return the GB/s of threads that load `size` bytes at random places.

    A thread has `window` bytes in flight, and reads whole granules with `own` GB/s if it is alone.  `module` is the GB/s of one
    module, which reads `granule` bytes at once.
    """
    chance = random.Random(1)
    piece, service = min(size, granule), granule / module
    delay = max(1, round(window / granule)) * granule / own - service
    placed = [_Thread(size, piece, chance) for _ in range(threads)]
    free = [0.0] * modules
    soon = [(chance.random(), number) for number in range(threads) for _ in range(max(1, round(window / piece)))]
    heapq.heapify(soon)
    times = []
    for _ in range(COUNT):
        now, number = heapq.heappop(soon)
        at = placed[number].module(modules)
        free[at] = max(free[at], now) + service
        heapq.heappush(soon, (free[at] + delay, number))
        times.append(now)
    return _rate(times, piece)


def _rate(times: list[float], piece: int) -> float:
    first = len(times) // 5
    return (len(times) - 1 - first) * piece / (times[-1] - times[first])
