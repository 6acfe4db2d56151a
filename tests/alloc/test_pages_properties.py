"""Page-size policies against their reference implementation: the same frames, the same counts, after any operations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.alloc import contiguity, pages
from scmsim.core import registry
from scmsim.core.records import KEEP_SIZE
from scmsim.study.space import _Device
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.reference.pages_slow import Device

FILES, FRAMES = 5, 2048  # a device of 8 MiB
POLICIES = {
    "pages-4k": {}, "pages-2m": {}, "two-zone": {"threshold": "64KiB", "superpages": 50}, "one-zone": {"threshold": "64KiB"},
    "tps": {}, "tps doubling": {"sizing": "doubling"}, "virtual-superpages": {},
}  # fmt: skip
OPS = ("create", "write", "write", "write", "truncate", "fallocate", "keep", "unlink", "close", "rename", "link")
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
    fast, slow = devices(policy)
    rows = []
    for op, file, offset, length, other in steps:
        keep = op == "keep"
        op = "fallocate" if keep else op
        bytes_ = (offset * 4096 + 5, length * 4096 - 7 if length else 0)
        rows.append((op, file, *bytes_, other if op == "rename" else -1, KEEP_SIZE if keep else 0))
        slow.op(op, file, *bytes_, other, keep)
    if rows:
        fast._feed(drive.ops(*rows).view(np.ndarray))
    assert names(fast.record[0]) == list(slow.counts.values())
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
