"""What a call tells about a file and its descriptor: positions, ends, and whether the file was there before the trace.

Plain Python, because two kinds of state go through these rules: the objects of `syscalls/state.py`, call by call, and
the records of `file_calls.py`, compiled.  Both have the same fields, which the former explains.
"""

from scmsim.core.records import APPENDS, OFFSET_UNKNOWN, SYNCHRONOUS

# doubts that a line leaves which was not understood; bits of a flag beside those of a row, counted and removed before it is stored
POSITION_LOST, LENGTH_LOST, FILE_LOST = (1 << i for i in range(40, 43))
LOST = POSITION_LOST | LENGTH_LOST | FILE_LOST

HERE = -1  # offset of a transfer at the position
CREAT, EXCL, TRUNC, APPEND, SYNC, CLOEXEC, DIR = (1 << i for i in range(7))  # flags of an open
UNSEEN, ABSENT, PRESENT = range(3)  # what is known about a name
OPENED, NEW, EMPTIED, ASSUMED = range(
    4
)  # what an open does: open a file that was there, or make one, in three degrees of certainty
NONE = -1


def holds(node, end, oldest):
    """A read or seek has shown that the file has at least `end` bytes now.

    Returns the row of its CREATE if that turns out to have been an OPEN, else NONE; rows before `oldest` are written already.
    """
    row = NONE
    if end > node.written:
        if node.row >= 0:
            row, node.row = node.row, -1
            if row >= oldest:
                node.first, node.open_question, node.exact = 0, True, False
        if node.open_question and end > node.first:
            node.first = end
    if end > node.length:
        node.length = end
    return row


def set_length(node, length):
    """The length of the file is known from here on."""
    node.length, node.exact, node.open_question, node.row = length, True, False, -1
    node.doubt &= ~LENGTH_LOST


def seek(found, position):
    """Move to a position."""
    found.position, found.doubt = position, 0


def read(node, found, at, asked, count, oldest):
    """`count` of `asked` bytes (0: not known how many) were read; returns their offset, its doubt, and what `holds` returns."""
    start, doubt, row = at, 0, NONE
    if at == HERE:
        start, doubt = found.position, found.doubt
        found.position = start + count
    if count > 0 and not node.exact:
        row = holds(node, start + count, oldest)
        if count < asked and not doubt:  # a short read of a file ends at its end
            set_length(node, start + count)
    return start, doubt, row


def write(node, found, at, count, flag):
    """`count` bytes were written; with O_APPEND always at the end.  Returns their offset and the flags of the row."""
    start = at
    if found.synchronous:
        flag |= SYNCHRONOUS
    if found.append or flag & APPENDS:
        doubt = 0 if node.exact else OFFSET_UNKNOWN
        start, flag = node.length, flag | APPENDS | doubt
        if at == HERE and count > 0:  # generic_write_checks returns before it looks at O_APPEND
            found.position, found.doubt = start + count, doubt
    elif at == HERE:
        start, flag = found.position, flag | found.doubt
        found.position = start + count
    if count > 0:  # an empty write beyond the end leaves the length
        node.written, node.length = max(node.written, start + count), max(node.length, start + count)
    return start, flag


def extend(node, end):
    """Make the file at least `end` bytes long without writing: an fallocate."""
    node.written, node.length = max(node.written, end), max(node.length, end)


def shift(node, by):
    """Change the length by bytes that an fallocate inserted or removed."""
    node.length, node.written = max(node.length + by, 0), max(node.written + by, 0)


def opened(flags, known, in_new):
    """What an open did, of a name about which this is `known`; `in_new`: in a directory that the trace has made."""
    if not flags & CREAT or (known == PRESENT and not flags & EXCL):
        return OPENED
    if flags & EXCL or known != UNSEEN or in_new:
        return NEW
    return EMPTIED if flags & TRUNC else ASSUMED
