"""The splitfs kernels against their slow twin, operation by operation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.core.records import OPS
from tests.conftest import NO_JIT
from tests.fs import drive
from tests.fs.ext4.test_properties import FLAGS, laws, same_state, side, spaced, stored_by_operation, traces
from tests.fs.splitfs.reference import Split

MODES = ("posix", "sync", "strict")


def agree(trace, mode, capacity=24 << 20, room=1 << 12, staging=1 << 20, files=None):
    """Run the kernels and the twin over a trace and compare all that both know; returns the twin."""
    files, journal = files or side(), 4 << 20
    model = drive.Model("splitfs", files, room, capacity=capacity, journal=journal, mode=mode, staging=staging)
    twin = Split(files, capacity, journal, mode, staging)
    batch = drive.ops(*[parts for parts, _ in trace])
    batch.time_ns = np.cumsum([0, *[wait for _, wait in trace]])[1:]
    found = stored_by_operation(model, model.feed(batch), len(batch))
    for i, row in enumerate(batch):
        flags = [name for bit, name in FLAGS.items() if row.flag & bit]
        numbers = (int(row.file), int(row.offset), int(row.length))
        expected = twin.apply(OPS[row.op], *numbers, flags, int(row.file2), int(row.time_ns))
        assert tuple(found[i]) == expected, (i, OPS[row.op], row)
    same_state(model, twin)
    record, space = model.record, model.space()
    assert [int(record.failed), int(record.commits), int(record.relinks)] == [twin.failed, twin.commits, twin.relinks]
    assert int(record.free_blocks + record.windowed) == twin.free_count()
    staged = sum(end - first for first, end in twin.staged.values())
    assert space["staged_bytes"] == 4096 * staged
    laws(space)
    return twin


@settings(max_examples=3 if NO_JIT else 80)
@pytest.mark.parametrize("mode", MODES)
@given(trace=traces, room=st.sampled_from([2, 100, 1 << 12]))
def test_kernels_agree_with_the_twin(mode, trace, room):
    """Whatever the size of the event buffer."""
    agree(trace, mode, room=room)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.skipif(NO_JIT, reason="a long trace")
def test_long_traces_agree_with_the_twin(mode):
    """Extent leaves, more appends than the first staging file holds, overwrites that are not whole pages, commits."""
    rows = [("create", 1), *[("write", 1, 8192 * i, 100) for i in range(800)], ("fsync", 1), ("create", 2)]
    rows += [row for i in range(400) for row in (("write", 2, i * 700, 700), ("fsync", 2))]
    rows += [("write", 2, i * 5000, 9000) for i in range(40)] + [
        ("close", 2),
        ("close", 1),
        ("unlink", 1),
        ("sync", -1),
    ]
    assert not agree(spaced(*rows), mode, 64 << 20).failed
