"""A mapped file touched in units: in order, by stride, at random or by Zipf's law, with optional write-backs or msync.

The file exists before the trace.  The same touches by read and write calls (`by`) show the benefit of the mapping.  Zipf: the
share of the k-th place is proportional to 1 / k^0.99 (YCSB's constant); the seed shuffles the places.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CONTINUES,
    FSYNC,
    MAP_SYNC,
    MMAP,
    MSYNC,
    MUNMAP,
    NON_TEMPORAL,
    OPEN,
    POPULATE,
    READ,
    UFENCE,
    UFLUSH,
    ULOAD,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
)
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "a mapped file touched in units: sequential, strided, random or zipf, with msync or with flushes and fences"
PARAMS = {
    "op": ("read", "read|write", "operation of a touch"),
    "pattern": ("random", "sequential|strided|random|zipf", "order of the offsets in the file"),
    "unit": ("4KiB", "bytes", "bytes of one touch"),
    "stride": ("2MiB", "bytes", "strided: distance from the start of one touch to the start of the next"),
    "file_size": ("1GiB", "bytes", "bytes of the file"),
    "touches": ("262144", "touches", "number of touches"),
    "by": ("map", "map|calls", "touch through a mapping, or by read and write calls of the same bytes"),
    "persist": (
        "no",
        "no|flush|nontemporal",
        "after each store: nothing, write-backs and a fence, or a store past the caches and a fence",
    ),
    "sync": ("0", "touches", "number of touches between two msyncs (by=calls: fsyncs); 0: no msync"),
    "map_sync": ("0", "bool", "mapped with MAP_SYNC"),
    "populate": ("0", "bool", "mapped with MAP_POPULATE"),
    "seed": ("1", "seed", "seed of the random offsets"),
}
THETA = 0.99
_PIECE = 1 << 16  # touches made at once: a replay's batch, which then needs no copy
MOST_PLACES = 1 << 26  # maximum offsets of a zipf pattern: the shares take half a GiB


class Workload(_stream.Stream):
    """Stream of the touches of one file (a records.Source); see PARAMS.

    Raises UsageError for an unknown pattern or access method, or a file that does not hold one touch.
    """

    fresh = True

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        for name, value in (("op", p.op), ("pattern", p.pattern), ("by", p.by), ("persist", p.persist)):
            _stream.choose(f"{name} of mapped", value, PARAMS[name][1].split("|"))
        p.at_least(1, "unit", "stride", "touches")
        p.at_least(0, "sync")
        if p.unit > p.file_size:
            raise UsageError(f"file_size {p.file_size} does not hold a touch of {p.unit} bytes; make the file larger")
        if p.persist != "no" and (p.op == "read" or p.by == "calls"):
            raise UsageError(
                "persist applies only to stores through a mapping; leave persist out, or give op=write and by=map"
            )
        self.step = p.stride if p.pattern == "strided" else p.unit
        self.places = (p.file_size - p.unit) // self.step + 1
        if p.pattern == "zipf" and self.places > MOST_PLACES:
            raise UsageError(f"{self.places} offsets are too many for zipf; give a larger unit or a smaller file")
        self.op, self.pattern, self.unit, self.size, self.touches = p.op, p.pattern, p.unit, p.file_size, p.touches
        self.by, self.persist, self.sync, self.seed = p.by, p.persist, p.sync, p.seed
        self.flag = WRITABLE_SHARED | (MAP_SYNC if p.map_sync else 0) | (POPULATE if p.populate else 0)
        self.files = _stream.table(["/mapped", "/mapped/file"], [0, p.file_size], [True, False])

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the operations in order, a few thousand at a time."""
        whole = {"file": 1, "offset": 0, "length": self.size}
        yield ops(OPEN, 1)
        if self.by == "map":
            yield ops(MMAP, **whole, flag=self.flag)
        draw = np.random.default_rng(self.seed)
        shares, shuffled = self._shares(draw)
        for first in range(0, self.touches, _PIECE):
            index = np.arange(first, min(first + _PIECE, self.touches))
            yield self._touches(index, self._place(index, draw, shares, shuffled) * self.step)
        if self.by == "map":
            yield ops(MUNMAP, **whole)
        yield ops(CLOSE, 1)

    def _shares(self, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return, for zipf, the running sums of the shares by rank, and the place of each rank."""
        if self.pattern != "zipf":
            return np.zeros(0), np.zeros(0, np.int64)
        return np.cumsum(np.arange(1, self.places + 1) ** -THETA), draw.permutation(self.places)

    def _place(
        self, index: np.ndarray, draw: np.random.Generator, shares: np.ndarray, shuffled: np.ndarray
    ) -> np.ndarray:
        """Return the places (number of the unit in the file) of the touches with running numbers `index`."""
        if self.pattern == "random":
            return draw.integers(0, self.places, len(index))
        if self.pattern == "zipf":
            rank = np.searchsorted(shares, draw.random(len(index)) * shares[-1], "right")
            return shuffled[np.minimum(rank, self.places - 1)]
        return index % self.places

    def _touches(self, index: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """Return the touches with running numbers `index`, each followed by its write-back, fence or sync."""
        if self.by == "calls":
            code, syncs = READ if self.op == "read" else WRITE, FSYNC
        else:
            code, syncs = ULOAD if self.op == "read" else USTORE, MSYNC
        flag = NON_TEMPORAL if self.persist == "nontemporal" else 0
        parts = [(index, ops(code, 1, offset, self.unit, flag=flag))]
        if self.persist == "flush":
            parts.append((index, ops(UFLUSH, 1, offset, self.unit)))
        if self.persist != "no":
            parts.append((index, ops(UFENCE, np.full(len(index), -1))))
        if self.sync:
            due = index[index % self.sync == self.sync - 1]
            parts.append(
                (due, ops(syncs, np.ones(len(due), np.int64), 0, self.size, flag=0 if self.by == "map" else CONTINUES))
            )
        return _stream.weave(*parts) if len(parts) > 1 else parts[0][1]
