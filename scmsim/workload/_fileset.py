"""Filebench's file sets, to the byte: glibc's unseeded drand48 and Knuth's gamma generators determine tree and sizes.

Source: Filebench 1.5-alpha3, fileset.c (fileset_populate), gamma_dist.c; D. Knuth, TAOCP vol. 2, 3.4.1 (algorithms A and G);
drand48: POSIX, with glibc's initial state 0; rand: glibc's additive generator, seed 1.
"""

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

from scmsim.core.errors import UsageError

_MASK = (1 << 48) - 1
_MULTIPLIER, _INCREMENT = 0x5DEECE66D, 0xB
MAX_DEPTH = 200  # limit of directory levels, which Filebench lacks


class Drand48:
    """glibc's drand48 without a seed: a 48-bit linear congruential generator with initial state 0."""

    def __init__(self) -> None:
        self.state = 0

    def __call__(self) -> float:
        self.state = (_MULTIPLIER * self.state + _INCREMENT) & _MASK
        return self.state / (1 << 48)


class Gamma(NamedTuple):
    """A cvar-gamma: mean, shape, limits, and the step to whose multiples a drawn value is rounded (`most`, `step`: 0 for none)."""

    mean: float
    gamma: float
    least: int = 0
    most: int = 0
    step: int = 0

    def draw(self, uniform: Drand48) -> int:
        """Draw one value as a whole number."""
        value = gamma(uniform, self.gamma, self.mean / self.gamma)
        if self.step:
            whole = int(value)
            lower = whole - whole % self.step
            value = float(lower + self.step if whole - lower > lower + self.step - whole else lower)
        value = max(value, self.least)
        return int(min(value, self.most) if self.most else value)


class RandVar:
    """A random variable of a .f file; it draws from erand48 with its own state, or with `randsrc=urandom` from a seeded generator.

    Source: Filebench 1.5-alpha3, fb_random.c (randdist_init, rand_*_get).
    """

    def __init__(
        self,
        kind: str,
        mean: float,
        shape: float,
        least: int,
        step: int,
        table: tuple[tuple[int, int, int], ...] = (),
        seed: int = 0,
        urandom: bool = False,
    ) -> None:
        self.kind, self.mean, self.shape, self.least, self.step = kind, mean, shape, least, step
        self.seed, self.urandom, self.rows = seed, urandom, [(0.0, 0.0)] * 100
        if kind == "gamma" and not mean:
            self.mean = shape
        if kind == "tabular":
            self._normalise(table)

    def _normalise(self, table: tuple[tuple[int, int, int], ...]) -> None:
        """Convert the table to 100 rows (base, range), one per percent, scaled to a least value of 0 and a mean of 1."""
        lowest = min(low for _, low, _ in table)
        mean = sum((low + high) / 2 * share for share, low, high in table) / 100
        self.mean = self.mean or mean
        unit = mean - lowest
        if unit:
            rows = [((low - lowest) / unit, (high - low) / unit) for share, low, high in table for _ in range(share)]
            self.rows = (rows + self.rows)[:100]

    def stream(self, seed: int) -> Iterator[float]:
        """Yield the values in order; `seed` replaces /dev/urandom (`randsrc=urandom`) so that a run repeats."""
        uniform = Drand48()
        if self.urandom:
            draws = random.Random(f"{seed} {self.seed} {self.kind}")
            uniform = draws.random  # type: ignore[assignment]
        else:
            uniform.state = self.seed & _MASK
        while True:
            yield self._rounded(self._one(uniform))

    def _one(self, uniform: Drand48) -> float:
        spread = self.mean - self.least
        if self.kind == "uniform":
            return uniform() * (2.0 * spread) + self.least
        if self.kind == "gamma":
            return gamma(uniform, self.shape, spread / self.shape) + self.least
        share = uniform() * 100
        base, reach = self.rows[int(share)]
        return (base + reach * (share - int(share))) * spread + self.least

    def _rounded(self, value: float) -> float:
        if not self.step:
            return value
        steps = value / self.step
        return (math.floor(steps + 0.5) if steps >= 0 else math.ceil(steps - 0.5)) * float(self.step)


def gamma(uniform: Drand48, shape: float, scale: float) -> float:
    """Return one gamma-distributed number: Knuth's algorithm A for a shape above 1, else G."""
    return scale * (_tangent(uniform, shape) if shape > 1 else _rejection(uniform, shape))


def _tangent(uniform: Drand48, a: float) -> float:
    root = math.sqrt(2 * a - 1)
    while True:
        y = math.tan(math.pi * uniform())
        x = root * y + a - 1
        if x > 0 and uniform() <= (1 + y * y) * math.exp((a - 1) * math.log(x / (a - 1)) - root * y):
            return x


def _rejection(uniform: Drand48, a: float) -> float:
    p = math.e / (a + math.e)
    while True:
        u = uniform()
        v = 0.0
        while v == 0:
            v = uniform()
        if u < p:
            x = v ** (1 / a)
            q = math.exp(-x)
        else:
            x = 1 - math.log(v)
            q = x ** (a - 1)
        if uniform() < q:
            return x


class Tree:
    """A populated file set: `folders` (parent, name) in order of creation, `files` (folder, name), `sizes` in bytes.

    Folder -1 is the file set's root directory.
    """

    def __init__(
        self,
        entries: int,
        width: int,
        shape: int,
        size: int | Gamma | Iterator[float],
        uniform: Drand48,
        leaves: int = 0,
    ) -> None:
        self.entries, self.uniform, self.shape, self.size = entries, uniform, shape / 1000.0, size
        self.mean_width, self.mean_depth = float(width), _mean_depth(entries + leaves, width)
        self.leaf_count = leaves
        self.folders: list[tuple[int, str]] = []
        self.files: list[tuple[int, str]] = []
        self.leaves: list[tuple[int, str]] = []  # directories that flowops make and remove
        self.sizes: list[int] = []
        self._populate(-1, "", 0, root=True)

    def _drawn(self, mean: float) -> float:
        return gamma(self.uniform, self.shape, mean / self.shape) if self.shape > 0 else mean

    def _size(self) -> int:
        if isinstance(self.size, int):
            return self.size
        return self.size.draw(self.uniform) if isinstance(self.size, Gamma) else max(int(next(self.size)), 0)

    def _populate(self, parent: int, name: str, depth: int, root: bool = False) -> None:
        if depth > MAX_DEPTH:
            raise UsageError(
                f"the fileset nests directories more than {MAX_DEPTH} deep; give the fileset a larger dirwidth"
            )
        here = -1
        if not root:
            here = len(self.folders)
            self.folders.append((parent, name))
        drawn = self._drawn(self.mean_depth)
        # C converts NaN or infinity to the least int, which makes every directory a leaf
        deepest = (int(drawn) or 1) if math.isfinite(drawn) else -1
        width = self._drawn(self.mean_width) or 1
        leaf = depth + 1 >= deepest
        serial = 1
        while (root or serial < width + 1) and len(self.files) < self.entries:
            if leaf and not root:
                self.files.append((here, f"{serial:08d}"))
                self.sizes.append(self._size())
            else:
                self._populate(here, f"{serial:08d}", depth + 1)
            serial += 1
        serial = 1
        while (root or serial < width + 1) and len(self.leaves) < self.leaf_count:
            if leaf and not root:
                self.leaves.append((here, f"{serial:08d}"))
            else:
                self._populate(here, f"{serial:08d}", depth + 1)
            serial += 1


def _mean_depth(entries: int, width: int) -> float:
    """Return log(entries) / log(width) with C's results for widths of 0 and 1."""
    if width == 0:
        return 0.0
    if width == 1:
        return math.inf if entries > 1 else math.nan
    return math.log(entries) / math.log(width)


def rand(seed: int = 1) -> Iterator[int]:
    """Yield the numbers of glibc's rand, an additive feedback generator over 31 words; without srand the seed is 1."""
    words = [seed]
    for _ in range(30):
        words.append(16807 * words[-1] % 2147483647)
    words += words[:3]
    for i in range(34, 344):
        words.append((words[i - 31] + words[i - 3]) & 0xFFFFFFFF)
    ring = words[-31:]
    at = 0
    while True:
        ring[at] = (ring[at] + ring[(at + 28) % 31]) & 0xFFFFFFFF
        yield ring[at] >> 1
        at = (at + 1) % 31
