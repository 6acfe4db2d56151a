"""Streams of addresses of a real kernel, kept whole, and what machines' MMUs make of them."""

import os
import pathlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.counters import COUNTERS, rounded
from scmsim.core.errors import UsageError
from scmsim.lab import counts, qemu, regions, stream, tlb
from scmsim.lab import kept as kept_records
from scmsim.lab.measured import Measured
from scmsim.lab.plan import Plan, Region
from scmsim.lab.regions import REGIONS
from scmsim.mmu import machine, page_runs, simulate
from scmsim.mmu.replay import replay

RECORDED = pathlib.Path(__file__).parents[1] / "data/lab/ext4-dax-1.runs.parquet"
SYMBOLS = b"ffffffff82410000 D init_top_pgt\nffffffff83000000 B _end\n"
BUFFER = 0x7F0000000000
PM = qemu.DIRECT_MAP + qemu.PM_AT


def silent(done, total):
    assert 0 < done <= total


def packed_run(address, count, store):
    return (address >> 12 & (1 << 36) - 1) << 28 | store << 27 | (count - 1)


def mark(number):
    return ((1 << 36) - 1) << 28 | number


def kept(path, records, ranges=()):
    about = {"buffer_bytes": 1 << 21, "huge_bytes": 1 << 21}
    measured = Measured(np.zeros(0), SYMBOLS, about, 1.0, ranges=list(ranges))
    made = Plan(np.zeros(0), np.zeros(0), [Region("create", calls=1), Region("write", calls=2)])
    stream.keep(path, np.array(records, np.uint64), "ext4-dax", made, measured, "6.1")
    return stream.Kept(path)


@pytest.mark.parametrize(
    ("address", "region"),
    [
        (0x400000, "program"), (0x7FFFFFFFFFFF, "program"), (qemu.DIRECT_MAP, "direct map"), (PM - 1, "direct map"),
        (PM, "persistent memory"), (PM + qemu.PM_BYTES - 1, "persistent memory"), (PM + qemu.PM_BYTES, "direct map"),
        (0xFFFFC90000004000, "vmalloc"), (0xFFFFEA0004000000, "vmemmap"), (0xFFFFFE0000001000, "CPU entry area"),
        (0xFFFFFFFF82FFFFFF, "kernel image"), (0xFFFFFFFF83000000, "modules"), (0xFFFFFFFFC0000000, "modules"),
        (0xFFFFFFFFFF5FC000, "other kernel"), (0xFFFFA00000000000, "direct map"), (0xFFFFE90000000000, "other kernel"),
    ],
)  # fmt: skip
def test_regions_of_addresses(address, region):
    found = regions.layout(0xFFFFFFFF83000000).of(np.array([address], np.uint64))
    assert REGIONS[found[0]] == region


def test_a_kept_stream_has_its_runs_calls_and_page_sizes(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_records, "_BATCH", 2)  # a call goes on in the next batch
    records = [mark(1), packed_run(PM, 3, 1), packed_run(BUFFER, 2, 0), mark(2), mark(2), packed_run(PM, 1, 0)]
    ranges = [(BUFFER, BUFFER + (1 << 21), 21), (PM, PM + (1 << 30), 30)]
    found = kept(tmp_path / "a.runs.parquet", records, ranges)
    assert found.header["calls"] == 3 and found.header["kinds"] == ["create", "write"] and found.rows == 6
    parts = list(found.batches())
    assert np.concatenate([part.call for part in parts]).tolist() == [0, 0, 2]
    assert np.concatenate([part.kind for part in parts]).tolist() == [0, 0, 1]
    assert np.concatenate([part.page for part in parts]).tolist() == [PM, BUFFER, PM]
    assert np.concatenate([part.count for part in parts]).tolist() == [3, 2, 1]
    assert np.concatenate([part.store for part in parts]).tolist() == [True, False, False]
    assert np.concatenate([part.order for part in parts]).tolist() == [30, 21, 30]
    assert found.mapped() == {"persistent memory": {30: 1 << 30}}
    assert found.buffer() == BUFFER >> 21 << 21
    assert kept(tmp_path / "b.runs.parquet", records).buffer() == 0  # no large page


def test_rows_are_what_one_page_after_the_other_gives(tmp_path):
    pages = [0x400000 + 4096 * k for k in range(100)]
    again = kept(tmp_path / "a.runs.parquet", [mark(1), *[packed_run(page, 1, 0) for page in pages + pages]])
    rows = tlb.counted(again, {"i7-8700k": machine("i7-8700k")}, silent)["i7-8700k"]
    same = simulate(pages + pages, "i7-8700k")
    assert rows == [
        {
            "region": "program", "page": "4KiB", "lookups": 200, "stlb_hits": same["dtlb_load_misses_stlb_hit"], "walks": 100,
            "l1_misses": same["dtlb_load_misses_stlb_hit"] + 100, "pages": 100,
        }
    ]  # fmt: skip
    assert same["dtlb_load_misses_stlb_hit"] > 0


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 3), st.integers(0, 4)), max_size=60))
@settings(max_examples=8 if os.environ.get("NUMBA_DISABLE_JIT") else 25, deadline=None)
def test_misses_belong_to_the_row_whose_code_began_the_run(runs):
    numbers = [7, 3, 1, 5, 2]  # of the rows, in the order of the plugin's table
    records = [mark(1), *[packed_run(0x400000 + 4096 * page, count, 0) for page, count, _ in runs]]
    measured = Measured(np.zeros(5, counts.ROW), SYMBOLS, {}, 1.0, stream=np.array(records, np.uint64))
    measured.rows["number"] = numbers
    measured.cells = np.array([0, *[numbers[row] for _, _, row in runs]], np.uint32)
    found = tlb.by_row(measured, "i7-8700k")
    expected, before = np.zeros((2, 5), int), (0, 0)
    for k, (_, _, row) in enumerate(runs):
        told = simulate([0x400000 + 4096 * page for page, _, _ in runs[: k + 1]], "i7-8700k")
        walks = told["dtlb_load_misses_walk_completed"]
        now = walks + told["dtlb_load_misses_stlb_hit"], walks
        expected[:, row] += np.subtract(now, before)
        before = now
    assert [found[name].tolist() for name in ("l1_misses", "walks")] == expected.tolist()


def test_a_stream_without_a_run_has_no_rows(tmp_path):
    assert tlb.counted(kept(tmp_path / "a.runs.parquet", []), {"zen2": machine("zen2")}, silent) == {"zen2": []}


def test_rows_of_a_recorded_stream_add_up_to_the_whole_of_it():
    recorded = stream.Kept(RECORDED)
    machines = {name: machine(name) for name in ("i7-8700k", "core2-q8200")}
    found = tlb.counted(recorded, machines, silent)
    whole, state, accesses = np.zeros(1, COUNTERS), machine("core2-q8200"), 0
    for part in recorded.batches():
        events, which = page_runs.as_events(part.page, part.count, part.store, part.order)
        replay(state, whole, events, 0 * which, len(events))
        accesses += int(part.count.sum())
    total = rounded(whole[0])
    rows = found["core2-q8200"]
    walks = total["dtlb_load_misses_walk_completed"] + total["dtlb_store_misses_walk_completed"]
    hits = total["dtlb_load_misses_stlb_hit"] + total["dtlb_store_misses_stlb_hit"]
    assert sum(row["lookups"] for row in rows) == accesses > 100_000
    assert (sum(row["walks"] for row in rows), sum(row["stlb_hits"] for row in rows)) == (walks, hits)
    assert {row["region"] for row in rows} >= {"direct map", "persistent memory", "vmalloc", "kernel image", "program"}


def test_walks_of_a_short_stream_are_first_touches():
    (rows,) = tlb.counted(stream.Kept(RECORDED), {"i7-8700k": machine("i7-8700k")}, silent).values()
    assert [row["walks"] for row in rows] == [row["pages"] for row in rows]
    assert {(row["region"], row["page"]) for row in rows} >= {("persistent memory", "1GiB"), ("program", "2MiB")}


@pytest.mark.parametrize("content", [b"", b"PAR1 nothing PAR1", b"\0" * 100, None])
def test_what_is_no_stream_is_refused(tmp_path, content):
    path = tmp_path / "x.runs.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a stream of the lab"):
        stream.Kept(path)


def test_a_table_of_something_else_is_no_stream(tmp_path):
    path = pathlib.Path(__file__).parents[1] / "data/lab/mail.parquet"
    with pytest.raises(UsageError, match="is not a stream of the lab"):
        stream.Kept(path)
