"""Costs of large folios, beside a count in plain words: what a write, read, fsync or truncate does per folio, page and buffer."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.records import WORK
from scmsim.fs.engine.events import load_templates
from scmsim.fs.ext4 import templates as ext4
from scmsim.fs.linux.templates import FOLIO_COSTS
from scmsim.fs.xfs import cached_templates as xfs
from tests.fs import drive
from tests.fs.ext4.test_folios import Cache, lengths, pages, told

COUNTED = ("cache_page", "cache_page_new", "cache_page_dirty", "cache_read_page", "flush_page", "free_page")
COUNTED += FOLIO_COSTS
BUFFERS = ("cache_buffer", "flush_buffer")
calls = st.one_of(
    st.tuples(st.just("write"), pages, st.sampled_from([0, 0, 1, 4095]), lengths),
    st.tuples(st.just("read"), pages, st.sampled_from([0, 1]), lengths),
    st.tuples(st.just("truncate"), pages),
    st.tuples(st.just("fsync")),
)


class Charged(Cache):
    """The folios of one file, their dirty pages, and the charges of the last call.

    `large`: a write makes large folios; `stops`: it visits no buffer after its last byte.
    """

    def __init__(self, large, stops=False):
        super().__init__()
        self.large, self.stops, self.dirty, self.heads, self.size, self.costs = large, stops, set(), set(), 0, Counter()

    def folio(self, page):
        return self.of.get(page, range(page, page + 1)) if self.large else range(page, page + 1)

    def write(self, at, end):
        """Add the folios of a write, then visit them; without large folios each page is one."""
        had, touched = set(self.of), range(at >> 12, (end - 1 >> 12) + 1)
        self.allocate(at, end)
        folios = {self.folio(page) for page in touched}
        after = self.folio(touched[-1]).stop - touched.stop if self.stops else 0
        new = {folio for folio in folios if folio.start not in had}
        self.heads |= {folio.start for folio in new}
        self.costs.update(
            cache_folio=len(folios),
            cache_buffer=sum(map(len, folios)) - after,
            cache_page=len(touched),
            cache_folio_new=len(new),
            cache_folio_large=sum(len(folio) > 1 for folio in new),
            cache_page_new=len(set(touched) - had),
            cache_folio_dirty=sum(not self.dirty & set(folio) for folio in folios - new),
            cache_page_dirty=len((set(touched) & had) - self.dirty),
        )
        parts = {number >> 12 for number in (at, end) if number % 4096} - had
        self.costs.update(cache_page_zeroed=len(parts))
        self.dirty |= set(touched)
        self.size = max(self.size, end)

    def allocate(self, at, end):
        super().write(at, end)

    def read(self, at, end):
        end = min(end, self.size)
        if at < end:
            touched = range(at >> 12, (end - 1 >> 12) + 1)
            self.costs.update(cache_read_page=len(touched), cache_read_folio=len({self.folio(p) for p in touched}))

    def fsync(self):
        if self.dirty:
            folios = {self.folio(page) for page in self.dirty}
            self.costs.update(flush_page=len(self.dirty), flush_folio=len(folios), flush_buffer=sum(map(len, folios)))
        self.dirty = set()

    def truncate(self, stop):
        """Remove the pages from `stop` on; a folio counts if its first page is removed."""
        gone = {page for page in self.of if page >= stop}
        super().truncate(stop)
        self.costs.update(free_page=len(gone), free_folio=len(gone & self.heads))
        self.dirty, self.heads, self.size = self.dirty - gone, self.heads - gone, stop << 12


class Observed(Charged):
    """The same with the folios that the model has made: those of XFS also end with an extent, such as a preallocation."""

    def __init__(self, large, model):
        super().__init__(large)
        self.model = model

    def allocate(self, at, end):
        self.of = told(self.model)


def start(fs, costs, templates, kernel, folios):
    """Return a model with one file, in which each cost has its row as site and counts 1000 instructions."""
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), 1 << 14, kernel=kernel, folios=folios)
    model.state.record.cost[0, : len(costs)] = [(1000, 0, 0, k) for k in range(len(costs))]
    load_templates(model.state, templates, merge=False)
    model.feed(drive.ops(("create", 1, 0, 0, 0)))
    return model


def charged(model, batch, costs, counted):
    """Return how often each of the costs `counted` is charged."""
    events = model.feed(batch)
    work = events[events.code == WORK]
    sums = np.bincount(work.site, work.instructions, len(costs)) / 1000
    return {cost: round(sums[costs.index(cost)]) for cost in counted}


@pytest.mark.parametrize(("kernel", "folios"), [("6.18", "kernel"), ("6.18", "never"), ("7.3", "kernel")])
@given(rows=st.lists(calls, max_size=8))
def test_costs_of_ext4_follow_the_folios(kernel, folios, rows):
    model = start("ext4", ext4.FOLIO_COSTS, ext4.all_templates(False, folios=True), kernel, folios)
    cache, counted = Charged(folios == "kernel", kernel == "7.3"), (*COUNTED, *BUFFERS)
    for op, *given_ in rows:
        cache.costs.clear()
        if op == "fsync":
            cache.fsync()
            row = (op, 1)
        elif op == "truncate":
            cache.truncate(given_[0])
            row = (op, 1, given_[0] << 12)
        else:
            page, inside, length = given_
            at = (page << 12) + inside
            getattr(cache, op)(at, at + length)
            row = (op, 1, at, length)
        expected = {cost: cache.costs[cost] for cost in counted}
        assert charged(model, drive.ops(row), ext4.FOLIO_COSTS, counted) == expected, row


@pytest.mark.parametrize("folios", ["kernel", "never"])
@given(rows=st.lists(calls, max_size=8))
def test_costs_of_xfs_follow_the_folios(folios, rows):
    """A write leaves no gap, which XFS would clear; a truncation follows an fsync, as XFS stores the page of the new end."""
    model = start("xfs", xfs.FOLIO_COSTS, xfs.all_templates(False, True), "6.18", folios)
    cache = Observed(folios == "kernel", model)
    for op, *given_ in rows:
        cache.costs.clear()
        if op in ("fsync", "truncate"):
            batch = [("fsync", 1)]
            cache.fsync()
            if op == "truncate":
                stop = min(given_[0], cache.size >> 12)
                batch.append((op, 1, stop << 12))
                cache.truncate(stop)
            found = charged(model, drive.ops(*batch), xfs.FOLIO_COSTS, COUNTED)
        else:
            page, inside, length = given_
            at = min((page << 12) + inside, cache.size)
            batch = [(op, 1, at, length)]
            found = charged(model, drive.ops(*batch), xfs.FOLIO_COSTS, COUNTED)
            getattr(cache, op)(at, at + length)
        assert found == {cost: cache.costs[cost] for cost in COUNTED}, batch
