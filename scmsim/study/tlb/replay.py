"""Replay a trace, and count TLB look-ups, misses and walks by mechanism, region of the address space and page size."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim import system as systems
from scmsim.core import registry
from scmsim.core.counters import COUNTERS, SCHEMA, rounded
from scmsim.core.records import ORDER, PM, SETUP, Source
from scmsim.footprint import NO_FOOTPRINTS, FootprintTable
from scmsim.footprint.expand import expanded
from scmsim.lab import regions, tlb
from scmsim.mmu.replay import replay
from scmsim.paging import _choice as choice
from scmsim.pipeline import CHUNK, DEFAULTS
from scmsim.pipeline.arguments import Progress, machine_table
from scmsim.pipeline.run import Replay
from scmsim.pipeline.stages import BackgroundStage, CounterIndex, Mmu
from scmsim.result import metrics

_LAYOUT = regions.layout()
# timer interrupts per second of the guest's time (CONFIG_HZ); an instruction takes 1 ns of it (lab.qemu: -icount)
GUEST_HZ = 250
# A file's times come from ktime_get_coarse_real_ts64(), which advances at a timer interrupt.  A second call within a tick
# leaves the inode unchanged, and an fsync after it commits nothing.
_FILE_TIMES = "timestamp_tick"
_THREAD = 1 << 36  # bytes of address space that a replay reserves for a thread's buffers


@dataclass(frozen=True)
class Replayed:
    """Rows of a replay (the lab's columns and `site`), its paging policy, and the percentage of accesses with addresses."""

    rows: list[dict[str, Any]]
    paging: str
    addressed: float | None
    warnings: list[str]


def replayed(
    source: Source,
    fs: str,
    machine: str,
    paging: str | None,
    params: Mapping[str, Mapping[str, str | int]],
    buffer: int,
    footprints: str | None,
    progress: Progress | None,
    call_ns: int | None = None,
) -> Replayed:
    """Replay a trace as the lab's guest ran it: by one thread, with its buffer at `buffer` on a page of 2 MiB.

    If `buffer` is 0, the buffer is on small pages.  Calls follow one another every `call_ns` ns; if it is None, at the times of
    the trace.  `params` may override these settings.
    """
    policy, merged = settings(fs, machine, paging, params, buffer, call_ns)
    run = _Judged(
        AsInTheGuest(source, buffer, call_ns),
        fs,
        machine,
        paging,
        DEFAULTS["medium"],
        merged,
        "site",
        footprints,
        CHUNK,
    )
    warnings = run.run(False, progress).warnings
    return Replayed(run.by_place.rows(run.model.sites), policy, run.by_place.addressed(), warnings)


def settings(
    fs: str,
    machine: str,
    paging: str | None,
    params: Mapping[str, Mapping[str, str | int]],
    buffer: int,
    call_ns: int | None,
) -> tuple[str, dict[str, dict[str, str | int]]]:
    """Return (paging policy for a replay that is compared with a guest, `params` with the guest's clock and buffer)."""
    merged = {name: dict(given) for name, given in params.items()}
    if call_ns and _FILE_TIMES in registry.literals("fs", fs).get("PARAMS", {}):
        merged.setdefault(fs, {}).setdefault(_FILE_TIMES, 10**9 // GUEST_HZ)
    _, policy = choice.choose(fs, paging, machine_table(machine)["walk"]["largest_page"])
    if buffer and "user_page" in registry.literals("paging", policy).get("PARAMS", {}):
        merged.setdefault(policy, {}).setdefault("user_page", "2MiB")
    return policy, merged


class AsInTheGuest:
    """A trace whose operations all run in one thread and use one buffer, at an address that decides its TLB set.

    A call follows every `call_ns` ns, from 0 on; if it is None, the calls keep their times.
    """

    def __init__(self, source: Source, buffer: int, call_ns: int | None = None) -> None:
        self.source, self.header, self.files, self.rows = source, source.header, source.files, source.rows
        self.at, self.call_ns = buffer & _THREAD - 1, call_ns

    def batches(self, chunk: int = CHUNK) -> Iterator[np.recarray]:
        """Yield the batches of the trace."""
        calls = 0
        for batch in self.source.batches(chunk):
            batch = batch.copy()
            batch.thread, batch.buffer = 0, self.at
            if self.call_ns is not None:
                counted = np.cumsum(batch.flag & SETUP == 0)
                batch.time_ns = (calls + counted) * self.call_ns
                calls += int(counted[-1])
            yield batch


class _ByPlace(Mmu):
    """An MMU that counts in one row per site and place (see `tlb.places`)."""

    def __init__(self, machine: dict[str, Any], counting: CounterIndex) -> None:
        super().__init__(machine, counting)
        self.places = np.zeros(counting.sites * tlb.PLACES, COUNTERS)
        self.book = NO_FOOTPRINTS

    def learn(self, book: FootprintTable) -> None:
        self.book = book

    def count(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray) -> None:
        for some, their_bins in expanded(self.book, slices, events, bins[: len(events)]):
            self._count(some, their_bins)

    def _count(self, events: np.ndarray, bins: np.ndarray) -> None:
        # like a kernel's stream, begin with the first counted call and empty TLBs
        counted = bins != self.counting.sites
        events, bins = events[counted], bins[counted]
        mapped_by_kernel = (events["space"] == PM) & (events["vaddr"] < 0)  # else: by a program
        region = np.where(mapped_by_kernel, regions.PERSISTENT, _LAYOUT.of(events["vaddr"].view(np.uint64)))
        rows = bins * tlb.PLACES + tlb.places(region, events["order"] & ORDER)
        replay(self.state, self.places, events, rows, len(events))

    def addressed(self) -> float | None:
        """Return the percentage of loads and stores that had an address."""
        total = self.places.view(np.int64).reshape(-1, len(SCHEMA)).sum(axis=0)
        counters = rounded(dict(zip(SCHEMA, total.tolist(), strict=True)))
        return metrics.compute(counters).values.get("addressed_percent")

    def rows(self, sites: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows with look-ups, by site."""
        found = self.places.reshape(len(sites), tlb.PLACES)
        return [{"site": site, **row} for site, part in zip(sites, found, strict=True) for row in tlb.table(part)]


class _Judged(Replay):
    """A replay with a `_ByPlace` MMU, and with the guest's timer interrupts if the kernel's own memory is replayed."""

    def mmu(self, counting: CounterIndex) -> Mmu:
        self.by_place = _ByPlace(self.machine, counting)
        return (
            BackgroundStage(self.by_place, {**systems.DEFAULTS, "hz": GUEST_HZ}, {})
            if self.footprints
            else self.by_place
        )
