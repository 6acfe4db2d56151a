"""A medium's load latency enters the time of what waits for it."""

import pytest

import scmsim
from scmsim import medium
from scmsim.core import registry
from scmsim.mmu import presets
from scmsim.result.time import load_gb_s
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


def test_lines_in_flight_agree_with_one_thread_of_the_optane_study():
    """One thread, GB/s: loops of loads (04-bandwidth_thcount_*.csv) keep fewer lines in flight than a copy of the kernel."""
    core = presets.timing("skylake-sp")
    for name, measured in (("nvdimm", 7.38), ("optane", 2.92)):
        assert measured < load_gb_s(core, medium.read(name)) < 2.2 * measured
