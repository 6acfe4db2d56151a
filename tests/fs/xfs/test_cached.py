"""The kernels of xfs, with the page cache, against their reference implementation, operation by operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import KEEP_SIZE, PUNCH_HOLE, SYNCHRONOUS
from scmsim.fs.linux import state as e
from scmsim.fs.xfs import state as n
from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.laws import SECOND, every_other_page, spaced
from tests.fs.xfs import test_properties as plain
from tests.fs.xfs.reference_cached import Cached

SMALL = (4 << 20) + (12 + 12 + 40) * 4096


def same_state(model, reference):
    """Log, files and directories, and what the page cache holds of files."""
    assert int(model.record.reserved) == reference.space.reserved
    plain.same_state(model, reference)
    record, arena = model.record, model.state.arena
    for file, node in reference.nodes.items():
        if node.is_dir:
            continue
        f = int(arena[record.rows + file * e.ROW_WORDS])
        flags = n.TRUNCATED * node.truncated | n.CLOSED_DIRTY * node.closed_dirty | n.PREALLOCATED * node.kept
        found = [int(arena[f + field]) for field in (e.DIRTY, n.DELAYED, n.DISK_SIZE, n.FLAGS)]
        assert found == [len(node.dirty), len(node.delayed), node.disk, flags], file
        words = [int(word) for word in arena[arena[f + e.PAGES] :][: node.end]] if node.end else []
        assert {page for page, word in enumerate(words) if word & e.IS_DIRTY} == node.dirty, file
        assert {page for page, word in enumerate(words) if word and not word >> e.BLOCK_SHIFT} == node.delayed, file


def start(capacity=24 << 20, log=4 << 20, room=1 << 12, files=None, tick=laws.TICK, groups=4, folios="never"):
    own = {"capacity": capacity, "log": log, "allocation_groups": groups, "folios": folios}
    model = drive.Model("xfs", files or plain.side(), room, timestamp_tick=tick, **own)
    return model, Cached(files or plain.side(), capacity, log=log // 4096, clock_tick=tick, groups=groups)


FAMILY = laws.ByKind(start, same_state)


@settings(max_examples=10 if NO_JIT else 200)
@given(
    trace=plain.traces,
    room=st.sampled_from([2, 100, 1 << 12]),
    tick=st.sampled_from([0, laws.TICK]),
    folios=st.sampled_from(["never", "always"]),
)
def test_kernels_agree_with_the_twin(trace, room, tick, folios):
    """Whatever the size of the event buffer, whether files' times follow a clock, and with large folios."""
    FAMILY.agree(trace, room=room, tick=tick, folios=folios, step=1)


@settings(max_examples=10 if NO_JIT else 100)
@given(trace=plain.traces)
def test_on_a_device_that_gets_full(trace):
    """The same with some 40 blocks for data."""
    FAMILY.agree(trace, capacity=SMALL, groups=1, step=1)


def calls_on_large_files():
    """Lists of (operation, nanoseconds before it) on two files of up to 1 MB, with extents past their ends."""
    offset = st.one_of(
        st.integers(0, 700_000), st.integers(0, 170).map(lambda page: page * 4096), st.sampled_from([0, 65_536])
    )
    length = st.one_of(st.integers(1, 300_000), st.integers(1, 60).map(lambda page: page * 4096))
    file = st.integers(1, 2)
    flags = st.sampled_from([0, KEEP_SIZE, PUNCH_HOLE, PUNCH_HOLE])

    zero = st.just(0)

    def call(name, at=zero, size=zero, flag=zero):
        return st.tuples(st.just(name), file, at, size, st.just(-1), flag)

    calls = st.one_of(
        *[call("write", offset, length)] * 4,
        call("truncate", offset),
        call("fallocate", offset, length, flags),
        call("close"),
        call("fsync"),
        call("unlink"),
        call("create"),
    )
    return st.lists(st.tuples(calls, st.sampled_from([1000] * 6 + [6 * SECOND, 40 * SECOND])), max_size=40)


@settings(max_examples=10 if NO_JIT else 300)
@given(trace=calls_on_large_files(), room=st.sampled_from([2, 1 << 12]), capacity=st.sampled_from([8 << 20, 24 << 20]))
def test_delayed_allocation_agrees_with_the_twin(trace, room, capacity):
    """Also where little space is left, so that less is preallocated and writes fail or are short."""
    FAMILY.agree(trace, capacity, room=room, groups=1, step=1)


def growing_file():
    """Appends that preallocate more and more, closes that free it or keep it, a hole past the end, a long wait."""
    rows = [("create", 1), *[("write", 1, 30_000 * i, 30_000) for i in range(40)], ("close", 1), ("fsync", 1)]
    rows += [("open", 1), ("write", 1, 1_300_000, 5000), ("write", 1, 3_000_000, 9 << 20), ("close", 1), ("close", 1)]
    rows += [("truncate", 1, 2_000_001), ("write", 1, 2_000_000, 100_000), ("close", 1), ("write", 1, 5_000_000, 1)]
    rows += [("truncate", 1, 5_100_000), ("fallocate", 1, 4_900_000, 300_000, -1, KEEP_SIZE), ("close", 1)]
    rows += [("fallocate", 1, 1_000_001, 500_000, -1, PUNCH_HOLE), ("truncate", 1, 0), ("close", 1)]
    return [
        *spaced(*rows),
        (("stat", 1), 40 * SECOND),
        (("write", 1, 0, 200_000), 40 * SECOND),
        (("stat", 1), 40 * SECOND),
    ]


def large_writes():
    """Holes of more than 4 MiB, two allocation groups, unwritten blocks, steps of write-back."""
    rows = [("create", 1), ("write", 1, 100, 9 << 20), ("fallocate", 1, 0, 30 << 20), ("write", 1, 8 << 20, 20 << 20)]
    return spaced(
        *rows, ("fsync", 1), ("create", 2), ("write", 2, 0, 13 << 20, -1, SYNCHRONOUS), ("unlink", 1), ("sync", -1)
    )


@pytest.mark.parametrize(
    ("trace", "capacity"),
    [
        (plain.appends_with_fsync(400), 24 << 20),
        (every_other_page(800), 40 << 20),
        (large_writes(), 120 << 20),
        (growing_file(), 40 << 20),
    ],
    ids=["log wraps", "leaves", "large", "growing"],
)
def test_long_traces_agree_with_the_twin(trace, capacity):
    assert not FAMILY.agree(trace, capacity).failed


def test_edges():
    """Of pages and of directories."""
    trace, files = laws.edges()
    assert not FAMILY.agree(trace, 40 << 20, files=files, step=9).failed


def test_what_fits_of_a_write_on_a_device_that_is_nearly_full():
    assert FAMILY.agree(laws.nearly_full(), SMALL, step=1, groups=1).short_writes
