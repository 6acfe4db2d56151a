"""Touches of known pages: what is dropped, and look-ups beside the reference of the MMU, which drops nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.records import SLICE
from scmsim.mmu import machine, presets
from scmsim.mmu.build import build
from scmsim.mmu.columns import SUPPLIED
from scmsim.mmu.needless import MOST, mark_needed
from scmsim.mmu.replay import replay_touched
from scmsim.mmu.state import LRU, TREE
from scmsim.mmu.touches import PAGE, PLACE, table
from tests.mmu.test_each_rule import MACHINES
from tests.mmu.test_properties import events, machines, pack
from tests.reference import mmu_slow, needless_slow

TOP = -(1 << 40)
# few pages in few sets, so that stretches end and pages leave; page sizes that no array may have
page = st.tuples(st.integers(0, 20), st.sampled_from([12, 12, 12, 21, 30]), st.sampled_from([0, 0, 0, 1, 2]))
call = st.lists(st.integers(0, 23), max_size=40)


@given(
    st.lists(st.lists(st.integers(0, 11), max_size=30), min_size=1, max_size=5),
    st.lists(st.integers(0, 6), min_size=12, max_size=12),
    st.sampled_from([0, 1, 2, 3, 4, 100]),
    st.sampled_from([LRU, TREE]),
)
def test_what_is_dropped_is_what_the_reference_drops(sequences, tags, sure, policy):
    pages, uses, stretch = np.zeros(12, PAGE), np.full((7, 2), -1), np.zeros(MOST, np.int64)
    pages["name"], pages["sure"], pages["policy"] = tags, min(sure, MOST), policy
    kept = [np.zeros(len(rows), np.bool_) for rows in sequences]
    for rows, some in zip(sequences, kept, strict=True):
        mark_needed(some, uses, stretch, pages, np.array(rows, np.int32))
    assert np.flatnonzero(np.concatenate(kept)).tolist() == needless_slow.needed(sequences, tags, sure, policy == TREE)


def by_set(slow, chunk):
    """The touches of a chunk, (side, address, order, is of an object), in the order of the sets that they come to."""
    found = {}
    for side, address, order, own in chunk:
        size = slow.page_order(side, order)
        piece, array = slow.level("first_level_for", side, size, False)
        where = None if own else id(array.set_of((0, piece, address % mmu_slow.SPACE >> piece)))
        found.setdefault(where, []).append((side, address, order))
    return [each for where in sorted(found, key=lambda where: where is None) for each in found[where]]


@given(
    machines(),
    st.lists(page, min_size=12, max_size=12),
    st.lists(call, min_size=1, max_size=4),
    st.lists(
        st.tuples(events(), st.lists(st.integers(0, 3), max_size=5), st.tuples(st.integers(0, 4), st.integers(0, 4))),
        max_size=9,
    ),
    st.sampled_from([None, "order_used", "touches_used", "lists"]),
)
def test_chunks_count_as_if_each_touch_were_looked_up(told, pages, chunks, rows, full):
    check(told, pages, chunks, rows, full)


@pytest.mark.parametrize("name", ["i7-8700k", "ice-lake-sp", "zen2", "core2-q8200"])
def test_events_in_the_sets_of_chunks_that_come_again(name):
    """What is remembered of a set does not hold behind an event that comes to it, even one that hits."""
    random = np.random.default_rng(1)
    pages = [(16 * at % 48 + at // 3, 12, at % 3) for at in range(12)]
    chunks = [random.integers(0, 24, 6).tolist() for _ in range(4)]
    rows = []
    for _ in range(400):
        vaddr = TOP + (int(random.choice([0, 16, 32, 48, 64, 1, 17])) << 12)
        some = sorted(random.integers(0, 4, int(random.integers(0, 3))).tolist())
        rows.append((("LOAD", vaddr, 8, 12, 8, 0, 0), some, (int(random.integers(3)), int(random.integers(3)))))
    check(presets.read(name), pages, chunks, rows, None)


@pytest.mark.parametrize("name", MACHINES)
def test_chunks_on_a_machine_for_each_rule(name):
    """Chunks that come again, of which some touch objects, and between them events that come to their sets or remove pages."""
    random = np.random.default_rng(len(name))
    orders = [12] * 8 + [21, 12, 30, 12]
    pages = [(16 * at % 48 + at // 3, order, at % 3 if at > 5 else 0) for at, order in enumerate(orders)]
    chunks = [random.integers(0, 24, length).tolist() for length in (3, 12, 30, 1)]
    rows = []
    for _ in range(50):
        code, width = str(random.choice(["LOAD", "STORE", "FETCH", "FENCE"])), 8
        vaddr = TOP + (int(random.choice([0, 16, 32, 48, 64, 1, 17])) << 12)
        if random.random() < 0.15:
            code, width = str(random.choice(["UNMAP", "REMAP"])), 0
        some = sorted(random.integers(0, 4, int(random.integers(0, 3))).tolist())
        rows.append(
            (
                (code, vaddr, int(random.choice([1, 8, 9000])), 12, width, 0, 0),
                some,
                tuple(random.integers(0, 4, 2).tolist()),
            )
        )
    fulls = ("order_used", "touches_used", "lists")
    check(MACHINES[name], pages, chunks, rows, None)
    check(MACHINES[name], pages, chunks, rows[:12], fulls[[*MACHINES].index(name) % len(fulls)])


@pytest.mark.parametrize("name", MACHINES)
def test_chunks_that_usually_change_nothing(name):
    """Few pages, which fit in their set, are touched in several orders; other pages come to the set rarely."""
    random = np.random.default_rng(2)
    pages = [(number, 12, 0) for number in (0, 4, 8, 12, *range(16, 48, 4))]
    chunks = [[0], [0, 2], [2, 0], [4, 2, 0], [2, 6], [6, 0, 2, 0]]
    rows, chunk = [], 0
    for _ in range(2000):
        is_new = random.random() < 0.1
        event = ("LOAD", TOP + (int(random.integers(4, 12)) << 14), 8, 12, 8) if is_new else ("FENCE", 0, 0, 12, 0)
        chunk = chunk if random.random() < 0.6 else int(random.integers(len(chunks)))
        rows.append(((*event, 0, 0), [chunk], (0, 0)))
    check(MACHINES[name], pages, chunks, rows, None)


def test_stores_to_a_set_that_is_the_second_level_of_loads():
    """Two stores to a page are not one: the load between them moves another page to the front of the set."""
    pages = [
        (number, 12, kind) for number, kind in zip([0, 0, 0, 64, *[0] * 8], [0, 0, 0, 0, 1, 2, *[0] * 6], strict=True)
    ]
    stores = [(("STORE", TOP + (number << 12), 8, 12, 8, 0, 0), [], (0, 0)) for number in (128, 192, 256, 0)]
    rows = [(("FENCE", 0, 0, 12, 0, 0, 0), [0], (0, 0)), *stores]
    check(presets.read("core2-q8200"), pages, [[4 << 1 | 1, 5 << 1, 4 << 1 | 1]], rows, None)


def check(told, pages, chunks, rows, full):
    """The counters of events behind their chunks are those of the reference, in which every touch is a look-up."""
    places = np.zeros(12, PLACE)
    fixed = [(number, order, 0) if at < 4 else (number, order, kind) for at, (number, order, kind) in enumerate(pages)]
    for place, (number, order, kind) in zip(places, fixed, strict=True):
        place["vaddr"], place["order"], place["kind"], place["which"] = TOP + (number << order), order, kind, kind - 1
    objects = np.array([[0, 1, 2], [3, 2, 1]])
    state = build(told)
    runs = [sorted(number % len(chunks) for number in some) for _, some, _ in rows]
    bounds = np.cumsum([0, *map(len, chunks)])
    known = table(state, places, np.array([each for one in chunks for each in one], np.int64), bounds, objects)
    if full:  # what is remembered is soon forgotten, and begins anew
        known.memo[full] = known.memo["arranged" if full == "lists" else full.removesuffix("_used")].shape[1] - 1
    slices, counters = np.zeros(len(rows), SLICE), np.zeros(3, COUNTERS).view(np.recarray)
    slices["event"] = np.arange(len(rows))
    slow = mmu_slow.Mmu(told)
    for piece, run, (event, _, which) in zip(slices, runs, rows, strict=True):
        piece["first"], piece["end"] = (run[0], run[-1] + 1) if run else (0, 0)
        piece["objects"] = which
        for chunk in chunks[piece["first"] : piece["end"]]:
            touched = []
            for touch in chunk:
                number, size, kind = fixed[touch >> 1]
                if kind:
                    number, size, _ = fixed[objects[kind - 1, min(which[kind - 1], 2)]]
                touched.append(("store" if touch & 1 else "load", TOP + (number << size), size, kind > 0))
            for side, address, size in by_set(slow, touched):
                slow.event(side.upper(), address, 1, size, 0, 0)
        slow.event(*event[:-1])
    batch, bins = pack([event for event, _, _ in rows])
    if rows:
        replay_touched(state, counters, known, slices[[bool(run) for run in runs]], batch, bins)
    assert {field: int(counters[field].sum()) for field in SUPPLIED} == {field: slow.count[field] for field in SUPPLIED}


def test_most_touches_of_a_loop_over_few_pages_are_dropped():
    state, places = machine("i7-8700k"), np.zeros(3, PLACE)
    places["vaddr"], places["order"] = TOP + (np.arange(3) << 21), 21
    known = table(state, places, np.tile([0, 2, 4], 100), np.array([0, 300]), np.zeros((0, 1), np.int64))
    slices, counters = np.zeros(1, SLICE), np.zeros(1, COUNTERS)
    slices["end"] = 1
    batch, bins = pack([("FENCE", 0, 0, 12, 0, 0, 0)])
    replay_touched(state, counters, known, slices, batch, bins)
    m = known.memo[0]
    assert m["touches"]["page"][: m["touches_used"]].tolist() == [0, 2, 4]
    assert (counters["dtlb_load_lookups"], counters["dtlb_load_misses_walk_completed"]) == (300, 3)
