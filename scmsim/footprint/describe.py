"""What is known of an operation before a model has seen it: its kind, whether its file grows, what it gives up, whose inode it is.

Inodes have numbers: files from before the trace have the first ones in their order, a new file has that freed last or the next.
"""

import numpy as np

from scmsim.core.records import FALLOCATE, RENAME, RMDIR, TRUNCATE, UNLINK, WRITE, Files
from scmsim.jit import kernel, subroutine

GROWS = 1 << 62  # a mechanism that no model has: the file becomes longer
NONE = -1

OPERATION = np.dtype(
    (
        np.record,
        [
            ("kind", "i8"),  # number in records.OPS
            ("sites", "i8"),  # GROWS or 0
            ("freed", "i8"),  # bytes that the file loses
            ("inode", "i8"),  # number, NONE for no file
        ],
    )
)
FILE = np.dtype(
    (np.record, [("length", "i8"), ("inode", "i8"), ("free", "i8")])
)  # free: a stack of numbers of freed inodes
INODES = np.dtype((np.record, [("used", "i8"), ("free", "i8")]))  # numbers ever in use, numbers on the stack


def begin(files: Files) -> tuple[np.recarray, np.ndarray]:
    """Records of INODES and of each FILE of a trace."""
    state, known = np.zeros(1, INODES).view(np.recarray), np.zeros(len(files), FILE)
    known["length"] = np.maximum(files.first_size, 0)
    known["inode"] = NONE
    there = np.flatnonzero(files.first_size >= 0)
    known["inode"][there] = np.arange(len(there))
    state.used[0] = len(there)
    return state, known


@kernel
def describe(state, known, batch, out):
    """Fill in an OPERATION for each of a batch."""
    s = state[0]
    for i in range(len(batch)):
        op = batch[i]
        out[i].kind, out[i].sites, out[i].freed, out[i].inode = op.op, 0, 0, NONE
        if op.file < 0:
            continue
        file = known[op.file]
        if file.inode == NONE:
            _new(s, known, file)
        out[i].inode = file.inode
        if op.op == WRITE or op.op == FALLOCATE:
            out[i].sites = GROWS if op.offset + op.length > file.length else 0
            file.length = max(file.length, op.offset + op.length)
        elif op.op == TRUNCATE:
            out[i].freed = max(file.length - op.offset, 0)
            file.length = op.offset
        elif op.op == UNLINK or op.op == RMDIR:
            out[i].freed = file.length
            _gone(s, known, file)
        elif op.op == RENAME and op.file2 >= 0 and op.file2 != op.file:
            out[i].freed = known[op.file2].length
            _gone(s, known, known[op.file2])


@subroutine
def _new(s, known, file):
    """The file has the number that was freed last, or the next."""
    if s.free > 0:
        s.free -= 1
        file.inode = known[s.free].free
    else:
        file.inode = s.used
        s.used += 1


@subroutine
def _gone(s, known, file):
    """The file's number is free."""
    file.length = 0
    if file.inode != NONE:
        known[s.free].free = file.inode
        s.free += 1
        file.inode = NONE
