"""Ageing: fill a file system to a utilisation, then delete and refill until a multiple of its capacity has been written.

Each round deletes a share of the live bytes (files chosen at random, or the oldest) and creates new files until the
utilisation is reached again; so free space fragments as in real use, without a replay of months.  A deleted file's object id
is reused, so the side table is as long as the largest number of live files.

Sizes:
- lognormal: mu 9.48, sigma 2.46, the body of the file sizes by count in Agrawal et al., Generating realistic Impressions, FAST
  2009, Table 2; cut at 512 MiB, where that paper's Pareto tail begins
- pareto: shape 0.91 (as in that tail) from 4 KiB, cut at 512 MiB
- agrawal: the eleven sizes and weights of the "agrawal" profile of the Geriatrix ageing tool (profiles/agrawal, after Agrawal et
  al., A five-year study of file-system metadata, FAST 2007)
- small: a set of 37,513 files, all below one 2 MiB superpage, so that 2 MiB pages waste 73 GiB by the VSM paper's equation 1.  Its
  sizes are our choice: log-normal, median 4 KiB, sigma 1.4 (mean 11 KiB, an estimate for a source tree)
- fixed: all files have the size `mean`
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, CLOSE, CREATE, SETUP, UNLINK, WRITE
from scmsim.workload import _stream
from scmsim.workload._stream import ops, weave

SUMMARY = "ageing: fill to a utilisation, then delete and refill, with realistic file sizes"
PARAMS = {
    "capacity": ("1GiB", "bytes", "size of the file system"),
    "utilisation": ("75", "percent", "share of the capacity that files take after the fill and after each round"),
    "turnover": (
        "3",
        "capacities",
        "bytes written in all, in multiples of the capacity (whole pages; at least the fill)",
    ),
    "churn": ("10", "percent", "share of the live bytes that a round deletes"),
    "sizes": ("agrawal", "agrawal|lognormal|pareto|small|fixed", "distribution of the file sizes"),
    "mean": ("64KiB", "bytes", "file size if sizes is fixed"),
    "victims": ("random", "random|oldest", "which files a round deletes"),
    "unit": ("128KiB", "bytes", "bytes of one write"),
    "dirs": ("100", "directories", "directories, filled in turn"),
    "setup": ("no", "bool", "mark all operations as preparation: they change the state and count nothing"),
    "seed": ("1", "seed", "seed of sizes and victims"),
    "interval": ("1us", "time", "trace time between two calls"),
}
SIZES = ("agrawal", "lognormal", "pareto", "small", "fixed")
PAGE = 4 << 10  # bytes: a file takes whole pages, so that a full file system is full for every model with 4 KiB blocks
SMALL_FILES = 37_513
CUT = 512 << 20  # bytes: start of the Pareto tail in FAST 2009
_DRAW = 1 << 13  # files drawn at once
_AGRAWAL = ((8, 1), (32, 7), (128, 16), (512, 40), (2048, 50), (8192, 46), (32768, 35), (131072, 20), (524288, 10),
            (2097152, 4), (8388608, 1))  # fmt: skip


class Step(NamedTuple):
    """Files deleted, or created with these sizes in bytes."""

    created: bool
    ids: np.ndarray
    sizes: np.ndarray


class Workload(_stream.Stream):
    """Stream of the ageing operations (a records.Source); see PARAMS: sizes in bytes, shares in percent.

    Raises UsageError for an unknown distribution or impossible shares.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("distribution of file sizes", p.sizes, SIZES)
        _stream.choose("choice of victims", p.victims, ("random", "oldest"))
        p.at_least(1, "capacity", "mean", "unit", "dirs")
        for name, share in (("utilisation", p.utilisation), ("churn", p.churn)):
            if not 1 <= share <= 100:
                raise UsageError(f"{name} = {share} percent; it must be from 1 to 100")
        self.goal = p.capacity * p.utilisation // 100
        if self.goal < PAGE:
            raise UsageError(
                f"{p.utilisation} percent of {p.capacity} bytes is less than one page of {PAGE}; raise capacity"
            )
        self.budget, self.churn, self.victims = p.capacity * p.turnover, p.churn, p.victims
        self.unit, self.dirs, self.seed = p.unit, p.dirs, p.seed
        self.flag = SETUP if p.setup else 0
        self.draw = _sizes(p.sizes, p.mean)
        self.most = SMALL_FILES if p.sizes == "small" else 1 << 40  # maximum number of live files
        slots, self.rows = self._measure()
        paths = [f"/age/{i}" for i in range(p.dirs)] + [f"/age/{i % p.dirs}/file-{i}" for i in range(slots)]
        self.files = _stream.table(
            ["/age", *paths], [0] * (1 + p.dirs) + [-1] * slots, [True] * (1 + p.dirs) + [False] * slots
        )

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the creations and deletions, some files at a time."""
        for created, ids, sizes in self.steps():
            folder = 1 + ids % self.dirs
            files = 1 + self.dirs + ids
            if not created:
                yield ops(UNLINK, files, parent=folder, flag=self.flag)
                continue
            for part in _parts(sizes, self.unit):
                index = np.arange(len(files[part]))
                which, writes = _stream.transfers(WRITE, files[part], sizes[part], self.unit, flag=self.flag | APPENDS)
                yield weave(
                    (index, ops(CREATE, files[part], parent=folder[part], flag=self.flag)), (which, writes),
                    (index, ops(CLOSE, files[part], flag=self.flag)),
                )  # fmt: skip

    def steps(self) -> Iterator[Step]:
        """Yield the creations and deletions: first the fill, then the rounds."""
        random = np.random.default_rng(self.seed)
        pool = _Pool()
        written = 0
        while True:
            for step in pool.refill(self.goal, self.most, lambda count: self.draw(random, count)):
                written += PAGE * int((-(-step.sizes // PAGE)).sum())
                yield step
            if written >= self.budget or not len(pool.ids):
                return
            yield pool.delete(self.goal * self.churn // 100, random if self.victims == "random" else None)

    def _measure(self) -> tuple[int, int]:
        """Return (largest number of live files, rows) without making the rows."""
        slots = rows = 0
        for created, ids, sizes in self.steps():
            slots = max(slots, int(ids.max(initial=-1)) + 1)
            rows += len(ids) + (len(ids) + int((-(-sizes // self.unit)).sum()) if created else 0)
        return slots, rows


class _Pool:
    """Live files, oldest first, and the ids of deleted files."""

    def __init__(self) -> None:
        self.ids = np.zeros(0, np.int64)
        self.pages = np.zeros(0, np.int64)
        self.free = np.zeros(0, np.int64)
        self.used = 0

    def refill(self, goal: int, most: int, draw: Callable[[int], np.ndarray]) -> Iterator[Step]:
        """Create files until there are `most`, or the next would exceed `goal` live bytes (in whole pages).

        A file larger than the goal is cut to the whole pages of the goal.
        """
        full = False
        while not full and len(self.ids) < most:
            sizes = np.minimum(draw(min(_DRAW, most - len(self.ids))), goal // PAGE * PAGE)
            taken = -(-sizes // PAGE)
            fits = int(np.searchsorted(np.cumsum(taken), goal // PAGE - self.pages.sum(), side="right"))
            full = fits < len(sizes)
            if fits:
                ids = self._take(fits)
                self.ids, self.pages = np.append(self.ids, ids), np.append(self.pages, taken[:fits])
                yield Step(True, ids, sizes[:fits])

    def delete(self, size: int, random: np.random.Generator | None) -> Step:
        """Delete files that take at least `size` bytes together: random files, or the oldest."""
        order = np.arange(len(self.ids)) if random is None else random.permutation(len(self.ids))
        count = min(int(np.searchsorted(np.cumsum(self.pages[order]) * PAGE, size)) + 1, len(order))
        chosen = order[:count]
        ids = self.ids[chosen]
        keep = np.ones(len(self.ids), bool)
        keep[chosen] = False
        self.ids, self.pages = self.ids[keep], self.pages[keep]
        self.free = np.append(self.free, ids)
        return Step(False, ids, np.zeros(count, np.int64))

    def _take(self, count: int) -> np.ndarray:
        """Return ids for new files: first the ids of the most recently deleted files, then fresh ids."""
        old = self.free[len(self.free) - min(count, len(self.free)) :][::-1]
        self.free = self.free[: len(self.free) - len(old)]
        fresh = np.arange(self.used, self.used + count - len(old))
        self.used += len(fresh)
        return np.concatenate([old, fresh])


def _sizes(name: str, mean: int) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Return a function (generator, count) -> file sizes in bytes, at least 1."""
    sizes, weights = np.array(_AGRAWAL).T
    draws: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
        "agrawal": lambda random, count: random.choice(sizes, count, p=weights / weights.sum()),
        "lognormal": lambda random, count: random.lognormal(9.48, 2.46, count).clip(1, CUT),
        "pareto": lambda random, count: (PAGE * (1 + random.pareto(0.91, count))).clip(1, CUT),
        "small": lambda random, count: random.lognormal(np.log(4096), 1.4, count).clip(1, (2 << 20) - 1),
        "fixed": lambda random, count: np.full(count, mean),
    }
    return lambda random, count: draws[name](random, count).astype(np.int64)


def _parts(sizes: np.ndarray, unit: int) -> Iterator[slice]:
    """Yield slices of a list of files so that each has about PIECE rows (one huge file can have more)."""
    rows = np.cumsum(2 - (-sizes // unit))
    cuts = np.searchsorted(rows, np.arange(_stream.PIECE, rows[-1], _stream.PIECE))
    bounds = np.unique(np.concatenate([[0], cuts + 1, [len(sizes)]]))
    yield from (slice(low, high) for low, high in zip(bounds[:-1], bounds[1:], strict=True))
