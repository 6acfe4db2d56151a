"""Filebench's file sets, to the byte: glibc's unseeded drand48 and Knuth's gamma generators determine tree and sizes.

Source: Filebench 1.5-alpha3, fileset.c (fileset_populate), gamma_dist.c; D. Knuth, TAOCP vol. 2, 3.4.1 (algorithms A and G);
drand48: POSIX, with glibc's initial state 0; rand: glibc's additive generator, seed 1.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from scmsim.core.errors import UsageError

_MASK = (1 << 48) - 1
_MULTIPLIER, _INCREMENT = 0x5DEECE66D, 0xB
MAX_DEPTH = 200  # levels of directories; a guard that Filebench lacks


class Drand48:
    """glibc's drand48 without a seed: 48 bits of a linear congruence that starts at 0."""

    def __init__(self) -> None:
        self.state = 0

    def __call__(self) -> float:
        self.state = (_MULTIPLIER * self.state + _INCREMENT) & _MASK
        return self.state / (1 << 48)


class Gamma(NamedTuple):
    """A cvar-gamma: mean and shape, then the limits and the step to which a drawn value is rounded (0: none)."""

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

    def __init__(self, entries: int, width: int, shape: int, size: int | Gamma, uniform: Drand48) -> None:
        self.entries, self.uniform, self.shape, self.size = entries, uniform, shape / 1000.0, size
        self.mean_width, self.mean_depth = float(width), math.log(entries) / math.log(width)
        self.folders: list[tuple[int, str]] = []
        self.files: list[tuple[int, str]] = []
        self.sizes: list[int] = []
        self._populate(-1, "", 0, root=True)

    def _drawn(self, mean: float) -> float:
        return gamma(self.uniform, self.shape, mean / self.shape) if self.shape > 0 else mean

    def _populate(self, parent: int, name: str, depth: int, root: bool = False) -> None:
        if depth > MAX_DEPTH:
            raise UsageError(f"directories more than {MAX_DEPTH} deep; give the fileset a larger dirwidth")
        here = -1
        if not root:
            here = len(self.folders)
            self.folders.append((parent, name))
        deepest = int(self._drawn(self.mean_depth)) or 1
        width = self._drawn(self.mean_width) or 1
        leaf, serial = depth + 1 >= deepest, 1
        while (root or serial < width + 1) and len(self.files) < self.entries:
            if leaf and not root:
                self.files.append((here, f"{serial:08d}"))
                self.sizes.append(self.size.draw(self.uniform) if isinstance(self.size, Gamma) else self.size)
            else:
                self._populate(here, f"{serial:08d}", depth + 1)
            serial += 1


def rand() -> Iterator[int]:
    """Yield the numbers of glibc's unseeded rand, an additive feedback generator over 31 words with seed 1."""
    words = [1]
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
