"""Check walks by hand and by closed formulas: entries read, cycles, page sizes, levels and their replacement."""

import math

import numpy as np
import pytest

from scmsim.core.records import FENCE, FETCH, FLUSH, LOAD, MAP, NTSTORE, STORE, UNMAP, WORK
from scmsim.mmu import presets, simulate
from tests.mmu.event_rows import PAGE_1G, PAGE_2M, PAGE_4K, plain_machine, run


@pytest.mark.parametrize(
    ("order", "column", "entries"), [(PAGE_4K, "4k", 4), (PAGE_2M, "2m_4m", 3), (PAGE_1G, "1g", 2)]
)
def test_a_cold_walk_reads_one_entry_per_level(order, column, entries):
    assert run([(LOAD, 1 << 40, 8, order, 8)]) == {
        "instructions": 1000,
        "mem_inst_retired_all_loads": 1000,
        "dtlb_load_lookups": 1,
        "dtlb_load_misses_walk_completed": 1,
        f"dtlb_load_misses_walk_completed_{column}": 1,
        "dtlb_load_misses_walk_pending": 256 * entries,
        "dtlb_load_misses_walk_active": 256 * entries,
        "dtlb_user_lookups": 1,
        "dtlb_user_misses_walk_completed": 1,
        "page_walker_loads": entries,
        "page_walker_loads_memory": entries,
        **{f"page_walker_loads_{level}": 1 for level in ("pte", "pde", "pdpte", "pml4e")[4 - entries :]},
    }


@pytest.mark.parametrize(("step", "entries"), [(1 << 12, 1), (1 << 21, 2), (1 << 30, 3), (1 << 39, 4)])
def test_a_second_walk_is_cut_off_at_the_lowest_shared_table(step, entries):
    counters = run([(LOAD, 0, 1, PAGE_4K, 1), (LOAD, step, 1, PAGE_4K, 1)])
    assert counters["page_walker_loads"] == 4 + entries
    assert counters.get("page_walk_cache_hits", 0) == (entries < 4)


def test_a_copy_is_two_runs_with_one_access_per_instruction():
    counters = run([(LOAD, 1 << 40, 4096, PAGE_4K, 64), (NTSTORE, -(1 << 46), 4096, PAGE_1G, 8)])
    assert counters["dtlb_load_lookups"] == 64 and counters["dtlb_load_l1_hit"] == 63
    assert counters["dtlb_store_lookups"] == 512 and counters["dtlb_store_l1_hit"] == 511
    assert counters["instructions"] == 1000 * (64 + 512)
    assert counters["mem_inst_retired_all_stores"] == 512_000
    assert counters["dtlb_user_lookups"] == 64


def test_a_rep_string_looks_up_once_per_page():
    counters = run([(STORE, 4096 - 8, 4096 + 16, PAGE_4K, 0)])
    assert counters["dtlb_store_lookups"] == counters["dtlb_store_misses_walk_completed"] == 3
    assert "instructions" not in counters


def test_clwb_translates_but_retires_no_load():
    counters = run([(FLUSH, 0, 8192, PAGE_4K, 64)])
    assert counters["dtlb_load_lookups"] == 2
    assert "mem_inst_retired_all_loads" not in counters and "instructions" not in counters


def test_work_counts_its_amounts_and_one_fetch():
    assert run([(WORK, -(1 << 31), 70, PAGE_2M, 30, 250)] * 2) == {
        "instructions": 500,
        "mem_inst_retired_all_loads": 140,
        "mem_inst_retired_all_stores": 60,
        "itlb_lookups": 2,
        "itlb_l1_hit": 1,
        "itlb_misses_walk_completed": 1,
        "itlb_misses_walk_completed_2m_4m": 1,
        "itlb_misses_walk_pending": 3 * 256,
        "itlb_misses_walk_active": 3 * 256,
        "page_walker_loads": 3,
        "page_walker_loads_memory": 3,
        "page_walker_loads_pde": 1,
        "page_walker_loads_pdpte": 1,
        "page_walker_loads_pml4e": 1,
    }


def test_fences_maps_and_empty_runs_change_nothing():
    assert run([(FENCE, 0, 1, 0), (MAP, 0, 4096, PAGE_4K), (LOAD, 5, 0, PAGE_4K, 8), (UNMAP, 5, 0, PAGE_4K)]) == {}


def test_a_page_that_the_first_level_has_no_array_for_is_held_in_pieces():
    counters = run([(LOAD, 0, 1 << 14, PAGE_2M, 64)], "i7-8700k-thesis")
    assert counters["dtlb_load_lookups"] == 256
    assert counters["dtlb_load_misses_walk_completed_2m_4m"] == 1
    assert counters["dtlb_load_misses_stlb_hit"] == 3  # the STLB holds the 2 MiB page in one piece


def test_core_2_maps_1g_pages_with_2m_pages_and_stores_skip_the_first_level():
    rows = [(LOAD, 0, 8, PAGE_1G, 8), (STORE, 1 << 21, 8, PAGE_1G, 8), (LOAD, 1 << 21, 8, PAGE_1G, 8)]
    counters = run(rows, "core2-q8200")
    assert counters["dtlb_load_misses_walk_completed_2m_4m"] == 1
    assert counters["dtlb_store_misses_walk_completed_2m_4m"] == 1
    assert counters["dtlb_load_misses_stlb_hit"] == 1  # found in DTLB1, which the store filled


def test_fetches_of_a_1g_page_count_as_2m():
    assert run([(FETCH, 0, 64, PAGE_1G)])["itlb_misses_walk_completed_2m_4m"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("footprint", [1 << 24, 1 << 26, 1 << 30])
def test_random_accesses_miss_as_reach_over_footprint_says(footprint):
    """A TLB with LRU holds `entries` of `pages` equally likely pages, so it misses 1 - entries / pages."""
    n, pages = 100_000, footprint >> 12
    addresses = np.random.default_rng(1).integers(0, footprint, 2 * n)
    warm, both = simulate(addresses[:n]), simulate(addresses)
    rate = {field: (both[field] - warm[field]) / n for field in both}

    def near(value, low, high):
        sigma = math.sqrt(high * (1 - high) / n) if 0 < high < 1 else 0
        return low - 5 * sigma - 1e-3 <= value <= high + 5 * sigma + 1e-3

    assert near(1 - rate["dtlb_load_l1_hit"], 1 - 64 / pages, 1 - 64 / pages)
    # the second level may or may not hold what the first holds
    assert near(rate["dtlb_load_misses_walk_completed"], 1 - (1536 + 64) / pages, 1 - 1536 / pages)


@pytest.mark.parametrize("pages", [4096, 1 << 14])
def test_random_walks_cost_what_the_closed_formula_says(pages):
    """Cycles an access = (1 - reach / footprint) x cost of a walk: 4 entries at 10 cycles each."""
    n = 100_000
    table = {**presets.plain("1024x1024"), "walk": {"levels": 4, "largest_page": "1GiB", "ref_cycles": 10}}
    addresses = np.random.default_rng(1).integers(0, pages << 12, 2 * n)
    warm, both = simulate(addresses[:n], table), simulate(addresses, table)
    cost = (both["dtlb_load_misses_walk_pending"] - warm["dtlb_load_misses_walk_pending"]) / n
    share = 1 - 1024 / pages
    assert abs(cost - share * 40) < 5 * 40 * math.sqrt(share * (1 - share) / n)


def test_a_sweep_within_reach_walks_once():
    sweep = np.tile(np.arange(1024) * 4096, 3)
    counters = simulate(sweep)
    assert counters["dtlb_load_misses_walk_completed"] == 1024
    assert counters["dtlb_load_misses_stlb_hit"] == 2048
    assert simulate(sweep, page="2MiB")["dtlb_load_misses_walk_completed"] == 2


def test_two_walkers_overlap_and_one_does_not():
    """Three walks of 40 cycles begin at times 0, 1 and 2: two walkers are busy until 80 together, one until 120."""
    flat = {"ref_cycles": 10}
    one = simulate([0, 4096, 8192], plain_machine(walk=flat))
    two = simulate([0, 4096, 8192], plain_machine(walk={**flat, "walkers": 2}))
    assert one["dtlb_load_misses_walk_pending"] == one["dtlb_load_misses_walk_active"] == 120
    assert two["dtlb_load_misses_walk_pending"] == 120 and two["dtlb_load_misses_walk_active"] == 80


def test_a_virtual_machine_reads_24_entries():
    """Four levels over four, nothing cached (Bhargava et al., ASPLOS 2008)."""
    counters = simulate([0], plain_machine(walk={"nested_levels": 4}))
    assert counters["page_walker_loads"] == 24 and counters["page_walker_nested_loads"] == 20


def test_page_tables_in_scm_cost_what_scm_costs():
    memory = [{"name": "l1d", "entries": 8, "ways": 8, "cycles": 5, "source": "test"}]
    walk = {"memory_cycles": 200, "scm_cycles": 700}
    table = plain_machine(walk=walk, walk_memory=memory)
    del table["walk"]["ref_cycles"]
    dram, scm = simulate([0, 4096], table), simulate([0, 4096], table, scm_tables=True)
    # the first walk misses four lines, the second finds all of them in the cache
    assert dram["dtlb_load_misses_walk_pending"] == 4 * 200 + 4 * 5
    assert scm["dtlb_load_misses_walk_pending"] == 4 * 700 + 4 * 5
    assert (scm["page_walker_loads_scm"], scm["page_walker_loads_l1"], scm["page_walker_loads_memory"]) == (4, 4, 0)


def test_contiguous_pages_share_an_entry_where_the_tlb_coalesces():
    table = presets.plain("16x16")
    table["tlb"][0]["coalesce"] = 4
    sweep = np.tile(np.arange(64) << 12, 2)
    assert simulate(sweep, table)["dtlb_load_misses_walk_completed"] == 128
    assert simulate(sweep, table, contiguous=True)["dtlb_load_misses_walk_completed"] == 16


def test_tailored_pages_need_one_entry_for_a_range():
    """A file of 3 x 128 KiB on pages of that size (tailored page sizes): three walks, whatever is read."""
    sweep = np.tile(np.arange(0, 3 << 17, 512), 2)
    assert simulate(sweep, presets.plain("4x4"), "128KiB")["dtlb_load_misses_walk_completed"] == 3
    assert simulate(sweep, presets.plain("4x4"))["dtlb_load_misses_walk_completed"] == 192


def test_a_victim_level_adds_its_reach_to_the_first():
    """Exclusive levels hold 16 + 64 pages, others 64: a sweep over 80 pages walks once or always (LRU)."""
    sweep = np.tile(np.arange(80) << 12, 10)
    table = presets.plain("16x16", "64x64")
    assert simulate(sweep, {**table, "fill": "exclusive"})["dtlb_load_misses_walk_completed"] == 80
    assert simulate(sweep, table)["dtlb_load_misses_walk_completed"] == 800


@pytest.mark.parametrize("policy", ["lru", "fifo"])
def test_a_loop_over_one_page_too_many_defeats_recency(policy):
    table = presets.plain("4x4", policy=policy)
    assert simulate(np.tile(np.arange(5) << 12, 3), table)["dtlb_load_misses_walk_completed"] == 15


def test_srrip_keeps_what_is_used_again_from_a_scan():
    """Pages 0 and 1 are hit between scans of new pages: SRRIP keeps them, LRU does not."""
    trace = [page for scan in range(20) for page in (0, 1, 0, 1, *range(100 + 4 * scan, 104 + 4 * scan))]
    walks = {
        policy: simulate(np.array(trace) << 12, presets.plain("4x4", policy=policy))["dtlb_load_misses_walk_completed"]
        for policy in ("lru", "srrip")
    }
    assert walks == {"lru": 20 * 6, "srrip": 20 * 4 + 2}
