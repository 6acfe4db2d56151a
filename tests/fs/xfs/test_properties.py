"""The xfs kernels against their slow twin, operation by operation, and laws that hold for any run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import DATA_ONLY, FENCE, FLUSH, KEEP_SIZE, NTSTORE, OPS, PM, PUNCH_HOLE, STORE, SYNCHRONOUS
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import state as n
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.xfs.reference import Slow

SECOND = 10**9
# 0 and 7 are directories (7 is made in the trace, if at all), 5 and 6 existed before.
SIZES = (0, -1, -1, -1, -1, 30_000, 1, -1)
NAMES = ("/d", "/d/a", "/d/b" + "x" * 200, "/d/c", "/d/" + "y" * 255, "/d/old", "/d/older", "/d/sub")
FLAGS = {SYNCHRONOUS: "synchronous", DATA_ONLY: "data only", KEEP_SIZE: "keep size", PUNCH_HOLE: "punch"}

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
    call("sync", st.just(-1)),
)
pause = st.sampled_from([1000] * 8 + [SECOND, 40 * SECOND])
traces = st.lists(st.tuples(calls, pause), max_size=60)


def side():
    return drive.files(*SIZES, dirs=[0, 7], names=NAMES)


def stored_by_operation(model, events, count):
    """(data, metadata, log, zeroing, flushed lines, fences) of each operation."""
    kinds, rows = list(model.module.SITES.values()), np.zeros((count, 6), np.int64)
    for event in events:
        code, at, size = int(event.code), int(event.addr), int(event.length)
        if code in (STORE, NTSTORE) and event.space == PM:
            rows[event.op, ("data", "metadata", "log", "zeroing").index(kinds[event.site])] += size
        elif code == FLUSH:
            rows[event.op, -2] += drive.lines(at, size)
        elif code == FENCE:
            rows[event.op, -1] += size
    return rows


def same_state(model, twin):
    """Log, files and directories."""
    record, arena = model.record, model.state.arena
    mine = [twin.sequence, twin.size(), len(twin.cil), twin.used, sum(twin.free), twin.failed, twin.next_inode]
    names = ("sequence", "cil_bytes", "cil_items", "log_used", "free_blocks", "failed", "next_inode")
    assert [int(record[name]) for name in names] == mine
    for file, node in twin.nodes.items():
        f = int(arena[record.rows + file * e.ROW_WORDS])
        fields = [e.INODE, e.LINKS, e.OPENS, e.IS_DIR, e.END, e.LEAF_COUNT, n.KNOWN]
        expected = [node.inode, node.links, node.opens, node.is_dir, node.end, len(node.leaves), node.known]
        if node.is_dir:
            forms = ("inode", "block", "leaf", "node")
            fields += [n.NAMES, n.DATA_BYTES, n.FORM, n.HINT]
            expected += [node.names, node.long, forms.index(node.form), node.hint]
        else:
            fields += [e.SIZE, e.EXTENTS, e.MAPPED]
            expected += [node.size, node.extents(), len(node.pages)]
        assert [int(arena[f + field]) for field in fields] == expected, file
        if not node.is_dir and node.end:
            blocks = [int(word) >> e.BLOCK_SHIFT for word in arena[arena[f + e.PAGES] :][: node.end]]
            assert blocks == [node.pages.get(page, (0,))[0] for page in range(node.end)], file


def agree(trace, capacity=24 << 20, log=4 << 20, room=1 << 12, files=None):
    """Run the kernels and the twin over a trace and compare all that both know; returns the twin."""
    model = drive.Model("xfs-dax", files or side(), room, capacity=capacity, log=log)
    twin = Slow(files or side(), capacity, log=log // 4096)
    batch = drive.ops(*[parts for parts, _ in trace])
    batch.time_ns = np.cumsum([0, *[wait for _, wait in trace]])[1:]
    found = stored_by_operation(model, model.feed(batch), len(batch))
    for i, row in enumerate(batch):
        flags = [name for bit, name in FLAGS.items() if row.flag & bit]
        numbers = (int(row.file), int(row.offset), int(row.length))
        expected = twin.apply(OPS[row.op], *numbers, flags, int(row.file2), int(row.time_ns))
        assert tuple(found[i]) == expected, (i, OPS[row.op], row)
    same_state(model, twin)
    space = model.space()
    assert 0 <= space["live_bytes"] <= space["allocated_bytes"] <= space["capacity_bytes"]
    assert space["allocated_bytes"] + space["metadata_bytes"] <= space["capacity_bytes"]
    nodes = [node for node in twin.nodes.values() if not node.is_dir]
    assert space["file_bytes"] == sum(node.size for node in nodes) and space["files"] == len(nodes)
    return twin


@settings(max_examples=5 if NO_JIT else 200)
@given(trace=traces, room=st.sampled_from([2, 100, 1 << 12]))
def test_kernels_agree_with_the_twin(trace, room):
    """Whatever the size of the event buffer."""
    agree(trace, room=room)


@settings(max_examples=3 if NO_JIT else 60)
@given(trace=traces)
def test_on_a_device_that_gets_full(trace):
    """The same with some 40 blocks for data."""
    agree(trace, capacity=(4 << 20) + (4 * 8 + 8 + 40) * 4096)


def spaced(*rows, wait=1000):
    return [(row, wait) for row in rows]


def every_other_page(count):
    """Each page an extent of its own: leaves, some freed again."""
    rows = [("create", 1), *[("write", 1, 8192 * i, 100) for i in range(count)], ("fsync", 1)]
    rows += [("write", 1, 8192 * (count - 1), 9000, -1, SYNCHRONOUS), ("truncate", 1, 4096 * count), ("fsync", 1)]
    return spaced(*rows, ("write", 1, 4096, 5000), ("sync", -1), ("unlink", 1), ("sync", -1))


def appends_with_fsync(count):
    """More checkpoints than the log has room for: metadata goes in place when it is 3/4 full, and every 30 s."""
    rows = [("create", 1), *[row for i in range(count) for row in (("write", 1, i * 700, 700), ("fsync", 1))]]
    return [*spaced(*rows), (("stat", 1), 40 * SECOND), (("write", 1, 0, 10), 40 * SECOND), (("sync", -1), SECOND)]


def large_writes():
    """Parts of 4 MiB, two allocation groups, unwritten blocks."""
    rows = [("create", 1), ("write", 1, 100, 9 << 20), ("fallocate", 1, 0, 30 << 20), ("write", 1, 8 << 20, 20 << 20)]
    return spaced(
        *rows, ("fsync", 1), ("create", 2), ("write", 2, 0, 13 << 20, -1, SYNCHRONOUS), ("unlink", 1), ("sync", -1)
    )


@pytest.mark.parametrize(
    ("trace", "capacity"),
    [(appends_with_fsync(1300), 24 << 20), (every_other_page(800), 40 << 20), (large_writes(), 80 << 20)],
    ids=["log wraps", "leaves", "large"],
)
@pytest.mark.skipif(NO_JIT, reason="long traces")
def test_long_traces_agree_with_the_twin(trace, capacity):
    assert not agree(trace, capacity).failed


@pytest.mark.skipif(NO_JIT, reason="a long trace")
def test_a_directory_grows_and_shrinks():
    """1200 names: all four forms, three leaves and more; renames; then all names go."""
    count = 1200
    files = drive.files(0, *[-1] * count, dirs=[0], names=["/d", *[f"/d/{i:0{7 + i % 40}d}" for i in range(count)]])
    every = range(1, count + 1)
    rows = [("create", i, 0, 0, 0) for i in every] + [("fsync", 5)] + [("rename", i) for i in every if i % 3]
    rows += [("link", i, 0, 0, 0) for i in every if i % 5 == 0] + [("sync", -1)]
    twin = agree(spaced(*rows), 40 << 20, files=files)
    assert twin.nodes[0].form == "node" and len(twin.nodes[0].leaves) > 3
    rows += [("unlink", i, 0, 0, 0) for i in every if i % 5 == 0] + [("unlink", i, 0, 0, 0) for i in every]
    twin = agree(spaced(*rows, ("sync", -1)), 40 << 20, files=files)
    assert twin.nodes[0].form == "inode" and len(twin.nodes) == 2 and not twin.nodes[0].names
