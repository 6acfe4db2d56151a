"""Solve a closed queueing network: how many calls N threads complete if they wait for each other at shared stations.

The solution is exact for a product-form network (processor sharing, or first come first served with exponential times).  It is
computed by convolution, whose terms are all positive, so that no rounding errors grow by cancellation.  Every thread has one call
under way; between stations the thread computes alone for `delay` ns.  The speed of a station may depend on the number of threads
there (`rates`).  Units: ns.  Source: Buzen, Computational algorithms for closed queueing networks, CACM 1973; Reiser and
Lavenberg, Mean-value analysis, JACM 1980 (the same solution, the reference in the tests).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Station:
    """Shared part of the machine at which threads wait for each other."""

    name: str  # name of the part
    demand: float  # time that a call spends at the station if no other thread is there, ns
    # speed by the number of threads at the station, relative to one thread; by default always 1
    rates: Callable[[int], float] | None = None


@dataclass(frozen=True)
class Load:
    """State of the network with a number of threads."""

    threads: int  # number of threads
    calls_per_ns: float  # completed calls of all threads together, per ns
    present: dict[str, float]  # mean number of threads at each station, including waiting ones
    busy: dict[str, float]  # share of the time in which each station is busy
    waiting: dict[str, float]  # mean time of a call at each station beyond the station's demand, ns

    @property
    def call_ns(self) -> float:
        """Return the mean time of a call."""
        return self.threads / self.calls_per_ns


def solve(threads: int, delay: float, stations: Sequence[Station]) -> Load:
    """Return the state of the network with `threads` threads, each of which computes alone for `delay` ns per call.

    Raises ValueError if a call takes no time at all, or there is no thread.
    """
    total = delay + sum(station.demand for station in stations)
    if threads < 1 or total <= 0:
        raise ValueError("the network needs a thread and a call that takes time")
    # about the time between two completed calls: with this unit, the terms of many threads neither overflow nor vanish
    scale = max([total / threads, *(station.demand for station in stations)])
    own = {station.name: _weights(station, threads, scale) for station in stations}
    alone = [1.0]
    for count in range(1, threads + 1):  # `delay` acts like a station with a server for each thread
        alone.append(alone[-1] * delay / scale / count)
    ways = _convolved([alone, *own.values()])
    present, busy = {}, {}
    for name, weights in own.items():
        others = _convolved([alone, *(given for other, given in own.items() if other != name)])
        shares = [weights[here] * others[threads - here] / ways[threads] for here in range(threads + 1)]
        present[name] = sum(here * share for here, share in enumerate(shares))
        busy[name] = 1 - shares[0]
    rate = ways[threads - 1] / ways[threads] / scale
    waiting = {station.name: max(0.0, present[station.name] / rate - station.demand) for station in stations}
    return Load(threads, rate, present, busy, waiting)


def _weights(station: Station, threads: int, scale: float) -> list[float]:
    """Return the unnormalised probability of 0, 1, ... threads at a station."""
    found = [1.0]
    for count in range(1, threads + 1):
        speed = station.rates(count) if station.rates else 1.0
        found.append(found[-1] * station.demand / scale / speed)
    return found


def _convolved(parts: Sequence[Sequence[float]]) -> list[float]:
    """Return the unnormalised probability of 0, 1, ... threads at all parts together."""
    found = list(parts[0])
    for part in parts[1:]:
        found = [sum(part[here] * found[total - here] for here in range(total + 1)) for total in range(len(found))]
    return found
