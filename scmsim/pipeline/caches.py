"""Simulate a machine's data caches for the events of a model, which have their addresses: a stage of a replay."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim import cache
from scmsim.cache.replay import simulate_touched
from scmsim.cache.state import BLOCK, COLUMNS, ROW
from scmsim.footprint import NO_FOOTPRINTS, FootprintTable
from scmsim.mmu.replay import NO_SLICES
from scmsim.pipeline.periods import Watched
from scmsim.pipeline.stages import CounterIndex, Mmu, Stage


class CacheStage(Stage):
    """Data caches of a machine.

    They see the events of the model, the entries that page walks read, and the lines of footprints that have lines.  The loads
    and stores of the kernel's code are counted as unchecked all the same: most of them hit lines that footprints name once.
    """

    trails = True

    def __init__(self, machine: Mapping[str, Any], counting: CounterIndex, setting: str) -> None:
        self.caches, self.counting = cache.build(machine, setting, by_device=True), counting
        self.levels, self.setting = len(machine["cache"]), setting
        self.rows = np.zeros(len(counting.counters), ROW)
        self.touched = NO_FOOTPRINTS.bounds, NO_FOOTPRINTS.lines, np.zeros(0, BLOCK)
        self.mmu: Mmu | None = None  # whose page walks pass the caches, if this stage takes the events itself

    def learn(self, book: FootprintTable) -> bool:
        """Prepare the cache lines of `book`, before any event; return whether `book` has lines."""
        blocks = np.zeros(len(book.blocks), BLOCK)
        for name in book.blocks.dtype.names or ():
            blocks[name] = book.blocks[name]
        self.touched = book.bounds, book.lines, blocks
        return len(blocks) > 0

    def begin(self, batch: np.recarray) -> None:
        self.caches.record["op"] = -1

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        if self.mmu:
            self.count(events, bins, NO_SLICES, self.mmu.walks())

    def count(self, events: np.ndarray, bins: np.ndarray, slices: np.ndarray, walked: np.ndarray) -> None:
        """Simulate the lines of each event: first of the touches before it, then of its page walks, then of the event itself."""
        state = self.caches.record, self.caches.arena, self.rows
        simulate_touched(*state, self.touched, slices, walked, events, bins, bins)

    def counts(self, *, group: int | None = None, site: int | None = None) -> dict[str, int]:
        """Return the counts by name: of all events, or of the events of one group, one site, or both."""
        cells = self.rows["at"][:-1].reshape(self.counting.groups, self.counting.sites, len(COLUMNS))
        chosen = cells[slice(None) if group is None else group, slice(None) if site is None else site]
        return cache.named(chosen.reshape(-1, len(COLUMNS)).sum(axis=0), self.levels, self.setting)

    def watched(self) -> list[Watched]:
        return [Watched(self.caches.record), Watched(self.caches.arena)]

    def totals(self) -> list[np.ndarray]:
        return [self.rows]
