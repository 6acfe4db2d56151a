"""Calls that fail before they reach a file system: data of a directory (EISDIR), bytes beyond the largest file (EFBIG).

Such a call moves nothing.  It is replayed as a call of no bytes, which costs its way into the kernel, and is counted by the error's
name.

Source: Linux fs/read_write.c (a directory has no data), mm/filemap.c: generic_write_checks, fs/open.c: vfs_fallocate, fs/attr.c:
inode_newsize_ok (`s_maxbytes` of the file system).  Simplified: a write that passes the limit fails as a whole.
"""

import numpy as np

from scmsim.core.records import FALLOCATE, READ, TRUNCATE, WRITE, Files
from scmsim.jit import kernel

LARGEST_FILE = (1 << 63) - 1  # bytes (MAX_LFS_FILESIZE)


@kernel
def any_fails(ops, is_dir, most):
    """Whether any operation of a batch fails: looked for in every batch, found in hardly any."""
    for i in range(ops.size):
        o = ops[i]
        if o.op == TRUNCATE:
            if o.offset > most:
                return True
        elif o.length > 0 and (o.op == READ or o.op == WRITE or o.op == FALLOCATE):
            if o.op != READ and o.offset > most - o.length:
                return True
            if o.op != FALLOCATE and o.file >= 0 and is_dir[o.file]:
                return True
    return False


class FailingCalls:
    """The failing calls of one replay.

    Parameters
    ----------
    files : Files
        Side table of the trace.
    most_bytes : int
        Size of the largest file of the file system.
    """

    def __init__(self, files: Files, most_bytes: int = LARGEST_FILE) -> None:
        self._is_dir, self._most = np.asarray(files.is_dir, bool), most_bytes
        self.counts: dict[str, int] = {}

    def replace(self, batch: np.recarray) -> np.recarray:
        """The operations of a batch, the failing ones as calls of no bytes; the batch itself where none fails."""
        if not any_fails(batch.view(np.ndarray), self._is_dir, self._most):
            return batch
        changed = batch.copy()
        for name, failing in (("EISDIR", self._directories(batch)), ("EFBIG", self._beyond(batch))):
            if failing.any():
                self.counts[name] = self.counts.get(name, 0) + int(failing.sum())
                changed["op"][failing & (batch.op == TRUNCATE)] = FALLOCATE
                changed["offset"][failing], changed["length"][failing] = 0, 0
        return changed

    def _directories(self, batch: np.recarray) -> np.ndarray:
        on_directory = (batch.file >= 0) & self._is_dir[np.maximum(batch.file, 0)]
        return on_directory & ((batch.op == READ) | (batch.op == WRITE)) & (batch.length > 0)

    def _beyond(self, batch: np.recarray) -> np.ndarray:
        grows = ((batch.op == WRITE) | (batch.op == FALLOCATE)) & (batch.length > 0)
        grows &= batch.offset > self._most - batch.length
        return grows | (batch.op == TRUNCATE) & (batch.offset > self._most)
