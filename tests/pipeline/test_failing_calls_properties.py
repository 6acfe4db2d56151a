"""Failing calls: the kernel that looks for them, and what is made of them, against plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.records import FALLOCATE, FSYNC, OP, READ, TRUNCATE, WRITE
from scmsim.pipeline.failing_calls import FailingCalls
from tests.fs import drive

MOST = 1 << 20
FILES = drive.files(0, 0, 0, dirs=[0])
rows = st.tuples(
    st.sampled_from([READ, WRITE, TRUNCATE, FALLOCATE, FSYNC]),
    st.integers(-1, 2),
    st.sampled_from([0, 1, MOST - 1, MOST, MOST + 1, (1 << 63) - 1]),
    st.sampled_from([0, 1, MOST]),
)


def error(op, file, offset, length):
    """Name of the error that a call meets, or None."""
    if op in (READ, WRITE) and length > 0 and file == 0:
        return "EISDIR"
    if op in (WRITE, FALLOCATE) and length > 0 and offset + length > MOST:
        return "EFBIG"
    return "EFBIG" if op == TRUNCATE and offset > MOST else None


def both(op, file, offset, length):
    """Whether a call fails for two reasons at once; then it counts for each."""
    return op == WRITE and file == 0 and length > 0 and offset + length > MOST


@given(st.lists(rows.filter(lambda row: not both(*row)), max_size=12))
def test_failing_calls_are_counted_and_move_nothing(calls):
    batch = np.zeros(len(calls), OP).view(np.recarray)
    for name, values in zip(("op", "file", "offset", "length"), zip(*calls, strict=True), strict=False):
        batch[name] = values
    before = batch.copy()
    failing = FailingCalls(FILES, MOST)
    found = failing.replace(batch)
    errors = [error(*call) for call in calls]
    assert failing.counts == {name: errors.count(name) for name in ("EISDIR", "EFBIG") if name in errors}
    assert np.array_equal(batch, before) and (found is batch) == (not any(errors))
    for i, name in enumerate(errors):
        if name:
            assert (found.offset[i], found.length[i]) == (0, 0) and found.op[i] != TRUNCATE
        else:
            assert found[i] == before[i]
