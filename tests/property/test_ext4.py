"""The ext4 kernels against their slow twin, operation by operation, and laws that hold for any run."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.records import DATA_ONLY, FENCE, FLUSH, KEEP_SIZE, NTSTORE, OPS, PM, PUNCH_HOLE, STORE, SYNCHRONOUS
from tests.conftest import NO_JIT
from tests.reference import drive
from tests.reference.ext4_slow import Slow

SECOND = 10**9
SYSTEMS = ("ext4", "ext4-dax")
# 0 and 7 are directories (7 is made in the trace, if at all), 5 and 6 existed before.
SIZES = (0, -1, -1, -1, -1, 30_000, 1, -1)
NAMES = ("/d", "/d/a", "/d/b" + "x" * 200, "/d/c", "/d/" + "y" * 255, "/d/old", "/d/older", "/d/sub")
FLAGS = {SYNCHRONOUS: "synchronous", DATA_ONLY: "data only", KEEP_SIZE: "keep size", PUNCH_HOLE: "punch"}
KINDS = ("data", "metadata", "log", "zeroing")

plain = st.integers(1, 6)
folder = st.sampled_from([-1, 0, 0, 7])
offset = st.one_of(st.integers(0, 60_000), st.integers(0, 20).map(lambda page: page * 4096))
length = st.one_of(st.integers(0, 30_000), st.integers(1, 9).map(lambda page: page * 4096), st.integers(1, 9))


def call(name, file=plain, at=0, size=0, file2=-1, flag=0):
    parts = (st.just(part) if isinstance(part, int) else part for part in (at, size, file2, flag))
    return st.tuples(st.just(name), file, *parts)


calls = st.one_of(
    call("create", file2=folder),
    call("write", at=offset, size=length, flag=st.sampled_from([0, 0, SYNCHRONOUS])),
    call("write", at=offset, size=length),
    call("read", at=offset, size=length),
    call("fsync", st.integers(0, 7), flag=st.sampled_from([0, DATA_ONLY])),
    call("truncate", at=offset),
    call("fallocate", at=offset, size=length.filter(bool), flag=st.sampled_from([0, KEEP_SIZE, PUNCH_HOLE])),
    call("unlink", file2=folder),
    call("rename", file2=st.sampled_from([-1, 1, 2, 5, 6])),
    call("link", file2=folder),
    call("mkdir", st.just(7), file2=st.just(0)),
    call("rmdir", st.just(7), file2=st.just(0)),
    call("open"),
    call("close"),
    call("stat"),
    call("sync", st.just(-1)),
)
pause = st.sampled_from([1000] * 8 + [SECOND, 4 * SECOND, 40 * SECOND])
traces = st.lists(st.tuples(calls, pause), max_size=60)


def side():
    return drive.files(*SIZES, dirs=[0, 7], names=NAMES)


def batch_of(trace):
    batch = drive.ops(*[parts for parts, _ in trace])
    batch.time_ns = np.cumsum([0, *[wait for _, wait in trace]])[1:]
    return batch


def stored_by_operation(model, events, count):
    """(data, metadata, log, zeroing, flushed lines, fences) of each operation."""
    kinds, rows = list(model.module.SITES.values()), np.zeros((count, len(KINDS) + 2), np.int64)
    for event in events:
        code, at, size = int(event.code), int(event.addr), int(event.length)
        if code in (STORE, NTSTORE) and event.space == PM:
            rows[event.op, KINDS.index(kinds[event.site])] += size
        elif code == FLUSH:
            rows[event.op, -2] += drive.lines(at, size)
        elif code == FENCE:
            rows[event.op, -1] += size
    return rows


def agree(fs, trace, capacity=24 << 20, journal=4 << 20):
    """Run the kernels and the twin over a trace and compare all that both know."""
    model = drive.Model(fs, side(), capacity=capacity, journal=journal)
    twin = Slow(fs == "ext4-dax", side(), capacity, journal)
    batch = batch_of(trace)
    found = stored_by_operation(model, model.feed(batch), len(batch))
    for i, row in enumerate(batch):
        flags = [name for bit, name in FLAGS.items() if row.flag & bit]
        name = OPS[row.op]
        expected = twin.apply(name, int(row.file), int(row.offset), int(row.length), flags, int(row.file2), int(row.time_ns))
        assert tuple(found[i]) == expected, (i, name, row)
    record, arena = model.record, model.state.arena
    assert int(record.failed) == twin.failed and int(record.commits) == twin.commits
    assert int(record.free_blocks + record.windowed) == twin.free_count()
    assert int(record.free_blocks + record.windowed - record.reserved) == twin.available()
    files = [file for file in twin.nodes if file < len(SIZES) and not twin.nodes[file].is_dir]
    space = model.space()
    assert space["file_bytes"] == sum(twin.nodes[file].size for file in files) and space["files"] == len(files)
    assert space["dirty_bytes"] == 4096 * sum(len(twin.nodes[file].dirty()) for file in files)
    laws(space)
    return model, arena


def laws(space):
    assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
    assert space["live_bytes"] <= space["file_bytes"]
    total = space["allocated_bytes"] + space["metadata_bytes"] + space["preallocated_bytes"]
    assert total <= space["capacity_bytes"]


@settings(max_examples=5 if NO_JIT else 300)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(trace=traces)
def test_kernels_agree_with_the_twin(fs, trace):
    agree(fs, trace)


@settings(max_examples=3 if NO_JIT else 60)
@pytest.mark.parametrize("fs", SYSTEMS)
@given(trace=traces)
def test_on_a_device_that_gets_full(fs, trace):
    """The same with 40 blocks for data."""
    taken = drive.Model(fs, side(), capacity=24 << 20, journal=4 << 20).space()["metadata_bytes"]
    agree(fs, trace, capacity=taken + 40 * 4096)
