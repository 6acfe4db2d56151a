"""Bitmaps in words against a list of booleans."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scmsim.alloc import bitmap

BITS, OFFSET = 200, 3  # the bitmap begins at word 3
SPANS = st.tuples(st.integers(0, BITS), st.integers(0, BITS)).map(sorted)


@given(st.lists(st.tuples(SPANS, st.booleans()), max_size=8), SPANS, st.booleans())
def test_bits_are_those_of_a_list(changes, span, value):
    arena, bits = np.zeros(OFFSET + BITS // 64 + 2, np.int64), [False] * BITS
    for (start, end), new in changes:
        bitmap.set_bits(arena, OFFSET, start, end - start, new)
        bits[start:end] = [new] * (end - start)
    assert [bool(bitmap.is_set(arena, OFFSET, at)) for at in range(BITS)] == bits
    start, end = span
    there = [at for at in range(start, end) if bits[at] == value]
    assert bitmap.next_bit(arena, OFFSET, start, end, value) == min(there, default=end)
    assert bitmap.last_bit(arena, OFFSET, start, end, value) == max(there, default=start - 1)
    assert not arena[:OFFSET].any()
