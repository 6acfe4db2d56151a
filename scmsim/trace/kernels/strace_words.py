"""Find the ends of the words of strace's lines: numbers, descriptors' paths, strings, flags.

Each function takes the text, a position and the end of the line, and returns the position after the word, -1 if the text at the
position is not such a word or has an unusual form.
"""

import numpy as np

from scmsim.jit import subroutine

_DIGITS = 18
_SPACE, _LESS, _MORE, _CLOSE, _COMMA, _EQUAL, _QUOTE, _ESCAPE, _MINUS, _BAR, _SEVEN = np.frombuffer(
    b' <>),="\\-|7', np.uint8
)
_ZERO, _NINE, _A, _F, _X, _CAPITAL_A, _CAPITAL_Z, _LOW = np.frombuffer(b"09afxAZ_", np.uint8)
_CUT = np.frombuffer(b"...", np.uint8)  # after a string that strace cut
_NOT_ASCII = 128


@subroutine
def number(text, at, end):
    """Return (value, position after); position -1: no number, or a number that the patterns might parse differently."""
    value, first = 0, at
    while at < end and _ZERO <= text[at] <= _NINE:
        if at - first >= _DIGITS:
            return 0, -1
        value = 10 * value + np.int64(text[at]) - 48
        at += 1
    if at == first or (text[first] == _ZERO and at > first + 1):
        return 0, -1
    return value, at


@subroutine
def raw(text, at, end):
    """Return the position after the optional path in <> of a descriptor, -1 if it has an unusual form."""
    if at > 0 and at < end and text[at] == _LESS:
        at += 1
        while at < end and text[at] != _MORE and text[at] != _LESS:
            at += 1
        return at + 1 if at < end and text[at] == _MORE else -1
    return at


@subroutine
def path(text, at, end):
    """Return the position after a path in quotes, -1 if the text at `at` is not one."""
    if at < 0 or at >= end or text[at] != _QUOTE:
        return -1
    at += 1
    while at < end and text[at] != _QUOTE:
        at += 2 if text[at] == _ESCAPE else 1
    return at + 1 if at < end else -1


@subroutine
def words(text, at, end):
    """Return the position after names of flags, -1 if the text at `at` has none."""
    first = at
    while 0 <= at < end and (
        _CAPITAL_A <= text[at] <= _CAPITAL_Z or _ZERO <= text[at] <= _NINE or text[at] == _LOW or text[at] == _BAR
    ):
        at += 1
    if at > first and text[first] <= _NINE and (at > first + 1 or text[first] != _ZERO):
        return -1  # flags as a number (-X raw)
    return at if at > first else -1


@subroutine
def octal(text, at, end):
    first = at
    while 0 <= at < end and _ZERO <= text[at] <= _SEVEN:
        at += 1
    return at if at > first else -1


@subroutine
def pointer(text, at, end):
    """Return the position after a hexadecimal number, -1 if the text at `at` is none."""
    first = at + 2
    if at < 0 or first >= end or text[at] != _ZERO or text[at + 1] != _X:
        return -1
    at = first
    while at < end and (_ZERO <= text[at] <= _NINE or _A <= text[at] <= _F):
        at += 1
    return at if at > first else -1


@subroutine
def data(text, at, end):
    """Return the position after a string or a pointer, -1 if the text at `at` is neither."""
    if at >= end:
        return -1
    if text[at] != _QUOTE:
        return pointer(text, at, end)
    at = path(text, at, end)
    after_dots = literal(text, at, end, _CUT)
    return after_dots if after_dots >= 0 else at


@subroutine
def comma(text, at, end):
    return at + 2 if 0 <= at and at + 2 <= end and text[at] == _COMMA and text[at + 1] == _SPACE else -1


@subroutine
def literal(text, at, end, wanted):
    """Return the position after the bytes `wanted`."""
    if at < 0 or at + len(wanted) > end:
        return -1
    for k in range(len(wanted)):
        if text[at + k] != wanted[k]:
            return -1
    return at + len(wanted)


@subroutine
def rest(text, at, end):
    """Return the position of the bracket that ends any arguments, as the pattern `text.REST` finds it."""
    while 0 <= at < end and _SPACE <= text[at] < _NOT_ASCII:  # the pattern also takes other blanks
        if text[at] == _QUOTE:
            at = path(text, at, end)
        elif text[at] == _LESS:
            at = raw(text, at, end)
            if at > 1 and text[at - 2] == _MINUS:  # the arrow in a socket's addresses
                return -1
        else:
            k = at + 1
            while text[at] == _CLOSE and k < end and text[k] == _SPACE:
                k += 1
            if k > at + 1 and k < end and text[k] == _EQUAL:
                return at
            at += 1
    return -1
