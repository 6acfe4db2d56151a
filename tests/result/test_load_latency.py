"""A medium's load latency enters the time of what waits for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scmsim
from scmsim import medium
from scmsim.core import registry
from scmsim.core.curves import Curves
from scmsim.mmu import presets
from scmsim.result.time import estimate, load_gb_s, store_gb_s
from scmsim.workload import pattern


def reads(fs, device, order):
    """Run of 64 reads of 4 KiB, one behind the other or in other places of 1 GiB."""
    stride = 4096 if order == "sequential" else 16 << 20
    work = pattern.Workload(op="read", unit=4096, stride=stride, file_size=1 << 30, calls=64)
    return scmsim.replay(work, fs, medium=device).runs[0]


@pytest.mark.parametrize("fs", ["nova-cow", "ext4-dax"])
def test_a_random_read_is_slower_on_cxl_than_on_nvdimm(fs):
    cxl, nvdimm = (sum(reads(fs, device, "random").time_ns.values()) for device in ("cxl", "nvdimm"))
    assert cxl > nvdimm


def test_a_read_waits_at_its_first_line():
    run = reads("ext4-dax", "cxl", "random")
    assert run.counters["pm_dependent_loads"] == 64 and run.time_ns["dependent_loads"] == 64 * 250


def test_page_table_entries_in_persistent_memory_are_as_slow_as_the_medium():
    cycles = [
        reads("vsm", device, "random").counters["dtlb_load_misses_walk_active"]
        for device in ("nvdimm", "cxl", "optane")
    ]
    assert cycles == sorted(cycles) and cycles[0] < cycles[2]


MACHINES = [name for name in registry.names("machine") if name != "xscale"]  # whose memory is loaded word by word


@pytest.mark.parametrize("machine", MACHINES)
def test_one_core_loads_a_medium_the_slower_the_longer_its_latency(machine):
    """Whatever the width of the link: DRAM, then the two CXL modules by their latency."""
    core = presets.timing(machine)
    rates = [load_gb_s(core, medium.read(name)) for name in ("nvdimm", "nv-cmm", "cxl")]
    assert rates == sorted(rates, reverse=True) and len(set(rates)) == 3


@given(st.integers(64, 1 << 20), st.sampled_from(registry.names("machine")))
def test_one_core_reads_dram_faster_than_cxl_and_cxl_faster_than_remote_cxl(size, machine):
    """One run of 64 bytes to 1 MiB, whatever the width of the link; the core alone is compared, so the term is a read's."""
    counts = {"pm_dependent_loads": 1, "pm_loaded_bytes": size}
    terms = [
        estimate(counts, presets.timing(machine), medium.read(name)).terms for name in ("nvdimm", "cxl", "cxl-remote")
    ]
    dram, cxl, remote = (each["dependent_loads"] + each["load_bandwidth"] for each in terms)
    assert dram < cxl < remote


@pytest.mark.parametrize("machine", MACHINES)
def test_one_core_stores_to_a_medium_the_slower_the_longer_its_latency(machine):
    core = presets.timing(machine)
    rates = [store_gb_s(core, medium.read(name)) for name in ("nvdimm", "cxl", "cxl-remote", "cxl-410")]
    assert rates == sorted(rates, reverse=True) and rates[0] == core["copy_gb_s"] and rates[1] > rates[3]


def test_reads_of_256_kib_are_slower_on_cxl_than_on_dram():
    work = pattern.Workload(op="read", unit=256 << 10, stride=256 << 10, file_size=16 << 20, calls=16)
    each = {
        name: sum(scmsim.replay(work, "ext4-dax", machine="ice-lake-sp", medium=name).runs[0].time_ns.values()) / 16
        for name in ("nvdimm", "nv-cmm", "cxl")
    }
    assert 15_000 < each["nvdimm"] < 35_000 < each["nv-cmm"] < each["cxl"]


def test_lines_in_flight_bound_what_a_core_loads():
    dram = {"load_ns": 80, "read_gb_s": 100.0}
    assert load_gb_s({"lines_in_flight": 10}, dram) == 8.0
    assert load_gb_s({"lines_in_flight": 10, "load_gb_s": 5.0}, dram) == 5.0
    assert load_gb_s({"lines_in_flight": 10}, {**dram, "read_gb_s": 2.0}) == 2.0
    assert load_gb_s({"lines_in_flight": 10}, {**dram, "stream_ns": 40}) == 16.0
    assert load_gb_s({"lines_in_flight": 10}, {**dram, "cached": False}) == 100.0
    assert load_gb_s({}, dram) == 100.0
    assert load_gb_s({"lines_in_flight": 10}, {**dram, "load_ns": 0}) == 100.0


def test_a_curve_slows_down_the_lines_in_flight():
    flat, steep = (Curves(((100.0, ((0.0, 80.0), (8.0, last))),)) for last in (80.0, 160.0))
    dram = {"load_ns": 80, "read_gb_s": 100.0}
    assert load_gb_s({"lines_in_flight": 10}, {**dram, "curves": flat}) == pytest.approx(8.0)
    loaded = load_gb_s({"lines_in_flight": 10}, {**dram, "curves": steep})
    assert loaded * 80 * (1 + loaded / 8) == pytest.approx(640)


def test_lines_in_flight_agree_with_one_thread_of_the_optane_study():
    """One thread, GB/s: loops of loads (04-bandwidth_thcount_*.csv) keep fewer lines in flight than a copy of the kernel."""
    core = presets.timing("skylake-sp")
    for name, measured in (("nvdimm", 7.38), ("optane", 2.92)):
        assert measured < load_gb_s(core, medium.read(name)) < 2.2 * measured


def test_small_random_overwrites_wait_on_optane_and_nowhere_else():
    """64 bytes in other places of 1 GiB: 1,622 ns each; one after the other: once in four."""
    work = pattern.Workload(op="overwrite", unit=64, order="random", file_size=1 << 30, calls=64)
    terms = {name: scmsim.replay(work, "ext4-dax", medium=name).runs[0].time_ns for name in ("nvdimm", "optane")}
    assert terms["optane"]["write_waits"] == 64 * 1622 and "write_waits" not in terms["nvdimm"]
    order = pattern.Workload(op="overwrite", unit=64, stride=64, file_size=1 << 20, calls=64)
    assert scmsim.replay(order, "ext4-dax", medium="optane").runs[0].time_ns["write_waits"] == 16 * 1622


def test_the_waits_of_small_stores_are_a_first_line_and_further_ones():
    counts = {"write_buffer_misses": 2, "write_buffer_miss_lines": 5}
    assert estimate(counts, {}, {"write_miss_ns": 100, "write_miss_line_ns": 10}).terms == {"write_waits": 230}
    assert estimate(counts, {}, {"write_miss_ns": 100}).terms == {"write_waits": 200}
    assert "write_waits" not in estimate(counts, {}, {}).terms
