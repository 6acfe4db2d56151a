"""Describe an operation before a model replays it: its kind, its inode, whether its file grows, how many bytes it frees.

Inodes have numbers: files from before the trace get the first numbers in order; a new file gets the number freed last, or else
the next unused one.
"""

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CREATE,
    ENTRY_BYTES,
    FALLOCATE,
    FSYNC,
    LINK,
    MKDIR,
    MMAP,
    MSYNC,
    MUNMAP,
    OPEN,
    READ,
    READDIR,
    REMAPPED,
    RENAME,
    RMDIR,
    SETUP,
    SYNC,
    SYNCHRONOUS,
    TRUNCATE,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
    Files,
)
from scmsim.jit import kernel, subroutine

# Features of the operation itself, stored as bits above those of the models' mechanisms.
# The call extends the file; or a close follows an extension: the kernel frees the blocks that it had preallocated
# (ext4_discard_preallocations, xfs_free_eofblocks).
GROWS = 1 << 62
STILL_REFERENCED = (
    1 << 61
)  # after the close or munmap, a mapping or a descriptor is left: the kernel keeps the open file
FIRST = 1 << 60  # the first read after a change: it sets the access time (relatime)
# At least MANY inodes have changes that are not yet durable.  Until an fsync or sync, the journal's data for them piles up: in XFS
# two log vectors of about 1 KiB per inode, and busy extents that each allocation searches.  The bound is ours: from 256 inodes on,
# the log vectors alone fill more pages than a first-level TLB has entries.
MANY_DIRTY_INODES = 1 << 59
MANY = 256
# A readdir returns at least NAMES names, each with its own object or record.  The bound is ours: half the names of the shortest
# measured call (27 and the dots), not counting the last call, which finds no further name.
LONG_READDIR = 1 << 58
NAMES = 14
OP_FEATURES = GROWS | STILL_REFERENCED | FIRST | MANY_DIRTY_INODES | LONG_READDIR
NONE = -1

OPERATION = np.dtype(
    (
        np.record,
        [
            ("kind", "i8"),  # number in records.OPS
            ("sites", "i8"),  # bits of OP_FEATURES
            ("freed", "i8"),  # bytes that the file loses
            ("inode", "i8"),  # number, NONE for no file
            ("file", "i8"),  # row of the file, NONE for no file
            # number, in the order of opening, of the open file that the call makes or uses; NONE for neither
            ("opening", "i8"),
        ],
    )
)
FILE = np.dtype(
    (
        np.record,
        [
            ("length", "i8"),
            ("inode", "i8"),
            ("links", "i8"),  # names besides the first
            ("opened", "i8"),  # descriptors
            ("grown", "i8"),  # GROWS if it grew since the last close that left no descriptor, else 0
            ("unread", "i8"),  # FIRST if it was changed since the last read, else 0
            ("mapped", "i8"),  # mappings
            ("opening", "i8"),  # number of its last open file
            ("free", "i8"),  # element of a stack: numbers of freed inodes
            ("changed", "i8"),  # by the inode's number: 1 if the inode was changed since the last sync
            ("pile", "i8"),  # element of a stack: numbers of changed inodes
        ],
    )
)
INODES = np.dtype(
    (
        np.record,
        [
            ("used", "i8"),  # inode numbers used so far
            ("free", "i8"),  # numbers on the stack of freed inodes
            ("openings", "i8"),  # files opened so far
            ("changed", "i8"),  # inodes changed since the last sync: numbers on the stack `pile`
        ],
    )
)


def begin(files: Files) -> tuple[np.recarray, np.ndarray]:
    """Return the initial INODES record and a FILE record for each file of a trace."""
    state, known = np.zeros(1, INODES).view(np.recarray), np.zeros(len(files), FILE)
    known["length"] = np.maximum(files.first_size, 0)
    known["inode"], known["opening"] = NONE, NONE
    there = np.flatnonzero(files.first_size >= 0)
    known["inode"][there] = np.arange(len(there))
    known["unread"] = FIRST
    state.used[0] = len(there)
    return state, known


@kernel
def describe(state, known, batch, out):
    """Fill in an OPERATION for each operation of a batch."""
    s = state[0]
    for i in range(len(batch)):
        op = batch[i]
        out[i].kind, out[i].freed, out[i].inode = op.op, 0, NONE
        out[i].file, out[i].opening = op.file, NONE
        out[i].sites = MANY_DIRTY_INODES if s.changed >= MANY else 0
        is_touch = op.op == ULOAD or op.op == USTORE  # first, because some traces consist almost only of touches
        durable = not is_touch and (is_sync(op.op) or (op.op == WRITE and op.flag & SYNCHRONOUS))
        if durable:
            _sync(s, known)
        if op.file < 0:
            continue
        file = known[op.file]
        if op.op == OPEN or op.op == CREATE:
            file.opening = s.openings
            s.openings += 1
        if uses_open_file(op.op):
            out[i].opening = file.opening
        if file.inode == NONE:
            _new(s, known, file)
        out[i].inode = file.inode
        if is_touch:
            continue
        if changes(op.op) and not durable and not op.flag & SETUP:
            _change(s, known, file.inode)
        if op.op == WRITE or op.op == FALLOCATE:
            grows = GROWS if op.offset + op.length > file.length else 0
            out[i].sites |= grows
            file.grown |= grows
            file.unread = FIRST
            file.length = max(file.length, op.offset + op.length)
        elif op.op == TRUNCATE:
            out[i].freed = max(file.length - op.new_size, 0)
            file.length = op.new_size
            file.unread = FIRST
        elif op.op == READ:
            out[i].sites |= file.unread
            file.unread = 0
        elif op.op == READDIR:
            out[i].sites |= LONG_READDIR if op.entry_bytes >= NAMES * ENTRY_BYTES else 0
        elif op.op == UNLINK or op.op == RMDIR:
            out[i].freed = _unnamed(s, known, file)
        elif op.op == RENAME and op.replaced >= 0 and op.replaced != op.file:
            out[i].freed = _unnamed(s, known, known[op.replaced])
        elif op.op == LINK:
            file.links += 1
        else:
            out[i].sites |= _referred(file, op.op, op.flag)


@subroutine
def is_sync(op):
    """Return whether a call makes all earlier changes durable: a journal commits them together."""
    return op == FSYNC or op == SYNC or op == MSYNC


@subroutine
def changes(op):
    """Return whether a call changes a file or its name."""
    if op == WRITE or op == FALLOCATE or op == TRUNCATE or op == CREATE or op == UNLINK:
        return True
    return op == RENAME or op == LINK or op == MKDIR or op == RMDIR


@subroutine
def _change(s, known, inode):
    """Note that an inode has a change that is not yet durable."""
    if known[inode].changed == 0:
        known[inode].changed = 1
        known[s.changed].pile = inode
        s.changed += 1


@subroutine
def _sync(s, known):
    """Mark all changes as durable.  With a counter of syncs instead, the state of a repeating trace would not recur."""
    for i in range(s.changed):
        known[known[i].pile].changed = 0
    s.changed = 0


@subroutine
def uses_open_file(op):
    """Return whether a call makes an open file, or uses one through its descriptor or mapping."""
    if op == OPEN or op == CREATE or op == CLOSE or op == READ or op == WRITE:
        return True
    if op == MMAP or op == MUNMAP or op == MSYNC or op == ULOAD or op == USTORE:
        return True
    return op == FSYNC or op == TRUNCATE or op == FALLOCATE


@subroutine
def _referred(file, op, flag):
    """Count descriptors and mappings; return GROWS for a close after growth, STILL_REFERENCED if the kernel keeps the open file."""
    if op == OPEN or op == CREATE:
        file.opened += 1
    elif op == MMAP and not flag & REMAPPED:
        file.mapped += 1
    elif op == CLOSE:
        file.opened = max(file.opened - 1, 0)
        grown = file.grown
        if file.opened == 0:
            file.grown = 0
        return grown | (STILL_REFERENCED if file.mapped > 0 else 0)
    elif op == MUNMAP:
        file.mapped = max(file.mapped - 1, 0)
        return STILL_REFERENCED if file.opened > 0 else 0
    return 0


@subroutine
def _new(s, known, file):
    """Give the file the inode number that was freed last, or the next unused one."""
    if s.free > 0:
        s.free -= 1
        file.inode = known[s.free].free
    else:
        file.inode = s.used
        s.used += 1


@subroutine
def _unnamed(s, known, file):
    """Remove a name of the file; with the last name, free the inode's number and return the file's length, else 0."""
    if file.links > 0:
        file.links -= 1
        return 0
    freed = file.length
    file.unread = FIRST
    file.length = 0
    if file.inode != NONE:
        known[s.free].free = file.inode
        s.free += 1
        file.inode = NONE
    return freed
