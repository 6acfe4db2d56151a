"""Derive facts about files and descriptors from calls: positions, lengths, and whether a file existed before the trace.

Plain Python, because the rules apply to two kinds of state: the objects of `syscalls/state.py`, call by call, and
the records of `file_calls.py`, compiled.  Both have the same fields, which `syscalls/state.py` explains.
"""

from scmsim.core.records import APPENDS, OFFSET_UNKNOWN, SYNCHRONOUS

# doubts caused by a line that was not understood: extra bits of a row's flags, counted and removed before it is stored
POSITION_LOST, LENGTH_LOST, FILE_LOST = (1 << i for i in range(40, 43))
LOST = POSITION_LOST | LENGTH_LOST | FILE_LOST

HERE = -1  # offset of a transfer at the current position
CREAT, EXCL, TRUNC, APPEND, SYNC, CLOEXEC, DIR = (1 << i for i in range(7))  # flags of an open
UNSEEN, ABSENT, PRESENT = range(3)  # known state of a name
OPENED, NEW, EMPTIED, ASSUMED = range(
    4
)  # effect of an open: opened an existing file; created one (certain); truncated or created one; created one (assumed)
NONE = -1


def holds(node, end, oldest):
    """Raise the file's known size to the `end` bytes that a read or seek has shown.

    Return the file's CREATE row if the file turns out to have existed, so that the row was an OPEN, else NONE. Rows
    before `oldest` are already written.
    """
    row = NONE
    if end > node.written:
        if node.row >= 0:  # the trace did not write these bytes, so the file existed before its assumed CREATE
            row, node.row = node.row, -1
            if row >= oldest:
                node.first, node.open_question, node.exact = 0, True, False
        if node.open_question and end > node.first:
            node.first = end
    if end > node.length:
        node.length = end
    return row


def set_length(node, length):
    """Set the length of the file, which is exactly known from here on."""
    node.length, node.exact, node.open_question, node.row = length, True, False, -1
    node.doubt &= ~LENGTH_LOST


def seek(found, position):
    """Set the position of a description, which is exactly known from here on."""
    found.position, found.doubt = position, 0


def read(node, found, at, asked, count, oldest):
    """Apply a read of `count` of `asked` bytes (0: unknown); return (offset, its uncertainty, result of `holds`)."""
    start, doubt, row = at, 0, NONE
    if at == HERE:
        start, doubt = found.position, found.doubt
        found.position = start + count
    if count > 0 and not node.exact:
        row = holds(node, start + count, oldest)
        if count < asked and not doubt:  # a short read ends at the end of the file
            set_length(node, start + count)
    return start, doubt, row


def write(node, found, at, count, flag):
    """Apply a write of `count` bytes, with O_APPEND always at the file's end; return its offset and the row's flags."""
    start = at
    if found.synchronous:
        flag |= SYNCHRONOUS
    if found.append or flag & APPENDS:  # Linux ignores even pwrite's offset (generic_write_checks)
        doubt = 0 if node.exact else OFFSET_UNKNOWN
        start, flag = node.length, flag | APPENDS | doubt
        if at == HERE and count > 0:  # generic_write_checks returns before it looks at O_APPEND
            found.position, found.doubt = start + count, doubt
    elif at == HERE:
        start, flag = found.position, flag | found.doubt
        found.position = start + count
    if count > 0:  # an empty write beyond the end leaves the length unchanged
        node.written, node.length = max(node.written, start + count), max(node.length, start + count)
    return start, flag


def extend(node, end):
    """Make the file at least `end` bytes long without a write, as fallocate does."""
    node.written, node.length = max(node.written, end), max(node.length, end)


def shift(node, by):
    """Change the length by `by` bytes that an fallocate inserted, or removed if negative."""
    node.length, node.written = max(node.length + by, 0), max(node.written + by, 0)


def opened(flags, known, in_new):
    """Return the effect of a successful open; `known`: state of the name; `in_new`: the trace created the directory."""
    if not flags & CREAT or (known == PRESENT and not flags & EXCL):
        return OPENED
    # O_EXCL succeeds only for a new file; a directory that the trace created had no unseen names
    if flags & EXCL or known != UNSEEN or in_new:
        return NEW
    return EMPTIED if flags & TRUNC else ASSUMED
