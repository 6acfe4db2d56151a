"""Put measured touches of the kernel's own code between a model's events: a stage of a replay, around the MMU and data caches."""

from collections.abc import Sequence

import numpy as np

from scmsim.core.records import EVENT, SLICE, Files, joined
from scmsim.footprint import Footprints
from scmsim.footprint.describe import NONE, OPERATION, begin, describe
from scmsim.footprint.interleave import DIRECTORY, MOST, begin_batch, interleave, lengths_of_ends
from scmsim.footprint.settle import home, leave_out_measured
from scmsim.fs.engine.model import ROOM
from scmsim.pipeline.caches import CacheStage
from scmsim.pipeline.periods import Watched
from scmsim.pipeline.stages import Mmu, Placement, Stage


class FootprintStage(Stage):
    """Measured touches of the kernel's own code, between the events for the MMU.  No other stage sees these touches.

    An operation's first events (interleave.MOST) determine which measured call it resembles, so the last operation of a
    buffer is held back until all of its first events have arrived.  `objects` are the areas of kernel memory in which
    the model has objects that the measured touches include as well.  `caches` receive the same events and page walks, and the
    lines of the touches if the footprints have lines.  `has_journal`: the model commits metadata blocks to a journal (jbd2).
    """

    trails = True

    def __init__(
        self,
        mmu: Mmu,
        footprints: Footprints,
        placement: Placement,
        files: Files,
        objects: Sequence[int] = (),
        caches: CacheStage | None = None,
        has_journal: bool = False,
    ) -> None:
        self.mmu, self.footprints = mmu, footprints
        pages = footprints.book.pages
        pages["order"] = placement.measured_orders(pages["vaddr"], pages["order"])
        areas = 0 if footprints.general else sum(1 << area for area in objects)
        self.places = (areas, home(pages, footprints.often).view(np.ndarray))
        self.inodes, self.known = begin(files)
        self.opened = np.zeros(len(files), np.int64)  # for each file, the measured open file that represents it
        self.operations, self.slices = np.zeros(0, OPERATION), np.zeros(ROOM, SLICE)
        self.held, self.held_bins = np.zeros(0, EVENT), np.zeros(0, np.int64)
        mmu.learn(footprints.book)
        self.caches, self.has_lines = caches, bool(caches and caches.learn(footprints.book))
        # with these lines a recording lacks the blocks of commits; ext2 and xfs use recordings of ext4, without such a journal
        self.keeps_commits = has_journal and bool((footprints.book.blocks["cache"] == DIRECTORY).any())
        if caches:
            caches.caches.record["sums_commits"] = self.keeps_commits

    def begin(self, batch: np.recarray) -> None:
        if len(batch) > len(self.operations):
            self.operations = np.zeros(len(batch), OPERATION)
        describe(self.inodes, self.known, batch.view(np.ndarray), self.operations)
        self.mmu.begin(batch)
        begin_batch(self.footprints.state)

    def take(self, events: np.ndarray, bins: np.ndarray) -> None:
        first, last = lengths_of_ends(events, int(self.held["op"][0]) if len(self.held) else NONE)
        if len(self.held):
            self.held = joined([self.held, events[:first]])
            self.held_bins = np.concatenate([self.held_bins, bins[:first]])
            if first == len(events) and len(self.held) < MOST:
                return
            self.end()
        events, bins = events[first:], bins[first:]
        whole = len(events) - (last if last < MOST else 0)
        self._count(events[:whole], bins[:whole])
        self.held, self.held_bins = events[whole:].copy(), bins[whole:].copy()

    def end(self) -> None:
        held, bins = self.held, self.held_bins
        self.held, self.held_bins = held[:0], bins[:0]
        self._count(held, bins)

    def _count(self, events: np.ndarray, bins: np.ndarray) -> None:
        prints = self.footprints
        if len(events) > len(self.slices):
            self.slices = np.zeros(len(events), SLICE)
        as_placed = joined([events]) if self.caches else events  # `copy` would copy field by field
        count = interleave(prints.state, prints.book, self.opened, self.places, self.slices, self.operations, events)
        self.mmu.count(events, bins, self.slices[:count])
        if self.caches:
            if self.has_lines:
                leave_out_measured(self.places[0], as_placed, self.operations, self.keeps_commits)
            slices = self.slices[: count if self.has_lines else 0]
            self.caches.count(as_placed, bins, slices, self.mmu.walks())

    def watched(self) -> list[Watched]:
        state = (self.footprints.state.view(np.ndarray), self.inodes.view(np.ndarray), self.known, self.opened)
        return [*self.mmu.watched(), *map(Watched, state)]
