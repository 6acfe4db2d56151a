"""The size of every file while a trace runs: what append, overwrite and the starting state of a cut are told from."""

import numpy as np

from scmsim.records import (
    CREATE, FALLOCATE, FREE, KEEP_SIZE, MALLOC, MKDIR, PUNCH_HOLE, RENAME, RMDIR, TRUNCATE, UNLINK, WRITE, Files,
)  # fmt: skip

GONE = -1  # size of a file that does not exist


class Sizes:
    """Sizes in bytes by object id, `GONE` where the object does not exist; follows batches in trace order."""

    def __init__(self, files: Files) -> None:
        self.now = np.array(files.first_size, np.int64)

    def follow(self, batch: np.ndarray) -> np.ndarray:
        """Take a batch into account; returns the size of each row's file just before it (0 for no file)."""
        before = np.zeros(len(batch), np.int64)
        file = batch["file"].astype(np.int64)
        rows = np.flatnonzero(file >= 0)
        if not len(rows):
            return before
        value, sets = _effects(batch[rows])
        order = np.argsort(file[rows], kind="stable")
        rows, value, sets = rows[order], value[order], sets[order]
        first = np.flatnonzero(np.diff(file[rows], prepend=-1))
        # one row more for each file, before its own: the size it has now
        value = np.insert(value, first, self.now[file[rows[first]]])
        sets = np.insert(sets, first, True)
        after = _running_maximum(value, sets)
        own = np.ones(len(value), bool)
        own[first + np.arange(len(first))] = False
        place = np.flatnonzero(own)
        before[rows] = after[place - 1]
        last = np.append(first[1:], len(rows)) - 1
        self.now[file[rows[last]]] = after[place[last]]
        replaced = batch["file2"][(batch["op"] == RENAME) & (batch["file2"] >= 0)]
        self.now[replaced] = GONE
        return before


def _effects(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value, whether the size becomes it; else the size is at least it) of each row."""
    op, end = rows["op"], rows["offset"].astype(np.int64) + rows["length"]
    value = np.full(len(rows), GONE, np.int64)
    grows = (op == WRITE) & (rows["length"] > 0)
    grows |= (op == FALLOCATE) & ((rows["flag"] & (KEEP_SIZE | PUNCH_HOLE)) == 0)
    value[grows] = end[grows]
    value[op == TRUNCATE] = rows["offset"][op == TRUNCATE]
    value[(op == CREATE) | (op == MKDIR)] = 0
    value[op == MALLOC] = rows["length"][op == MALLOC]
    return value, np.isin(op, (TRUNCATE, CREATE, MKDIR, MALLOC, UNLINK, RMDIR, FREE))


def _running_maximum(value: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Maximum so far within each run that begins at a `starts`; by rank, since the values may be as large as 2^62."""
    ranked, rank = np.unique(value, return_inverse=True)
    key = np.cumsum(starts) * len(ranked) + rank
    result: np.ndarray = ranked[np.maximum.accumulate(key) % len(ranked)]
    return result
