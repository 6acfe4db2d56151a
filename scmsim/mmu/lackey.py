"""Parse lines of Valgrind's lackey, such as ` L 1ffefffe80,8`, into event codes and addresses, many at once."""

import numpy as np

from scmsim.core.records import FETCH, LOAD, STORE
from scmsim.jit import kernel, subroutine

PLACE, LINE, FOUND = range(3)  # fields of `at`: bytes done, lines done, accesses found
_BLANK, _END, _COMMA, _ZERO, _NINE = ord(" "), ord("\n"), ord(","), ord("0"), ord("9")
_FETCH, _LOAD, _STORE, _MODIFY = ord("I"), ord("L"), ord("S"), ord("M")
_DIGITS = 16  # most digits of an address
_DIGIT = np.full(256, -1, np.int64)  # value of a hexadecimal digit, by character
for _i in range(16):
    _DIGIT[[ord(f"{_i:x}"), ord(f"{_i:X}")]] = _i


@kernel
def take_lines(at, codes, addresses, text):
    """Parse lines from `at` on, up to the first line that is not in the usual form."""
    place, n = at[PLACE], at[FOUND]
    while place + 7 <= text.size:  # the shortest line, ` L 0,1`
        kind = text[place] if text[place + 1] == _BLANK else text[place + 1]
        first = _BLANK if kind != _FETCH else _FETCH
        if text[place] != first or text[place + 2] != _BLANK:
            break
        address, comma = hexadecimal(text, place + 3)
        end = after_number(text, comma + 1)
        if comma == place + 3 or comma > place + 3 + _DIGITS or text[comma] != _COMMA or end < 0:
            break
        if kind == _FETCH:
            codes[n] = FETCH
        elif kind == _LOAD or kind == _MODIFY:
            codes[n] = LOAD
        elif kind == _STORE:
            codes[n] = STORE
        else:
            break
        addresses[n] = address
        n += 1
        if kind == _MODIFY:
            codes[n], addresses[n] = STORE, address
            n += 1
        place = end
        at[LINE] += 1
    at[PLACE], at[FOUND] = place, n


@subroutine
def hexadecimal(text, place):
    """Return (the hexadecimal number at a position of the text, the position after its digits)."""
    number = 0
    while place < text.size - 1 and _DIGIT[text[place]] >= 0:
        number = number << 4 | _DIGIT[text[place]]
        place += 1
    return number, place


@subroutine
def after_number(text, place):
    """Return the position after a decimal number and the end of its line; -1 if the text has something else."""
    start = place
    while place < text.size and _ZERO <= text[place] <= _NINE:
        place += 1
    if place == start or place == text.size or text[place] != _END:
        return -1
    return place + 1
