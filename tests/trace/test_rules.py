"""The quick look at a batch of rows never passes a row that the rules refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.records import FSYNC, OP, OP_COLUMNS, OPS, SYNC, WRITE
from scmsim.trace.rules import all_sound, first_problem

FILES = 3
ODD = st.sampled_from([-(1 << 63), -2, -1, 0, 2, 3, 1 << 9, 1 << 36, 1 << 61, 1 << 62, (1 << 63) - 1])


def batch(count: int = 4) -> np.ndarray:
    rows = np.zeros(count, OP)
    rows["op"], rows["file2"] = WRITE, -1
    return rows


def sound(rows: np.ndarray) -> bool:
    return all_sound({name: np.ascontiguousarray(rows[name]) for name in OP_COLUMNS}, FILES)


@given(st.integers(-1, len(OPS) - 1), st.sampled_from(OP_COLUMNS[:-1]), ODD, st.sampled_from(OP_COLUMNS[:-1]), ODD)
def test_what_passes_breaks_no_rule(op: int, one: str, first: int, other: str, second: int) -> None:
    rows = batch()
    rows["op"][2], rows[one][2], rows[other][2] = op, first, second
    if op == -1 or first_problem(rows, FILES):
        assert not sound(rows)


@pytest.mark.parametrize("op, file, offset", [(WRITE, 0, 0), (FSYNC, 2, -1), (SYNC, -1, -1)])
def test_usual_rows_pass(op: int, file: int, offset: int) -> None:
    rows = batch()
    rows["op"][1], rows["file"][1], rows["offset"][1], rows["length"][1] = op, file, offset, 1 << 40
    assert sound(rows) and sound(rows[:0])
