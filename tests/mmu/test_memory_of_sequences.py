"""What is remembered of sequences, in tables so small that their places meet."""

from types import SimpleNamespace

import numpy as np
import pytest

from scmsim.mmu import sequences
from scmsim.mmu.look_up import NO_TAG
from scmsim.mmu.state import LRU
from scmsim.mmu.touches import PAGE, SEQUENCE, TOUCH
from tests.conftest import NO_JIT

pytestmark = pytest.mark.skipif(not NO_JIT, reason="a subroutine is compiled into its kernel only")
PLACES = 16


def test_the_same_touches_are_the_same_sequence() -> None:
    """Sequences differ by a page, by the place of a touch, by how many are kept, or by how many were dropped behind them."""
    random, pages = np.random.default_rng(2), np.zeros(4, PAGE).view(np.recarray)
    pages.at, pages.recent, pages.tag, pages.is_short = 64, 7, np.arange(4) << 12, 1
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
                sequences._keep(m, pages, row, place)
            sequences._end(m, pages, begins, count)
            assert m.order[m.order_used - 1] == number and m.order_used == seen * len(wanted) + number + 1
            assert m.touches_used == (begins if seen else begins + len(rows))
    assert m.sequences_known == len(wanted)
    for made, (rows, numbers, count) in zip(m.sequences, wanted, strict=False):
        some = m.touches[made.first : made.end]
        assert (some.page.tolist(), some.number.tolist(), int(made.count)) == (rows, numbers, count)
        assert some.tag.tolist() == [row << 12 for row in rows]
        assert (made.row, made.recent, made.policy) == (64 >> sequences.ROW_SHIFT, 7, LRU)
        assert made.tag == (rows[0] << 12 if len(rows) == 1 else NO_TAG)
