"""Replay a trace, and count the misses of each cache level by region of the address space."""

from collections.abc import Iterator, Mapping

import numpy as np

from scmsim.cache import ON
from scmsim.cache.replay import simulate_touched
from scmsim.cache.state import ROW
from scmsim.core.records import OP, PM, SETUP, SYNC, WRITE, Source
from scmsim.footprint import FootprintTable
from scmsim.lab import lines, regions
from scmsim.pipeline import CHUNK, DEFAULTS
from scmsim.pipeline.arguments import Progress
from scmsim.pipeline.caches import CacheStage
from scmsim.pipeline.run import Replay
from scmsim.study.tlb.replay import AsInTheGuest, settings

_LAYOUT = regions.layout()


def replayed(
    source: Source,
    fs: str,
    machine: str,
    params: Mapping[str, Mapping[str, str | int]],
    buffer: int,
    footprints: str | None,
    progress: Progress | None,
    call_ns: int | None = None,
) -> tuple[list[lines.Row], list[str]]:
    """Replay a trace as the lab's guest ran it; return (rows of misses by region, warnings).

    `buffer` is the address of the program's buffer.  Calls follow one another every `call_ns` ns; if it is None, at the times of
    the trace.
    """
    _, merged = settings(fs, machine, None, params, 0, call_ns)
    seen = AsInTheGuest(Filled(source), buffer, call_ns)
    run = _Judged(seen, fs, machine, None, DEFAULTS["medium"], merged, "site", footprints, CHUNK, caches=ON)
    warnings = run.run(False, progress).warnings
    return lines.table(run.by_region.by_region), warnings


class Filled:
    """A trace whose first files are written and synced before its first call, uncounted, as in the guest (guest_operations.c).

    So they are in the page cache of a file system that has one.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.header, self.files, self.rows = source, source.header, source.files, source.rows

    def batches(self, chunk: int = CHUNK) -> Iterator[np.recarray]:
        """Yield the batches of the trace, after one that fills its files."""
        files = np.flatnonzero((self.files.first_size > 0) & ~self.files.is_dir)
        filling = np.zeros(len(files) + 1, OP)
        filling["op"], filling["flag"], filling["file2"] = WRITE, SETUP, -1
        filling["file"][:-1], filling["length"][:-1] = files, self.files.first_size[files]
        filling["op"][-1], filling["file"][-1], filling["offset"][-1] = SYNC, -1, -1
        if len(files):
            yield filling.view(np.recarray)
        yield from self.source.batches(chunk)


class _ByRegion(CacheStage):
    """Data caches that count in one row per region."""

    by_region: np.ndarray

    def learn(self, book: FootprintTable) -> bool:
        found = super().learn(book)
        blocks = self.touched[2]
        of = _LAYOUT.of(blocks["vaddr"].view(np.uint64))
        blocks["row"] = np.where(blocks["cache"] > 0, regions.DIRECT_MAP, of)
        return found

    def count(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray, walked: np.ndarray) -> None:
        """Count the events that the guest's stream also has: from the first counted call on, and without page walks."""
        counted = bins[: len(events)] < len(self.rows) - 1
        events = events.copy()
        events["length"][~counted] = 0
        mapped_by_kernel = (events["space"] == PM) & (events["vaddr"] < 0)
        region = np.where(mapped_by_kernel, regions.PERSISTENT, _LAYOUT.of(events["vaddr"].view(np.uint64)))
        state = self.caches.record, self.caches.arena, self.by_region
        none, slices = np.zeros(len(events), np.int64), slices[counted[slices["event"]]]
        simulate_touched(*state, self.touched, slices, walked[:0], events, region, none)


class _Judged(Replay):
    """A replay with `_ByRegion` caches."""

    def data_caches(self, setting: str) -> CacheStage:
        self.by_region = _ByRegion(self.machine, self.counting, setting)
        self.by_region.by_region = np.zeros(len(regions.REGIONS), ROW)
        self.by_region.caches.record["keeps"] = 1  # the guest's stream has no write-backs, so no line is evicted by one
        return self.by_region
