"""Streams of addresses: the quick ways against the reference implementation and against stack distances counted by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENTS
from scmsim.mmu import batch, miss_count, mrc, presets, stack_distances
from scmsim.mmu.build import build
from scmsim.mmu.columns import SUPPLIED
from tests.conftest import NO_JIT
from tests.mmu.test_properties import machines, shape
from tests.reference import mmu_slow

BASES = st.sampled_from([0, 1 << 40, (1 << 47) - (1 << 20), -(1 << 47), -4096 * 64])


@st.composite
def addresses(draw, most=120):
    """Runs and jumps within some pages around one or two places."""
    places = draw(st.lists(BASES, min_size=1, max_size=2))
    pages = draw(st.lists(st.integers(0, 40), min_size=1, max_size=most))
    shift = draw(st.sampled_from([12, 12, 12, 14, 21]))
    spots = [places[page % len(places)] + (page << shift) + page % 7 for page in pages]
    return np.array([spot for spot in spots for _ in range(draw(st.sampled_from([1, 1, 1, 3])))], np.int64)


def simulated(table, where, code, order):
    counters = np.zeros(1, COUNTERS)
    batch.replay_batch(build(table), counters, where, EVENTS.index(code), order)
    return {field: int(counters[field][0]) for field in SUPPLIED if counters[field][0]}


def by_hand(table, where, code, order):
    slow = mmu_slow.Mmu(table)
    for address in where.tolist():
        slow.event(code, address, 1, order, 1)
    return {field: count for field, count in slow.count.items() if count}


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    machines(), addresses(), st.sampled_from(["LOAD", "STORE", "FETCH"]), st.sampled_from([12, 12, 14, 21, 30, 44, 76])
)
def test_streams_agree_with_slow_twin(table, where, code, order):
    """1000 machines: every shape, rule of replacement and fill, walks of every kind."""
    presets.check(table)
    assert simulated(table, where, code, order) == by_hand(table, where, code, order)


@given(machines(), addresses(), st.sampled_from([12, 21]))
def test_pieces_of_a_stream_do_not_matter(table, where, order):
    totals, cut = [], len(where) // 2
    for parts in ([where], [where[:cut], where[cut:]]):
        state, counters = build(table), np.zeros(1, COUNTERS)
        for part in parts:
            batch.replay_batch(state, counters, part, EVENTS.index("LOAD"), order)
        totals.append(counters.tobytes())
    assert totals[0] == totals[1]


@given(shape(), shape(), addresses(), st.sampled_from([12, 16]))
def test_plain_misses_are_those_of_the_whole_mmu(first, second, where, order):
    from scmsim.mmu import plain_misses

    texts = [f"{entry['entries']}x{entry['ways']}" for entry in (first, second)]
    slow = by_hand(presets.plain(*texts), where, "LOAD", order)
    walks = slow["dtlb_load_misses_walk_completed"]
    expected = {
        "accesses": len(where),
        "l1_misses": walks + slow.get("dtlb_load_misses_stlb_hit", 0),
        "l2_misses": walks,
    }
    assert plain_misses(where, *texts, 1 << order) == expected
    assert plain_misses([where[:3], where[3:]], *texts, 1 << order) == expected
    assert plain_misses(where, texts[0], None, 1 << order)["l1_misses"] == expected["l1_misses"]


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [((4, 4), (32, 16), 12), ((8, 1), (6, 3), 21), ((16, 16), None, 12), ((64, 2), (8, 8), 14)],
)
def test_two_arrays_on_several_regions(first, second, order, monkeypatch):
    """Against a list for each set, the page used last in front; some pages differ in their region alone."""
    random = np.random.default_rng(order)
    pages = random.zipf(1.4, 400) % 60 + (random.choice([0, 1, 3, -1 << 5], 400) << 24)
    pages[1:][random.random(399) < 0.2] = pages[0]
    if NO_JIT:  # several batches; compiled kernels know their size
        monkeypatch.setattr(miss_count, "BATCH", 40)
    tlbs = miss_count.Tlbs(miss_count.Shape(*first), miss_count.Shape(*second) if second else None, order)
    for part in (pages[:150], pages[150:]):
        assert tlbs.add((part << order) + 7)
    left, expected = pages.tolist(), []
    for entries, ways in filter(None, (first, second)):
        sets, missed = [[] for _ in range(entries // ways)], []
        for page in left:
            mine = sets[page % len(sets)]
            if page in mine:
                mine.remove(page)
            else:
                missed.append(page)
            sets[page % len(sets)] = [page, *mine][:ways]
        left = missed
        expected.append(len(missed))
    assert tlbs.misses.tolist() == [*expected, 0][:2]


def distances(pages):
    """Stack distance of each access, None where the page is new."""
    stack, found = [], []
    for page in pages:
        found.append(stack.index(page) if page in stack else None)
        if page in stack:
            stack.remove(page)
        stack.insert(0, page)
    return found


@given(addresses(), st.sampled_from([12, 16, 21]))
def test_geometries_are_stack_distances_within_each_set(where, order):
    table = mrc.Geometries(order, (1, 4, 32))
    table.add(where[:50])
    table.add(where[50:])
    misses = table.misses()
    for k, sets in enumerate((1, 4, 32)):
        pages = (where >> order).tolist()
        found = [d for one in range(sets) for d in distances([page for page in pages if page % sets == one])]
        for ways in range(1, 17):
            assert misses[k, ways - 1] == sum(d is None or d >= ways for d in found)


@given(addresses(300), st.sampled_from([12, 21]))
def test_the_curve_is_stack_distances(where, order):
    curve, out = mrc.Curve(order), np.empty(len(where), np.int64)
    curve.add(where, out)
    found = distances((where >> order).tolist())
    assert out.tolist() == [-1 if d is None else d for d in found]
    capacities = [1, 2, 3, 10, 1000]
    assert curve.misses(capacities).tolist() == [sum(d is None or d >= c for d in found) for c in capacities]
    assert curve.pages == found.count(None)


@pytest.mark.slow
def test_a_long_curve_makes_room_and_stays_exact():
    """More pages and more time than the first tables hold, against the geometries of one set."""
    rng = np.random.default_rng(1)
    where = (rng.zipf(1.2, 60_000) % 20_000 << 12).astype(np.int64) - (1 << 46)
    curve, table = mrc.Curve(12), mrc.Geometries(12, (1,))
    for start in range(0, len(where), 7000):
        curve.add(where[start : start + 7000])
        table.add(where[start : start + 7000])
    assert curve.misses(np.arange(1, 17)).tolist() == table.misses()[0].tolist()
    assert curve.misses([1 << 30])[0] == len(np.unique(where)) == curve.pages


@pytest.mark.parametrize("accesses", [8190, 8191, 8192, 10_000, 17_000])
def test_a_curve_of_few_pages_counts_its_times_anew(accesses):
    """The first tables hold 8191 times, and are numbered anew before they are full."""
    curve, out = mrc.Curve(12), np.empty(accesses, np.int64)
    curve.add(np.arange(accesses) % 3 << 12, out)
    assert out.tolist() == [-1, -1, -1, *[2] * (accesses - 3)] and curve.pages == 3
    assert curve.misses([1, 2, 3, 4]).tolist() == [accesses, accesses, 3, 3]


def test_pages_of_several_regions_are_told_apart():
    """Addresses that are the same modulo 2**36, in an order in which each comes after each."""
    regions = np.array([0, 1, 16, 0, 16, 1, 0, 1 << 10, 16, 1 << 20, 1, 1 << 20, 0, 1 << 10, 0])
    for page in (0, 5):
        table, curve = mrc.Geometries(12, (1, 2)), mrc.Curve(12)
        table._short = np.empty(6, np.int64)  # several parts
        where = (regions << 36) + (page << 12)
        table.add(where)
        curve.add(where)
        found = distances(regions.tolist())
        expected = [sum(d is None or d >= ways for d in found) for ways in range(1, 17)]
        assert table.misses()[0].tolist() == expected == curve.misses(np.arange(1, 17)).tolist()


def test_a_curve_that_makes_room_is_stack_distances():
    """More pages, and more accesses in a row to others, than the first tables hold; they lie far apart and near each other."""
    rng = np.random.default_rng(1)
    sweep = np.arange(1200) * 17
    pages = np.concatenate([rng.permutation(6000), sweep, sweep[-2::-1], rng.integers(0, 300, 2000), sweep])
    curve, found = mrc.Curve(12), distances(pages.tolist())
    for start in range(0, len(pages), 9 * stack_distances.BATCH):
        curve.add(pages[start : start + 9 * stack_distances.BATCH] << 12)
    capacities = [1, 2, 100, 299, 1199, 3000, 1 << 30]
    assert curve.misses(capacities).tolist() == [sum(d is None or d >= c for d in found) for c in capacities]
    assert curve.pages == found.count(None) == len(np.unique(pages))


@pytest.mark.parametrize("count", range(1, 40, 3))
def test_rows_of_tags_begin_at_cache_lines(count):
    for rows, length in ((miss_count._rows(count), 16 * count), (stack_distances._rows(count, np.int32), count)):
        assert rows.ctypes.data % 64 == 0 and len(rows) == length
    assert (miss_count._rows(count) == -1).all()


@pytest.mark.slow
def test_a_sample_covers_the_exact_misses():
    """Intervals of 95 %: of 24 capacities of independent traces, at least 20 must hold the exact count."""
    held = total = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        where = (rng.zipf(1.1, 200_000) % 50_000 << 12).astype(np.int64)
        sample, curve = mrc.Sample(12, 0.2, [1000, 2000, 4000, 8000, 16_000, 32_000]), mrc.Curve(12)
        sample.add(where)
        curve.add(where)
        estimate, spread = sample.misses()
        held += int((np.abs(estimate - curve.misses(sample.capacities)) <= spread).sum())
        total += len(spread)
    assert total == 24 and held >= 20


def test_a_sample_of_everything_is_exact():
    where = np.random.default_rng(2).integers(0, 500, 5000) << 12
    sample, curve = mrc.Sample(12, 1.0, [10, 100, 499, 500]), mrc.Curve(12)
    sample.add(where)
    curve.add(where)
    assert np.allclose(sample.misses()[0], curve.misses([10, 100, 499, 500]))


def estimated(where, order, rate, capacities):
    """Misses of each capacity and half of their interval, page by page, as the module says that a sample is taken."""
    word, limit = (1 << 64) - 1, max(1, round(rate * (1 << 24)))
    share, kept, groups = limit / (1 << 24), [], []
    for address in where.tolist():
        page = (address & (1 << 57) - 1) >> order
        mixed = page * 0x1E3779B97F4A7C15 & word
        mixed ^= (mixed >> 29 | (word << 35 & word if mixed >> 63 else 0)) & word  # shifts are of signed numbers
        mixed = mixed * 0x3F58476D1CE4E5B9 & word
        if (mixed >> 32) & (1 << 24) - 1 < limit:
            kept.append(page)
            groups.append(mixed >> 57 & 15)
    found, expected = distances(kept), len(where) * share

    def ratio(capacity, left_out):
        mine = [(d, group) for d, group in zip(found, groups, strict=True) if group != left_out]
        fair = expected * (1 if left_out is None else 15 / 16)
        hits = sum(d is not None and d / share < capacity for d, _ in mine)
        return min(max(1 - (hits + fair - len(mine)) / max(expected if left_out is None else fair, 1), 0), 1)

    misses, spread = [], []
    for capacity in capacities:
        less = [ratio(capacity, group) for group in range(16)]
        middle = sum(less) / 16
        misses.append(ratio(capacity, None) * len(where))
        spread.append(2.131 * (15 / 16 * sum((one - middle) ** 2 for one in less)) ** 0.5 * len(where))
    return misses, spread, round(len(set(kept)) / share)


@pytest.mark.parametrize(("rate", "order"), [(0.3, 12), (0.7, 14), (1, 12)])
def test_a_sample_is_taken_as_the_paper_says(rate, order):
    where = (np.random.default_rng(3).zipf(1.3, 900) % 400 << 12) - (1 << 46)
    sample, capacities = mrc.Sample(order, rate, [30, 5, 100, 300]), [5, 30, 100, 300]
    for part in (where[:500], where[500:500], where[500:]):
        sample.add(part)
    misses, spread, pages = estimated(where, order, rate, capacities)
    assert sample.capacities.tolist() == capacities and sample.pages == pages
    assert np.allclose(sample.misses()[0], misses) and np.allclose(sample.misses()[1], spread)


def test_too_many_regions_are_told():
    where = np.arange(300, dtype=np.int64) << 36
    tlbs = miss_count.Tlbs(miss_count.Shape(4, 4), None, 12)
    assert not tlbs.add(where) and tlbs.misses.tolist() == [0, 0]
    assert tlbs.add(where[:255]) and tlbs.misses.tolist() == [255, 0]
    with pytest.raises(ValueError, match="regions"):
        mrc.Geometries(12).add(where)


@pytest.mark.parametrize(("longest", "fits"), [(8192, False), (8193, True)])
def test_times_are_numbers_of_32_bits(longest, fits, monkeypatch):
    """A curve begins with 8192 times."""
    monkeypatch.setattr(stack_distances, "_LONGEST", longest)
    if fits:
        mrc.Curve(12)
        return
    with pytest.raises(UsageError, match="more than 500 million distinct pages"):
        mrc.Curve(12)


@pytest.mark.parametrize("batches", [1, 2, 3, 6, 7, 8, 9])
def test_tables_of_a_curve_are_twice_as_long_when_a_batch_may_not_fit(batches):
    """A batch may bring as many new pages, groups of pages and times; the hash table is half empty, the tree three quarters."""
    curve, batch, pages = mrc.Curve(12), stack_distances.BATCH, batches * stack_distances.BATCH
    curve.add(np.arange(pages) << 16)  # each page in a group of its own

    def doubled(length, least):
        while length < least:
            length *= 2
        return length

    assert len(curve._table) == doubled(4 * batch, 2 * pages)
    assert len(curve._used) == doubled(32 * batch, 16 * pages)
    assert len(curve.found) == doubled(2 * batch, pages)
    times = 8 * batch if batches < 8 else 4 * 8 * batch  # the first tree holds all times but one, and so 7 batches
    assert curve._last == times - 1 and len(curve._bits) * 64 == times
    rows, levels = times // 512, []
    while not levels or levels[-1] > 16:
        sums = math.ceil(levels[-1] / 16) if levels else rows
        levels.append(math.ceil(sums / 16) * 16)
    assert np.diff(curve._level).tolist() == levels and len(curve._sums) == sum(levels)
