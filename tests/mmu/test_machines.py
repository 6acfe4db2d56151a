"""The machines that come with the package: sources, reach as the vendors state it, sweeps by hand, laws of any run."""

import pathlib

import numpy as np
import pytest

from scmsim import mmu
from scmsim.core import registry
from scmsim.core.counters import COUNTERS
from scmsim.core.records import EVENT, EVENTS
from scmsim.mmu import presets, simulate
from scmsim.mmu.replay import replay

DOCS = pathlib.Path(__file__).parents[2] / "docs/models/machines.md"
KINDS = ("vendor: ", "measured: ", "estimate: ", "as printed: ")
LISTS = ("tlb", "walk_cache", "walk_memory", "nested_tlb")
SIZES = ("4KiB", "2MiB", "1GiB")
SKYLAKE = ((64, 1536), (32, 1536), (4, 16))

# Entries that loads have at (first, second) level, for each of SIZES; written down from the vendors' statements, not from the
# files.  0 at the first level: the page is held in pieces of the next smaller size.
ENTRIES = {
    "core2-q8200": ((16, 256), (16, 32), (0, 0)),
    "e5-2640v4": SKYLAKE,
    "i7-8700k": SKYLAKE,
    "i7-8700k-thesis": ((64, 1536), (0, 1536), (4, 0)),
    "skylake-sp": SKYLAKE,
    "ice-lake-sp": ((64, 2048), (32, 1024), (8, 1024)),
    "sapphire-rapids": ((96, 2048), (32, 1024), (8, 1024)),
    "emerald-rapids": ((96, 2048), (32, 1024), (8, 1024)),
    "granite-rapids": ((96, 2048), (32, 1024), (8, 1024)),
    "lion-cove": ((128, 2048), (32, 1024), (8, 1024)),
    "panther-lake": ((128, 3072), (32, 2048), (8, 1024)),
    "skymont": ((48, 4096), (48, 4096), (0, 8)),
    "crestmont": ((48, 3072), (0, 3072), (0, 8)),
    "zen1": ((64, 1536), (64, 1536), (64, 0)),
    "zen2": ((64, 2048), (64, 2048), (64, 0)),
    "zen3": ((64, 2048), (64, 2048), (64, 64)),
    "zen4": ((72, 3072), (72, 3072), (72, 64)),
    "zen4-epyc": ((72, 3072), (72, 3072), (72, 64)),
    "zen5": ((96, 4096), (96, 4096), (96, 1024)),
    "zen5-epyc": ((96, 4096), (96, 4096), (96, 1024)),
    "cortex-a75": ((48, 1024), (48, 128), (0, 128)),
    "neoverse-n1": ((48, 1280), (48, 1280), (0, 1280)),
    "neoverse-v2": ((48, 2048), (48, 2048), (0, 2048)),
    "xscale": ((32, 0), (0, 0), (0, 0)),
}
MACHINES = sorted(ENTRIES)
TWO_LEVELS = [name for name in MACHINES if ENTRIES[name][0][1]]
COALESCING = {name: (4, 8) for name in MACHINES if name.startswith("zen")} | dict.fromkeys(
    ("cortex-a75", "neoverse-n1", "neoverse-v2"), (16, 16)
)
WALK, STLB_HIT = "dtlb_load_misses_walk_completed", "dtlb_load_misses_stlb_hit"


def array(name, level, page):
    """The array that holds pages of a size for loads, or None."""
    arrays = presets.read(name)["tlb"]
    found = [entry for entry in arrays if page in entry["pages"] and "load" in entry.get(f"{level}_level_for", [])]
    assert len(found) <= 1
    return found[0] if found else None


def again(name, pages, **options):
    """(walks, second-level hits) of a second sweep over so many neighbouring pages, and the walks of the first."""
    sweep = np.arange(pages) << 12
    once = simulate(sweep, name, **options)
    twice = simulate(np.tile(sweep, 2), name, **options)
    return twice[WALK] - once[WALK], twice[STLB_HIT] - once[STLB_HIT], once[WALK]


def test_every_machine_is_here():
    assert mmu.names() == sorted([*MACHINES, "tps"])  # tps is no product


@pytest.mark.parametrize("name", mmu.names())
def test_every_number_has_a_source_that_says_what_it_is(name):
    table = presets.read(name)
    sources = [entry["source"] for kind in LISTS for entry in table.get(kind, [])]
    for kind in ("walk", "invalidate", "time"):
        assert set(table[kind]) - {"source"} == set(table[kind]["source"])
        sources += table[kind]["source"].values()
    assert [source for source in sources if not source.startswith(KINDS)] == []
    assert [source for source in sources if len(source.partition(": ")[2]) < 10] == []


@pytest.mark.parametrize("name", MACHINES)
def test_the_entries_are_those_that_the_vendor_states(name):
    for page, entries in zip(SIZES, ENTRIES[name], strict=True):
        arrays = [array(name, level, page) for level in ("first", "second")]
        assert tuple(found["entries"] if found else 0 for found in arrays) == entries, page


@pytest.mark.parametrize("name", MACHINES)
def test_latencies_grow_away_from_the_core(name):
    table = presets.read(name)
    walk, memory = table["walk"], table.get("walk_memory", [])
    cycles = [cache["cycles"] for cache in memory] + [walk.get("memory_cycles", 1), walk.get("scm_cycles", 2)]
    assert cycles == sorted(set(cycles))
    entries = [cache["entries"] for cache in memory[:2]]
    assert entries == sorted(set(entries))
    if memory:
        assert walk["scm_cycles"] == pytest.approx(305 * table["time"]["ghz"], abs=1)
        assert not {"ref_cycles"} & set(walk)


@pytest.mark.parametrize("name", MACHINES)
def test_a_sweep_that_fits_the_first_level_walks_once(name):
    pages = ENTRIES[name][0][0]
    assert again(name, pages) == (0, 0, pages)


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_a_sweep_that_fits_the_second_level_walks_once(name):
    pages = ENTRIES[name][0][1]
    walks, _, first = again(name, pages)
    assert (walks, first) == (0, pages)


@pytest.mark.parametrize("name", MACHINES)
def test_a_page_too_many_for_the_first_level_costs_its_set(name):
    """LRU and FIFO lose every page of the set that is one too many; tree-PLRU loses some of them and keeps some."""
    l1 = array(name, "first", "4KiB")
    walks, stlb_hits, _ = again(name, l1["entries"] + 1)
    missed = walks + stlb_hits
    if l1.get("policy", "lru") in ("lru", "fifo"):
        assert missed == l1["ways"] + 1
    else:
        assert l1["policy"] == "tree-plru" and 0 < missed < l1["ways"] + 1
    assert (walks == 0) == (name in TWO_LEVELS)


@pytest.mark.parametrize("name", TWO_LEVELS)
def test_a_page_too_many_for_the_second_level_costs_its_set(name):
    stlb = array(name, "second", "4KiB")
    assert stlb.get("policy", "lru") == "lru"
    walks, _, first = again(name, stlb["entries"] + 1)
    assert (walks, first) == (stlb["ways"] + 1, stlb["entries"] + 1)


@pytest.mark.parametrize("name", COALESCING)
def test_contiguous_pages_widen_the_reach(name):
    l1, stlb = COALESCING[name]
    pages = ENTRIES[name][0][0] * l1
    assert again(name, pages, contiguous=True) == (0, 0, pages // stlb)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("access", ["load", "store", "fetch"])
def test_every_look_up_ends_once_and_large_pages_never_walk_more(name, access):
    addresses = np.random.default_rng(3).zipf(1.2, 20_000) % 60_000 << 12
    side = {"load": "dtlb_load", "store": "dtlb_store", "fetch": "itlb"}[access]
    walks = []
    for page in ("4KiB", "2MiB"):
        counts = simulate(addresses, name, page, access=access)
        walks.append(counts[f"{side}_misses_walk_completed"])
        assert counts[f"{side}_lookups"] == 20_000
        assert counts[f"{side}_l1_hit"] + counts[f"{side}_misses_stlb_hit"] + walks[-1] == 20_000
        assert counts[f"{side}_misses_walk_active"] <= counts[f"{side}_misses_walk_pending"]
    assert walks[1] <= walks[0]


@pytest.mark.parametrize("name", MACHINES)
def test_a_cold_walk_reads_every_level_from_memory(name):
    walk = presets.read(name)["walk"]
    counts = simulate([1 << 35], name)
    assert counts["page_walker_loads"] == walk["levels"]
    assert counts["dtlb_load_misses_walk_pending"] == walk["levels"] * walk.get("memory_cycles", walk.get("ref_cycles"))


def test_the_document_has_a_row_for_every_machine():
    rows = [
        line.split("|")[1].strip() for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    assert set(MACHINES) <= set(rows)


def test_svnapot_of_the_document_holds_64_kib_in_an_entry(tmp_path):
    """XiangShan's 48 entries reach 3 MiB of contiguous pages, and 192 KiB of others."""
    text = DOCS.read_text(encoding="utf-8")
    path = tmp_path / "kunminghu.toml"
    path.write_text(text.partition("```toml\n# XiangShan")[2].partition("```")[0].partition("\n")[2], encoding="utf-8")
    assert again(str(path), 48 * 16, contiguous=True) == (0, 0, 48)
    assert again(str(path), 48)[:2] == (0, 0) and again(str(path), 49)[1] == 49
    assert again(str(path), 257)[0] > 0


def test_remote_action_requests_of_the_document_interrupt_nobody(tmp_path):
    """Whoever puts the document's [invalidate] into the file gets a machine that flushes everything for a kernel address."""
    text = registry.path("machine", "sapphire-rapids").read_text(encoding="utf-8")
    block = DOCS.read_text(encoding="utf-8").partition("```toml\n[invalidate]")[2].partition("```")[0]
    path = tmp_path / "rar.toml"
    before, _, rest = text.partition("[invalidate]")
    path.write_text(f"{before}[invalidate]{block}\n[time]{rest.partition('[time]')[2]}", encoding="utf-8")
    rules = presets.read(str(path))["invalidate"]
    assert rules["broadcast_pages"] == 62 and rules.keys() == presets.read("sapphire-rapids")["invalidate"].keys() | {
        "kernel_ceiling", "broadcast_pages", "broadcast_from", "broadcast_cycles", "sync_cpu_cycles",
    }  # fmt: skip
    counts = {}
    for vaddr, cpus in ((0, 4), (-4096, 0)):
        counters = np.zeros(1, COUNTERS).view(np.recarray)
        event = np.zeros(1, EVENT).view(np.recarray)
        event.code, event.vaddr, event.length, event.order, event.width = EVENTS.index("UNMAP"), vaddr, 4096, 12, cpus
        replay(mmu.machine(str(path)), counters, event, np.zeros(1, np.int64), 1)
        counts[vaddr] = [int(counters[f"tlb_{name}"][0]) for name in ("invalidations", "flushes", "shootdowns")]
    assert counts == {0: [1, 0, 0], -4096: [0, 1, 0]}


def test_a_page_less_costs_what_was_measured_within_a_factor_of_two():
    """will-it-scale's tlb_flush2, four threads on a Milan (Linux commit 4afeb0ed1753): a loop with INVLPGB is so much shorter."""
    measured_us = 4 / 0.644 - 4 / 1.032
    table = presets.read("zen4-epyc")
    rules, ghz = table["invalidate"], table["time"]["ghz"]
    interrupts = rules["invlpg_cycles"] + rules["shootdown_cycles"] + 2 * rules["shootdown_cpu_cycles"]
    saved_us = (interrupts - rules["broadcast_cycles"] - rules["sync_cycles"]) / ghz / 1000
    assert measured_us / 2 < saved_us < measured_us * 2


def test_the_example_of_the_document_prints_what_it_says(tmp_path):
    text = DOCS.read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text("summary" + text.partition("```toml\nsummary")[2].partition("```")[0], encoding="utf-8")
    counts = simulate(np.tile(np.arange(1600) * 4096, 10), str(path))
    printed = [line.split() for line in text.partition("$ scmsim mmu")[2].splitlines()[1:] if line.startswith("    ")]
    assert len(printed) > 5
    assert {name: int(count.replace(",", "")) for name, count in printed} == {name: counts[name] for name, _ in printed}


def test_the_document_has_the_data_caches_of_each_machine():
    section = DOCS.read_text(encoding="utf-8").partition("## Data caches")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| ")][
        1:
    ]
    assert {row[0] for row in rows} == {*mmu.names()} - {"tps"}
    for name, *levels, flush in rows:
        table = presets.read(name)
        if levels[0] == "none":
            assert "cache" not in table
            continue
        shapes = [f"{c['size']} ×{c['ways']}{', ' + c['fill'] if k else ''}" for k, c in enumerate(table["cache"])]
        told = [
            f"{shape}, {c['cycles']} cycles {c['source'][0]}" for shape, c in zip(shapes, table["cache"], strict=True)
        ]
        assert [cell for cell in levels if cell] == told and flush == table["flush"]
