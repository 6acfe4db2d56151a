"""Page-size policies against their reference implementation: the same frames, the same counts, after any operations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.alloc import contiguity, frames, pages
from scmsim.core import registry
from scmsim.core.records import KEEP_SIZE, PUNCH_HOLE
from scmsim.study.space import _Device
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.reference.pages_slow import Device

FILES, FRAMES = 5, 2048  # a device of 8 MiB
POLICIES = {
    "pages-4k": {}, "pages-2m": {}, "two-zone": {"threshold": "64KiB", "superpages": 50}, "one-zone": {"threshold": "64KiB"},
    "tps": {}, "tps doubling": {"sizing": "doubling"}, "virtual-superpages": {},
}  # fmt: skip
FALLOCATE = {"fallocate": 0, "keep": KEEP_SIZE, "punch": KEEP_SIZE | PUNCH_HOLE}
OPS = ("create", "write", "write", "write", "truncate", *FALLOCATE, "unlink", "close", "rename", "link")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(OPS),
        st.integers(0, FILES - 1),
        st.integers(0, 900),
        st.integers(0, 700),
        st.integers(0, FILES - 1),
    ),
    max_size=12 if NO_JIT else 40,
)  # fmt: skip


def devices(policy):
    name, given = policy.split()[0], {**POLICIES[policy], "capacity": FRAMES * 4096}
    fast = _Device(name, given, [drive.files(*[-1] * FILES)])
    from scmsim.pipeline import model_params

    rules = registry.load("policy", name).rules(model_params("policy", name, given))
    return fast, Device(FRAMES, **rules)


def held(fast, file):
    """Frames of a file in its order."""
    runs, node = [], int(fast.files[file, pages.TOP])
    while node >= 0:
        start, count, _, below = fast.nodes[node]
        runs.append(range(start, start + count))
        node = int(below)
    return [frame for run in reversed(runs) for frame in run]


def names(state):
    found = (
        state.failed, state.refused_although_free, state.missing_pages, state.missing_although_free, state.migrations,
        state.migrated_frames, state.spilled,
    )  # fmt: skip
    return [int(value) for value in found]


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=5 if NO_JIT else 40)
@given(steps=STEPS)
def test_the_kernel_holds_the_frames_of_the_twin(policy, steps):
    compare(
        policy,
        [
            (op, file, offset * 4096 + 5, length * 4096 - 7 if length else 0, other)
            for op, file, offset, length, other in steps
        ],
    )


def compare(policy, steps):
    """Operations (name, file, offset, length, other file) on both."""
    fast, slow = devices(policy)
    rows, first_failed = [], -1
    for number, (op, file, *bytes_, other) in enumerate(steps):
        called = "fallocate" if op in FALLOCATE else op
        rows.append((called, file, *bytes_, other if op == "rename" else -1, FALLOCATE.get(op, 0)))
        failed = slow.counts["failed"]
        if op != "punch":  # a hole counts as data
            slow.op(called, file, *bytes_, other, op == "keep")
        if slow.counts["failed"] > failed and first_failed < 0:
            first_failed = number
    if rows:
        fast._feed(drive.ops(*rows).view(np.ndarray))
    assert names(fast.record[0]) == list(slow.counts.values())
    assert (int(fast.record[0].first_failed), int(fast.record[0].seen)) == (first_failed, len(rows))
    for file in range(FILES):
        twin = slow.files.get(file)
        assert int(fast.files[file, pages.SIZE]) == (twin[0] if twin else -1)
        expected = [frame + i for frame, order in twin[4] for i in range(1 << order)] if twin else []
        assert held(fast, file) == expected
    start, length = contiguity.runs(fast.bits)
    free = {frame for s, n in zip(start, length, strict=True) for frame in range(s, s + n)}
    assert free == {frame for frame in range(FRAMES) if slow.free[frame]}
    total = fast.report(0, np.zeros(len(fast.files), np.bool_)).total
    assert total["live_bytes"] <= total["allocated_bytes"] <= total["capacity_bytes"]
    assert total["allocated_bytes"] + total["free_bytes"] == total["capacity_bytes"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_many_operations_on_a_device_that_is_often_full(policy, seed):
    """Lengths at the edges of frames, of large pages and of the threshold; the first operation of seed 0 fails."""
    random = np.random.default_rng(seed)
    edges = [edge * 4096 + more for edge in (0, 1, 15, 16, 17, 64, 511, 512, 513, 1024, 1500) for more in (-1, 0, 1)]
    steps = [("write", 0, 0, (FRAMES + 1) * 4096, 0)] if seed == 0 else []
    for _ in range(60):
        op, offset = str(random.choice(OPS)), int(random.choice([0, 0, 4096, 65536, 100_000]))
        if op == "truncate":
            offset = max(int(random.choice(edges)), 0)
        length = max(int(random.choice(edges)) - offset, 0)
        steps.append((op, int(random.integers(0, FILES)), offset, length, int(random.integers(0, FILES))))
    compare(policy, steps)


@pytest.mark.parametrize("policy", ["two-zone", "one-zone"])
@pytest.mark.parametrize("length", [65535, 65536, 65537])
def test_a_file_moves_above_the_threshold_and_not_at_it(policy, length):
    compare(
        policy,
        [
            ("write", 0, 0, 4096, 0),
            ("write", 0, 0, length, 0),
            ("write", 1, 0, length, 0),
            ("write", 2, 0, 3 * FRAMES * 1024, 0),
        ],
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_file_is_there_until_its_last_name_goes(policy):
    rows = [("create", 0), ("link", 0), ("link", 0), ("write", 0), ("unlink", 0), ("punch", 0), ("unlink", 0)]
    rows += [("link", 1), ("write", 1), ("unlink", 1), ("unlink", 1), ("write", 1), ("unlink", 0), ("unlink", 1)]
    for stop in range(4, len(rows) + 1):
        compare(policy, [(op, file, 0, 9000, -1) for op, file in rows[:stop]])


def test_nodes_are_asked_for_as_many_as_an_operation_may_take():
    """A run of each frame of the file, or of each that is free, and 8 more."""
    for length, free in ((5 * 4096, FRAMES), (5 * 4096 - 4095, FRAMES), ((FRAMES + 9) * 4096, FRAMES)):
        fast, _ = devices("pages-4k")
        rows = drive.ops(("write", 1, 0, length)).view(np.ndarray)
        needed = 8 + min(-(-length // 4096), free)
        for nodes, taken in ((needed - 1, 0), (needed, 1)):
            fast.record[0].free_nodes = nodes
            assert pages.replay(fast.record[0], (fast.bits, fast.files, fast.nodes), rows, 0) == taken


@pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
@pytest.mark.parametrize("sizing", ["exact", "doubling"])
def test_the_next_page_is_the_largest_that_the_rules_allow(sizing):
    fast, slow = devices(f"tps {sizing}" if sizing == "doubling" else "tps")
    sizes = [0, 1, 2, 3, 4, 5, 512, 1 << 17, 1 << 18, 3 << 18, 1 << 19, (1 << 19) + 512]
    for held in sizes:
        for missing in [size + more for size in sizes for more in (-1, 0, 1) if size + more > 0]:
            file = [0, 0, 1, False, [], False]
            assert pages._power(fast.record[0], held, missing) == slow.page_wanted(file, held, held + missing)


def fewest(start, offset, count):
    """Pages by their order that cover a run: the largest that is aligned in both, again and again."""
    found = [0] * (frames.GIANT + 1)
    while count:
        order = max(
            o for o in range(frames.GIANT + 1) if start % (1 << o) == offset % (1 << o) == 0 and 1 << o <= count
        )
        found[order] += 1
        start, offset, count = start + (1 << order), offset + (1 << order), count - (1 << order)
    return found


@pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
@pytest.mark.parametrize(
    "run",
    [(0, 0, 0), (0, 0, 1), (0, 0, 5), (1, 0, 5), (4, 8, 12), (6, 2, 300), (512, 0, 513), (1 << 18, 0, (1 << 19) + 7)],
)
def test_a_run_is_the_fewest_pages(run):
    row = np.zeros(frames.GIANT + 1, np.int64)
    pages._cut(*run, row)
    assert row.tolist() == fewest(*run)


@given(
    words=st.lists(st.sampled_from([0, -1, 1, -2, 1 << 62, -(1 << 63), 0x00FF00FF]), min_size=1, max_size=12),
    more=st.integers(0, 90),
)
def test_free_runs_are_those_of_the_bits(words, more):
    bits = [(word >> bit) & 1 for word in words for bit in range(64)] + [1] * more
    expected, at = [], 0
    while at < len(bits):
        length = next((i for i, bit in enumerate(bits[at:]) if bit != bits[at]), len(bits) - at)
        expected += [(at, length)] if bits[at] else []
        at += length
    start, length = contiguity.runs(np.array(words, np.int64), more)
    assert list(zip(start.tolist(), length.tolist(), strict=True)) == expected
    whole = sum(all(bits[k : k + 512]) for k in range(0, len(bits) - 511, 512))
    assert contiguity.of_runs(start, length)["free_2m_bytes"] == whole << 21
