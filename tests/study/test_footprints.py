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
from scmsim.lab import touches
from scmsim.study.tlb.footprints import make
from scmsim.trace import open_trace
from scmsim.trace.store import TraceWriter
from scmsim.workload import mix

KERNEL, USER = 0xFFFF_8880_0123_4567, 0x7F00_0000_1000


def touched(path: Path, kinds: list[str]) -> None:
    """Two touches of the kernel's own memory a call, on pages of 4 KiB and 2 MiB, and one of the program's."""
    rows = [
        (number, kind, address, order, store, region)
        for number, kind in enumerate(kinds)
        for address, order, store, region in (
            (KERNEL + (number << 12), 12, False, "direct map"),
            (USER, 12, True, "program"),
            (KERNEL, 21, True, "direct map"),
        )
    ]
    call, kind, address, order, store, region = zip(*rows, strict=True)
    columns = {
        "call": pa.array(call, pa.int32()), "kind": pa.array(kind), "address": pa.array(address, pa.uint64()),
        "order": pa.array(order, pa.uint8()), "store": pa.array(store), "region": pa.array(region),
    }  # fmt: skip
    header = {"format": touches.FORMAT, "fs": "tmpfs", "kernel": "6.1.0-test"}
    pq.write_table(pa.table(columns).replace_schema_metadata({"scmsim": json.dumps(header)}), path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    source, path = mix.Workload(calls=60, files=3), tmp_path / "mix.parquet"
    with TraceWriter(path, source.header) as writer:
        for batch in source.batches():
            writer.append(batch)
        writer.close(source.files)
    return path


def kinds_of(trace: Path) -> list[str]:
    rows = np.concatenate([batch[["op", "flag"]] for batch in open_trace(trace).batches()])
    return [OPS[op] for op, flag in rows.tolist() if not flag & SETUP]


def test_calls_are_paired_and_the_program_left_out(tmp_path: Path, trace: Path) -> None:
    kinds = kinds_of(trace)
    twice = [
        kind for kind in kinds for _ in range(2 if kind == "readdir" else 1)
    ]  # the lab reads a directory in two calls
    touched(tmp_path / "tmpfs-1.touches.parquet", twice)
    (path,) = make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    prints = footprint.read(path, ["syscall", "copy", "namespace"])
    assert prints.measured_on == "tmpfs on Linux 6.1.0-test"
    assert set(prints.entries["kind"].tolist()) == {OPS.index(kind) for kind in kinds}
    assert (prints.entries["count"] == 2).all() and (prints.entries["instructions"] > 0).all()
    small = {((KERNEL + (number << 12)) >> 12 << 12) - (1 << 64) for number in range(len(twice))}
    assert set(prints.touches["vaddr"].tolist()) <= {*small, (KERNEL >> 21 << 21) - (1 << 64)}
    assert set(map(tuple, prints.touches[["order", "stores"]].tolist())) == {(12, 0), (21, 1)}


def test_footprints_of_a_folder_stand_in_the_place_of_a_kernel(tmp_path: Path, trace: Path) -> None:
    import scmsim

    touched(tmp_path / "tmpfs-1.touches.parquet", kinds_of(trace))
    make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
    without, with_ = (scmsim.replay(trace, "tmpfs", footprints=f).runs[0] for f in (None, str(tmp_path / "out")))
    more = with_.counters["dtlb_load_lookups"] - without.counters["dtlb_load_lookups"]
    stores = with_.counters["dtlb_store_lookups"] - without.counters["dtlb_store_lookups"]
    assert more == stores == without.calls
    for name in ("instructions", "mem_inst_retired_all_loads", "pm_stored_bytes"):
        assert with_.counters.get(name) == without.counters.get(name)


def test_touches_of_another_trace_are_refused(tmp_path: Path, trace: Path) -> None:
    touched(tmp_path / "tmpfs-1.touches.parquet", ["mmap", "mmap", "create"])
    with pytest.raises(UsageError, match="the touches are not of .*: its call 0 is mmap; name the trace"):
        make(str(trace), tmp_path, ["tmpfs"], tmp_path / "out", lambda *_: None)
