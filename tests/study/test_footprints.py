"""Footprints from touches of the lab: which calls they are paired with, what is left out, and which calls stand for all."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scmsim import footprint
from scmsim.core.errors import UsageError
from scmsim.core.records import OPS, SETUP
from scmsim.footprint.describe import LONG_READDIR, MANY_DIRTY_INODES
from scmsim.footprint.interleave import OPEN_FILE
from scmsim.fs.engine.model import ROOM, Model
from scmsim.lab import touches
from scmsim.pipeline.arguments import model_params
from scmsim.study.tlb.footprints import calls_of, make
from scmsim.trace import open_trace
from scmsim.trace.store import TraceWriter
from scmsim.workload import mix
from tools import join_footprints

KERNEL, USER = 0xFFFF_8880_0123_4567, 0x7F00_0000_1000


def touched(path: Path, kinds: list[str]) -> None:
    """Three touches of the kernel's own memory a call, on pages of 4 KiB and 2 MiB, one of the program's, and six of file data.

    The second page of data is from before the first call; what is written back from the kernel's own is metadata.  The third was
    cleared for a fault, the fourth is copied as Linux 6.4 does.
    """
    data = KERNEL + (1 << 30)
    old, cleared, copied = data + 4096, data + (2 << 20), data + (4 << 20)
    rows = [
        (number, kind, address, order, store, region, cache, function)
        for number, kind in enumerate(kinds)
        for address, order, store, region, cache, function in (
            (KERNEL + (number << 12), 12, False, "direct map", "kmalloc-64", "vfs_write"),
            (USER, 12, True, "program", "", "copy_user_generic"),
            (data, 21, True, "direct map", "", "copy_user_generic"),
            (data, 21, False, "direct map", "", "crc32c"),
            (old, 21, True, "direct map", "", "memset_erms"),
            (old, 21, False, "direct map", "", "__memcpy_flushcache"),
            (cleared, 12, True, "direct map", "", "clear_page_erms"),
            (copied, 12, True, "direct map", "", "rep_movs_alternative"),
            (KERNEL, 21, True, "direct map", "", "vfs_write"),
            (KERNEL, 21, False, "direct map", "", "__memcpy_flushcache"),
        )
    ]
    write(path, rows)


def write(path: Path, rows: list[tuple]) -> None:
    call, kind, address, order, store, region, cache, function = zip(*rows, strict=True)
    columns = {
        "call": pa.array(call, pa.int32()), "kind": pa.array(kind), "address": pa.array(address, pa.uint64()),
        "order": pa.array(order, pa.uint8()), "store": pa.array(store), "region": pa.array(region),
        "cache": pa.array(cache), "function": pa.array(function),
    }  # fmt: skip
    header = {"format": touches.FORMAT, "fs": "tmpfs", "kernel": "6.1.0-test"}
    pq.write_table(pa.table(columns).replace_schema_metadata({"scmsim": json.dumps(header)}), path)


def made(path: Path, mapped: int = 0, calls: int = 60, files: int = 3) -> Path:
    """A trace of the mix."""
    source = mix.Workload(calls=calls, files=files, mapped=mapped, unsynced=0)
    with TraceWriter(path, source.header) as writer:
        for batch in source.batches():
            writer.append(batch)
        writer.close(source.files)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return made(tmp_path / "mix.parquet")


def kinds_of(trace: Path) -> list[str]:
    rows = np.concatenate([batch[["op", "flag"]] for batch in open_trace(trace).batches()])
    return [OPS[op] for op, flag in rows.tolist() if not flag & SETUP]


def test_calls_are_paired_and_the_program_left_out(tmp_path: Path) -> None:
    trace = made(tmp_path / "mix.parquet", calls=120, files=160)
    kinds = kinds_of(trace)
    touched(tmp_path / "tmpfs-1.touches.parquet", kinds)
    (path,) = make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    prints = footprint.read(path, ["syscall", "copy", "namespace"])
    assert prints.measured_on == "tmpfs on Linux 6.1.0-test"
    book = prints.book
    groups = slice(*prints.state.groups[0, OPS.index("readdir")])
    assert [bool(sites & LONG_READDIR) for sites in book.groups["sites"][groups]] == [False, True]
    assert len(book.calls) == len(kinds) and (np.diff(book.bounds) == 3).all()
    assert book.calls["amount"].max() > 4096
    small = {((KERNEL + (number << 12)) >> 12 << 12) - (1 << 64) for number in range(len(kinds))}
    assert set(book.pages["vaddr"].tolist()) <= {*small, (KERNEL >> 21 << 21) - (1 << 64)}
    assert {(int(book.pages["order"][touch >> 1]), int(touch & 1)) for touch in book.touches} == {
        (12, 0),
        (21, 1),
        (21, 0),
    }


def test_inodes_have_pages_of_their_own(tmp_path: Path, trace: Path) -> None:
    """Each call touches its file's inode, on a page by the inode's number, and the directory's, which is the same for all.

    Inodes beyond those that were measured lie on a large page.
    """
    source = open_trace(trace)
    inodes = [call.inode for call in calls_of(Model("tmpfs", model_params("fs", "tmpfs", {}), source.files), source)]
    page = [KERNEL + (8 << 20) + (inode // 2 << 21) for inode in inodes]
    rows = [
        (number, kind, address, order, False, "direct map", "shmem_inode_cache", "iget")
        for number, kind in enumerate(kinds_of(trace))
        if kind != "readdir"
        for address, order in ((KERNEL, 30), (page[number], 12))
    ]
    write(tmp_path / "tmpfs-1.touches.parquet", rows)
    (path,) = make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    book = footprint.read(path, []).book
    own = np.flatnonzero(book.pages["cache"])
    assert len(own) == 1 and ((book.touches >> 1).reshape(-1, 2)[:, 1] == own[0]).all()
    placed = book.pages[book.inodes[0]]
    known = sorted(set(inodes))
    assert (placed["order"][known] == 12).all() and placed["order"][-1] == 21 and book.pages["order"].max() == 30
    assert [int(placed["vaddr"][inode]) for inode in known] == [
        ((KERNEL + (8 << 20) + (inode // 2 << 21)) >> 12 << 12) - (1 << 64) for inode in known
    ]
    assert placed["vaddr"][-1] == placed["vaddr"][known[-1]] >> 21 << 21


def test_open_files_have_pages_of_their_own_and_interrupted_calls_are_left_out(tmp_path: Path, trace: Path) -> None:
    source, kinds = open_trace(trace), kinds_of(trace)
    calls = calls_of(Model("tmpfs", model_params("fs", "tmpfs", {}), source.files), source)
    ticks = [number for number in range(len(kinds)) if number % 7 == 3]
    rows = [
        (number, kinds[number], KERNEL + (1 << 20) + (call.opening // 2 << 12), 12, False, "direct map", "filp", "fput")
        for number, call in enumerate(calls)
        if call.opening >= 0
    ]
    rows += [(n, kinds[n], KERNEL, 12, False, "direct map", "", "sysvec_apic_timer_interrupt") for n in ticks]
    write(tmp_path / "tmpfs-1.touches.parquet", sorted(rows))
    (path,) = make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    book = footprint.read(path, []).book
    kept = [call for number, call in enumerate(calls) if call.opening >= 0 and number not in ticks]
    assert len(book.calls) == len(kept) == len(book.touches)
    assert book.pages["vaddr"][book.interrupt >> 1].tolist() == [(KERNEL >> 12 << 12) - (1 << 64)]
    assert (book.pages["cache"][book.touches >> 1] == 1 | OPEN_FILE).all()
    made = {call.made for call in kept} - {-1}
    assert made and set(book.calls["opening"].tolist()) - {-1} == made
    for opening in made:
        wanted = (KERNEL + (1 << 20) + (opening // 2 << 12)) >> 12 << 12
        assert int(book.pages["vaddr"][book.inodes[0][opening]]) == wanted - (1 << 64)


def test_footprints_of_a_folder_stand_in_the_place_of_a_kernel(tmp_path: Path, trace: Path) -> None:
    import scmsim

    touched(tmp_path / "tmpfs-1.touches.parquet", kinds_of(trace))
    make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    without, with_ = (scmsim.replay(trace, "tmpfs", footprints=f).runs[0] for f in ("none", str(tmp_path / "out")))
    more = with_.counters["dtlb_load_lookups"] - without.counters["dtlb_load_lookups"]
    stores = with_.counters["dtlb_store_lookups"] - without.counters["dtlb_store_lookups"]
    assert (more, stores) == (2 * without.calls, without.calls)
    for name in ("instructions", "mem_inst_retired_all_loads", "pm_stored_bytes"):
        assert with_.counters.get(name) == without.counters.get(name)


def test_cache_lines_are_left_out_if_they_are_not_wanted(tmp_path: Path, trace: Path) -> None:
    """The file equals that of a recording without cache lines."""
    place = tmp_path / f"tmpfs-1{touches.SUFFIX}"
    touched(place, kinds_of(trace))
    plain, table = tmp_path / "plain", pq.read_table(place)
    (without,) = make(str(trace), tmp_path, ["tmpfs"], plain, lambda *_: None)
    numbers = pa.array(np.arange(1, 1 + len(table)), pa.uint64())
    pq.write_table(table.append_column("lines", numbers), place)
    found = [
        np.load(make(str(trace), tmp_path, ["tmpfs"], tmp_path / name, lambda *_: None, lines)[0])
        for name, lines in (("lines", True), ("none", False))
    ]
    expected = np.load(without)
    assert {"blocks", "lines"} <= set(found[0]) and set(found[1]) == set(expected)
    assert all((found[1][name] == expected[name]).all() for name in expected)


def test_a_fault_touches_what_a_measured_one_did_and_other_loads_and_stores_nothing(tmp_path: Path) -> None:
    import scmsim

    trace = made(tmp_path / "mapped.parquet", mapped=5)
    source, kinds = open_trace(trace), kinds_of(trace)
    model = Model("tmpfs", model_params("fs", "tmpfs", {}), source.files)
    fault = 1 << model.sites.index("page fault")
    loads = [call for call in calls_of(model, source) if OPS[call.kind] in ("load", "store")]
    faults = sum(call.sites & fault > 0 for call in loads)
    assert 0 < faults < len(loads)
    touched(tmp_path / "tmpfs-1.touches.parquet", kinds)
    make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    without, with_ = (scmsim.replay(trace, "tmpfs", footprints=f).runs[0] for f in ("none", str(tmp_path / "out")))
    for name, each in (("load", 2), ("store", 1)):
        more = with_.counters[f"dtlb_{name}_lookups"] - without.counters[f"dtlb_{name}_lookups"]
        assert more == each * (without.calls + faults)


def test_touches_of_another_trace_are_refused(tmp_path: Path, trace: Path) -> None:
    touched(tmp_path / "tmpfs-1.touches.parquet", ["msync", "msync", "create"])
    with pytest.raises(
        UsageError, match="the touches were not recorded with .*: their call 0 is a msync, which the trace lacks"
    ):
        make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)


def test_a_call_may_touch_more_than_a_buffer_of_events_holds(tmp_path: Path, trace: Path) -> None:
    import scmsim

    kinds, many = kinds_of(trace), ROOM + 5
    busy = kinds.index(min(kinds, key=kinds.count))  # its kind is drawn for no other
    rows = [
        (number, kind, KERNEL + (page << 12), 12, False, "direct map", "", "vfs_write")
        for number, kind in enumerate(kinds)
        for page in range(many if number == busy else 1)
    ]
    write(tmp_path / "tmpfs-1.touches.parquet", rows)
    make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    run = scmsim.replay(trace, "tmpfs", footprints=str(tmp_path / "out")).runs[0]
    assert run.counters["dtlb_load_lookups"] > many


def test_calls_behind_many_changes_come_from_the_other_file(tmp_path: Path, trace: Path) -> None:
    """The calls of the one stay as they are; the other's touch its own pages, and its own table of objects."""
    rows = [
        (n, kind, KERNEL + (1 << 20), 12, True, "direct map", "shmem_inode_cache", "iget")
        for n, kind in enumerate(kinds_of(trace))
    ]
    files = []
    for name, moved in (("one", 0), ("other", 1 << 30)):
        write(tmp_path / "tmpfs-1.touches.parquet", [(*row[:2], row[2] + moved, *row[3:]) for row in rows])
        files += make(str(trace), tmp_path, ["tmpfs"], tmp_path / name, lambda *_: None)
    (about, one), (_, other) = map(join_footprints.read, map(str, files))
    other["calls"]["sites"][::2] |= MANY_DIRTY_INODES
    both = join_footprints.joined(one, other)
    header = {name: value for name, value in about.items() if name != "format"}
    footprint.write(tmp_path / "both.npz", header, **both)
    book = footprint.read(tmp_path / "both.npz", []).book
    places = [
        {int(book.pages["vaddr"][book.inodes[book.pages["cache"][touch >> 1] - 1][0]]) for touch in touches}
        for touches in (book.touches[: len(one["touches"])], book.touches[len(one["touches"]) :])
    ]
    first = ((KERNEL + (1 << 20)) >> 12 << 12) - (1 << 64)
    assert places == [{first}, {first + (1 << 30)}]
    assert len(book.calls) == len(one["calls"]) + (len(other["calls"]) + 1) // 2
