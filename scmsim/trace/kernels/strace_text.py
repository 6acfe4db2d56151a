"""Parse the plainest lines of strace into numbers: complete calls with the arguments that `ARGUMENTS` lists.

    [PID ][SECONDS.FRACTION ]NAME(ARGUMENTS) = RESULT[<PATH>][ <TIME>]

and the same with `-1 ERROR (TEXT)` as the result.  Any other line is left to the patterns of
`scmsim.trace.syscalls.text`, which give the same result for the lines parsed here.
"""

import numpy as np

from scmsim.jit import kernel, subroutine
from scmsim.trace.kernels import strace_words as words

# Columns of a row:
# - START, END: limits of the line in the text
# - FD, RAW: descriptor, and index of its text <PATH> (-1: none); for an open, those of its result
# - ASKED: bytes asked for; for a stat, the file's length, NO_LENGTH or IS_DIRECTORY; for an lseek, whether it is to the end; for
#   an open, whether it printed RAW as PATH was asked for
# - BASE, PATH, FLAGS: for a call on a path, indices of the texts of its directory argument, its path (without quotes) and its
#   flags; -1: none.  FLAGS of an fcntl or ioctl is its command, of a NAMED call its name
# - BASE2, PATH2: those of a second path
# - ERROR: 0: none, 1: ENOENT, 2: another error
CALL, START, END, PID, TIME, FD, RAW, ASKED, OFFSET, RESULT, BASE, PATH, FLAGS, ERROR, BASE2, PATH2 = range(16)
WIDTH = 16
OTHER = -1  # CALL of a line that is left to the patterns
NO_LENGTH, IS_DIRECTORY = -1, -2
# Arguments of the calls: f descriptor, d data, c count, o offset, s offset and whence, i structure of a stat, b directory, p path,
# w flags, m mode, M mode or nothing, . any others after a comma, * any others
ARGUMENTS = {
    "read": "fdc", "write": "fdc", "pread64": "fdco", "pwrite64": "fdco", "lseek": "fs", "fstat": "fi", "ftruncate": "fo",
    "getdents64": "f.", "fcntl": "fw*", "ioctl": "fw*", "fsync": "f", "fdatasync": "f", "close": "f", "open": "pwM",
    "openat": "bpwM", "creat": "pm", "unlink": "p", "unlinkat": "bpw", "rmdir": "p", "mkdir": "pm", "mkdirat": "bpm",
    "access": "pw", "faccessat": "bpw", "stat": "pi", "lstat": "pi", "newfstatat": "bpiw", "statx": "bpwwi", "rename": "pp",
    "renameat": "bpbp", "renameat2": "bpbpw", "link": "pp", "linkat": "bpbpw", "": "*",
}  # fmt: skip
NAMES = tuple(ARGUMENTS)
(
    READ, WRITE, PREAD, PWRITE, LSEEK, FSTAT, FTRUNCATE, GETDENTS, FCNTL, IOCTL, FSYNC, FDATASYNC, CLOSE, OPEN, OPENAT, CREAT,
    UNLINK, UNLINKAT, RMDIR, MKDIR, MKDIRAT, ACCESS, FACCESSAT, STAT, LSTAT, NEWFSTATAT, STATX, RENAME, RENAMEAT,
    RENAMEAT2, LINK, LINKAT, NAMED,
) = range(len(NAMES))  # fmt: skip
MOST_TEXTS = 7  # maximum number of texts per line: two of BASE, PATH and its ABOVE; FLAGS or RAW
# Columns of a text:
# - FIRST, LAST: limits in the block
# - ABOVE: for a path, index of its text up to the last slash; -1: the name after it is not plain
# - TAIL: for a path, start of the plain name: a name without escapes that is not `.` or `..`
FIRST, LAST, ABOVE, TAIL = range(4)
TEXT_WIDTH = 4
_NOT_SPLIT = -2  # ABOVE of a text that was not a path so far
ENOENT = 1

_TEXT = np.zeros((NAMED, max(map(len, NAMES)) + 1), np.uint8)
_KINDS = np.zeros((len(NAMES), max(map(len, ARGUMENTS.values())) + 1), np.uint8)  # 0 after the last argument
for _i, (_text, _kinds) in enumerate(ARGUMENTS.items()):
    _KINDS[_i, : len(_kinds)] = np.frombuffer(_kinds.encode(), np.uint8)
    _TEXT[_i % NAMED, : len(_text) + 1] = np.frombuffer(_text.encode() + b"(", np.uint8) if _text else _TEXT[0, :1]
_LENGTH = np.array([len(name) + 1 for name in NAMES[:NAMED]])
_FD, _DATA, _COUNT, _OFFSET, _SEEK, _STRUCT, _BASE, _PATH, _WORDS, _MODE, _MAY_MODE, _MORE_ARGUMENTS, _ANY = (
    np.frombuffer(b"fdcosibpwmM.*", np.uint8)
)
_MOST_PID = 10**7  # Linux allows 2^22; larger numbers are times
_FNV, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a, 64 bits
_SET, _CUR, _AT_END = np.frombuffer(b"SEEK_SET)SEEK_CUR)SEEK_END)", np.uint8).reshape(3, 9)
_HERE, _NO_ENTRY, _NULL = (np.frombuffer(text, np.uint8) for text in (b"AT_FDCWD", b"ENOENT ", b"NULL"))
_STAT, _KIND_REG, _KIND_DIR, _SIZE, _DOTS, _MASK, _ATTRIBUTES, _STATX_KIND, _STATX_SIZE = (
    np.frombuffer(text.encode(), np.uint8)
    for text in (
        "{st_mode=S_IF", "REG|", "DIR|", ", st_size=", ", ...}", "{stx_mask=", ", stx_attributes=", ", stx_mode=S_IF", ", stx_size="
    )
)  # fmt: skip
_SPACE, _DOT, _MORE, _LESS, _CLOSE, _EQUAL, _ESCAPE, _MINUS, _NEWLINE, _E, _SLASH, _OPENS, _LOW = np.frombuffer(
    b" .><)=\\-\nE/(_", np.uint8
)
_ZERO, _NINE, _CAPITAL_A, _CAPITAL_Z, _SMALL_A, _SMALL_Z = np.frombuffer(b"09AZaz", np.uint8)
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
def _time(text, at, end, row):
    """Parse an optional time stamp; return the position after it, -1 if it has an unusual form."""
    row[TIME] = -1
    if not (at < end and _ZERO <= text[at] <= _NINE):
        return at
    seconds, at = words.number(text, at, end)
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
        row[PID], at = words.number(text, at, end)
        if at < 0:
            return -1
        while at < end and text[at] == _SPACE:
            at += 1
        if row[PID] >= _MOST_PID and not (at < end and _ZERO <= text[at] <= _NINE):
            return -1  # a time in whole seconds, not a process
    return _time(text, at, end, row)


@subroutine
def _name(text, at, end, row, texts):
    """Set CALL to the call whose name is at `at`; return the position of its arguments, -1 if the text has no name."""
    for i in range(len(_LENGTH)):
        length, k = _LENGTH[i], 0
        while k < length and at + k < end and text[at + k] == _TEXT[i, k]:
            k += 1
        if k == length:
            row[CALL] = i
            return at + length
    first = at
    while at < end and (
        _SMALL_A <= text[at] <= _SMALL_Z or text[at] == _LOW or (at > first and _ZERO <= text[at] <= _NINE)
    ):
        at += 1
    if at == first or at >= end or text[at] != _OPENS:
        return -1
    row[CALL], row[FLAGS] = NAMED, _number_of_text(text, first, at, texts)
    return at + 1


@subroutine
def _is_text(text, start, end, which, spans):
    """Return whether the bytes [start, end) are the text with the index `which`."""
    first, k = spans[which, FIRST], 0
    if spans[which, LAST] - first != end - start:
        return False
    while start + k < end and text[first + k] == text[start + k]:
        k += 1
    return start + k == end


@subroutine
def _descriptor(text, at, end, row, texts):
    """Parse a descriptor and its optional path; return the position after them, -1 if they have an unusual form."""
    row[FD], first = words.number(text, at, end)
    at = words.raw(text, first, end)
    if at > first:
        known = texts[2]
        if known[0] == 0 or not _is_text(text, first, at, known[1], texts[0]):
            known[1] = _number_of_text(text, first, at, texts)
        row[RAW] = known[1]
    return at


@subroutine
def _directory(text, at, end, row, texts):
    """Parse the directory argument of a path."""
    first, after = at, words.literal(text, at, end, _HERE)
    at = words.raw(text, after if after >= 0 else words.number(text, at, end)[1], end)
    if at >= 0:
        row[BASE if row[BASE] < 0 else BASE2] = _number_of_text(text, first, at, texts)
    return at


@subroutine
def _path(text, at, end, row, texts):
    """Parse a path; an empty path of a stat means the descriptor in place of the directory."""
    first, at = at + 1, words.path(text, at, end)
    if at < 0:
        return -1
    is_stat = row[CALL] == NEWFSTATAT or row[CALL] == STATX or row[CALL] == FACCESSAT
    start = texts[0][row[BASE], FIRST] if is_stat else 0
    if is_stat and at == first + 1 and text[start] <= _NINE:
        row[BASE] = -1
        return at if _descriptor(text, start, end, row, texts) >= 0 else -1
    row[PATH if row[PATH] < 0 else PATH2] = _number_of_path(text, first, at - 1, texts)
    return at


@subroutine
def _seek(text, at, end, row):
    """Parse the offset and whence of an lseek."""
    sign = -1 if at < end and text[at] == _MINUS else 1
    value, at = words.number(text, at + (sign < 0), end)
    row[OFFSET], at = sign * value, words.comma(text, at, end)
    is_end = words.literal(text, at, end, _AT_END) >= 0
    row[ASKED] = is_end
    is_known = is_end or words.literal(text, at, end, _SET) >= 0 or words.literal(text, at, end, _CUR) >= 0
    return at + len(_SET) - 1 if is_known else -1


@subroutine
def _structure(text, at, end, row):
    """Parse the structure of a stat of a file or directory, or its address."""
    is_statx, row[ASKED] = row[CALL] == STATX, NO_LENGTH
    if is_statx:
        kind = words.literal(text, words.words(text, words.literal(text, at, end, _MASK), end), end, _ATTRIBUTES)
        kind = words.literal(text, words.words(text, kind, end), end, _STATX_KIND)
    else:
        kind = words.literal(text, at, end, _STAT)
    if kind < 0:
        null = words.literal(text, at, end, _NULL)
        return null if null >= 0 else words.pointer(text, at, end)
    is_dir = words.literal(text, kind, end, _KIND_DIR) >= 0
    if not is_dir and words.literal(text, kind, end, _KIND_REG) < 0:
        return -1
    at = words.octal(text, kind + len(_KIND_REG), end)
    at = words.literal(text, at, end, _STATX_SIZE) if is_statx else words.literal(text, at, end, _SIZE)
    length, at = words.number(text, at, end)
    row[ASKED] = IS_DIRECTORY if is_dir else length
    return words.literal(text, at, end, _DOTS)


@subroutine
def _argument(text, at, end, row, texts, kind):
    """Parse an argument (see ARGUMENTS); return the position after it, -1 if it has an unusual form."""
    if kind == _FD:
        return _descriptor(text, at, end, row, texts)
    if kind == _PATH:
        return _path(text, at, end, row, texts)
    if kind == _BASE:
        return _directory(text, at, end, row, texts)
    if kind == _WORDS:
        first, at = at, words.words(text, at, end)
        if at >= 0:
            row[FLAGS] = _number_of_text(text, first, at, texts)
        return at
    if kind == _DATA:
        return words.data(text, at, end)
    if kind == _COUNT:
        row[ASKED], at = words.number(text, at, end)
    elif kind == _OFFSET:
        row[OFFSET], at = words.number(text, at, end)
    elif kind == _SEEK:
        at = _seek(text, at, end, row)
    elif kind == _STRUCT:
        at = _structure(text, at, end, row)
    elif kind == _MODE or kind == _MAY_MODE:
        at = words.octal(text, at, end)
    else:
        at = words.rest(text, at, end)
    return at


@subroutine
def _arguments(text, at, end, row, texts):
    """Parse the arguments; return the position of the bracket that ends them, -1 if they have an unusual form."""
    i = 0
    while at >= 0 and _KINDS[row[CALL], i]:
        kind = _KINDS[row[CALL], i]
        if kind == _MAY_MODE and at < end and text[at] == _CLOSE:
            break
        if i > 0 and kind != _ANY:
            at = words.comma(text, at, end)
        if at >= 0:
            at = _argument(text, at, end, row, texts, kind)
        i += 1
    return at


@subroutine
def _error(text, at, end, row):
    """Parse `-1 ERROR (TEXT)` at the end of the line; return whether the line has it."""
    first = at = at + 3
    while at < end and (_CAPITAL_A <= text[at] <= _CAPITAL_Z or _ZERO <= text[at] <= _NINE):
        at += 1
    if at >= end or at < first + 2 or text[first] != _E or text[at] != _SPACE:
        return False
    row[ERROR] = ENOENT if words.literal(text, first, end, _NO_ENTRY) >= 0 else 2
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
        row[RESULT], raw = row[FD], texts[0][row[RAW]]
        row[ASKED] = row[RAW] >= 0 and _is_text(text, raw[FIRST] + 1, raw[LAST] - 1, row[PATH], texts[0])
    elif row[CALL] == NAMED and words.pointer(text, at, end) >= 0:
        at = words.pointer(text, at, end)
    else:
        row[RESULT], at = words.number(text, at, end)
    if at < 0:
        return False
    return at == end or (at + 2 < end and text[at] == _SPACE and text[at + 1] == _LESS and text[end - 1] == _MORE)


@subroutine
def _line(text, start, end, row, texts):
    row[:] = 0
    row[START], row[END], row[CALL] = start, end, OTHER
    row[RAW] = row[BASE] = row[PATH] = row[FLAGS] = row[BASE2] = row[PATH2] = -1
    if start + 1 < end and text[end - 2] == _DOT and text[end - 1] == _MORE:
        return  # ` <unfinished ...>`: the first half of a call, even if its arguments look like a result
    at = _prefix(text, start, end, row)
    at = _name(text, at, end, row, texts) if at >= 0 else -1
    if at < 0:
        return
    at = _arguments(text, at, end, row, texts)
    if not _result(text, at, end, row, texts):
        row[CALL] = OTHER


@kernel
def take_apart(text, rows, spans, heads, known):
    """Fill one row for each line of `text` (bytes), and `spans` with the places of distinct texts.

    `known` counts the texts, and has the index of the last descriptor's path: the next one is often the same.

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
