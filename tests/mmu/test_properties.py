"""The MMU kernels against their reference implementation, and laws that hold for any run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, EVENTS
from scmsim.mmu import machine, names, presets, simulate
from scmsim.mmu.build import build
from scmsim.mmu.columns import SUPPLIED
from scmsim.mmu.replay import replay
from tests.reference import mmu_slow

PAGE_4K, PAGE_2M = 12, 21
POLICIES = ("lru", "lru", "lru", "fifo", "random", "tree-plru", "bit-plru", "srrip")
SIDES = ("load", "store", "fetch")
TIME = presets.read("i7-8700k")["time"]
WALK_SOURCE = dict.fromkeys(("levels", "largest_page", "ref_cycles"), "test")


@st.composite
def shape(draw, most_sets=8):
    """Entries, ways, index and rule of replacement of an array."""
    policy = draw(st.sampled_from(POLICIES))
    ways = draw(
        st.sampled_from([1, 2, 4, 8, 16, 32] if policy == "tree-plru" else [1, 2, 3, 4, 5, 8, 9, 12, 16, 17, 33])
    )
    sets = draw(st.sampled_from([sets for sets in (1, 2, 3, 4, 6, 8) if sets <= most_sets]))
    index = draw(st.sampled_from(["linear", "xor"] if sets & (sets - 1) == 0 else ["linear"]))
    return {"entries": ways * sets, "ways": ways, "index": index, "policy": policy, "source": "test"}


@st.composite
def tlb(draw, pages, first, second):
    array = {"name": "any", "pages": pages, "first_level_for": first, "second_level_for": second, **draw(shape())}
    return array | ({"coalesce": draw(st.sampled_from([2, 4, 16]))} if draw(st.integers(0, 3)) == 0 else {})


@st.composite
def levels(draw, key):
    """Arrays of one level: split or shared by side, and by page size or for any."""
    arrays = []
    splits = ([["load", "store"], ["fetch"]], [["load"], ["store"], ["fetch"]], [list(SIDES)])
    if key == "second":
        splits = ([], [["load", "store"]], [list(SIDES)])
    for sides in draw(st.sampled_from(splits)):
        first, second = (sides, []) if key == "first" else ([], sides)
        if draw(st.integers(0, 4)) == 0:
            arrays.append(draw(tlb(["any"], first, second)))
            continue
        arrays.append(draw(tlb(["4KiB"], first, second)))
        for page in draw(st.lists(st.sampled_from(["16KiB", "64KiB", "2MiB", "1GiB"]), unique=True)):
            if draw(st.booleans()):
                arrays.append(draw(tlb([page], first, second)))
            else:
                arrays[-1]["pages"] = [*arrays[-1]["pages"], page]
    return arrays


@st.composite
def walks(draw):
    walk = {"levels": draw(st.sampled_from([3, 4, 5]))}
    walk["largest_page"] = draw(st.sampled_from(["4KiB", "64KiB", "2MiB", "1GiB"]))
    if draw(st.integers(0, 4)) == 0:
        walk["level_bits"] = [draw(st.integers(7, 9)) for _ in range(walk["levels"] - 1)]
    for key, values in (("walkers", [1, 1, 2, 4]), ("nested_levels", [0, 0, 0, 3, 4])):
        walk[key] = draw(st.sampled_from(values))
    walk["nested_page"] = draw(st.sampled_from(["4KiB", "2MiB"]))
    walk["hardware_bits"], walk["update_cycles"] = draw(st.sampled_from([False, False, True])), 7
    walk["source"] = dict.fromkeys([*walk, "ref_cycles", "memory_cycles", "scm_cycles"], "test")
    return walk


@st.composite
def machines(draw):
    """Tables of machine files with everything that one may have."""
    table = {
        "summary": "test",
        "tlb": draw(levels("first")) + draw(levels("second")),
        "walk": draw(walks()),
        "time": TIME,
    }
    table["walk_cache"] = [
        {"entry": entry, **draw(shape(2))}
        for entry in draw(st.lists(st.sampled_from(["pde", "pdpte", "pml4e"]), unique=True))
    ]
    caches = draw(st.integers(0, 3))
    table["walk_memory"] = [
        {"name": "cache", "cycles": draw(st.integers(1, 9)), **draw(shape())} for _ in range(caches)
    ]
    table["walk"] |= {"memory_cycles": 50, "scm_cycles": 90} if caches else {"ref_cycles": draw(st.integers(0, 9))}
    table["fill"] = draw(st.sampled_from(["mostly-inclusive", "mostly-inclusive", "exclusive", "on-walk"]))
    if table["walk"]["nested_levels"] and draw(st.booleans()):
        table["nested_tlb"] = [draw(shape(4))]
    if draw(st.booleans()):
        numbers = {"cores": 4, "ceiling": draw(st.integers(1, 40)), "invlpg_cycles": 3, "flush_cycles": 11}
        numbers |= {"shootdown_cycles": 70, "shootdown_cpu_cycles": 6, "pcid": draw(st.integers(0, 1))}
        numbers["program_cpus"] = draw(st.integers(1, 5))
        if draw(st.booleans()):
            numbers |= {"broadcast_pages": draw(st.integers(0, 9)), "broadcast_from": draw(st.integers(0, 6))}
            numbers |= {"broadcast_cycles": 13, "sync_cycles": 170, "sync_cpu_cycles": draw(st.integers(0, 2))}
            numbers |= {"kernel_ceiling": draw(st.integers(0, 20))} if draw(st.booleans()) else {}
        table["invalidate"] = {**numbers, "source": dict.fromkeys(numbers, "test")}
    return table


@st.composite
def events(draw):
    """One event: an address of either half near a boundary of some page size, short or across several pages."""
    code = draw(st.sampled_from(EVENTS))
    order = draw(st.sampled_from([12, 12, 12, 14, 16, 21, 25, 30])) | draw(st.sampled_from([0, 0, 32, 64]))
    base = draw(st.sampled_from([0, 1 << 40, (1 << 47) - (1 << 30), -(1 << 47), -(1 << 31), -(1 << 40)]))
    page = draw(st.integers(0, 6)) << draw(st.sampled_from([12, 12, 12, 21, 30]))
    vaddr = base + page + draw(st.integers(0, 4095))
    length = draw(st.sampled_from([0, 1, 8, 64, 4096, 5000, 1 << 14]))
    if code in ("UNMAP", "REMAP", "INVALIDATE"):
        length = draw(st.sampled_from([0, 1, 4096, 1 << 14, 1 << 21, 1 << 46]))
    if vaddr < 0 < vaddr + length:
        length = -vaddr  # no run leaves its half
    width = draw(st.sampled_from([0, 1, 3, 8, 64, 4096]))
    return code, vaddr, length, order, width, draw(st.integers(0, 5000)), draw(st.integers(0, 2))


def pack(rows):
    batch = np.zeros(max(len(rows), 1), EVENT).view(np.recarray)
    for i, (code, vaddr, length, order, width, addr, _) in enumerate(rows):
        batch.code[i], batch.vaddr[i], batch.length[i] = EVENTS.index(code), vaddr, length
        batch.order[i], batch.width[i], batch.addr[i] = order, width, addr
    return batch, np.array([row[-1] for row in rows] or [0], np.int64)


@settings(max_examples=3 * settings.default.max_examples)
@given(machines(), st.lists(events(), max_size=80))
def test_kernel_agrees_with_slow_twin(table, rows):
    presets.check(table)
    state = build(table)
    counters = np.zeros(3, COUNTERS).view(np.recarray)
    batch, bins = pack(rows)
    replay(state, counters, batch, bins, len(rows))
    slow = mmu_slow.Mmu(table)
    expected = [dict.fromkeys(SUPPLIED, 0) for _ in range(3)]
    for code, vaddr, length, order, width, addr, row in rows:
        before = slow.count.copy()
        slow.event(code, vaddr, length, order, width, addr)
        for field in slow.count:
            expected[row][field] += slow.count[field] - before[field]
    for row in range(3):
        assert {field: int(counters[field][row]) for field in COUNTERS.names} == {
            **dict.fromkeys(COUNTERS.names, 0),
            **expected[row],
        }


@pytest.mark.parametrize("index", ["linear", "xor"])
@pytest.mark.parametrize("ways", [1, 2, 3, 4, 8, 12, 14, 15, 16, 17, 31, 33, 64])
def test_full_sets_agree_with_slow_twin(ways, index):
    """Enough pages to evict, and enough invalidations to leave holes, in sets of every kind."""
    rng = np.random.default_rng(ways)
    l1 = {"name": "l1", "pages": ["4KiB", "2MiB"], "entries": 2 * ways, "ways": ways, "index": index}
    l1 |= {"first_level_for": list(SIDES), "source": "test"}
    walk = {"levels": 4, "largest_page": "1GiB", "ref_cycles": 1, "source": WALK_SOURCE}
    pde = {"entry": "pde", "entries": 4, "ways": 2, "source": "test"}
    table = {"summary": "test", "tlb": [l1], "walk_cache": [pde], "walk": walk, "time": TIME}
    n = 20 * ways + 200
    pages = rng.integers(0, 3 * ways, n) * 4096
    orders = rng.choice([PAGE_4K, PAGE_2M], n, p=[0.9, 0.1])
    codes = rng.choice(["LOAD", "STORE", "FETCH", "INVALIDATE"], n, p=[0.6, 0.2, 0.17, 0.03])
    orders[(codes == "INVALIDATE") & (rng.random(n) < 0.8)] = PAGE_4K
    rows = [(codes[i], int(pages[i]), 1, int(orders[i]), 1, 0, 0) for i in range(n)]
    counters, slow = np.zeros(1, COUNTERS).view(np.recarray), mmu_slow.Mmu(table)
    batch, bins = pack(rows)
    replay(build(table), counters, batch, bins, len(rows))
    for row in rows:
        slow.event(*row[:-1])
    assert {field: int(counters[field][0]) for field in SUPPLIED} == {field: slow.count[field] for field in SUPPLIED}


@given(st.sampled_from(names()), st.lists(events(), max_size=60))
def test_presets_agree_with_slow_twin(name, rows):
    state, slow = machine(name), mmu_slow.Mmu(presets.read(name))
    counters = np.zeros(3, COUNTERS).view(np.recarray)
    batch, bins = pack(rows)
    replay(state, counters, batch, bins, len(rows))
    for code, vaddr, length, order, width, addr, _ in rows:
        slow.event(code, vaddr, length, order, width, addr)
    assert {field: int(counters[field].sum()) for field in SUPPLIED} == {field: slow.count[field] for field in SUPPLIED}


@given(machines(), st.lists(events(), max_size=60))
def test_every_look_up_ends_once(table, rows):
    counters = np.zeros(3, COUNTERS).view(np.recarray)
    batch, bins = pack(rows)
    replay(build(table), counters, batch, bins, len(rows))
    for side in ("dtlb_load", "dtlb_store", "itlb"):
        walks = counters[f"{side}_misses_walk_completed"]
        hits = counters[f"{side}_l1_hit"] + counters[f"{side}_misses_stlb_hit"]
        assert np.array_equal(counters[f"{side}_lookups"], hits + walks)
        sizes = ("4k", "2m_4m") if side == "itlb" else ("4k", "2m_4m", "1g")
        assert np.array_equal(walks, sum(counters[f"{side}_misses_walk_completed_{size}"] for size in sizes))
        assert (counters[f"{side}_l1_hit"] >= 0).all()
    for kind in ("lookups", "misses_stlb_hit", "misses_walk_completed"):
        assert (counters[f"dtlb_user_{kind}"] <= counters[f"dtlb_load_{kind}"] + counters[f"dtlb_store_{kind}"]).all()


@given(machines(), st.lists(events(), max_size=60), st.integers(1, 59))
def test_batches_do_not_matter(table, rows, cut):
    batch, bins = pack(rows)
    totals = []
    for parts in ([(0, len(rows))], [(0, min(cut, len(rows))), (min(cut, len(rows)), len(rows))]):
        state, counters = build(table), np.zeros(3, COUNTERS).view(np.recarray)
        for start, end in parts:
            replay(state, counters, batch[start:], bins[start:], end - start)
        totals.append(counters.tobytes())
    assert totals[0] == totals[1]


def _one_level(entries):
    """A machine with as many fully associative first-level entries for every page size, and nothing else."""
    arrays = [
        {"name": "l1", "pages": [page], "entries": entries, "ways": entries, "source": "test"}
        | {"first_level_for": list(SIDES)}
        for page in ("4KiB", "2MiB", "1GiB")
    ]
    walk = {"levels": 4, "largest_page": "1GiB", "ref_cycles": 1, "source": WALK_SOURCE}
    return {"summary": "test", "tlb": arrays, "walk_cache": [], "walk": walk, "time": TIME}


@given(st.lists(st.integers(0, (1 << 24) - 1), min_size=1, max_size=300), st.sampled_from([1, 2, 7, 16, 20]))
def test_larger_pages_never_walk_more(addresses, entries):
    """With LRU and full associativity a page's reuse distance in pages only shrinks when pages grow."""
    walks = []
    for order in (12, 21, 30):
        state, counters = build(_one_level(entries)), np.zeros(1, COUNTERS).view(np.recarray)
        batch = np.zeros(len(addresses), EVENT).view(np.recarray)
        batch.vaddr, batch.length, batch.order = addresses, 1, order
        replay(state, counters, batch, np.zeros(len(addresses), np.int64), len(addresses))
        walks.append(int(counters.dtlb_load_misses_walk_completed[0]))
    assert walks[0] >= walks[1] >= walks[2]


@pytest.mark.parametrize("name", names())
@settings(max_examples=10)
@given(st.integers(0, 1 << 30), st.integers(1, 1 << 26))
def test_a_run_over_2m_pages_never_walks_more_than_over_4k_pages(name, start, length):
    walks = []
    for order in (12, 21):
        counters = np.zeros(1, COUNTERS).view(np.recarray)
        batch, bins = pack([("LOAD", start, length, order, 64, 0, 0)] * 2)
        replay(machine(name), counters, batch, bins, 2)
        walks.append(int(counters.dtlb_load_misses_walk_completed[0]))
    assert walks[1] <= walks[0]


@given(
    st.sampled_from(names()),
    st.lists(st.integers(0, 400), min_size=1, max_size=300),
    st.integers(0, 127),
)
def test_relabelled_pages_give_the_same_counts(name, pages, shift):
    """Moving everything by a multiple of 1 GiB x 2**14 changes no set index relation, so no count."""
    addresses = np.array(pages, np.int64) * 4096
    moved = addresses + (shift << 44)
    assert simulate(addresses, name) == simulate(moved, name)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=300),
    st.integers(1, 40),
    st.integers(0, 20),
)
def test_a_larger_fully_associative_lru_never_misses_more(pages, entries, more):
    addresses = np.array(pages, np.int64) << PAGE_4K
    small, large = (
        simulate(addresses, presets.plain(f"{n}x{n}"))["dtlb_load_misses_walk_completed"]
        for n in (entries, entries + more)
    )
    assert large <= small
