"""Take the events of a model, with their addresses, through the data caches of a machine: a stage of a replay."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from scmsim import cache
from scmsim.cache.replay import simulate
from scmsim.cache.state import COLUMNS, ROW
from scmsim.pipeline.periods import Watched
from scmsim.pipeline.stages import CounterIndex, Stage


class CacheStage(Stage):
    """Data caches of a machine.

    They see the events of the model.  Footprints are pages, without the lines in them: the loads and stores that footprints
    represent count as unchecked.
    """

    def __init__(self, machine: Mapping[str, Any], counting: CounterIndex, setting: str) -> None:
        self.caches, self.counting = cache.build(machine, setting, by_device=True), counting
        self.levels, self.setting = len(machine["cache"]), setting
        self.rows = np.zeros(len(counting.counters), ROW)

    def take(self, events: np.ndarray) -> None:
        simulate(self.caches.record, self.caches.arena, self.rows, events, self.counting.bins)

    def counts(self, *, group: int | None = None, site: int | None = None) -> dict[str, int]:
        """Return the counts by name: of all events, or of those of one group or one site."""
        cells = self.rows["at"][:-1].reshape(self.counting.groups, self.counting.sites, len(COLUMNS))
        chosen = cells[slice(None) if group is None else group, slice(None) if site is None else site]
        return cache.named(chosen.reshape(-1, len(COLUMNS)).sum(axis=0), self.levels, self.setting)

    def watched(self) -> list[Watched]:
        return [Watched(self.caches.record), Watched(self.caches.arena)]

    def totals(self) -> list[np.ndarray]:
        return [self.rows]
