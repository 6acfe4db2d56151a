"""What is remembered of sequences, states and transitions, in tables so small that their places meet."""

from types import SimpleNamespace

import numpy as np
import pytest

from scmsim.mmu import sequences, set_states
from scmsim.mmu.set_states import SHORT
from scmsim.mmu.touches import PAGE, SEQUENCE, TOUCH, TRANSITION
from tests.conftest import NO_JIT

pytestmark = pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
PLACES = 16


def test_transitions_are_found_again() -> None:
    pairs = [(first, was) for first in (0, 1, 5, 700) for was in (1, 2, 9)]
    m = SimpleNamespace(
        transition_slots=np.zeros(PLACES, np.int64), transitions=np.zeros(PLACES, TRANSITION).view(np.recarray)
    )
    for number, (first, was) in enumerate(pairs, 1):
        at = set_states.slot_of(m, first, was)
        assert m.transition_slots[at] == 0
        m.transition_slots[at] = number
        m.transitions[number - 1].first, m.transitions[number - 1].was = first, was
    found = [m.transition_slots[set_states.slot_of(m, *pair)] for pair in pairs]
    assert found == list(range(1, len(pairs) + 1))
    assert m.transition_slots[set_states.slot_of(m, 5, 5)] == m.transition_slots[set_states.slot_of(m, 2, 1)] == 0


def test_states_have_numbers_of_their_own() -> None:
    random, count = np.random.default_rng(1), 12
    m = SimpleNamespace(
        state_slots=np.zeros(PLACES, np.int64), states=0,
        tags=np.zeros(SHORT * (count + 1), np.int64), marks=np.zeros(SHORT * (count + 1), np.uint8),
    )  # fmt: skip
    s = SimpleNamespace(tag=np.zeros(2 * SHORT, np.int64), mark=np.zeros(2 * SHORT, np.uint8))
    states = [(random.integers(0, 3, SHORT) << 12, random.integers(0, 2, SHORT)) for _ in range(count - 1)]
    states.append((states[0][0], 1 - states[0][1]))  # the marks alone are others
    for expected in (range(1, count + 1), reversed(range(1, count + 1))):
        for number in expected:
            s.tag[SHORT:], s.mark[SHORT:] = states[number - 1]
            assert set_states.number_of(s, m, 1) == number
    assert m.states == count and sorted(m.state_slots) == [0] * (PLACES - count) + list(range(1, count + 1))


def test_the_same_touches_are_the_same_sequence() -> None:
    """Sequences differ by a page, by the place of a touch, by how many are kept, or by how many were dropped behind them."""
    random, pages = np.random.default_rng(2), np.zeros(4, PAGE).view(np.recarray)
    pages.at, pages.recent = 64, 7
    m = SimpleNamespace(
        touches=np.zeros(99, TOUCH).view(np.recarray), touches_used=0, sequence_slots=np.zeros(PLACES, np.int64),
        sequences=np.zeros(PLACES, SEQUENCE).view(np.recarray), sequences_known=0, order=np.zeros(99, np.int64), order_used=0,
    )  # fmt: skip
    wanted = [
        ([0, 1], [0, 1], 2),
        ([0, 1], [0, 2], 3),
        ([0, 1], [0, 1], 3),
        ([0], [0], 2),
        ([2, 1], [0, 1], 2),
        ([0, 3], [0, 1], 2),
    ]
    wanted += [([int(row)], [0], count) for row, count in zip(random.integers(0, 4, 4), (5, 6, 7, 8), strict=True)]
    for seen in range(2):
        for number, (rows, numbers, count) in enumerate(wanted):
            begins = m.touches_used
            for row, place in zip(rows, numbers, strict=True):
                sequences._keep(m, row, place)
            sequences._end(m, pages, begins, count, True)
            assert m.order[m.order_used - 1] == number and m.order_used == seen * len(wanted) + number + 1
            assert m.touches_used == (begins if seen else begins + len(rows))
    assert m.sequences_known == len(wanted)
    for made, (rows, numbers, count) in zip(m.sequences, wanted, strict=False):
        some = m.touches[made.first : made.end]
        assert (some.page.tolist(), some.number.tolist(), int(made.count)) == (rows, numbers, count)
        assert (made.row, made.recent, made.is_numbered) == (64 >> sequences.ROW_SHIFT, 7, 1)
