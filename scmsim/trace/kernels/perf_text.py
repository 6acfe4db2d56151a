"""Parse lines of `perf script` with system-call tracepoints into one row of numbers per line.

A line ends in `[PID/]TID [[CPU]] SECONDS.FRACTION: EVENT: TEXT`; before that is the command's name, which may have any
characters, so the numbers before the event are parsed backwards.
"""

import numpy as np

from scmsim.jit import kernel, subroutine

# columns of a row
KIND, PID, TID, TIME, CALL, FIRST = range(6)
ARGUMENTS = 6
LINE = FIRST + ARGUMENTS  # number of the line in the file, set by the caller
WIDTH = LINE + 1
OTHER, ENTER, EXIT, BAD = range(4)  # KIND; OTHER is a line without such a tracepoint

_TAG = np.frombuffer(b"syscalls:sys_e", np.uint8)
_DIGITS = 18
_FNV, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_SPACE, _COLON, _SLASH, _DOT, _OPEN, _CLOSE, _UNDERSCORE, _COMMA, _MINUS, _NEWLINE = np.frombuffer(
    b" :/.[]_,-\n", np.uint8
)
_ZERO, _NINE, _A, _F, _N, _X = np.frombuffer(b"09afnx", np.uint8)


def call_hash(name: str) -> int:
    """Return the value of the column CALL for a line that names its call (FNV-1a as int64)."""
    value = int(_FNV)
    for byte in name.encode():
        value = (value ^ byte) * int(_PRIME) & (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


@subroutine
def _find(text, start, end):
    """Return the position after the tag `syscalls:sys_e` in a line, -1 if the line lacks the tag."""
    at = start
    while at + len(_TAG) <= end:
        if text[at] == _TAG[0]:
            k = 1
            while k < len(_TAG) and text[at + k] == _TAG[k]:
                k += 1
            if k == len(_TAG):
                return at + k
        at += 1
    return -1


@subroutine
def _digits_before(text, start, at):
    """Return (value, position of the first digit) of the decimal number that ends at `at`; value -1: no number."""
    value, power, first = 0, 1, at
    while first > start and _ZERO <= text[first - 1] <= _NINE and at - first < _DIGITS:
        first -= 1
        value += power * (np.int64(text[first]) - 48)
        power *= 10
    return (value if first < at else -1), first


@subroutine
def _spaces_before(text, start, at):
    while at > start and text[at - 1] == _SPACE:
        at -= 1
    return at


@subroutine
def _prefix(text, start, at, row):
    """Parse process, thread and time backwards from the event's name; return whether the line has them."""
    at = _spaces_before(text, start, at)
    if at == start or text[at - 1] != _COLON:
        return False
    fraction, first = _digits_before(text, start, at - 1)
    digits = at - 1 - first
    if fraction < 0 or digits > 9 or first == start or text[first - 1] != _DOT:
        return False
    seconds, at = _digits_before(text, start, first - 1)
    if seconds < 0 or seconds > 4_000_000_000:
        return False
    row[TIME] = seconds * 1_000_000_000 + fraction * 10 ** (9 - digits)
    at = _spaces_before(text, start, at)
    if at > start and text[at - 1] == _CLOSE:
        while at > start and text[at - 1] != _OPEN:
            at -= 1
        at = _spaces_before(text, start, at - 1 if at > start else at)
    row[TID], at = _digits_before(text, start, at)
    row[PID] = -1
    if at > start and text[at - 1] == _SLASH:
        row[PID], at = _digits_before(text, start, at - 1)
        return row[PID] >= 0 and row[TID] >= 0
    return row[TID] >= 0


@subroutine
def _hex(text, at, end):
    """Return (value as int64, position after) of a hexadecimal number; position -1: no number."""
    value, first = np.uint64(0), at
    while at < end and at - first <= 16:
        c = text[at]
        if _ZERO <= c <= _NINE:
            digit = c - _ZERO
        elif _A <= c <= _F:
            digit = c - _A + 10
        else:
            break
        value = (value << np.uint64(4)) | np.uint64(digit)
        at += 1
    return np.int64(value), (at if first < at <= first + 16 else -1)


@subroutine
def _decimal(text, at, end):
    """Return (value, position after) of a signed decimal number; position -1: no number."""
    negative = at < end and text[at] == _MINUS
    at += 1 if negative else 0
    value, first = 0, at
    while at < end and _ZERO <= text[at] <= _NINE and at - first < _DIGITS:
        value = 10 * value + np.int64(text[at]) - 48
        at += 1
    good = at > first and (at == end or not _ZERO <= text[at] <= _NINE)
    return (-value if negative else value), (at if good else -1)


@subroutine
def _raw(text, at, end, row):
    """Parse `NR N (A, B, ...)` or `NR N = RESULT`; return whether that succeeded."""
    row[CALL], at = _decimal(text, at + 3, end)
    if at < 0 or at + 3 > end:
        return False
    if row[KIND] == EXIT:
        row[FIRST], at = _decimal(text, at + 3, end)
        return at >= 0
    at += 2
    for i in range(ARGUMENTS):
        row[FIRST + i], at = _hex(text, at, end)
        if at < 0:
            return False
        at += 2
    return at - 1 <= end


@subroutine
def _named(text, at, end, row):
    """Parse `KEY: 0xA, KEY: 0xB` or `0xRESULT`; return whether that succeeded."""
    count = 0
    while at + 1 < end and count < ARGUMENTS:
        if text[at] == _ZERO and text[at + 1] == _X:
            row[FIRST + count], at = _hex(text, at + 2, end)
            if at < 0:
                return False
            count += 1
        else:
            at += 1
    return count > 0 or row[KIND] == ENTER


@subroutine
def _line(text, start, end, row):
    row[:] = 0
    at = _find(text, start, end)
    if at < 0:
        return
    row[KIND] = BAD
    tag = at - len(_TAG)
    while tag > start and text[tag - 1] != _SPACE:  # to the start of the event's name (raw_syscalls:...)
        tag -= 1
    if not _prefix(text, start, tag, row):
        return
    row[KIND] = ENTER if at < end and text[at] == _N else EXIT  # the n of sys_enter, or the x of sys_exit
    kind = row[KIND]
    at += 4 if kind == ENTER else 3
    named = at < end and text[at] == _UNDERSCORE
    if named:
        value, at = _FNV, at + 1
        while at < end and text[at] != _COLON:
            value = (value ^ np.uint64(text[at])) * _PRIME
            at += 1
        row[CALL] = np.int64(value)
    good = at < end and text[at] == _COLON
    if good and named:
        good = _named(text, at + 1, end, row)  # a call without arguments ends at the colon
    elif good:
        good = at + 2 < end and text[at + 1] == _SPACE and _raw(text, at + 2, end, row)
    if not good:
        row[KIND] = BAD


@kernel
def take_apart(text, rows):
    """Fill one row for each line of `text` (bytes); return the number of lines."""
    count, start = 0, 0
    for at in range(len(text) + 1):
        if at == len(text) and start == at:
            break
        if at == len(text) or text[at] == _NEWLINE:
            _line(text, start, at, rows[count])
            count += 1
            start = at + 1
    return count
