"""The splitfs kernels against their reference implementation, operation by operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import NO_JIT
from tests.fs import drive, laws
from tests.fs.ext4.test_properties import same_state
from tests.fs.laws import spaced
from tests.fs.splitfs.reference import Split

MODES = ("posix", "sync", "strict")


def start(mode, capacity=24 << 20, room=1 << 12, staging=1 << 20, files=None):
    files, journal = files or laws.linux_files(), 4 << 20
    model = drive.Model("splitfs", files, room, capacity=capacity, journal=journal, mode=mode, staging=staging)
    return model, Split(files, capacity, journal, mode, staging)


def same(model, reference):
    same_state(model, reference)
    record = model.record
    assert [int(record.commits), int(record.relinks)] == [reference.commits, reference.relinks]
    assert int(record.free_blocks + record.windowed + record.freed_blocks) == reference.free_count()
    staged = sum(end - first for first, end in reference.staged.values())
    assert model.space()["staged_bytes"] == 4096 * staged


FAMILY = laws.ByKind(start, same)


@settings(max_examples=3 if NO_JIT else 80)
@pytest.mark.parametrize("mode", MODES)
@given(trace=laws.linux_traces(), room=st.sampled_from([2, 100, 1 << 12]))
def test_kernels_agree_with_the_twin(mode, trace, room):
    """Whatever the size of the event buffer."""
    FAMILY.agree(trace, mode, room=room)


@pytest.mark.parametrize("mode", MODES)
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
    assert not FAMILY.agree(spaced(*rows), mode, 64 << 20).failed
