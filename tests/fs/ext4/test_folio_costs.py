"""Costs of large folios, beside a count in plain words: what a write, read, fsync or truncate does per folio, page and buffer."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.records import WORK
from scmsim.fs.engine.events import load_templates
from scmsim.fs.ext4.templates import COSTS, FOLIO_COSTS, all_templates
from tests.fs import drive
from tests.fs.ext4.test_folios import Cache, lengths, pages

COUNTED = ("cache_page", "cache_page_new", "cache_page_dirty", "cache_read_page", "flush_page", "free_page")
COUNTED += tuple(cost for cost in FOLIO_COSTS if cost not in COSTS)
calls = st.one_of(
    st.tuples(st.just("write"), pages, st.sampled_from([0, 0, 1, 4095]), lengths),
    st.tuples(st.just("read"), pages, st.sampled_from([0, 1]), lengths),
    st.tuples(st.just("truncate"), pages),
    st.tuples(st.just("fsync")),
)


class Charged(Cache):
    """The folios of one file, their dirty pages, and the charges of the last call; `large`: a write makes large folios."""

    def __init__(self, large):
        super().__init__()
        self.large, self.dirty, self.heads, self.size, self.costs = large, set(), set(), 0, Counter()

    def folio(self, page):
        return self.of.get(page, range(page, page + 1)) if self.large else range(page, page + 1)

    def write(self, at, end):
        """Add the folios of a write, then visit them; without large folios each page is one."""
        had, touched = set(self.of), range(at >> 12, (end - 1 >> 12) + 1)
        super().write(at, end)
        folios = {self.folio(page) for page in touched}
        new = {folio for folio in folios if folio.start not in had}
        self.heads |= {folio.start for folio in new}
        self.costs.update(
            cache_folio=len(folios),
            cache_buffer=sum(map(len, folios)),
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


def charged(model, batch):
    """Return how often each cost is charged: each has its row as site, and counts 1."""
    events = model.feed(batch)
    work = events[events.code == WORK]
    sums = np.bincount(work.site, work.instructions, len(FOLIO_COSTS)) / 1000
    return {cost: round(sums[FOLIO_COSTS.index(cost)]) for cost in COUNTED}


@pytest.mark.parametrize("folios", ["kernel", "never"])
@given(rows=st.lists(calls, max_size=8))
def test_costs_follow_the_folios(folios, rows):
    model = drive.Model("ext4", drive.files(0, -1, dirs=[0]), 1 << 14, kernel="6.18", folios=folios)
    model.state.record.cost[0, : len(FOLIO_COSTS)] = [(1000, 0, 0, k) for k in range(len(FOLIO_COSTS))]
    load_templates(model.state, all_templates(False, folios=True), merge=False)
    model.feed(drive.ops(("create", 1, 0, 0, 0)))
    cache = Charged(folios == "kernel")
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
        assert charged(model, drive.ops(row)) == {cost: cache.costs[cost] for cost in COUNTED}, row
