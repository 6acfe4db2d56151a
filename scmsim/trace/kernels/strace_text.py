"""Takes the plainest lines of strace apart: complete reads, writes, seeks and syncs on one descriptor, into numbers.

    [PID ][SECONDS.FRACTION ]NAME(FD[<PATH>][, DATA, COUNT[, OFFSET]]) = RESULT[ <TIME>]

Any other line is left to the patterns of `scmsim.trace.formats._strace_text`, which understand these lines in the same way.
"""

import numpy as np

from scmsim.jit import kernel, subroutine

# columns of a row; START and END are the place of the line in the text, RAW and RAW_END that of <PATH> (-1: not there), and
# HASH tells one <PATH> from another
CALL, START, END, PID, TIME, FD, RAW, RAW_END, HASH, ASKED, OFFSET, RESULT = range(12)
WIDTH = 12
OTHER = -1  # CALL of a line that is not understood here
NAMES = ("read", "write", "pread64", "pwrite64", "lseek", "fsync", "fdatasync")
READ, WRITE, PREAD, PWRITE, LSEEK, FSYNC, FDATASYNC = range(len(NAMES))

_LONGEST = 10
_TEXT = np.zeros((len(NAMES), _LONGEST), np.uint8)
for _i, _text in enumerate(NAMES):
    _TEXT[_i, : len(_text) + 1] = np.frombuffer(_text.encode() + b"(", np.uint8)
_LENGTH = np.array([len(name) + 1 for name in NAMES])
_DIGITS = 18
_FNV, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_SET, _CUR = np.frombuffer(b"SEEK_SET)SEEK_CUR)", np.uint8).reshape(2, 9)
_SPACE, _DOT, _LESS, _MORE, _CLOSE, _COMMA, _EQUAL, _QUOTE, _ESCAPE, _MINUS, _NEWLINE = np.frombuffer(
    b' .<>),="\\-\n', np.uint8
)
_ZERO, _NINE, _A, _F, _X = np.frombuffer(b"09afx", np.uint8)


@subroutine
def _number(text, at, end):
    """(value, position behind); the position is -1 if there is no number, or one that the patterns might read otherwise."""
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
def _time(text, at, end, row):
    """The time stamp that may stand here; position behind it, -1 if it is odd."""
    row[TIME] = -1
    if not (at < end and _ZERO <= text[at] <= _NINE):
        return at
    seconds, at = _number(text, at, end)
    if at < 0 or at + 8 > end or text[at] != _DOT or seconds >= 4_000_000_000:
        return -1
    fraction, first = 0, at + 1
    at = first
    while at < end and _ZERO <= text[at] <= _NINE:
        fraction = 10 * fraction + np.int64(text[at]) - 48
        at += 1
        if at - first > 9:
            return -1
    if at == first or at >= end or text[at] != _SPACE:
        return -1
    row[TIME] = seconds * 1_000_000_000 + fraction * 10 ** (9 - (at - first))
    return at + 1


@subroutine
def _prefix(text, at, end, row):
    """Process and time; position of the call's name, -1 if they are odd."""
    row[PID] = -1
    k = at
    while k < end and _ZERO <= text[k] <= _NINE:
        k += 1
    if k > at and k < end and text[k] == _SPACE:
        row[PID], at = _number(text, at, end)
        if at < 0:
            return -1
        while at < end and text[at] == _SPACE:
            at += 1
    return _time(text, at, end, row)


@subroutine
def _name(text, at, end):
    for i in range(len(_LENGTH)):
        length = _LENGTH[i]
        if at + length <= end:
            k = 0
            while k < length and text[at + k] == _TEXT[i, k]:
                k += 1
            if k == length:
                return i
    return OTHER


@subroutine
def _descriptor(text, at, end, row):
    """Descriptor and its path; position behind, -1 if they are odd."""
    row[FD], at = _number(text, at, end)
    row[RAW] = row[RAW_END] = -1
    if at > 0 and at < end and text[at] == _LESS:
        row[RAW], value = at, _FNV
        at += 1
        while at < end and text[at] != _MORE and text[at] != _LESS:
            value = (value ^ np.uint64(text[at])) * _PRIME
            at += 1
        if at >= end or text[at] == _LESS:
            return -1
        at += 1
        row[RAW_END], row[HASH] = at, np.int64(value)
    return at


@subroutine
def _data(text, at, end):
    """Position behind a string or a pointer, -1 if there is neither."""
    if at >= end:
        return -1
    if text[at] == _QUOTE:
        at += 1
        while at < end and text[at] != _QUOTE:
            at += 2 if text[at] == _ESCAPE else 1
        at += 1
        if at + 3 <= end and text[at] == _DOT and text[at + 1] == _DOT and text[at + 2] == _DOT:
            at += 3
        return at if at <= end else -1
    if at + 2 < end and text[at] == _ZERO and text[at + 1] == _X:
        first = at + 2
        at = first
        while at < end and (_ZERO <= text[at] <= _NINE or _A <= text[at] <= _F):
            at += 1
        return at if at > first else -1
    return -1


@subroutine
def _comma(text, at, end):
    return at + 2 if 0 <= at and at + 2 <= end and text[at] == _COMMA and text[at + 1] == _SPACE else -1


@subroutine
def _seek(text, at, end):
    """Position of the bracket that ends `OFFSET, SEEK_SET)` or `OFFSET, SEEK_CUR)`, else -1."""
    at += 1 if at < end and text[at] == _MINUS else 0
    _, at = _number(text, at, end)
    at = _comma(text, at, end)
    if at < 0 or at + 9 > end:
        return -1
    is_set = is_cur = True
    for k in range(9):
        is_set &= text[at + k] == _SET[k]
        is_cur &= text[at + k] == _CUR[k]
    return at + 8 if is_set or is_cur else -1


@subroutine
def _arguments(text, at, end, row):
    """Position of the bracket that ends the arguments, -1 if they are odd."""
    call = row[CALL]
    if call >= FSYNC:
        return at
    at = _comma(text, at, end)
    if at < 0:
        return -1
    if call == LSEEK:
        return _seek(text, at, end)
    at = _comma(text, _data(text, at, end), end)
    if at < 0:
        return -1
    row[ASKED], at = _number(text, at, end)
    if call == PREAD or call == PWRITE:
        at = _comma(text, at, end)
        if at < 0:
            return -1
        row[OFFSET], at = _number(text, at, end)
    return at


@subroutine
def _result(text, at, end, row):
    """Whether `) = RESULT` and perhaps a time in <> end the line."""
    if at < 0 or at >= end or text[at] != _CLOSE:
        return False
    at += 1
    while at < end and text[at] == _SPACE:
        at += 1
    if at + 2 >= end or text[at] != _EQUAL or text[at + 1] != _SPACE or text[at - 1] != _SPACE:
        return False
    row[RESULT], at = _number(text, at + 2, end)
    if at < 0:
        return False
    return at == end or (at + 2 < end and text[at] == _SPACE and text[at + 1] == _LESS and text[end - 1] == _MORE)


@subroutine
def _line(text, start, end, row):
    row[:] = 0
    row[START], row[END], row[CALL] = start, end, OTHER
    at = _prefix(text, start, end, row)
    call = _name(text, at, end) if at >= 0 else OTHER
    if call == OTHER:
        return
    row[CALL] = call
    at = _descriptor(text, at + _LENGTH[call], end, row)
    if at >= 0:
        at = _arguments(text, at, end, row)
    if not _result(text, at, end, row):
        row[CALL] = OTHER


@kernel
def take_apart(text, rows):
    """Fill one row for each line of `text` (bytes); returns the number of lines."""
    count, start = 0, 0
    for at in range(len(text) + 1):
        if at == len(text) and start == at:
            break
        if at == len(text) or text[at] == _NEWLINE:
            _line(text, start, at, rows[count])
            count += 1
            start = at + 1
    return count
