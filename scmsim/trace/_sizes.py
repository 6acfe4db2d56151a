"""Follow every file's size through a trace, to find appends and overwrites, and the sizes where `cut` starts."""

import numpy as np

from scmsim.core.records import (
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

_SETTING = (TRUNCATE, CREATE, MKDIR, MALLOC, UNLINK, RMDIR, FREE)  # operations that set the size
_CHANGING = (*_SETTING, WRITE, FALLOCATE, RENAME)


class Sizes:
    """Sizes in bytes by object id, `GONE` if the object does not exist; pass the batches in trace order."""

    def __init__(self, files: Files) -> None:
        self.now = np.array(files.first_size, np.int64)

    def follow(self, batch: np.ndarray) -> np.ndarray:
        """Apply a batch of rows; return each row's file size just before the row, 0 if the row cannot change a size."""
        before = np.zeros(len(batch), np.int64)
        row = np.flatnonzero(np.isin(batch["op"], _CHANGING) & (batch["file"] >= 0))
        rows = batch[row]
        file, (value, sets) = rows["file"].astype(np.int64), _effects(rows)
        own = len(row)
        # a rename also removes the file that it replaces: add an event for that file
        replaced = np.flatnonzero((rows["op"] == RENAME) & (rows["replaced"] >= 0) & (rows["replaced"] != file))
        if len(replaced):
            row = np.concatenate([row, row[replaced]])
            file = np.concatenate([file, rows["replaced"][replaced]])
            value = np.concatenate([value, np.full(len(replaced), GONE)])
            sets = np.concatenate([sets, np.ones(len(replaced), bool)])
        if not len(row):
            return before
        order = np.lexsort((row, file)) if len(replaced) else np.argsort(file, kind="stable")
        file = file[order]
        first = np.flatnonzero(np.diff(file, prepend=-1))
        # each file's events start with one that sets the file's current size
        value = np.insert(value[order], first, self.now[file[first]])
        sets = np.insert(sets[order], first, True)
        after = running_maximum(value, sets)
        place = np.arange(len(order)) + np.repeat(np.arange(len(first)), np.diff(first, append=len(order))) + 1
        asked = order < own
        before[row[order[asked]]] = after[place[asked] - 1]
        last = np.append(first[1:], len(file)) - 1
        self.now[file[last]] = after[place[last]]
        return before


def _effects(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (value, sets) for each row: it sets its file's size to `value`, or if not `sets`, raises it to at least `value`."""
    op, end = rows["op"], rows["offset"].astype(np.int64) + rows["length"]
    value = np.full(len(rows), GONE, np.int64)  # without `sets`, "at least GONE" has no effect
    grows = (op == WRITE) & (rows["length"] > 0)
    grows |= (op == FALLOCATE) & ((rows["flag"] & (KEEP_SIZE | PUNCH_HOLE)) == 0)
    value[grows] = end[grows]
    value[op == TRUNCATE] = rows["new_size"][op == TRUNCATE]
    value[(op == CREATE) | (op == MKDIR)] = 0
    value[op == MALLOC] = rows["length"][op == MALLOC]
    return value, np.isin(op, _SETTING)


def running_maximum(value: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the running maximum within each run; a run begins where `starts` is true. Values are at least -1."""
    run = np.cumsum(starts)
    span = int(value.max()) + 2
    if span * (len(value) + 1) < 1 << 62:
        result: np.ndarray = np.maximum.accumulate(run * span + value + 1) - run * span - 1
        return result
    ranked, rank = np.unique(value, return_inverse=True)  # values up to 2^62 would overflow: compare their ranks
    result = ranked[np.maximum.accumulate(run * len(ranked) + rank) % len(ranked)]
    return result
