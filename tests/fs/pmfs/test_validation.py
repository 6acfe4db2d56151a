"""PMFS against what a real kernel did per call, and against what the VSM paper says of its pages."""

import csv

import numpy as np
import pytest

import scmsim
from scmsim.core.records import WORK
from scmsim.workload.microbench import Workload
from tests.conftest import NO_JIT
from tests.fs import drive, lab
from tests.verification import cells

pytestmark = pytest.mark.slow

ROWS = cells.measured("pmfs-4k")
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['op']} {int(r['unit'])}" for r in ROWS])
def test_a_measured_cell(row):
    """Stored bytes within 0.1 %, write-backs 0.1 %, loads + stores 3 %; a read's 0.1 stored bytes are a timer's."""
    found = cells.totals("pmfs-4k", cells.workload(row))
    assert found["pmst"] == pytest.approx(row["pmstB_call"], rel=0.001, abs=0.2)
    assert found["flush"] == pytest.approx(row["flush_call"], rel=0.001, abs=0.1)
    assert found["ld"] + found["st"] == pytest.approx(row["ld_norep_call"] + row["st_norep_call"], rel=0.03)
    assert found["ntst"] == pytest.approx(row["ntst_call"], rel=0.001)


FENCES = {("append", 1024): 1.75, ("append", 16384): 4, ("rewrite", 1024): 0, ("rewrite", 16384): 3, ("read", 1024): 0}


@pytest.mark.parametrize(("op", "unit"), FENCES)
def test_fences_are_those_of_the_source(op, unit):
    """In place 0, growing in place 1; a transaction: each call of the log one, the commit two."""
    found = cells.totals("pmfs-4k", Workload(op=op, unit=unit, total=16 * MIB))
    assert found["fence"] == pytest.approx(FENCES[op, unit], abs=0.01)


@pytest.mark.skipif(NO_JIT, reason="20,000 operations on directories of 1000 names")
def test_all_measured_names():
    """Stored bytes within 1.5 %, loads + stores 3 %, write-backs 0.5 %, fences as measured."""
    ops, labels, files = lab.namespace_sequence()
    sums = lab.per_op(lab.begin("pmfs-4k", files, capacity=2 << 30), ops)
    with open(cells.DATA / "measured_namespace_pmfs.csv", newline="") as file:
        rows = [
            {k: v if k in ("fs", "op") else float(v) for k, v in row.items() if k != "kernel"}
            for row in csv.DictReader(file)
        ]
    seen = 0
    for row in rows:
        chosen = np.array([label == row["op"] for label in labels])
        if row["op"].endswith("_sync") or not chosen.any():
            continue
        found = dict(zip(lab.AMOUNTS, sums[chosen].sum(0) / 1000, strict=True))
        seen += 1
        assert found["pmst"] == pytest.approx(row["pmstB_call"], rel=0.015), row["op"]
        assert found["flush"] == pytest.approx(row["flush_call"], rel=0.005), row["op"]
        assert found["sfence"] == pytest.approx(row["sfence_call"], abs=0.005), row["op"]
        assert found["ld"] + found["st"] == pytest.approx(row["ld_norep_call"] + row["st_norep_call"], rel=0.03), row[
            "op"
        ]
    assert seen == 12


def test_a_create_costs_more_the_more_names_there_are():
    """Linear directories: the records looked at for the n-th name grow as n."""
    model = drive.Model("pmfs-4k", drive.files(0, *[-1] * 2000, dirs=[0]), room=1 << 16)
    scanned = []
    for first in range(1, 2001, 500):
        before = model.space()["scanned_dirents"]
        model.feed(drive.ops(*[("create", i, 0, 0, 0) for i in range(first, first + 500)]))
        scanned.append(model.space()["scanned_dirents"] - before)
    steps = np.diff(scanned)
    assert (np.abs(steps - 2 * 500 * 500) < 0.01 * 2 * 500 * 500).all()


@pytest.mark.parametrize(
    ("fs", "length", "extra"),
    [
        ("pmfs-2m", 4 * KIB, 511),
        ("pmfs-2m", KIB, 2047),
        ("pmfs-4k", KIB, 3),
        ("pmfs-4k", 4 * KIB, 0),
        ("pmfs-2m", 2 * MIB, 0),
    ],
)
def test_extra_bytes_of_a_copy_on_write(fs, length, extra):
    """VSM-1, VSM-2, VSM-3: bytes written beyond the request, per byte of it."""
    rows = [("create", 1, 0, 0, 0, 2), ("write", 1, 0, 4 * MIB, -1, 2), ("write", 1, 2 * MIB, length)]
    for data_path in ("cow", "in-place"):
        run = scmsim.replay(
            drive.source(drive.files(0, -1, dirs=[0]), drive.ops(*rows)), fs, params={fs: {"data_path": data_path}}
        ).runs[0]
        assert run.metrics["cow_extra_ratio"] == (extra if data_path == "cow" else 0)
        assert run.space["allocated_bytes"] == 4 * MIB


@pytest.mark.parametrize(("fs", "waste"), [("pmfs-4k", 2048), ("pmfs-2m", 2095104), ("pmfs-1g", 1073739776)])
def test_waste_of_a_file_of_1_gib_and_2_kib(fs, waste):
    """VSM-4, VSM-5, VSM-6."""
    model = drive.Model(fs, drive.files(0, GIB + 2 * KIB, dirs=[0]), room=1 << 14)
    model.feed(drive.ops(("stat", 1)))
    assert model.space()["waste_bytes"] == waste


@pytest.mark.parametrize(("fs", "size"), [("pmfs-2m", 2 * MIB), ("pmfs-1g", GIB)])
@pytest.mark.parametrize("version", ["dax", "original"])
def test_a_small_write_clears_the_rest_of_its_huge_block(fs, size, version):
    model = drive.Model(fs, drive.files(0, -1, dirs=[0]), version=version)
    found = drive.persistent(model.feed(drive.ops(("create", 1), ("write", 1, 4096, 4096))), model.sites)
    assert found["stored"]["block zeroing"] == (size - 4096 if version == "dax" else size)
    again = drive.persistent(model.feed(drive.ops(("write", 1, 65536, 4096))), model.sites)
    assert again["stored"]["block zeroing"] == 0 and again["stored"]["data copy"] == 4096


@pytest.mark.parametrize(("version", "cleared"), [("dax", 2 * MIB - 4096), ("original", 0)])
def test_the_original_clears_nothing_behind_a_write_at_a_block_s_begin(version, cleared):
    """linux-pmfs fs/pmfs/xip.c: new_eblk wants a write that crosses into the block; the port to DAX kernels does not."""
    model = drive.Model("pmfs-2m", drive.files(0, -1, dirs=[0]), version=version)
    found = drive.persistent(model.feed(drive.ops(("create", 1), ("write", 1, 0, 4096))), model.sites)
    assert found["stored"].get("block zeroing", 0) == cleared


def test_a_read_looks_up_pages_or_blocks():
    """1 MiB from the middle of a block of 2 MiB on, over the end of it."""
    looked_up = {}
    for how in ("page", "block"):
        model = drive.Model("pmfs-2m", drive.files(0, 4 * MIB, dirs=[0]), lookup=how)
        events = model.feed(drive.ops(("read", 1, 3 * MIB // 2, MIB)))
        work = events[(events["code"] == WORK) & (events["site"] == model.sites.index("index"))]
        looked_up[how] = work["addr"].sum()
    assert looked_up["page"] == 128 * looked_up["block"]


@pytest.mark.parametrize(("fs", "size"), [("pmfs-2m", 2 * MIB), ("pmfs-1g", GIB)])
def test_huge_blocks_are_aligned_and_not_overlapping(fs, size):
    """Writes, unlinks and single blocks mixed: the data of each huge block begins at a multiple of its size."""
    model = drive.Model(fs, drive.files(0, *[-1] * 8, dirs=[0]), capacity=40 * size)
    random, alive = np.random.default_rng(1), set()
    for _ in range(60):
        file = int(random.integers(1, 9))
        rows = [("unlink", file, 0, 0, 0)] if file in alive else [("create", file, 0, 0, 0)]
        rows += [] if file in alive else [("write", file, i * size, 4096) for i in range(int(random.integers(1, 4)))]
        alive ^= {file}
        events = model.feed(drive.ops(*rows))
        copies = events[(events["code"] == 1) & (events["site"] == model.sites.index("data copy"))]
        assert (copies["addr"] % size == 0).all()
    assert int(model.record.failed) == 0
    model.feed(drive.ops(*[("unlink", file, 0, 0, 0) for file in alive]))
    assert model.space()["allocated_bytes"] == 0
