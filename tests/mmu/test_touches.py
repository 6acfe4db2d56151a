"""Touches of known pages: what is dropped, and look-ups beside the reference of the MMU, which drops nothing."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.records import SLICE
from scmsim.mmu import machine
from scmsim.mmu.build import build
from scmsim.mmu.columns import SUPPLIED
from scmsim.mmu.needless import needed
from scmsim.mmu.replay import replay_touched
from scmsim.mmu.touches import PLACE, table
from tests.mmu.test_properties import events, machines, pack
from tests.reference import mmu_slow, needless_slow

TOP = -(1 << 40)
# few pages in few sets, so that stretches end and pages leave; page sizes that no array may have
page = st.tuples(st.integers(0, 20), st.sampled_from([12, 12, 12, 21, 30]), st.sampled_from([0, 0, 0, 1, 2]))
call = st.lists(st.integers(0, 23), max_size=40)


@given(
    st.lists(st.lists(st.integers(0, 11), max_size=30), min_size=1, max_size=5),
    st.lists(st.integers(-1, 2), min_size=12, max_size=12),
    st.lists(st.integers(0, 4), min_size=12, max_size=12),
    st.lists(st.sampled_from([0, 1, 2, 3, 4, 100]), min_size=4, max_size=4),
)
def test_what_is_dropped_is_what_the_reference_drops(calls, sets, tags, ways):
    sure = [ways[number] for number in sets]
    bounds = np.cumsum([0, *map(len, calls)])
    flat = np.array([row for rows in calls for row in rows], np.int64)
    kept = needed(flat, bounds, *map(np.array, (sets, tags, sure)))
    assert np.flatnonzero(kept).tolist() == needless_slow.needed(calls, sets, tags, sure)


@given(
    machines(),
    st.lists(page, min_size=12, max_size=12),
    st.lists(
        st.tuples(events(), st.lists(call, max_size=3), st.tuples(st.integers(0, 4), st.integers(0, 4))), max_size=9
    ),
)
def test_whole_calls_count_as_if_each_touch_were_looked_up(told, pages, rows):
    places = np.zeros(12, PLACE)
    fixed = [(number, order, 0) if at < 4 else (number, order, kind) for at, (number, order, kind) in enumerate(pages)]
    for place, (number, order, kind) in zip(places, fixed, strict=True):
        place["vaddr"], place["order"], place["kind"], place["which"] = TOP + (number << order), order, kind, kind - 1
    objects = np.array([[0, 1, 2], [3, 2, 1]])
    calls = [one for _, some, _ in rows for one in some]
    state = build(told)
    bounds = np.cumsum([0, *map(len, calls)])
    known = table(state, places, np.array([each for one in calls for each in one], np.int64), bounds, objects)
    slices, at = np.zeros(max(len(rows), 1), SLICE), 0
    counters, slow = np.zeros(3, COUNTERS).view(np.recarray), mmu_slow.Mmu(told)
    for piece, (event, some, which) in zip(slices, rows, strict=False):
        piece["first"], piece["objects"] = at, which
        at += sum(map(len, some))
        piece["behind"] = at
        for touch in (each for one in some for each in one):
            number, order, kind = fixed[touch >> 1]
            if kind:
                number, order, _ = fixed[objects[kind - 1, min(which[kind - 1], 2)]]
            slow.event("STORE" if touch & 1 else "LOAD", TOP + (number << order), 1, order, 0, 0)
        slow.event(*event[:-1])
    batch, bins = pack([event for event, _, _ in rows])
    if rows:
        replay_touched(state, counters, known, slices, batch, bins)
    assert {field: int(counters[field].sum()) for field in SUPPLIED} == {field: slow.count[field] for field in SUPPLIED}


def test_most_touches_of_a_loop_over_few_pages_are_dropped():
    state, places = machine("i7-8700k"), np.zeros(3, PLACE)
    places["vaddr"], places["order"] = TOP + (np.arange(3) << 21), 21
    known = table(state, places, np.tile([0, 2, 4], 100), np.array([0, 300]), np.zeros((0, 1), np.int64))
    assert known.touches["number"].tolist() == [0, 1, 2]
    slices, counters = np.zeros(1, SLICE), np.zeros(1, COUNTERS)
    slices["behind"] = 300
    batch, bins = pack([("FENCE", 0, 0, 12, 0, 0, 0)])
    replay_touched(state, counters, known, slices, batch, bins)
    assert (counters["dtlb_load_lookups"], counters["dtlb_load_misses_walk_completed"]) == (300, 3)
