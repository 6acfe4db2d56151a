"""A medium's load latency enters the time of what waits for it."""

import pytest

import scmsim
from scmsim.workload import pattern


def reads(fs, medium, order):
    """Run of 64 reads of 4 KiB, one behind the other or in other places of 1 GiB."""
    stride = 4096 if order == "sequential" else 16 << 20
    work = pattern.source(op="read", unit=4096, stride=stride, file_size=1 << 30, calls=64)
    return scmsim.replay(work, fs, medium=medium).runs[0]


@pytest.mark.parametrize("fs", ["nova-cow", "ext4-dax"])
def test_a_random_read_is_slower_on_cxl_than_on_nvdimm(fs):
    cxl, nvdimm = (sum(reads(fs, medium, "random").time_ns.values()) for medium in ("cxl", "nvdimm"))
    assert cxl > nvdimm


def test_a_read_waits_at_its_first_line():
    run = reads("ext4-dax", "cxl", "random")
    assert run.counters["pm_dependent_loads"] == 64 and run.time_ns["dependent_loads"] == 64 * 250


def test_page_table_entries_in_persistent_memory_are_as_slow_as_the_medium():
    cycles = [
        reads("vsm", medium, "random").counters["dtlb_load_misses_walk_active"]
        for medium in ("nvdimm", "cxl", "optane")
    ]
    assert cycles == sorted(cycles) and cycles[0] < cycles[2]
