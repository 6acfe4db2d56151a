"""Handle calls that fail before they reach a file system: I/O on a directory (EISDIR), beyond the largest file (EFBIG).

A failing call moves no bytes.  It is replayed as a call of length 0, which costs only the entry into the kernel, and is
counted under the error's name.

A read or write longer than Linux moves in one call (MAX_RW_COUNT) is replayed with that length, and counted.

Rows that no model can replay (scmsim.trace.rules) raise UsageError here, in the same pass over the batch.

Source: Linux fs/read_write.c (a directory has no data; vfs_read and vfs_write cut at MAX_RW_COUNT), mm/filemap.c:
generic_write_checks, fs/open.c: vfs_fallocate, fs/attr.c: inode_newsize_ok (`s_maxbytes` of the file system), fs/open.c:
vfs_truncate (EISDIR).  Simplified: a write that passes the limit fails as a whole.
"""

import numpy as np

from scmsim.core.records import FALLOCATE, MKDIR, OPS, READ, TRUNCATE, WRITE, Files
from scmsim.jit import kernel
from scmsim.trace import rules

LARGEST_FILE = rules.FILE_END - 4096  # bytes; Linux allows 2^63 - 1 (MAX_LFS_FILESIZE), the models' tables less
MOST_AT_ONCE = (1 << 31) - 4096  # most bytes that one read or write moves: MAX_RW_COUNT
FAILS, BROKEN = 1, 2
DIRECTORY, BEYOND, LONG = 1, 2, 3
_OPS, _THREAD_BYTES, _HALF = len(OPS), rules.THREAD_BYTES, rules.FILE_END // 2
_OFFSET_OF_OP, _FILE_OF_OP = rules.OFFSET_OF_OP, rules.FILE_OF_OP


@kernel
def found_in(ops, is_dir, most):
    """Return which slower checks a batch needs, as bits FAILS and BROKEN; most batches need no check.

    FAILS: a call may fail or be overlong.  BROKEN: a row may break a rule of scmsim.trace.rules.
    """
    found = 0
    for i in range(ops.size):
        o = ops[i]
        if o.op < 0 or o.op >= _OPS or o.length < 0 or o.offset < -1 or o.thread < 0 or o.buffer < 0:
            return BROKEN
        if o.file < -1 or o.file >= is_dir.size or o.file2 < -1 or o.file2 >= is_dir.size or o.buffer >= _THREAD_BYTES:
            return BROKEN
        if (o.file < 0 and _FILE_OF_OP[o.op]) or (o.offset < 0 and _OFFSET_OF_OP[o.op]):
            return BROKEN
        if o.length > _HALF or o.offset > _HALF:
            found |= BROKEN
        if o.op == MKDIR:
            if not is_dir[o.file]:
                found |= FAILS  # `mark` must note that the object is a directory from here on
        elif o.op == TRUNCATE:
            if o.new_size > most or is_dir[o.file]:
                found |= FAILS
        elif o.length > 0 and (o.op == READ or o.op == WRITE or o.op == FALLOCATE):
            if (o.op != READ and o.offset > most - o.length) or is_dir[o.file]:
                found |= FAILS
            if o.op != FALLOCATE and o.length > MOST_AT_ONCE:
                found |= FAILS
    return found


@kernel
def mark(ops, is_dir, most, out):
    """Set out[i] to DIRECTORY or BEYOND if call i fails, to LONG if it is overlong, else 0; note new directories."""
    for i in range(ops.size):
        o = ops[i]
        out[i] = 0
        if o.op == MKDIR:
            is_dir[o.file] = True
        moves = o.length > 0 and (o.op == READ or o.op == WRITE or o.op == FALLOCATE)
        if moves or o.op == TRUNCATE:
            if is_dir[o.file]:
                out[i] = DIRECTORY
            elif o.op != READ and (o.offset > most - o.length if moves else o.new_size > most):
                out[i] = BEYOND
            elif moves and o.op != FALLOCATE and o.length > MOST_AT_ONCE:
                out[i] = LONG


class FailingCalls:
    """Replaces and counts the failing and overlong calls of one replay; files of the file system have at most `most_bytes`."""

    def __init__(self, files: Files, most_bytes: int = LARGEST_FILE) -> None:
        self._is_dir, self._most = np.array(files.is_dir, bool), most_bytes
        self.counts: dict[str, int] = {}
        self.long = 0  # reads and writes that were shortened to MOST_AT_ONCE
        self.rows = 0  # rows of earlier batches

    def replace(self, batch: np.recarray) -> np.recarray:
        """Return the batch, or a copy in which failing calls have length 0 and overlong calls are shortened.

        Raises UsageError for a row that no model can replay.
        """
        found = found_in(batch.view(np.ndarray), self._is_dir, self._most)
        if found & BROKEN:
            rules.check_rows(batch, len(self._is_dir), self.rows)
        self.rows += len(batch)
        if not found & FAILS:
            return batch
        failing = np.zeros(len(batch), np.int64)
        mark(batch.view(np.ndarray), self._is_dir, self._most, failing)
        if not failing.any():
            return batch
        for name, code in (("EISDIR", DIRECTORY), ("EFBIG", BEYOND)):
            if count := int((failing == code).sum()):
                self.counts[name] = self.counts.get(name, 0) + count
        changed, long = batch.copy(), failing == LONG
        fails = (failing > 0) & ~long
        changed["op"][fails & (batch.op == TRUNCATE)] = FALLOCATE
        changed["offset"][fails], changed["length"][fails], changed["length"][long] = 0, 0, MOST_AT_ONCE
        self.long += int(long.sum())
        return changed
