"""Failing calls: the kernel that looks for them, and what is made of them, against plain Python."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scmsim
from scmsim.core.errors import UsageError
from scmsim.core.records import FALLOCATE, FSYNC, MUNMAP, OP, OP_COLUMNS, READ, READDIR, TRUNCATE, USTORE, WRITE, joined
from scmsim.pipeline.failing_calls import MOST_AT_ONCE, FailingCalls
from scmsim.trace import rules
from tests.fs import drive

MOST = 1 << 20
FILES = drive.files(0, 0, 0, dirs=[0])
rows = st.tuples(
    st.sampled_from([READ, WRITE, TRUNCATE, FALLOCATE, FSYNC]),
    st.integers(0, 2),
    st.sampled_from([0, 1, MOST - 1, MOST, MOST + 1, (1 << 62) - MOST]),
    st.sampled_from([0, 1, MOST]),
)


def error(op, file, offset, length):
    """Name of the error that a call meets, or None."""
    if file == 0 and (op == TRUNCATE or (op in (READ, WRITE, FALLOCATE) and length > 0)):
        return "EISDIR"
    if op in (WRITE, FALLOCATE) and length > 0 and offset + length > MOST:
        return "EFBIG"
    return "EFBIG" if op == TRUNCATE and offset > MOST else None


@given(st.lists(rows, max_size=12))
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


def test_what_mkdir_makes_is_a_directory_whatever_the_side_table_says():
    batch = drive.ops(("write", 1, 0, 9), ("mkdir", 1), ("write", 1, 0, 9), ("truncate", 1, 5), ("stat", 1))
    for chunk in (1, 2, 5):
        failing = FailingCalls(FILES)
        parts = [failing.replace(batch[i : i + chunk]) for i in range(0, 5, chunk)]
        assert failing.counts == {"EISDIR": 2}
        assert joined(parts)["length"].tolist() == [9, 0, 0, 0, 0]


@pytest.mark.parametrize("op", ["read", "write"])
def test_a_transfer_is_no_longer_than_linux_moves_in_one_call(op):
    lengths = [MOST_AT_ONCE, MOST_AT_ONCE + 1, 1 << 43]
    batch, failing = drive.ops(*((op, 1, 5, length) for length in lengths)), FailingCalls(FILES)
    assert failing.replace(batch)["length"].tolist() == [MOST_AT_ONCE] * 3
    assert (failing.long, failing.counts, batch["length"].tolist()) == (2, {}, lengths)


def test_a_replay_warns_of_what_it_shortens():
    rows = drive.ops(("truncate", 1, 1 << 43), ("read", 1, 0, 1 << 43), ("fallocate", 1, 0, 0))
    run = scmsim.replay(drive.source(drive.files(0, 0, dirs=[0]), rows), "nova-cow", footprints="none").runs[0]
    assert run.payload["read"] == MOST_AT_ONCE == 0x7FFFF000
    assert (
        "1 reads or writes are longer than Linux moves in one call: replayed with 2,147,479,552 bytes" in run.warnings
    )


ROW = {"op": READ, "file": 1, "file2": -1, "offset": 0, "length": 0, "thread": 0, "buffer": 0, "flag": 0}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"length": -1}, "row 7: length -1"),
        ({"offset": -1}, "row 7: offset -1"),
        ({"offset": 1 << 62, "length": 1}, "row 7: offset 4611686018427387904 plus its length is beyond 2\\^62"),
        ({"op": READDIR, "length": 1 << 60}, r"row 7: offset 0 plus its length is beyond 2\^44"),
        (
            {"op": USTORE, "offset": 1 << 44, "length": 1},
            "row 7: offset 17592186044416 plus its length is beyond 2\\^44",
        ),
        ({"op": MUNMAP, "length": 1 << 60}, "row 7: offset 0 plus its length is beyond 2\\^44"),
        ({"file": 3}, "row 7: file 3"),
        ({"file": -1}, "row 7: file -1"),
        ({"file2": 9}, "row 7: file2 9"),
        ({"op": 99}, "row 7: unknown operation"),
        ({"thread": -1}, "row 7: thread -1"),
        ({"buffer": 1 << 36}, "row 7: buffer 68719476736"),
    ],
)
def test_a_row_that_no_model_can_replay_is_refused_by_replay_and_store_alike(wrong, text, tmp_path):
    batch = np.zeros(2, OP).view(np.recarray)
    for name, value in (ROW | wrong).items():
        batch[name] = ROW[name], value
    failing = FailingCalls(FILES)
    failing.rows = 6
    with pytest.raises(UsageError, match=text):
        failing.replace(batch)
    row, said = rules.first_problem(batch, len(FILES.path))
    assert row == 1 and re.match(text, f"row 7: {said}")
    assert not rules.all_sound({name: batch[name] for name in OP_COLUMNS}, len(FILES.path))


@pytest.mark.parametrize("size", [-2, 1 << 44, 1 << 60])
def test_a_first_size_that_no_model_holds_is_refused(size):
    with pytest.raises(UsageError, match=f"side table row 1: first size {size}, which must be -1 or more and below"):
        rules.check_files(drive.files(0, size))
