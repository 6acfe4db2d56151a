"""Lines of lackey that are taken many at once, and those that are left to be looked at one by one."""

import numpy as np
import pytest

from scmsim.core.records import FETCH, LOAD, STORE
from scmsim.mmu.lackey import take_lines

USUAL = [
    (" L 0,1", [LOAD], 0), (" S 1f,16", [STORE], 0x1F), ("I  04001234,3", [FETCH], 0x4001234),
    (" M 1FFEfffe80,8", [LOAD, STORE], 0x1FFEFFFE80),
    (" L 7fffffffffffffff,9", [LOAD], (1 << 63) - 1), (" S 9,0", [STORE], 9), ("I  a,10", [FETCH], 10),
]  # fmt: skip
ODD = [
    "", "==1==", " L ,2", " L 1,", " L 1;2", "XL 1,2", " LX1,2", "I X1,2", "IL 1,2", " I 1,2", " X 1,2", "L  1,2", "S  1,2",
    " L 1,2 ",
    " L 12345678901234567,1", " L 1g,1", " L 1,a", " L 1,-1", " L  1,1", "I 1,2", " L 1,2,3", " L 1,:", " L 1,/", " L 1",
]  # fmt: skip


def taken(text):
    """(bytes, lines, accesses) that are done, and the accesses."""
    at, codes, addresses = np.zeros(3, np.int64), np.zeros(99, np.int64), np.zeros(99, np.int64)
    take_lines(at, codes, addresses, np.frombuffer(text.encode(), np.uint8))
    found = int(at[2])
    return at.tolist(), list(zip(codes[:found].tolist(), addresses[:found].tolist(), strict=True))


@pytest.mark.parametrize("shift", range(len(USUAL)))
def test_usual_lines_are_taken_to_the_last(shift):
    lines = USUAL[shift:] + USUAL[:shift]
    text = "".join(f"{line}\n" for line, *_ in lines)
    expected = [(code, address) for _, codes, address in lines for code in codes]
    assert taken(text) == ([len(text), len(lines), len(expected)], expected)
    cut = text[:-1]  # the last line has no end yet
    assert taken(cut)[0][:2] == [len(text) - len(lines[-1][0]) - 1, len(lines) - 1]


@pytest.mark.parametrize("line", ODD)
def test_an_odd_line_ends_the_stretch(line):
    assert taken(f" L 0,1\n{line}\n L 0,1\n") == ([7, 1, 1], [(LOAD, 0)])
