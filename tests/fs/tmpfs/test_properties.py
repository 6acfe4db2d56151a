"""The kernels of tmpfs and ramfs against their reference implementation, operation by operation."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core import records as r
from scmsim.core.records import STORE, WORK
from scmsim.fs.engine.events import load_templates
from scmsim.fs.tmpfs.templates import COSTS, SITES, all_templates
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.tmpfs.reference import Slow

offset = st.one_of(st.integers(0, 60_000), st.integers(0, 15).map(lambda page: page * 4096))
length = st.one_of(st.integers(1, 30_000), st.integers(1, 9).map(lambda page: page * 4096))
edge = st.sampled_from([0, 1, 4096, 5000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, (2 << 20) + 8192, 3 << 20, 4 << 20])
far = st.one_of(offset, edge)
long = st.one_of(length, edge.filter(bool))


def calls_of(offset, length, *more):
    """Calls on two files."""
    return st.one_of(
        st.tuples(st.just("write"), st.integers(1, 2), offset, length),
        st.tuples(st.just("read"), st.integers(1, 2), offset, length),
        st.tuples(st.just("truncate"), st.integers(1, 2), offset),
        *more,
    )


calls = calls_of(offset, length)
HOLE = r.PUNCH_HOLE | r.KEEP_SIZE
large_calls = calls_of(
    far, long, st.tuples(st.just("fallocate"), st.integers(1, 2), far, long, st.just(-1), st.sampled_from([0, HOLE]))
)


def charged(events):
    """Bytes cleared, and how often each cost was charged."""
    work, costs = events["code"] == WORK, Counter()
    for event in events[work]:
        costs[COSTS[event["site"]]] += int(event["addr"]) // 1000
    cleared = (events["code"] == STORE) & (events["site"] == list(SITES).index("zeroing"))
    return int(events["length"][cleared].sum()), Counter({name: n for name, n in costs.items() if n})


def agree(fs, activates, trace, reference, **params):
    """Replay a trace on a model and on the reference, call by call; returns the model."""
    model = drive.Model(fs, drive.files(0, -1, -1, dirs=[0]), **params)
    model.record.cost[:] = 0  # a cost's site names it, and one unit of it is one instruction
    model.record.cost[: len(COSTS)] = [(1000, 0, 0, k) for k in range(len(COSTS))]
    load_templates(model.state, all_templates(activates), merge=False)
    model.feed(drive.ops(("create", 1), ("create", 2)))
    for row in trace:
        cleared, costs = charged(model.feed(drive.ops(row)))
        costs.pop("timer_tick", None)
        expected, named = getattr(reference, row[0])(*row[1:])
        assert (cleared, costs) == (expected, Counter({name: n for name, n in named.items() if n})), row
        assert model.space()["allocated_bytes"] == 4096 * reference.live_pages(), row
    return model


@settings(max_examples=4 if NO_JIT else 60)
@pytest.mark.parametrize(("fs", "activates"), [("tmpfs", True), ("ramfs", False)])
@given(trace=st.lists(calls, max_size=40))
def test_kernel_and_twin_agree(fs, activates, trace):
    agree(fs, activates, trace, Slow(activates))


@settings(max_examples=2 if NO_JIT else 300)
@pytest.mark.parametrize(
    ("kernel", "huge", "pages", "by_page"),
    [
        ("5.13", "always", 512, True),
        ("6.1", "always", 512, False),
        ("6.1", "never", 1, False),
        ("5.13", "within_size", 512, True),
        ("6.1", "within_size", 512, False),
        ("6.1", "advise", 512, False),
    ],
)
@given(trace=st.lists(large_calls, max_size=20))
def test_huge_pages_come_and_fall_apart_as_in_the_twin(kernel, huge, pages, by_page, trace):
    agree("tmpfs", True, trace, Slow(True, pages, by_page, huge), huge=huge, kernel=kernel)


@pytest.mark.parametrize(("kernel", "by_page"), [("5.13", True), ("6.1", False)])
def test_a_hole_splits_the_huge_pages_at_its_ends_and_no_other(kernel, by_page):
    size, trace = 2 << 20, [("write", 1, 0, 8 << 20)]
    for at, end in ((0, size), (size, 2 * size + 5000), (3 * size - 5000, 3 * size), (3 * size + 1, 4 * size)):
        trace += [("fallocate", 1, at, end - at, -1, HOLE), ("write", 1, at + 100, 100), ("read", 1, 0, 4 * size)]
    agree("tmpfs", True, trace, Slow(True, 512, by_page, "always"), huge="always", kernel=kernel)


def test_a_small_write_brings_and_clears_two_mebibytes():
    model = drive.Model("tmpfs", drive.files(0, -1, dirs=[0]), huge="always")
    events = model.feed(drive.ops(("create", 1), ("write", 1, 5000, 100)))
    assert model.space()["allocated_bytes"] == 2 << 20
    stores = events[events["code"] == STORE]
    assert int(stores["length"].sum()) == 2 << 20  # 100 of them copied
    copied = stores[stores["site"] == list(SITES).index("copy")]
    assert copied["addr"][0] % (2 << 20) == 5000


def test_pages_come_alone_where_two_mebibytes_are_no_longer_free():
    """8 MiB: the fourth file has no whole 2 MiB, one block of which the file system keeps."""
    model = drive.Model("tmpfs", drive.files(0, -1, -1, -1, -1, dirs=[0]), huge="always", capacity="8MiB")
    for file in range(1, 5):
        model.feed(drive.ops(("create", file), ("write", file, 0, 10)))
    assert model.space()["allocated_bytes"] == 2 * (2 << 20) + 2 * 4096
    model.feed(drive.ops(("write", 4, 0, 3 << 20)))
    assert model.space()["allocated_bytes"] == 2 * (2 << 20) + 4096 + (3 << 20)
    assert model.space()["ignored_operations"] == 0


def test_bytes_stored_to_huge_pages_are_those_of_a_kernel():
    """Bytes of rep-strings that Linux 6.1 stores with huge=always (`scmsim lab run`), but 40 to 152 of other code."""
    model = drive.Model("tmpfs", drive.files(0, -1, -1, -1, -1, dirs=[0]), huge="always", kernel="6.1")
    rows = [
        ("create", 1), ("write", 1, 0, 4096), ("create", 2), ("write", 2, 5000, 100), ("create", 3), ("write", 3, 0, 2 << 20),
        ("create", 4), ("fallocate", 4, 0, 2 << 20), ("write", 4, 0, 4096), ("write", 4, 4096, 4096),
        ("truncate", 4, 100_000),
    ]  # fmt: skip
    stored = Counter()
    for row in rows:
        events = model.feed(drive.ops(row))
        sites = [list(SITES).index(name) for name in ("zeroing", "copy")]
        stores = (
            (events.code == STORE)
            & (events.space == r.KERNEL)
            & ((events.site == sites[0]) | (events.site == sites[1]))
        )
        stored[row[0]] += int(events.length[stores].sum())
    measured = {"write": 10_485_912, "truncate": 1_997_234, "fallocate": 38}
    for call, counted in measured.items():
        assert 0 <= counted - stored[call] <= 152, call
