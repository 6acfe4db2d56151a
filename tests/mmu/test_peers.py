"""Small random traces through two cache simulators that are not ours (the long ones: tests/verification/mmu_peers.py)."""

import numpy as np
import pytest

from scmsim.mmu import mrc, plain_misses, presets, simulate


def random_pages(seed, count=4000):
    rng = np.random.default_rng(seed)
    return (
        np.where(rng.random(count) < 0.5, rng.zipf(1.2, count) % 3000, rng.integers(0, 300, count)).astype(np.int64)
        << 12
    )


@pytest.mark.parametrize("policy", ["LRU", "FIFO"])
@pytest.mark.parametrize(("l1", "stlb"), [((16, 4), (128, 12)), ((1, 8), (4, 16)), ((4, 1), (2, 5)), ((8, 3), (1, 15))])
def test_pycachesim_counts_the_same(policy, l1, stlb):
    cachesim = pytest.importorskip("cachesim")
    for seed in range(5):
        pages, memory = random_pages(seed), cachesim.MainMemory()
        second = cachesim.Cache("stlb", *stlb, 4096, policy)
        first = cachesim.Cache("l1", *l1, 4096, policy, store_to=second, load_from=second)
        memory.load_to(second)
        memory.store_from(second)
        cachesim.CacheSimulator(first, memory).load(pages.tolist())
        texts = [f"{sets * ways}x{ways}" for sets, ways in (l1, stlb)]
        counts = simulate(pages, presets.plain(*texts, policy=policy.lower()))
        walks = counts["dtlb_load_misses_walk_completed"]
        peer = (first.backend.MISS_count, second.backend.MISS_count)
        assert (walks + counts["dtlb_load_misses_stlb_hit"], walks) == peer
        if policy == "LRU":
            assert tuple(plain_misses(pages, *texts).values())[1:] == peer


@pytest.mark.parametrize("entries", [1, 7, 64, 1536])
def test_libcachesim_counts_the_same(entries):
    libcachesim = pytest.importorskip("libcachesim")
    pages, request = random_pages(11, 8000), libcachesim.Request()
    cache, misses = libcachesim.LRU(cache_size=entries), 0
    request.obj_size = 1
    for page in (pages >> 12).tolist():
        request.obj_id = page
        misses += not cache.get(request)
    curve = mrc.Curve(12)
    curve.add(pages)
    assert curve.misses([entries])[0] == misses
    shape = f"{entries}x{entries}"
    assert simulate(pages, presets.plain(shape))["dtlb_load_misses_walk_completed"] == misses
