"""Calls that fail before they reach a file system: data of a directory (EISDIR), bytes beyond the largest file (EFBIG).

Such a call moves nothing; it is replayed as one of no bytes, which costs its way into the kernel, and counted by the error's name.
Source: Linux fs/read_write.c (a directory has no data), mm/filemap.c: generic_write_checks, fs/open.c: vfs_fallocate, fs/attr.c:
inode_newsize_ok (`s_maxbytes` of the file system).  Simplified: a write that passes the limit fails as a whole.
"""

import numpy as np

from scmsim.records import FALLOCATE, READ, TRUNCATE, WRITE, Files

LARGEST_FILE = (1 << 63) - 1  # bytes (MAX_LFS_FILESIZE)


class Refusals:
    """The failing calls of one replay.

    Parameters
    ----------
    files : Files
        Side table of the trace.
    most_bytes : int
        Size of the largest file of the file system.
    """

    def __init__(self, files: Files, most_bytes: int = LARGEST_FILE) -> None:
        self._is_dir = np.asarray(files.is_dir, bool)
        self._any_directory, self._most = bool(self._is_dir.any()), most_bytes
        self.counts: dict[str, int] = {}

    def screen(self, batch: np.recarray) -> np.recarray:
        """The operations of a batch, the failing ones as calls of no bytes; the batch itself where none fails."""
        changed = batch
        for name, failing in (("EISDIR", self._directories(batch)), ("EFBIG", self._beyond(batch))):
            if failing is not None and failing.any():
                self.counts[name] = self.counts.get(name, 0) + int(failing.sum())
                changed = changed.copy() if changed is batch else changed
                changed["op"][failing & (batch.op == TRUNCATE)] = FALLOCATE
                changed["offset"][failing], changed["length"][failing] = 0, 0
        return changed

    def _directories(self, batch: np.recarray) -> np.ndarray | None:
        if not self._any_directory:
            return None
        on_directory = (batch.file >= 0) & self._is_dir[np.maximum(batch.file, 0)]
        return on_directory & ((batch.op == READ) | (batch.op == WRITE)) & (batch.length > 0)

    def _beyond(self, batch: np.recarray) -> np.ndarray | None:
        if int(batch.offset.max(initial=0)) <= self._most - int(batch.length.max(initial=0)):
            return None
        grows = ((batch.op == WRITE) | (batch.op == FALLOCATE)) & (batch.length > 0)
        grows &= batch.offset > self._most - batch.length
        return grows | (batch.op == TRUNCATE) & (batch.offset > self._most)
