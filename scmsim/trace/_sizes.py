"""The size of every file while a trace runs: what append, overwrite and the starting state of a cut are told from."""

import numpy as np

from scmsim.records import (
    CREATE,
    FALLOCATE,
    FREE,
    KEEP_SIZE,
    MALLOC,
    MKDIR,
    PUNCH_HOLE,
    RENAME,
    RMDIR,
    TRUNCATE,
    UNLINK,
    WRITE,
    Files,
)

GONE = -1  # size of a file that does not exist


class Sizes:
    """Sizes in bytes by object id, `GONE` where the object does not exist; follows batches in trace order."""

    def __init__(self, files: Files) -> None:
        self.now = np.array(files.first_size, np.int64)

    def follow(self, batch: np.ndarray) -> np.ndarray:
        """Take a batch into account; returns the size of each row's file just before it (0 for no file)."""
        before = np.zeros(len(batch), np.int64)
        named = np.flatnonzero(batch["file"] >= 0)
        replaced = np.flatnonzero((batch["op"] == RENAME) & (batch["file2"] >= 0) & (batch["file2"] != batch["file"]))
        value, sets = _effects(batch[named])
        # one event for each row, and one for the file that a rename replaces
        row = np.concatenate([named, replaced])
        file = np.concatenate([batch["file"][named], batch["file2"][replaced]]).astype(np.int64)
        value = np.concatenate([value, np.full(len(replaced), GONE)])
        sets = np.concatenate([sets, np.ones(len(replaced), bool)])
        if not len(row):
            return before
        order = np.lexsort((row, file))
        file = file[order]
        first = np.flatnonzero(np.diff(file, prepend=-1))
        # one event more for each file, before its own: the size it has now
        value = np.insert(value[order], first, self.now[file[first]])
        sets = np.insert(sets[order], first, True)
        after = _running_maximum(value, sets)
        place = np.delete(np.arange(len(value)), first + np.arange(len(first)))
        asked = order < len(named)
        before[row[order[asked]]] = after[place[asked] - 1]
        last = np.append(first[1:], len(file)) - 1
        self.now[file[last]] = after[place[last]]
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
