"""What a replay writes of its accesses adds up to its counters, for every model, and a TLB that reads it counts the same walks."""

import functools
import pathlib
import re
import struct
import tempfile

import numpy as np
import pyarrow.parquet as pq
import pytest

import scmsim
from scmsim import mmu
from scmsim.core.records import SETUP, WRITABLE_SHARED, joined
from tests.conformance.systems import IN_DRAM, SYSTEMS, mixed, side
from tests.conftest import NO_JIT
from tests.fs import drive

COUNT = 8 if NO_JIT else 300
# Every page has 4 KiB: a trace of addresses has no page sizes, so only such a replay can be repeated from one.
SMALL = {"text_page": "4KiB", "direct_4k": "1GiB", "direct_2m": "0"}
# Models that map persistent memory themselves, or whose library maps it, by pages of other sizes.
OWN_PAGES = {"ctfs", "scmfs", "scmfs-lp", "simfs", "splitfs", "vsm", "vsm-1g"}
WITHOUT_TEXT = {"pmfs-1g", "vsm-1g"}  # a page of 1 GiB is 16 million lines
WALKS = [
    f"{kind}_{what}" for kind in ("dtlb_load", "dtlb_store") for what in ("misses_stlb_hit", "misses_walk_completed")
]


def trace():
    """Some setup, a mapped file that is stored to and written back, and operations of every kind."""
    mapping = [("mmap", 4, 0, 65536, -1, WRITABLE_SHARED), ("store", 4, 100, 5000), ("load", 4, 9000, 8)]
    mapping += [("flush", 4, 0, 8192), ("fence", -1), ("msync", 4, 0, 65536), ("munmap", 4, 0, 65536)]
    setup = [("create", 1, 0, 0, 0, SETUP), ("write", 1, 0, 20_000, -1, SETUP), ("stat", 1, 0, 0, -1, SETUP)]
    first = drive.ops(*setup, *mapping)
    rest = mixed(7, COUNT, holes=True)
    rest.time_ns += 1_000_000
    return drive.source(side(), joined([first, rest]).view(np.recarray))


def replayed(source, fs, params=None, **more):
    """The run of a replay in which files grow."""
    return scmsim.replay(
        source, fs, footprints="none", params={fs: drive.GROWING.get(fs, {}), **(params or {})}, **more
    ).runs[0]


def written(path, fs, source=None, **more):
    """The run of a replay whose accesses are at `path`."""
    return replayed(source or trace(), fs, accesses=path, **more)


@functools.cache
def rows(fs):
    """(run, accesses as a table) of a model on the trace."""
    with tempfile.TemporaryDirectory() as folder:
        run = written(pathlib.Path(folder, "a.parquet"), fs)
        return run, pq.read_table(pathlib.Path(folder, "a.parquet")).to_pandas()


def lines(text, pattern):
    """Groups of each line; every line must match."""
    found = [re.fullmatch(pattern, line) for line in text.splitlines()]
    assert all(found)
    return [match.groups() for match in found]


def champsim(path):
    """(ip, stores, loads) of each instruction, as ChampSim's struct input_instr lays them out."""
    form = struct.Struct("<Q 2B 2B 4B 2Q 4Q")
    assert form.size == 64
    return [(one[0], one[9:11], one[11:15]) for one in form.iter_unpack(path.read_bytes())]


@pytest.mark.parametrize("fs", SYSTEMS)
def test_rows_add_up_to_the_counters(fs):
    run, table = rows(fs)
    assert run.counters == replayed(trace(), fs).counters
    counted = table[~table.setup]
    size, kind, in_pm = counted["size"], counted["kind"], counted.device >= 0
    touched = (counted.device + size - 1) // 64 - counted.device // 64 + 1
    flushed = ((counted.virtual % 64).astype(int) + size + 63) // 64  # also of memory that is no device
    found = {
        "pm_loaded_bytes": size[in_pm & (kind == "load")].sum(),
        "pm_stored_bytes": size[in_pm & kind.isin(["store", "ntstore"])].sum(),
        "nt_stored_bytes": size[in_pm & (kind == "ntstore")].sum(),
        "lines_written_back": touched[kind == "writeback"].sum(),
        "flushes": flushed[kind == "flush"].sum(),
        "fences": (kind == "fence").sum(),
        "instructions": (counted.instructions.sum() * 1000 + 500) // 1000,
    }
    assert found == {name: run.counters[name] for name in found}
    assert (found["pm_stored_bytes"] > 0) == (fs not in IN_DRAM)
    by_site = counted[in_pm & kind.isin(["store", "ntstore"])].groupby("mechanism", observed=True)["size"].sum()
    stored = {site: counts["pm_stored_bytes"] for site, counts in run.sites.items() if counts["pm_stored_bytes"]}
    assert by_site[by_site > 0].to_dict() == stored
    assert counted.operation.min() == 3 and table.operation.is_monotonic_increasing  # after three operations of setup
    assert set(table.operation[table.setup]) <= {0, 1, 2}


@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs not in WITHOUT_TEXT])
def test_memory_simulators_get_each_line_that_is_loaded_or_written_back(fs, tmp_path):
    run = written(tmp_path / "a.ramulator", fs)
    table = rows(fs)[1]
    reaching = table[~table.setup & (table.device >= 0) & table.kind.isin(["load", "writeback"])]
    wanted = [
        ("LD" if kind == "load" else "ST", line * 64)
        for kind, device, size in zip(reaching.kind, reaching.device, reaching["size"], strict=True)
        for line in range(int(device) // 64, (int(device) + size - 1) // 64 + 1)
    ]
    requests = lines((tmp_path / "a.ramulator").read_text(), r"(LD|ST) 0x([0-9a-f]+)")
    assert [(word, int(address, 16)) for word, address in requests] == wanted
    assert sum(word == "ST" for word, _ in requests) == run.counters["lines_written_back"]
    assert bool(requests) == (fs not in IN_DRAM)
    assert any("is empty" in warning for warning in run.warnings) == (fs in IN_DRAM)
    written(tmp_path / "a.dramsim3", fs)
    again = lines((tmp_path / "a.dramsim3").read_text(), r"0x([0-9a-f]+) (READ|WRITE) ([0-9]+)")
    assert [({"READ": "LD", "WRITE": "ST"}[word], int(address, 16)) for address, word, _ in again] == wanted
    cycles = [int(cycle) for _, _, cycle in again]
    assert cycles == sorted(cycles)
    lines_of_a_run = [
        b - a for (_, x), (_, y), a, b in zip(wanted, wanted[1:], cycles, cycles[1:], strict=False) if y - x == 64
    ]
    assert not lines_of_a_run or np.median(lines_of_a_run) == 8


@pytest.mark.parametrize("machine", ["i7-8700k"] if NO_JIT else ["i7-8700k", "zen4"])
@pytest.mark.parametrize("fs", SYSTEMS)
def test_a_tlb_counts_the_same_misses_from_the_table(fs, machine, tmp_path):
    """The table has page sizes, code, invalidations and setup, so every miss recurs, of data and of code.

    A strided run and a line flushed twice have more look-ups there, which move the walks' times.  The latency of page tables in
    storage-class memory is that of the replay's medium.
    """
    run = written(tmp_path / "a.parquet", fs, machine=machine)
    found = mmu.simulate_file(tmp_path / "a.parquet", machine)
    in_scm = pq.read_table(tmp_path / "a.parquet")["scm_table"].to_pylist()
    left_out = "lookups|l1_hit|mem_inst|walk_active" + "|walk_pending" * any(in_scm)
    same = [name for name in found if not re.search(left_out, name)]
    assert len(same) > 30 and {*WALKS, "page_walker_loads", "tlb_invalidations", "instructions"} < {*same}
    assert {name: found[name] for name in same} == {name: run.counters[name] for name in same}
    assert sum(run.counters[name] for name in WALKS) > 0


@pytest.mark.parametrize("fs", [fs for fs in SYSTEMS if fs not in OWN_PAGES | WITHOUT_TEXT])
def test_a_tlb_counts_the_same_walks_from_instructions_on_pages_of_one_size(fs, tmp_path):
    source = drive.source(side(), mixed(7, COUNT, holes=True))
    how = {"paging": "base-4k", "params": {"base-4k": SMALL}}
    run = written(tmp_path / "a.champsim", fs, source, **how)
    found = mmu.simulate_file(tmp_path / "a.champsim", page="4KiB")
    assert {name: found[name] for name in WALKS} == {name: run.counters[name] for name in WALKS}
    assert run.counters["dtlb_load_misses_walk_completed"] > 0
    written(tmp_path / "a.parquet", fs, source, **how)
    table = pq.read_table(tmp_path / "a.parquet").to_pandas()
    data = table[table.kind.isin(["load", "store", "ntstore", "flush"])]
    assert set(data.page) == {4096} and not table.kind.isin(["unmap", "remap", "invalidate"]).any()
    first = [*_touched(data)]
    accesses = [(store[0] or load[0], bool(store[0])) for _, store, load in champsim(tmp_path / "a.champsim")]
    assert [access for access in accesses if access[0]] == first
    written(tmp_path / "a.u64", fs, source, **how)
    assert np.fromfile(tmp_path / "a.u64", "<u8").tolist() == [address for address, _ in first]


def _touched(data):
    """Address of each line of each run, the first that of its byte; and whether it is stored to."""
    for kind, virtual, size in zip(data.kind, data.virtual, data["size"], strict=True):
        start = int(virtual)
        yield start, kind in ("store", "ntstore")
        for line in range(start // 64 + 1, (start + size - 1) // 64 + 1):
            yield line * 64, kind in ("store", "ntstore")
