"""The kernels of tmpfs and ramfs against their reference implementation, operation by operation."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import STORE, WORK
from scmsim.fs.engine.events import load_recipes
from scmsim.fs.tmpfs.recipes import COSTS, SITES, all_recipes
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.tmpfs.reference import Slow

offset = st.one_of(st.integers(0, 60_000), st.integers(0, 15).map(lambda page: page * 4096))
length = st.one_of(st.integers(1, 30_000), st.integers(1, 9).map(lambda page: page * 4096))
calls = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 2), offset, length),
    st.tuples(st.just("read"), st.integers(1, 2), offset, length),
    st.tuples(st.just("truncate"), st.integers(1, 2), offset),
)


def charged(events):
    """Bytes cleared, and how often each cost was charged."""
    work, costs = events["code"] == WORK, Counter()
    for event in events[work]:
        costs[COSTS[event["site"]]] += int(event["addr"]) // 1000
    cleared = (events["code"] == STORE) & (events["site"] == list(SITES).index("zeroing"))
    return int(events["length"][cleared].sum()), Counter({name: n for name, n in costs.items() if n})


@settings(max_examples=4 if NO_JIT else 60)
@pytest.mark.parametrize(("fs", "activates"), [("tmpfs", True), ("ramfs", False)])
@given(trace=st.lists(calls, max_size=40))
def test_kernel_and_twin_agree(fs, activates, trace):
    model = drive.Model(fs, drive.files(0, -1, -1, dirs=[0]))
    model.record.cost[:] = 0  # a cost's site names it, and one unit of it is one instruction
    model.record.cost[: len(COSTS)] = [(1000, 0, 0, k) for k in range(len(COSTS))]
    load_recipes(model.state, all_recipes(activates), merge=False)
    model.feed(drive.ops(("create", 1), ("create", 2)))
    reference = Slow(activates)
    for row in trace:
        cleared, costs = charged(model.feed(drive.ops(row)))
        costs.pop("timer_tick", None)
        expected, named = getattr(reference, row[0])(*row[1:])
        assert (cleared, costs) == (expected, Counter({name: n for name, n in named.items() if n})), row
    assert model.space()["allocated_bytes"] == 4096 * reference.live_pages()
