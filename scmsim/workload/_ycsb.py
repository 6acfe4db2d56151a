"""Requests of the Yahoo! Cloud Serving Benchmark, core workloads A to F: which operation on which key number.

Mixes and distributions: workloads/workload[a-f] of brianfrankcooper/YCSB; generators: ZipfianGenerator,
ScrambledZipfianGenerator, SkewedLatestGenerator, CoreWorkload, Utils.FNVhash64 of YCSB (Gray et al., Quickly generating
billion-record synthetic databases, SIGMOD 1994).  The distributions match, quirks included (10^10 items for the scrambled
generator; a key space larger by twice the expected inserts, where a key not yet inserted is drawn again); the random
numbers are NumPy's, not Java's.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

READ, UPDATE, INSERT, SCAN, MODIFY = range(5)  # MODIFY reads a record and writes it back
# shares of read, update, insert, scan, read-modify-write; distribution of the keys
MIXES: dict[str, tuple[tuple[float, ...], str]] = {
    "a": ((0.5, 0.5, 0, 0, 0), "zipfian"),
    "b": ((0.95, 0.05, 0, 0, 0), "zipfian"),
    "c": ((1, 0, 0, 0, 0), "zipfian"),
    "d": ((0.95, 0, 0.05, 0, 0), "latest"),
    "e": ((0, 0, 0.05, 0.95, 0), "zipfian"),
    "f": ((0.5, 0, 0, 0, 0.5), "zipfian"),
}
DISTRIBUTIONS = ("zipfian", "latest", "uniform")
LONGEST_SCAN = 100  # largest number of records in a scan; the numbers are uniform from 1
THETA = 0.99
_ITEMS = 10_000_000_000
_ZETA_ITEMS = 26.46902820178302  # zeta of 10^10 items: a constant of ScrambledZipfianGenerator
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(1099511628211)


class Requests(NamedTuple):
    """A block of requests: operation, key number, records to scan (0 for other operations)."""

    kind: np.ndarray
    key: np.ndarray
    scan: np.ndarray


def requests(
    mix: str | tuple[Sequence[float], str],
    records: int,
    operations: int,
    seed: int,
    distribution: str = "",
    longest: int = LONGEST_SCAN,
    block: int = 1 << 14,
) -> Iterator[Requests]:
    """Yield `operations` requests of a workload in blocks; `records` were loaded before (keys 0 to records - 1).

    `mix` is "a" to "f", or shares of the operations and distribution of the keys, such as MIXES["a"]; `distribution`, if given,
    replaces the mix's.  A scan has at most `longest` records.
    """
    shares, own = MIXES[mix] if isinstance(mix, str) else mix
    random = np.random.default_rng(seed)
    last = records - 1  # the newest key
    chooser = _chooser(distribution or own, records, int(operations * shares[INSERT] * 2))
    for first in range(0, operations, block):
        count = min(block, operations - first)
        kind = random.choice(5, count, p=shares)
        newest = last + np.cumsum(kind == INSERT)
        key = chooser(random, newest)
        key[kind == INSERT] = newest[kind == INSERT]
        scan = np.where(kind == SCAN, random.integers(1, longest + 1, count), 0)
        last = int(newest[-1])
        yield Requests(kind, key, scan)


def _chooser(name: str, records: int, expected: int) -> Callable[[np.random.Generator, np.ndarray], np.ndarray]:
    """Return a function (generator, newest key at each request) -> key numbers up to that key."""
    if name == "latest":
        latest = Latest(records)
        return lambda random, newest: newest - latest.draw(random.random(len(newest)), newest + 1)
    space = records + expected + 1 if name == "zipfian" else records

    def draw(random: np.random.Generator, count: int) -> np.ndarray:
        if name == "uniform":
            return random.integers(0, space, count)
        return fnv(zipfian(random.random(count), _ITEMS + 1, _ZETA_ITEMS)) % space

    def choose(random: np.random.Generator, newest: np.ndarray) -> np.ndarray:
        key = draw(random, len(newest))
        while len(again := np.flatnonzero(key > newest)):
            key[again] = draw(random, len(again))
        return key

    return choose


def zipfian(uniform: np.ndarray, items: "int | np.ndarray", zeta: "float | np.ndarray", known: int = 0) -> np.ndarray:
    """Return Zipf-distributed ranks below `items` (0: the most popular) for uniform numbers in [0, 1).

    `zeta` is the zeta sum of `items`; `known`, if not 0, is the number of items from which YCSB computed its constant eta.
    """
    zeta_two = 1 + 0.5**THETA
    rest = 1 - zeta_two / zeta  # 0 for two items, which do not need eta
    eta = (1 - (2.0 / (known or items)) ** (1 - THETA)) / np.where(np.abs(rest) < 1e-9, 1.0, rest)
    scaled = uniform * zeta
    rank = (items * (eta * uniform - eta + 1) ** (1 / (1 - THETA))).astype(np.int64)
    return np.where(scaled < 1, 0, np.where(scaled < zeta_two, 1, rank))


class Latest:
    """Generator of Zipf-distributed ranks over a growing number of items; it extends the zeta sum as the number grows."""

    def __init__(self, items: int) -> None:
        self.known, self.items = items, items
        self.zeta = _zeta(0, items)

    def draw(self, uniform: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return a rank for each uniform number, below its element of `items`, which must not decrease."""
        added = np.arange(self.items, int(items[-1])) + 1.0
        sums = self.zeta + np.concatenate([[0.0], np.cumsum(added**-THETA)])
        zeta = sums[items - self.items]
        self.items, self.zeta = int(items[-1]), float(sums[-1])
        return np.minimum(zipfian(uniform, items, zeta, self.known), items - 1)


def fnv(values: np.ndarray) -> np.ndarray:
    """Return YCSB's 64-bit FNV-1a hash of integers: its absolute value as a signed number (int64)."""
    left = values.astype(np.uint64)
    digest = np.full(len(left), _FNV_OFFSET)
    for _ in range(8):
        digest = (digest ^ (left & np.uint64(0xFF))) * _FNV_PRIME
        left = left >> np.uint64(8)
    return np.abs(digest.view(np.int64))


def _zeta(low: int, high: int) -> float:
    """Return the sum of (i + 1)^-THETA for i from low to high - 1, a million at a time."""
    steps = range(low, high, 1 << 20)
    return float(
        sum(
            (np.arange(step, min(step + (1 << 20), high)) + 1.0) ** -THETA @ np.ones(min(1 << 20, high - step))
            for step in steps
        )
    )
