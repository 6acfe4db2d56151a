"""Known walks by hand, a closed formula, and the front of the MMU room."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from scmsim import mmu
from scmsim.counters import COUNTERS
from scmsim.errors import UsageError
from scmsim.mmu import simulate, state
from scmsim.mmu.replay import replay
from scmsim.records import EVENT, EVENTS, FENCE, FETCH, FLUSH, INVALIDATE, LOAD, MAP, NTSTORE, REMAP, STORE, UNMAP, WORK

PAGE_4K, PAGE_2M, PAGE_1G = 12, 21, 30


def run(rows, machine="i7-8700k", first=None):
    """Counters of events (code, vaddr, length, order, width, addr) as a dict of what is not zero."""
    batch = np.zeros(len(rows), EVENT).view(np.recarray)
    for i, row in enumerate(rows):
        code, vaddr, length, order, width, addr = (*row, 0, 0)[:6]
        batch.code[i], batch.vaddr[i], batch.length[i] = code, vaddr, length
        batch.order[i], batch.width[i], batch.addr[i] = order, width, addr
    counters = np.zeros(1, COUNTERS).view(np.recarray)
    replay(mmu.machine(machine) if first is None else first, counters, batch, np.zeros(len(rows), np.int64), len(rows))
    return {field: int(counters[field][0]) for field in COUNTERS.names if counters[field][0]}


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
        "dtlb_load_misses_walk_pending": 12 * entries,
        "dtlb_load_misses_walk_active": 12 * entries,
        "dtlb_user_lookups": 1,
        "dtlb_user_misses_walk_completed": 1,
        "page_walker_loads": entries,
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
        "itlb_misses_walk_pending": 36,
        "itlb_misses_walk_active": 36,
        "page_walker_loads": 3,
    }


def test_fences_maps_and_empty_runs_change_nothing():
    assert run([(FENCE, 0, 1, 0), (MAP, 0, 4096, PAGE_4K), (LOAD, 5, 0, PAGE_4K, 8), (UNMAP, 5, 0, PAGE_4K)]) == {}


@pytest.mark.parametrize("code", [UNMAP, REMAP, INVALIDATE])
@pytest.mark.parametrize("access", [LOAD, STORE, FETCH])
def test_invalidated_pages_walk_again_in_full(code, access):
    counters = run([(access, 0, 8192, PAGE_4K), (code, 4096, 4096, PAGE_4K), (access, 0, 8192, PAGE_4K)])
    side = {LOAD: "dtlb_load", STORE: "dtlb_store", FETCH: "itlb"}[access]
    assert counters["tlb_invalidations"] == 1
    assert counters[f"{side}_misses_walk_completed"] == 3 and counters[f"{side}_l1_hit"] == 1
    assert counters["page_walker_loads"] == 4 + 1 + 4  # the invalidation emptied the page-walk caches


def test_a_flush_of_everything_is_one_event():
    rows = [(LOAD, page << 12, 8, PAGE_4K, 8) for page in range(100)]
    counters = run([*rows, (INVALIDATE, 0, 1 << 47, PAGE_4K), *rows])
    assert counters["tlb_invalidations"] == 1 << 35
    assert counters["dtlb_load_misses_walk_completed"] == 200


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


def test_a_sweep_within_reach_walks_once():
    sweep = np.tile(np.arange(1024) * 4096, 3)
    counters = simulate(sweep)
    assert counters["dtlb_load_misses_walk_completed"] == 1024
    assert counters["dtlb_load_misses_stlb_hit"] == 2048
    assert simulate(sweep, page="2MiB")["dtlb_load_misses_walk_completed"] == 2


def test_simulate_takes_kernel_addresses_of_any_integer_type():
    signed = np.array([-(1 << 46), -(1 << 46) + 4096], np.int64)
    assert simulate(signed) == simulate(signed.view(np.uint64))
    assert simulate(signed)["dtlb_user_lookups"] == 0
    assert set(simulate([]).values()) == {0}


def test_simulate_says_what_is_wrong():
    with pytest.raises(UsageError, match="'3KiB'; use 4KiB, 2MiB or 1GiB"):
        simulate([0], page="3KiB")
    with pytest.raises(UsageError, match="did you mean 'i7-8700k'"):
        simulate([0], machine="i7-8700")
    with pytest.raises(UsageError, match="must be integers, not float64"):
        simulate([0.5])


def test_without_compiled_kernels_the_counts_are_the_same():
    code = (
        "import json, numpy as np; from scmsim.mmu import simulate\n"
        "a = np.random.default_rng(3).zipf(1.3, 300) % 3000 * 4096 - (1 << 46)\n"
        "print(json.dumps([simulate(a, m, p) for m in ('i7-8700k', 'core2-q8200') for p in ('4KiB', '2MiB')]))"
    )
    outputs = [
        json.loads(subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "NUMBA_DISABLE_JIT": off}))
        for off in ("0", "1")
    ]
    assert outputs[0] == outputs[1]


def test_listing_machines_imports_nothing_heavy():
    heavy = "[name for name in ('numba', 'numpy', 'pandas') if name in sys.modules]"
    code = f"import sys; from scmsim import mmu; mmu.names(); print({heavy})"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"


def _fields(dtype):
    for name in dtype.names or ():
        yield name
        yield from _fields(dtype.fields[name][0].base)


def test_no_field_hides_behind_a_numpy_attribute():
    assert not [field for field in _fields(state.MMU) if hasattr(np.void, field)]


def test_the_pool_is_aligned_to_cache_lines():
    assert state.empty().ctypes.data % 64 == 0


def test_every_event_code_has_a_page_record():
    pages = mmu.machine("i7-8700k").page[0]
    assert pages.shape[0] == len(EVENTS)
    assert (pages["leaf"] > 0).all()
