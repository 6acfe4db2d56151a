"""Known walks by hand, a closed formula, and the front of the MMU room."""

import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from scmsim import mmu
from scmsim.core.counters import COUNTERS
from scmsim.core.errors import UsageError
from scmsim.core.records import (
    EVENT,
    EVENTS,
    FENCE,
    FETCH,
    FLUSH,
    INVALIDATE,
    LOAD,
    MAP,
    NTSTORE,
    REMAP,
    STORE,
    UNMAP,
    WORK,
)
from scmsim.mmu import presets, simulate, state
from scmsim.mmu.batch import replay_batch
from scmsim.mmu.build import build
from scmsim.mmu.replay import replay

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


@pytest.mark.parametrize("code", [UNMAP, REMAP, INVALIDATE])
@pytest.mark.parametrize("access", [LOAD, STORE, FETCH])
def test_invalidated_pages_walk_again_in_full(code, access):
    counters = run([(access, 0, 8192, PAGE_4K), (code, 4096, 4096, PAGE_4K), (access, 0, 8192, PAGE_4K)])
    side = {LOAD: "dtlb_load", STORE: "dtlb_store", FETCH: "itlb"}[access]
    assert counters["tlb_invalidations"] == 1
    assert counters[f"{side}_misses_walk_completed"] == 3 and counters[f"{side}_l1_hit"] == 1
    assert counters["page_walker_loads"] == 4 + 1 + 4  # the invalidation emptied the page-walk caches


@pytest.mark.parametrize(("pages", "flushes"), [(1, 0), (33, 0), (34, 1), (1 << 35, 1)])
def test_linux_flushes_everything_for_more_than_33_pages(pages, flushes):
    rows = [(LOAD, page << 12, 8, PAGE_4K, 8) for page in range(100)]
    counters = run([*rows, (INVALIDATE, 0, pages << 12, PAGE_4K), *rows])
    assert counters.get("tlb_flushes", 0) == flushes
    assert counters.get("tlb_invalidations", 0) == (0 if flushes else pages)
    assert counters["dtlb_load_misses_walk_completed"] == 100 + (100 if flushes else pages)


@pytest.mark.parametrize(("vaddr", "flushes"), [(1 << 40, 0), (-(1 << 40), 1)])
def test_linux_counts_kernel_addresses_by_4k(vaddr, flushes):
    """One 2 MiB page is one INVLPG for a program and 512, so a whole flush, for the kernel (flush_tlb_kernel_range)."""
    counters = run([(UNMAP, vaddr, 1 << 21, PAGE_2M)])
    assert counters.get("tlb_flushes", 0) == flushes and counters.get("tlb_invalidations", 0) == 1 - flushes


def test_what_a_stream_let_in_is_flushed_too():
    """Streams take another way through the arrays than events do, which note the sets that a flush has to empty."""
    first, pages = mmu.machine("i7-8700k"), np.arange(100, dtype=np.int64) << 12
    replay_batch(first, np.zeros(1, COUNTERS), pages, LOAD, PAGE_4K)
    counters = run(
        [(INVALIDATE, -(1 << 40), 1 << 30, PAGE_4K), *((LOAD, int(p), 8, PAGE_4K, 8) for p in pages)], first=first
    )
    assert counters["dtlb_load_misses_walk_completed"] == 100


def test_a_flush_of_user_addresses_keeps_the_kernels_pages():
    rows = [(LOAD, 0, 8, PAGE_4K, 8), (LOAD, -4096, 8, PAGE_4K, 8)]
    user = run([*rows, (UNMAP, 0, 1 << 20, PAGE_4K), *rows])
    assert user["dtlb_load_misses_walk_completed"] == 3
    kernel = run([*rows, (UNMAP, -(1 << 20), 1 << 20, PAGE_4K), *rows])
    assert kernel["dtlb_load_misses_walk_completed"] == 4


@pytest.mark.parametrize(("vaddr", "cpus", "interrupted"), [(0, 0, 0), (0, 3, 2), (-4096, 0, 11), (-4096, 2, 1)])
def test_other_cpus_are_interrupted(vaddr, cpus, interrupted):
    """A kernel address is invalidated on all 12 CPUs, a user address where the program runs."""
    rules = {"cores": 12, "invlpg_cycles": 5, "flush_cycles": 50, "shootdown_cycles": 1000, "shootdown_cpu_cycles": 20}
    counters = run([(UNMAP, vaddr, 1, PAGE_4K, cpus)], first=build(plain_machine(invalidate=rules)))
    assert counters.get("tlb_shootdowns", 0) == interrupted
    assert counters["tlb_invalidation_cycles"] == 5 + (1000 + 20 * (interrupted - 1) if interrupted else 0)


@pytest.mark.parametrize(
    ("vaddr", "length", "cpus", "interrupted", "cycles"),
    [
        (0, 9, 4, 0, 2 * 7 + 300 + 3 * 2),  # 8 pages and one; the three others are waited for
        (0, 9, 3, 2, 9 * 5 + 1000 + 20),  # too few CPUs: interrupts
        (0, 9, 0, 4, 9 * 5 + 1000 + 3 * 20),  # the five CPUs of the program, of which six are asked for
        (-(1 << 30), 9, 0, 0, 2 * 7 + 300 + 11 * 2),  # a kernel address: always
        (-(1 << 30), 9, 1, 0, 9 * 5),  # one that the own CPU alone is to forget
        (-(1 << 30), 99, 0, 0, 7 + 300 + 11 * 2),  # everything is one request
    ],
)
def test_hardware_may_tell_other_cpus(vaddr, length, cpus, interrupted, cycles):
    rules = {"cores": 12, "invlpg_cycles": 5, "flush_cycles": 50, "shootdown_cycles": 1000, "shootdown_cpu_cycles": 20}
    rules |= {"broadcast_pages": 8, "broadcast_from": 4 + 2 * (cpus == 0), "broadcast_cycles": 7, "sync_cycles": 300}
    rules |= {"sync_cpu_cycles": 2, "program_cpus": 5}
    counters = run([(UNMAP, vaddr, length << 12, PAGE_4K, cpus)], first=build(plain_machine(invalidate=rules)))
    assert (counters.get("tlb_shootdowns", 0), counters["tlb_invalidation_cycles"]) == (interrupted, cycles)


def test_an_invalidation_may_be_left_to_a_later_one():
    rows = [(LOAD, 0, 64, PAGE_4K)]
    later = run([*rows, (UNMAP, 0, 4096, PAGE_4K, -1), *rows])
    assert later["dtlb_load_misses_walk_completed"] == 1 and not later.get("tlb_invalidations", 0)


def test_a_switch_of_address_spaces_keeps_up_to_six_of_them():
    def switch(to):
        return (INVALIDATE, 0, 0, PAGE_4K, 1 + to)

    load = (LOAD, 0, 8, PAGE_4K, 8)
    walks = "dtlb_load_misses_walk_completed"
    assert run([switch(7), load, switch(8), load, switch(7), load, switch(8), load])[walks] == 2
    seven = [row for _ in range(2) for program in range(7) for row in (switch(program), load)]
    assert run(seven)[walks] == 14
    kernel = (LOAD, -4096, 8, PAGE_4K, 8)
    assert run([switch(1), kernel, switch(2), kernel])[walks] == 1


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


def test_simulate_takes_kernel_addresses_of_any_integer_type():
    signed = np.array([-(1 << 46), -(1 << 46) + 4096], np.int64)
    assert simulate(signed) == simulate(signed.view(np.uint64))
    assert simulate(signed)["dtlb_user_lookups"] == 0
    assert set(simulate([]).values()) == {0}


def test_simulate_says_what_is_wrong():
    with pytest.raises(UsageError, match="'3KiB' is not the size of a page; use a power of two from 4KiB to 1GiB"):
        simulate([0], page="3KiB")
    with pytest.raises(UsageError, match="did you mean 'i7-8700k'"):
        simulate([0], machine="i7-8700")
    with pytest.raises(UsageError, match="must be integers, not float64"):
        simulate([0.5])


@pytest.mark.parametrize("addresses", [None, 5, [1 << 64], [True], ["0"]])
def test_simulate_wants_integers(addresses):
    with pytest.raises(UsageError, match="integers"):
        simulate(addresses)


def test_simulate_takes_numbers_of_both_halves_and_iterables_of_numbers():
    both = [0, (1 << 64) - 4096]
    assert simulate(both) == simulate([0, -4096]) == simulate(iter(both))
    assert simulate(iter(both))["dtlb_user_lookups"] == 1


def test_a_machine_table_is_checked_as_a_file_is():
    table = presets.read("zen4")
    table["tlb"][0]["ways"] = 5
    with pytest.raises(UsageError, match=r"machine table: tlb.0.ways: 5 does not divide entries = 72"):
        simulate([0], table)
    with pytest.raises(UsageError, match="machine table: tlb: is missing"):
        simulate([0], {})
    file = pathlib.Path(presets.__file__).with_name("machines") / "zen4.toml"
    assert simulate([0], file) == simulate([0], "zen4")


def test_a_frame_has_a_row_for_each_machine_and_page_size():
    sweep = np.arange(0, 1 << 23, 4096)
    frame = mmu.simulate_frame(iter([sweep, sweep]), ["i7-8700k", presets.read("zen4")], ["4KiB", "2MiB"])
    assert frame["page"].tolist() == ["4KiB", "2MiB"] * 2 and frame["machine"][0] == "i7-8700k"
    for row, (machine, page) in enumerate((m, p) for m in ("i7-8700k", "zen4") for p in ("4KiB", "2MiB")):
        assert frame.iloc[row, 2:].to_dict() == simulate(np.tile(sweep, 2), machine, page)


@pytest.mark.parametrize("access", ["load", "store", "fetch"])
def test_simulate_counts_the_access_asked_for(access):
    side = {"load": "dtlb_load", "store": "dtlb_store", "fetch": "itlb"}[access]
    counters = simulate([0, 64, 4096, 1 << 30], access=access)
    assert counters[f"{side}_lookups"] == 4 and counters[f"{side}_misses_walk_completed"] == 3


def plain_machine(**more):
    table = presets.plain("64x4", "1536x12")
    table["walk"].update(more.pop("walk", {}))
    return {**table, **more}


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


def test_invalidating_everything_gives_a_cold_tlb():
    addresses = np.random.default_rng(5).zipf(1.3, 2000) % 5000 << 12
    cold = simulate(addresses)
    state_ = mmu.machine("i7-8700k")
    counters = np.zeros(1, COUNTERS)
    replay_batch(state_, counters, addresses.astype(np.int64), LOAD, PAGE_4K)
    flush = np.zeros(1, EVENT)
    flush["code"], flush["length"], flush["order"], flush["vaddr"] = INVALIDATE, 1 << 40, PAGE_4K, -(1 << 45)
    replay(state_, counters, flush, np.zeros(1, np.int64), 1)
    again = np.zeros(1, COUNTERS)
    replay_batch(state_, again, addresses.astype(np.int64), LOAD, PAGE_4K)
    assert int(again["dtlb_load_misses_walk_completed"][0]) == cold["dtlb_load_misses_walk_completed"]


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
    assert state.empty().ctypes.data % 64 == 0 and state.MMU.fields["tag"][1] == 0


def test_every_event_code_has_a_page_record():
    pages = mmu.machine("i7-8700k")["page"][0]
    assert pages.shape[0] == len(EVENTS)
    assert (pages["leaf"] > 0).all()
