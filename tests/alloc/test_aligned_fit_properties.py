"""Aligned huge blocks and single blocks from the same bitmaps, against a plain set of free blocks."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.alloc import aligned_fit, first_fit
from scmsim.fs.engine.events import HEADER, new_state
from tests.conftest import NO_JIT

STATE = np.dtype((np.record, [*HEADER, *first_fit.FIELDS, *aligned_fit.FIELDS]))
UNIT, BLOCKS = 512, 8192

steps = st.lists(st.tuples(st.sampled_from(["huge", "single", "give"]), st.integers(0, 1000)), max_size=40)


@settings(max_examples=15 if NO_JIT else 60)
@given(reserved=st.sampled_from([0, 100]), steps=steps)
@example(reserved=0, steps=[("huge", 0), ("give", 0), ("huge", 0), ("single", 0)])
@example(reserved=100, steps=[("huge", 0), *[("single", 299)] * 3])
@example(
    reserved=100, steps=[*[("huge", 0)] * 7, *[("single", 299)] * 2, *[("huge", 0)] * 9]
)  # 64 words of bits are used up
@example(reserved=100, steps=[*[("huge", 0)] * 8, *[("single", 299)] * 4])
@example(
    reserved=100, steps=[*[("huge", 0)] * 15, ("give", 7), ("give", 0), *[("huge", 0)] * 3, *[("single", 299)] * 4]
)
def test_no_block_is_given_out_twice(reserved, steps):
    state = new_state(STATE, 64 + first_fit.arena_words(BLOCKS), np.zeros((1, 4), np.int64))
    first_fit.attach(state, reserved, BLOCKS)
    s, arena, free, taken = state.record[0], state.arena, set(range(reserved, BLOCKS)), []
    for what, number in steps:
        if what == "give" and taken:
            start, count = taken.pop(number % len(taken))
            first_fit.release(s, arena, start, count)
            aligned_fit.freed(s, start)
            free |= set(range(start, start + count))
            continue
        count = UNIT if what == "huge" else number % 300 + 1
        if what == "huge":
            start = int(aligned_fit.allocate(s, arena, UNIT))
            runs = [i for i in range(0, BLOCKS, UNIT) if free.issuperset(range(i, i + UNIT))]
            assert start == (runs[0] if runs else -1)
            for want in (1, 3, 100):
                left = len(runs) - (start >= 0)
                assert int(aligned_fit.count_runs(s, arena, UNIT, want)) == min(left, want)
        else:
            start = int(first_fit.allocate(s, arena, count))
            count = int(s.got)
            assert start == (min(free) if free else -1)
        if start >= 0:
            assert count > 0 and free.issuperset(range(start, start + count))
            free -= set(range(start, start + count))
            taken.append((start, count))
        assert int(s.free_blocks) == len(free)


def test_the_search_begins_again_at_the_gib_that_was_freed():
    state = new_state(STATE, 64, np.zeros((1, 4), np.int64))
    for before, block, low in ((9 << 12, (3 << 18) + 5, 3 << 12), (9 << 12, (9 << 18) - 1, 8 << 12), (5, 7 << 18, 5)):
        state.record[0].huge_low = before
        aligned_fit.freed(state.record[0], block)
        assert int(state.record[0].huge_low) == low


def test_a_run_at_the_first_block_is_counted():
    state = new_state(STATE, 64 + first_fit.arena_words(BLOCKS), np.zeros((1, 4), np.int64))
    first_fit.attach(state, 0, BLOCKS)
    assert [int(aligned_fit.count_runs(state.record[0], state.arena, UNIT, want)) for want in (0, 1, 99)] == [0, 1, 16]
