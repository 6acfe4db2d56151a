"""Data caches: equal to the reference, to pycachesim and to closed formulas; conservation of lines; flushes; aliases."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.cache import state
from scmsim.cache.replay import simulate_lines
from scmsim.core.errors import UsageError
from scmsim.core.records import KERNEL, PM, WORK
from tests.cache.machines import cache, counted, events
from tests.reference.cache_slow import Hierarchy

SHAPES = st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 3, 8, 9, 16, 17, 20, 33]))


@st.composite
def hierarchies(draw) -> list[dict]:
    """Draw one to three levels; only the third may be exclusive."""
    levels = draw(st.integers(1, 3))
    fills = ["non-inclusive", draw(st.sampled_from(state.FILLS[:2])), draw(st.sampled_from(state.FILLS))]
    return [cache(*draw(SHAPES), fills[k]) for k in range(levels)]


LINES = st.integers(0, 60) | st.integers(0, 30 * 64)
STREAMS = st.lists(
    st.tuples(st.sampled_from(["load", "load", "store", "nt", "flush"]), LINES), max_size=200
) | st.lists(st.tuples(st.just("load"), st.integers(0, 70)), max_size=200)


@settings(deadline=None, max_examples=200)
@given(hierarchies(), STREAMS, st.sampled_from(state.FLUSHES), st.sampled_from(state.PREFETCHES))
def test_counts_are_those_of_the_reference(
    tables: list[dict], stream: list[tuple[str, int]], flush: str, prefetch: str
) -> None:
    slow = Hierarchy(tables, flush == "clwb", prefetch)
    for kind, line in stream:
        if kind in ("load", "store"):
            slow.access(line, kind)
        elif kind == "nt":
            slow.store_past(line, is_whole=True)
        else:
            slow.flush(line)
    found = counted(tables, events([(kind, 64 * line, 64) for kind, line in stream]), flush, prefetch)
    assert found == {name: count for name, count in slow.counts.items() if count}


@settings(deadline=None, max_examples=50)
@given(hierarchies(), STREAMS)
def test_every_line_is_conserved(tables: list[dict], stream: list[tuple[str, int]]) -> None:
    """A level's look-ups are the misses of the level before, memory gives what the last level misses."""
    found = counted(tables, events([(kind, 64 * line, 64) for kind, line in stream]))
    for side in state.SIDES[:2]:
        left = found.get(f"{side}_lines", 0)
        for level in range(1, len(tables) + 1):
            assert left == (found.get(f"{side}_l{level}_lookups", 0) if level > 1 else left)
            left -= found.get(f"{side}_l{level}_hit", 0)
        assert found.get(f"{side}_memory", 0) == left
    stores = found.get("store_lines", 0)
    assert found.get("written_back_evicted", 0) + found.get("written_back_flushed", 0) <= stores


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stores", [0.0, 0.4])
def test_counts_are_those_of_pycachesim(seed: int, stores: float) -> None:
    """pycachesim's store does not use its line, so each store is a load and a store there; its write-backs do not load."""
    cachesim = pytest.importorskip("cachesim")
    shapes = [(8, 4), (16, 8), (48, 16)]
    memory, far, levels = cachesim.MainMemory(), None, []
    for k in (3, 2, 1):
        more = {"store_to": far, "load_from": far} if far else {}
        far = cachesim.Cache(f"L{k}", *shapes[k - 1], 64, "LRU", write_allocate=k == 1, **more)
        if k == 3:
            memory.load_to(far)
            memory.store_from(far)
        levels.insert(0, far)
    simulator = cachesim.CacheSimulator(far, memory)
    rng = np.random.default_rng(seed)
    lines = np.where(rng.random(20_000) < 0.5, rng.integers(0, 200, 20_000), rng.integers(0, 3_000, 20_000))
    kinds = np.where(rng.random(len(lines)) < stores, "store", "load").tolist()
    for kind, line in zip(kinds, lines.tolist(), strict=True):
        simulator.load(64 * line, length=1)
        if kind == "store":
            simulator.store(64 * line, length=1)
    stream = events([(kind, 64 * line, 1) for kind, line in zip(kinds, lines.tolist(), strict=True)])
    found = counted([cache(*shape) for shape in shapes], stream)
    both = {name: sum(found.get(f"{side}_{name}", 0) for side in state.SIDES[:2]) for name in state.SIDE}
    for k, level in enumerate(levels, 1):
        assert both[f"l{k}_hit"] == level.backend.HIT_count, k
        assert both[f"l{k}_lookups" if k > 1 else "lines"] == level.backend.LOAD_count, k
    assert both["memory"] == levels[2].backend.MISS_count
    assert found.get("written_back_evicted", 0) == levels[2].backend.EVICT_count
    assert both["l3_hit"] > 1000 and bool(stores) == (found.get("written_back_evicted", 0) > 1000)


def test_a_cycle_over_one_line_more_than_a_set_always_misses_and_over_a_full_cache_never() -> None:
    whole = [("load", 64 * line, 8) for line in range(64)] * 10
    assert counted([cache(8, 8)], events(whole)) == {"load_lines": 640, "load_l1_hit": 576, "load_memory": 64}
    set_of_9 = [("load", 64 * 8 * line, 8) for line in range(9)] * 10
    assert counted([cache(8, 8)], events(set_of_9)) == {"load_lines": 90, "load_memory": 90}


def test_a_run_looks_up_each_line_once_and_a_strided_run_those_of_each_page() -> None:
    run = events([("load", 100, 4000)])
    run["bytes_per_access"] = 8
    assert counted([cache(64, 8)], run) == {"load_lines": 64, "load_memory": 64}
    strided = events([("store", 4096 + 60, 2 * 4096 + 100)])
    strided["negated_page_bytes"] = -8
    assert counted([cache(64, 8)], strided) == {"store_lines": 6, "store_memory": 6}


@pytest.mark.parametrize(("flush", "hits"), [("clwb", 1), ("clflushopt", 0), ("clflush", 0)])
def test_a_flush_writes_a_dirty_line_back_and_keeps_or_evicts_it(flush: str, hits: int) -> None:
    stream = events([("store", 0, 8), ("flush", 0, 64), ("flush", 0, 64), ("load", 0, 8)])
    stream["flush_count"][1] = 3
    found = counted([cache(8, 8), cache(16, 8)], stream, flush)
    assert found["flushed_lines"] == 4 and found["written_back_flushed"] == 1
    assert found.get("load_l1_hit", 0) == hits and found.get("load_memory", 0) == 1 - hits


def test_a_streaming_store_evicts_its_line_and_voids_its_dirty_bytes_only_if_whole() -> None:
    for length, written in ((64, 0), (8, 1)):
        found = counted([cache(8, 8)], events([("store", 0, 64), ("nt", 0, length), ("load", 0, 8)]))
        assert found["load_memory"] == 1 and found["nt_lines"] == 1
        assert found.get("written_back_evicted", 0) == written


def test_a_page_of_persistent_memory_has_the_same_lines_at_every_virtual_address() -> None:
    twice = events([("store", 1 << 40, 64), ("load", 1 << 41, 64), ("load", 1 << 41, 64)])
    twice["space"], twice["addr"] = [PM, PM, KERNEL], 4096
    found = counted([cache(8, 8)], twice, by_device=True)
    assert found == {
        "store_lines": 1,
        "store_memory": 1,
        "load_lines": 2,
        "load_l1_hit": 1,
        "load_memory": 1,
        "pm_read": 1,
    }
    assert "pm_read" not in counted([cache(8, 8)], twice)


def test_a_stream_is_prefetched_to_the_end_of_its_page() -> None:
    """The first two lines of each page miss; under next-line, each miss finds its line in the second level but the first."""
    stream = events([("load", 64 * line, 64) for line in range(128)])
    tables = [cache(8, 8), cache(64, 8)]
    found = counted(tables, stream, prefetch="stream")
    assert found["load_memory"] == 4 and found["load_l2_hit"] == 124 and found["prefetch_memory"] == 124
    found = counted(tables, stream, prefetch="next-line")
    assert found["load_memory"] == 2 and found["load_l2_hit"] == 126 and found["prefetch_memory"] == 126
    assert counted([cache(8, 8)], stream, prefetch="none") == {"load_lines": 128, "load_memory": 128}


def test_accesses_without_an_address_are_unchecked() -> None:
    work = events([("load", 0, 8)])
    work["code"], work["loads"], work["stores"] = WORK, 7000, 3000
    assert counted([cache(8, 8)], work) == {"unchecked": 10000}


def test_impossible_levels_are_refused() -> None:
    with pytest.raises(UsageError, match="can have 1 to 3"):
        state.build([])
    with pytest.raises(UsageError, match="level 2 cannot be 'exclusive'; only the third"):
        state.build([cache(1, 1), cache(1, 1, "exclusive")])


def test_lines_are_those_of_events() -> None:
    rng = np.random.default_rng(5)
    addresses, kinds = rng.integers(0, 1 << 16, 3000), rng.choice(["load", "store"], 3000).tolist()
    tables = [cache(8, 8), cache(16, 8, "inclusive"), cache(48, 16, "exclusive")]
    caches, counts = state.build(tables), np.zeros(1, state.ROW)
    stream = events([(kind, address, 1) for kind, address in zip(kinds, addresses.tolist(), strict=True)])
    simulate_lines(caches.record, caches.arena, counts, stream["code"].copy(), addresses)
    found = {name: int(n) for name, n in zip(state.COLUMNS, counts["at"][0], strict=True) if n}
    assert found == counted(tables, stream)
