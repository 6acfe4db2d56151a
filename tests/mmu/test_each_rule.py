"""One machine for each rule and shape, all on the same events and addresses, against the reference implementation.

What random machines (test_properties.py) meet seldom comes here every time: full sets, all walkers busy, pages of many sizes.
"""

import numpy as np
import pytest

from scmsim.core.counters import COUNTERS
from scmsim.core.errors import UsageError
from scmsim.core.records import EVENTS
from scmsim.mmu import batch, presets
from scmsim.mmu import state as layout
from scmsim.mmu.build import build
from scmsim.mmu.columns import SUPPLIED
from scmsim.mmu.replay import replay
from tests.conftest import NO_JIT
from tests.mmu.test_properties import SIDES, TIME, WALK_SOURCE, pack
from tests.reference import mmu_slow

HALVES = (0, 1 << 40, -(1 << 40))  # places that pages lie at
CODES = ["LOAD"] * 8 + ["STORE"] * 4 + ["NTSTORE", "FETCH", "FETCH", "FLUSH", "WORK", "UNMAP", "REMAP", "INVALIDATE"]
SCM = 64  # of an order: the page table lies in storage-class memory


def array(sets, ways, **more):
    return {"entries": sets * ways, "ways": ways, "source": "test", **more}


def tlb(first, second, pages=("4KiB", "2MiB", "1GiB"), sides=SIDES, **more):
    """An array of both levels for some sides."""
    both = []
    for level, (sets, ways) in (("first", first), ("second", second)):
        both.append(
            array(sets, ways, name=level, pages=[*pages], **more) | {f"{level}_level_for": [*sides]},
        )
    return both


def table(tlbs=None, walk=None, **more):
    """A machine with two small levels and three page-walk caches, but for what is given."""
    walks = {"levels": 4, "largest_page": "1GiB", "ref_cycles": 9, "source": WALK_SOURCE} | (walk or {})
    caches = [array(1, 4, entry="pde"), array(2, 2, entry="pdpte"), array(1, 2, entry="pml4e")]
    arrays = tlbs or tlb((2, 4), (4, 4))
    if "walk_memory" in more:
        del walks["ref_cycles"]
    return {"summary": "test", "tlb": arrays, "walk_cache": caches, "walk": walks, "time": TIME} | more


def by_policy(policy, ways=4, **more):
    return table(tlb((2, ways), (4, ways), policy=policy), **more)


MEMORY = {
    "walk_memory": [array(2, 4, name=name, cycles=cycles) for name, cycles in (("l1", 3), ("l2", 7), ("l3", 20))],
    "walk": {"memory_cycles": 50, "scm_cycles": 90},
}
COSTS = {"invlpg_cycles": 3, "flush_cycles": 11, "shootdown_cycles": 70, "shootdown_cpu_cycles": 6}
TOLD = {"broadcast_pages": 3, "broadcast_from": 3, "broadcast_cycles": 13, "sync_cycles": 170, "sync_cpu_cycles": 2}
NESTED = {"nested_levels": 4, "nested_page": "2MiB"}
MACHINES = {
    "base": table(),
    **{policy: by_policy(policy) for policy in ("fifo", "random", "tree-plru", "bit-plru", "srrip")},
    **{f"{ways} ways, {policy}": by_policy(policy, ways) for ways, policy in ((17, "lru"), (33, "fifo"), (32, "tree-plru"))},
    "8 and 16 ways": table(tlb((3, 8), (2, 16))),
    "xor": table(tlb((4, 2), (8, 2), index="xor")),
    "one level": table(tlb((2, 4), (4, 4))[:1]),
    "exclusive": table(fill="exclusive"),
    "the second level named first": table(tlb((2, 4), (4, 4))[::-1]),
    "exclusive, the second level named first": table(tlb((2, 4), (4, 4))[::-1], fill="exclusive"),
    "exclusive, two arrays before one": table(
        tlb((1, 2), (1, 4), sides=["load", "fetch"])[:1] + tlb((1, 2), (1, 4), sides=["store"])[:1] + tlb((1, 4), (1, 4))[1:],
        fill="exclusive",
    ),
    "srrip before lru": table(tlb((2, 4), (4, 4), policy="srrip")[:1] + tlb((2, 4), (4, 4))[1:]),
    "exclusive, srrip": by_policy("srrip", fill="exclusive"),
    "on walks": table(fill="on-walk"),
    "on walks, srrip": by_policy("srrip", fill="on-walk"),
    "2 walkers": table(walk={"walkers": 2}),
    "4 walkers": table(walk={"walkers": 4, "ref_cycles": 40}),
    "caches": table(**MEMORY),
    "caches, 2 walkers": table(**MEMORY | {"walk": MEMORY["walk"] | {"walkers": 2}}),
    "1 level": table(walk={"levels": 1}, walk_cache=[]),
    "2 levels": table(walk={"levels": 2, "level_bits": [8]}, walk_cache=[array(1, 4, entry="pde")]),
    "3 levels": table(walk={"levels": 3, "level_bits": [8, 9]}),
    "5 levels": table(walk={"levels": 5, "level_bits": [9, 8, 7, 9]}),
    "nested": table(walk=NESTED),
    "nested TLB": table(walk=NESTED | {"nested_page": "4KiB"}, nested_tlb=[array(2, 4)]),
    "nested, caches": table(**MEMORY | {"walk": MEMORY["walk"] | NESTED, "nested_tlb": [array(1, 4)]}),
    "bits": table(walk={"hardware_bits": True, "update_cycles": 7}),
    "bits, and room for all pages": table(tlb((8, 16), (8, 16)), walk={"hardware_bits": True, "update_cycles": 7}),
    "any size": table(tlb((2, 4), (4, 4), ["any"])),
    "in pieces": table(tlb((2, 4), (4, 4), ["4KiB"])),
    "coalescing": table(tlb((2, 4), (4, 4), ["4KiB", "2MiB"], coalesce=4)),
    "split": table(
        tlb((1, 4), (2, 4), ["4KiB"], ["load"])
        + tlb((1, 2), (2, 2), ["4KiB", "64KiB"], ["store"])
        + tlb((2, 2), (1, 4), ["4KiB", "2MiB"], ["fetch"])
        + tlb((1, 2), (1, 4), ["2MiB"], ["load"])
    ),
    "no walk caches": table(walk_cache=[]),
    "no PCID": table(invalidate={"pcid": 0, "ceiling": 2, "cores": 4, "program_cpus": 3, **COSTS}),
    "a high ceiling": table(invalidate={"ceiling": 1000}),
    "8 and 16 ways, a high ceiling": table(tlb((3, 8), (2, 16)), invalidate={"ceiling": 1000}),
    "fifo, a high ceiling": table(tlb((2, 4), (3, 8), policy="fifo"), invalidate={"ceiling": 1000}),
    "told": table(invalidate={"ceiling": 9, "kernel_ceiling": 2, "cores": 4, "program_cpus": 3, **COSTS, **TOLD}),
}  # fmt: skip


def page_of(random):
    """Number, order and address of a page: some tens near three places, of sizes that machines have and have not."""
    order = int(random.choice([12, 12, 12, 12, 16, 21, 25, 30]))
    number = int(random.integers(0, 30 if order == 12 else 5)) + int(random.choice([0, 0, 0, 64]))
    return order, int(random.choice(HALVES)) + (number << order)


def rows(seed, count):
    """Events as those of test_properties.py: (code, vaddr, length, order, width, addr, row)."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        code, (order, vaddr) = str(random.choice(CODES)), page_of(random)
        order |= int(random.choice([0, 0, 32, SCM]))
        length, width = int(random.choice([1, 8, 4096, 9000])), int(random.choice([0, 1, 8, 64]))
        if code in ("UNMAP", "REMAP", "INVALIDATE"):
            length, width = (
                int(random.choice([1, 8192, 1 << 14, 100_000, 1 << 21])),
                int(random.choice([0, 0, 1, 3, 4])),
            )
        if code == "INVALIDATE":
            length, width = int(random.choice([0, length])), 0  # of pages, or of none
        if random.random() < 0.06:  # another address space
            code, length, width = "INVALIDATE", 0, 1 + int(random.integers(0, 9))
        yield code, vaddr, length, order, width, int(random.integers(0, 2000)), 0


def addresses(seed, count):
    """A stream that stays on a page for a while, comes back to some and goes on to others; in both halves."""
    random = np.random.default_rng(seed)
    pages = np.where(random.random(count) < 0.5, random.integers(0, 8, count), random.integers(0, 60, count))
    pages[1:][random.random(count - 1) < 0.2] = 7
    where = random.choice(np.array([0, 0, 1 << 40, -(1 << 40)]), count) + (pages << random.choice([12, 12, 21], count))
    where += random.integers(0, 4096, count) * random.integers(0, 2, count)  # half of them the first byte of a page
    return np.repeat(where, random.choice([1, 1, 2], count))


def counted(slow):
    return {field: slow.count[field] for field in SUPPLIED}


@pytest.mark.parametrize("name", MACHINES)
def test_events(name):
    presets.check(MACHINES[name])
    slow, counters, events = mmu_slow.Mmu(MACHINES[name]), np.zeros(1, COUNTERS), list(rows(1, 300))
    replay(build(MACHINES[name]), counters, *pack(events), len(events))
    for row in events:
        slow.event(*row[:-1])
    assert {field: int(counters[field][0]) for field in SUPPLIED} == counted(slow)


@pytest.mark.parametrize(
    "name", ["base", "caches", "nested, caches", "5 levels", "no walk caches", "no PCID", "bits", "4 walkers"]
)
def test_the_log_of_walks_has_each_entry_that_was_read(name):
    """In order, with the number of its event; and a full log loses entries, not counts."""
    state, counters, events = build(MACHINES[name]), np.zeros(1, COUNTERS), list(rows(2, 200))
    log, slow, read = np.zeros(1 << 14, layout.LOGGED), mmu_slow.Mmu(MACHINES[name]), []
    look_up = slow.reference
    slow.reference = lambda line, scm: read.append((slow.number, line[2])) or look_up(line, scm)
    for slow.number, row in enumerate(events):
        slow.event(*row[:-1])
    state[0]["log"], state[0]["log_room"] = log.ctypes.data, len(log)
    replay(state, counters, *pack(events), len(events))
    assert int(state[0]["logged"]) == len(read) == int(counters["page_walker_loads"][0]) > 100
    found = log[: len(read)]
    assert [(int(entry["event"]), int(entry["line"]) & (1 << 48) - 1) for entry in found] == read
    small, again = build(MACHINES[name]), np.zeros(8, layout.LOGGED)
    small[0]["log"], small[0]["log_room"] = again.ctypes.data, 7
    replay(small, np.zeros(1, COUNTERS), *pack(events), len(events))
    assert (
        int(small[0]["logged"]) == len(read)
        and (again[:7] == found[:7]).all()
        and again[7] == np.zeros(1, layout.LOGGED)[0]
    )


@pytest.mark.parametrize("name", MACHINES)
def test_streams(name):
    """Two, and between them a part of what the first let in is removed, and later all of it."""
    state, slow, counters = build(MACHINES[name]), mmu_slow.Mmu(MACHINES[name]), np.zeros(1, COUNTERS)
    parts = [("LOAD", 12), ("STORE", 21 | SCM), ("FETCH", 12 | SCM), ("LOAD", 30)]
    removed = [("UNMAP", 0, 1 << 14), ("INVALIDATE", 1 << 40, 1 << 13), ("UNMAP", -(1 << 40), 1 << 40), ("MAP", 0, 0)]
    for seed, ((code, order), (how, vaddr, length)) in enumerate(zip(parts, removed, strict=True)):
        where = addresses(seed, 150)
        batch.replay_batch(state, counters, where, EVENTS.index(code), order)
        for address in where.tolist():
            slow.event(code, address, 1, order, 1)
        gone = (how, vaddr, length, 12, 0, 0, 0)
        replay(state, counters, *pack([gone]), 1)
        slow.event(*gone[:-1])
    assert {field: int(counters[field][0]) for field in SUPPLIED} == counted(slow)


@pytest.mark.skipif(not NO_JIT, reason="compiled kernels know the size of a batch when they are compiled")
@pytest.mark.parametrize("name", ["base", "caches, 2 walkers", "one level", "nested", "split", "4 walkers"])
def test_a_stream_of_several_batches(name, monkeypatch):
    monkeypatch.setattr(batch, "BATCH", 64)
    state, slow, counters = build(MACHINES[name]), mmu_slow.Mmu(MACHINES[name]), np.zeros(1, COUNTERS)
    where = addresses(5, 150)
    for part in (where[:64], where[64:65], where[65:]):
        batch.replay_batch(state, counters, part, EVENTS.index("STORE"), 12)
    for address in where.tolist():
        slow.event("STORE", address, 1, 12, 1)
    assert {field: int(counters[field][0]) for field in SUPPLIED} == counted(slow) | {
        "instructions": 1000 * len(where), "mem_inst_retired_all_stores": 1000 * len(where),
    }  # fmt: skip


@pytest.mark.parametrize(("count", "fits"), [(layout.ARRAYS, True), (layout.ARRAYS + 1, False)])
def test_a_machine_has_room_for_so_many_arrays(count, fits):
    arrays = [array(1, 1, name=f"a{k}", pages=["4KiB"], first_level_for=[*SIDES]) for k in range(count)]
    machine = table(arrays, walk_cache=[])
    if fits:
        build(machine)
        return
    with pytest.raises(UsageError, match=f"can have {layout.ARRAYS} TLB arrays and caches, not {count}"):
        build(machine)


@pytest.mark.parametrize(("entries", "fits"), [(layout.SLOTS - 8, True), (layout.SLOTS, False)])
def test_a_machine_has_room_for_so_many_slots(entries, fits):
    machine = table(
        [array(entries // 8, 8, name="all", pages=["4KiB"], first_level_for=[*SIDES])],
        walk_cache=[array(1, 8, entry="pde")],
    )
    if fits:
        build(machine)
        return
    with pytest.raises(UsageError, match=f"can have {layout.SLOTS} slots together, not {layout.SLOTS + 8}"):
        build(machine)
