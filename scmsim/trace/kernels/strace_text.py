"""Parse the plainest lines of strace into numbers: complete calls on one descriptor or one path.

    [PID ][SECONDS.FRACTION ]NAME(FD[<PATH>][, DATA, COUNT[, OFFSET]]) = RESULT[ <TIME>]
    [PID ][SECONDS.FRACTION ]NAME([DIRECTORY, ]"PATH"[, FLAGS[, MODE]]) = RESULT[<PATH>][ <TIME>]

and the same with `-1 ERROR (TEXT)` as the result.  Any other line is left to the patterns of
`scmsim.trace.syscalls.text`, which give the same result for the lines parsed here.
"""

import numpy as np

from scmsim.jit import kernel, subroutine

# Columns of a row:
# - START, END: limits of the line in the text
# - FD, RAW: descriptor, and index of its text <PATH> (-1: none); for an open, those of its result
# - BASE, PATH, FLAGS: for a call on a path, indices of the texts of its directory argument, its path (without quotes) and its
#   flags; -1: none
# - ERROR: 0: none, 1: ENOENT, 2: another error
CALL, START, END, PID, TIME, FD, RAW, ASKED, OFFSET, RESULT, BASE, PATH, FLAGS, ERROR = range(14)
WIDTH = 14
OTHER = -1  # CALL of a line that is left to the patterns
NAMES = (
    "read", "write", "pread64", "pwrite64", "lseek", "fsync", "fdatasync", "close", "open", "openat", "creat", "unlink", "unlinkat",
)  # fmt: skip
(READ, WRITE, PREAD, PWRITE, LSEEK, FSYNC, FDATASYNC, CLOSE, OPEN, OPENAT, CREAT, UNLINK, UNLINKAT) = range(len(NAMES))
MOST_TEXTS = 5  # maximum number of texts per line: BASE, PATH and its ABOVE, FLAGS, RAW
# Columns of a text:
# - FIRST, LAST: limits in the block
# - ABOVE: for a path, index of its text up to the last slash; -1: the name after it is not plain
# - TAIL: for a path, start of the plain name: a name without escapes that is not `.` or `..`
FIRST, LAST, ABOVE, TAIL = range(4)
TEXT_WIDTH = 4
_NOT_SPLIT = -2  # ABOVE of a text that was not a path so far
ENOENT = 1

_LONGEST = 10
_TEXT = np.zeros((len(NAMES), _LONGEST), np.uint8)
for _i, _text in enumerate(NAMES):
    _TEXT[_i, : len(_text) + 1] = np.frombuffer(_text.encode() + b"(", np.uint8)
_LENGTH = np.array([len(name) + 1 for name in NAMES])
_DIGITS = 18
_MOST_PID = 10**7  # Linux allows 2^22; larger numbers are times
_FNV, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_SET, _CUR = np.frombuffer(b"SEEK_SET)SEEK_CUR)", np.uint8).reshape(2, 9)
_HERE, _NO_ENTRY = np.frombuffer(b"AT_FDCWD", np.uint8), np.frombuffer(b"ENOENT ", np.uint8)
_SPACE, _DOT, _LESS, _MORE, _CLOSE, _COMMA, _EQUAL, _QUOTE, _ESCAPE, _MINUS, _NEWLINE, _E, _BAR, _SEVEN, _SLASH = (
    np.frombuffer(b' .<>),="\\-\nE|7/', np.uint8)
)
_ZERO, _NINE, _A, _F, _X, _CAPITAL_A, _CAPITAL_Z, _LOW = np.frombuffer(b"09afxAZ_", np.uint8)
_NOT_ASCII = 128


@subroutine
def _place(wanted, start, end, text, spans, heads):
    """Return the place in `heads` of a text in `wanted` among the distinct texts of the block."""
    value = _FNV
    for at in range(start, end):
        value = (value ^ np.uint64(wanted[at])) * _PRIME
    slot = np.int64(value >> np.uint64(20)) & (len(heads) - 1)
    while heads[slot] >= 0:
        first, length = spans[heads[slot], FIRST], spans[heads[slot], LAST] - spans[heads[slot], FIRST]
        if length == end - start:
            k = 0
            while k < length and text[first + k] == wanted[start + k]:
                k += 1
            if k == length:
                break
        slot = (slot + 1) & (len(heads) - 1)
    return slot


@subroutine
def _number_of_text(text, start, end, texts):
    """Return the index of a text among the distinct texts of the block, adding it if it is new."""
    spans, heads, count = texts
    slot = _place(text, start, end, text, spans, heads)
    if heads[slot] < 0:
        heads[slot] = count[0]
        spans[count[0], FIRST], spans[count[0], LAST], spans[count[0], ABOVE] = start, end, _NOT_SPLIT
        count[0] += 1
    return heads[slot]


@subroutine
def _number_of_path(text, start, end, texts):
    """Return the index of the text of a path; set the columns ABOVE and TAIL of the text."""
    spans, which = texts[0], _number_of_text(text, start, end, texts)
    if spans[which, ABOVE] == _NOT_SPLIT:
        tail, is_plain = end, True
        while tail > start and text[tail - 1] != _SLASH:
            tail -= 1
            is_plain &= text[tail] != _ESCAPE and text[tail] < _NOT_ASCII
        is_plain &= tail < end and not (end - tail < 3 and text[tail] == _DOT and text[end - 1] == _DOT)
        spans[which, TAIL], spans[which, ABOVE] = tail, -1
        if is_plain:
            spans[which, ABOVE] = _number_of_text(text, start, tail, texts)
    return which


@subroutine
def _number(text, at, end):
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
def _time(text, at, end, row):
    """Parse an optional time stamp; return the position after it, -1 if it has an unusual form."""
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
    """Parse the optional process and time; return the position of the call's name, -1 if they have an unusual form."""
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
        if row[PID] >= _MOST_PID and not (at < end and _ZERO <= text[at] <= _NINE):
            return -1  # a time in whole seconds, not a process
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
def _raw(text, at, end):
    """Return the position after the optional path in <> of a descriptor, -1 if it has an unusual form."""
    if at > 0 and at < end and text[at] == _LESS:
        at += 1
        while at < end and text[at] != _MORE and text[at] != _LESS:
            at += 1
        return at + 1 if at < end and text[at] == _MORE else -1
    return at


@subroutine
def _descriptor(text, at, end, row, texts):
    """Parse a descriptor and its optional path; return the position after them, -1 if they have an unusual form."""
    row[FD], first = _number(text, at, end)
    at = _raw(text, first, end)
    if at > first:
        row[RAW] = _number_of_text(text, first, at, texts)
    return at


@subroutine
def _directory(text, at, end):
    """Return the position after the directory argument of a call and its comma, -1 if they have an unusual form."""
    k = 0
    while k < len(_HERE) and at + k < end and text[at + k] == _HERE[k]:
        k += 1
    at = at + k if k == len(_HERE) else _number(text, at, end)[1]
    return _comma(text, _raw(text, at, end), end)


@subroutine
def _path(text, at, end):
    """Return the position after a path in quotes, -1 if the text at `at` is not one."""
    if at < 0 or at >= end or text[at] != _QUOTE:
        return -1
    at += 1
    while at < end and text[at] != _QUOTE:
        at += 2 if text[at] == _ESCAPE else 1
    return at + 1 if at < end else -1


@subroutine
def _words(text, at, end):
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
def _octal(text, at, end):
    first = at
    while 0 <= at < end and _ZERO <= text[at] <= _SEVEN:
        at += 1
    return at if at > first else -1


@subroutine
def _on_path(text, at, end, row, texts):
    """Parse a directory, a path and flags; return the position of the bracket that ends them, -1 if they have an unusual form."""
    call, first = row[CALL], at
    if call == OPENAT or call == UNLINKAT:
        at = _directory(text, at, end)
        if at >= 0:
            row[BASE] = _number_of_text(text, first, at - 2, texts)
        first = at
    at = _path(text, at, end)
    if at < 0:
        return -1
    row[PATH] = _number_of_path(text, first + 1, at - 1, texts)
    if call == UNLINK:
        return at
    if call == CREAT:
        return _octal(text, _comma(text, at, end), end)
    first = _comma(text, at, end)
    at = _words(text, first, end)
    if at < 0:
        return -1
    row[FLAGS] = _number_of_text(text, first, at, texts)
    if call != UNLINKAT and at < end and text[at] == _COMMA:
        at = _octal(text, _comma(text, at, end), end)
    return at


@subroutine
def _data(text, at, end):
    """Return the position after a string or a pointer, -1 if the text at `at` is neither."""
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
    """Return the position of the bracket that ends `OFFSET, SEEK_SET)` or `OFFSET, SEEK_CUR)`, else -1."""
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
def _arguments(text, at, end, row, texts):
    """Parse the arguments; return the position of the bracket that ends them, -1 if they have an unusual form."""
    call = row[CALL]
    if call >= OPEN:
        return _on_path(text, at, end, row, texts)
    at = _descriptor(text, at, end, row, texts)
    if at < 0 or call >= FSYNC:
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
def _error(text, at, end, row):
    """Parse `-1 ERROR (TEXT)` at the end of the line; return whether the line has it."""
    first = at = at + 3
    while at < end and (_CAPITAL_A <= text[at] <= _CAPITAL_Z or _ZERO <= text[at] <= _NINE):
        at += 1
    if at >= end or at < first + 2 or text[first] != _E or text[at] != _SPACE:
        return False
    k = 0
    while k < len(_NO_ENTRY) and text[first + k] == _NO_ENTRY[k]:
        k += 1
    row[ERROR] = 1 if k == len(_NO_ENTRY) else 2
    return True


@subroutine
def _result(text, at, end, row, texts):
    """Parse `) = RESULT` and an optional time in <> at the end of the line; return whether the line has them."""
    if at < 0 or at >= end or text[at] != _CLOSE:
        return False
    at += 1
    while at < end and text[at] == _SPACE:
        at += 1
    if at + 2 >= end or text[at] != _EQUAL or text[at + 1] != _SPACE or text[at - 1] != _SPACE:
        return False
    at += 2
    if at + 4 < end and text[at] == _MINUS and text[at + 1] == _ZERO + 1 and text[at + 2] == _SPACE:
        return _error(text, at, end, row)
    if OPEN <= row[CALL] <= CREAT:
        at = _descriptor(text, at, end, row, texts)
        row[RESULT] = row[FD]
    else:
        row[RESULT], at = _number(text, at, end)
    if at < 0:
        return False
    return at == end or (at + 2 < end and text[at] == _SPACE and text[at + 1] == _LESS and text[end - 1] == _MORE)


@subroutine
def _line(text, start, end, row, texts):
    row[:] = 0
    row[START], row[END], row[CALL] = start, end, OTHER
    row[RAW] = row[BASE] = row[PATH] = row[FLAGS] = -1
    at = _prefix(text, start, end, row)
    call = _name(text, at, end) if at >= 0 else OTHER
    if call == OTHER:
        return
    row[CALL] = call
    at = _arguments(text, at + _LENGTH[call], end, row, texts)
    if not _result(text, at, end, row, texts):
        row[CALL] = OTHER


@kernel
def take_apart(text, rows, spans, heads, known):
    """Fill one row for each line of `text` (bytes), and `spans` with the places of distinct texts, counted in `known`.

    `heads` is the hash table of the texts: all -1, its length a power of two and larger than the number of texts.
    Return the number of lines.
    """
    count, start, texts = 0, 0, (spans, heads, known)
    for at in range(len(text) + 1):
        if at == len(text) and start == at:
            break
        if at == len(text) or text[at] == _NEWLINE:
            _line(text, start, at, rows[count], texts)
            count += 1
            start = at + 1
    return count


@kernel
def number_of(wanted, text, spans, heads):
    """Return the index of the text `wanted` (bytes) among the texts that `take_apart` found in a block, -1 if it is none."""
    return heads[_place(wanted, 0, len(wanted), text, spans, heads)]
