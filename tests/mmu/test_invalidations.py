"""Check invalidations: which pages walk again, Linux's flushes, other CPUs, and switches of address spaces."""

import numpy as np
import pytest

from scmsim import mmu
from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, FETCH, INVALIDATE, LOAD, REMAP, STORE, UNMAP
from scmsim.mmu import simulate
from scmsim.mmu.batch import replay_batch
from scmsim.mmu.build import build
from scmsim.mmu.replay import replay
from tests.mmu.event_rows import PAGE_2M, PAGE_4K, plain_machine, run


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
