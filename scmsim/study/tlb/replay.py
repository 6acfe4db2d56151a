"""A replay whose look-ups, misses and walks are told apart by mechanism, region of the address space and page size."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scmsim.core import registry
from scmsim.core.counters import COUNTERS
from scmsim.core.records import ORDER, PM, Source
from scmsim.lab import regions, tlb
from scmsim.paging import _choice as choice
from scmsim.pipeline import CHUNK, DEFAULTS, Progress, _Replay, _Setup
from scmsim.pipeline.arguments import machine_table

_LAYOUT = regions.layout()


@dataclass(frozen=True)
class Replayed:
    """Rows of a replay (as the lab's, and `site`), its paging policy, and the share of its loads and stores with addresses, %."""

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
    large_buffer: bool,
    progress: Progress | None,
) -> Replayed:
    """Replay a trace; `large_buffer`: the program's buffer lies on pages of 2 MiB, unless `params` says something else."""
    merged = {name: dict(given) for name, given in params.items()}
    _, policy = choice.choose(fs, paging, machine_table(machine)["walk"]["largest_page"])
    if large_buffer and "user_page" in registry.literals("paging", policy).get("PARAMS", {}):
        merged.setdefault(policy, {}).setdefault("user_page", "2MiB")
    replay = _ByPlace(_Setup(fs, machine, paging, DEFAULTS["medium"], merged, "site"), source, CHUNK)
    run = replay.run(progress)
    return Replayed(replay.rows(), policy, run.metrics.get("addressed_percent"), run.warnings)


class _ByPlace(_Replay):
    """A replay whose MMU counts in a row for each site and place (see `tlb.places`)."""

    def __init__(self, setup: _Setup, source: Source, chunk: int) -> None:
        super().__init__(setup, source, chunk)
        self.places = np.zeros(len(self.sites) * tlb.PLACES + 1, COUNTERS)
        self._whole, self._mmu = self._mmu, self._by_place

    def _by_place(self, state: np.ndarray, counters: np.ndarray, events: np.ndarray, bins: np.ndarray, n: int) -> None:
        part = events[:n]
        region = np.where(part["space"] == PM, regions.PERSISTENT, _LAYOUT.of(part["vaddr"].view(np.uint64)))
        rows = bins[:n] * tlb.PLACES + tlb.places(region, part["order"] & ORDER)
        rows[bins[:n] == len(self.sites)] = len(self.places) - 1  # what counts nowhere
        self._whole(state, self.places, events, rows, n)

    def _finish(self, run: Any, unknown_offsets: int) -> None:
        by_site = self.places[:-1].view(np.int64).reshape(len(self.sites), tlb.PLACES, -1).sum(axis=1)
        self.counters[:-1].view(np.int64).reshape(len(self.sites), -1)[:] += by_site  # the medium has added its own
        super()._finish(run, unknown_offsets)

    def rows(self) -> list[dict[str, Any]]:
        """The rows with look-ups, by site."""
        found = self.places[:-1].reshape(len(self.sites), tlb.PLACES)
        return [{"site": site, **row} for site, part in zip(self.sites, found, strict=True) for row in tlb.table(part)]
