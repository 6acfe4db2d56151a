"""The operations on vectors against their plain functions, which run where compilation is switched off."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.jit import kernel, vectors

WORDS = st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from([-1, 0]), min_size=24, max_size=24)


@kernel
def _take_bit(rows, index, bit):
    return vectors.take_bit(rows, index, bit)


@kernel
def _take_one(rows, index, lane):
    return vectors.take_one(rows, index, lane)


@kernel
def _pass_on(rows, index, tag, last, first):
    return vectors.pass_on16(rows, index, tag, last, first)


@kernel
def _same(rows, index, other, at):
    return vectors.same8(rows, index, other, at)


@kernel
def _same_bytes(rows, index, other, at):
    return vectors.same8_bytes(rows, index, other, at)


@kernel
def _copy(rows, index, other, at):
    vectors.copy8(rows, index, other, at)


@kernel
def _copy_bytes(rows, index, other, at):
    vectors.copy8_bytes(rows, index, other, at)


def _agree(compiled, plain, rows, *args):
    """The same result, and the same rows after it."""
    ours, theirs = rows.copy(), rows.copy()
    assert compiled(ours, *args) == plain(theirs, *args)
    assert ours.tolist() == theirs.tolist()
    return ours


@given(WORDS, st.sampled_from([0, 8, 16]), st.integers(0, 511))
def test_a_bit_is_taken_and_those_behind_it_counted(words, index, bit):
    rows = _agree(_take_bit, vectors._plain_take_bit, np.array(words, np.int64), index, bit)
    assert int(rows[index + (bit >> 6)]) >> (bit & 63) & 1 == 0


@given(st.lists(st.integers(1, 1 << 26), min_size=48, max_size=48), st.sampled_from([0, 16, 32]), st.integers(0, 15))
def test_one_is_taken_from_a_lane_and_those_behind_it_added(counts, index, lane):
    rows = _agree(_take_one, vectors._plain_take_one, np.array(counts, np.int32), index, lane)
    assert int(rows.sum()) == sum(counts) - 1


@given(
    st.permutations(range(32)), st.sampled_from([0, 16]), st.integers(0, 40), st.integers(0, 15), st.integers(50, 60)
)
def test_a_tag_is_passed_on(tags, index, tag, last, first):
    rows = _agree(_pass_on, vectors._plain_pass_on(16), np.array(tags, np.int64), index, tag, last, first)
    assert rows[index] == first


@given(
    st.lists(st.integers(0, 2), min_size=48, max_size=48),
    st.sampled_from([0, 8, 16]),
    st.sampled_from([0, 8, 16]),
    st.sampled_from([(_same, _copy, np.int64), (_same_bytes, _copy_bytes, np.uint8)]),
)
def test_lanes_that_are_equal_are_told_and_a_row_is_copied(values, index, at, of):
    same, copy, kind = of
    rows, other = np.array(values[:24], kind), np.array(values[24:], kind)
    found = _agree(same, vectors._plain_same, rows, index, other, at)
    assert found.tolist() == rows.tolist()
    equal = [values[index + lane] == values[24 + at + lane] for lane in range(8)]
    assert same(rows, index, other, at) == sum(1 << lane for lane in range(8) if equal[lane])
    found = _agree(copy, vectors._plain_copy, rows, index, other, at)
    assert found.tolist() == values[:index] + values[24 + at : 32 + at] + values[index + 8 : 24]


@kernel
def _enter_marked(rows, index, tag, last):
    return vectors.enter_marked16(rows, index, tag, last)


@kernel
def _enter_marked_short(rows, index, tag, last):
    return vectors.enter_marked8(rows, index, tag, last)


@kernel
def _find_marked(rows, index, tag):
    return vectors.find_marked16(rows, index, tag)


@kernel
def _find_marked_short(rows, index, tag):
    return vectors.find_marked8(rows, index, tag)


@given(st.permutations(range(16)), st.lists(st.integers(0, 1), min_size=16, max_size=16), st.integers(0, 39), st.data())
def test_a_marked_tag_is_found_with_or_without_its_mark_and_keeps_it(numbers, marks, tag, data):
    rows = np.array([2 * number | mark for number, mark in zip(numbers, marks, strict=True)], np.int64)
    last = data.draw(st.integers(0, 15))
    assert _find_marked(rows, 0, tag) == vectors._plain_find_marked(16)(rows, 0, tag)
    short = int(_find_marked_short(rows, 8, tag))
    assert short == vectors._plain_find_marked(8)(rows, 8, tag)
    _agree(_enter_marked_short, vectors._plain_enter_marked(8), rows, 8, tag, max(last & 7, short))
    lane = int(_find_marked(rows, 0, tag))
    entered = _agree(_enter_marked, vectors._plain_enter_marked(16), rows, 0, tag, max(last, lane))
    assert entered[0] == (tag if lane < 0 else tag | rows[lane] & 1)
