"""Count the distinct pages that a trace touches, with a bounded number of page ranges in memory."""

import numpy as np

from scmsim.trace._sizes import running_maximum

PAGE = 4 << 10  # bytes per page
MOST = 1 << 21  # maximum number of ranges in a set (24 bytes each); a set that exceeds it ignores further touches


class Pages:
    """The set of touched pages, over all objects (files, or the memory of threads).

    Attributes
    ----------
    complete : bool
        False once more than `most` separate ranges were touched; `count` is then a lower bound.
    """

    def __init__(self, most: int = MOST) -> None:
        self.most, self.complete = most, True
        self._ranges = np.zeros((0, 3), np.int64)  # object, first page, page after the last
        self._new: list[np.ndarray] = []
        self._waiting = 0

    def add(self, thing: np.ndarray, offset: np.ndarray, length: np.ndarray) -> None:
        """Add the pages of the bytes [offset, offset + length) of objects; ignore empty ranges and negative offsets."""
        some = (length > 0) & (offset >= 0)
        if not some.any() or not self.complete:
            return
        offset, length = offset[some].astype(np.int64), length[some].astype(np.int64)
        ranges = np.column_stack([thing[some], offset // PAGE, (offset + length - 1) // PAGE + 1])
        self._new.append(_merged(ranges))
        self._waiting += len(self._new[-1])
        if self._waiting > len(self._ranges) // 2 + (1 << 18):
            self._settle()

    def count(self) -> int:
        """Return the number of pages in the set."""
        self._settle()
        return int((self._ranges[:, 2] - self._ranges[:, 1]).sum())

    def _settle(self) -> None:
        if self._new:
            self._ranges = _merged(np.concatenate([self._ranges, *self._new]))
        self._new, self._waiting = [], 0
        self.complete = self.complete and len(self._ranges) <= self.most


def _merged(ranges: np.ndarray) -> np.ndarray:
    """Return the sorted union of ranges (object, first, end), with overlapping and adjacent ranges joined."""
    things, span = int(ranges[:, 0].max()) + 1, int(ranges[:, 1].max()) + 1
    if things * span < 1 << 62:
        order = np.argsort(ranges[:, 0] * span + ranges[:, 1])
    else:
        order = np.lexsort((ranges[:, 1], ranges[:, 0]))
    thing, first, end = ranges[order].T
    furthest = running_maximum(end, np.diff(thing, prepend=-1) != 0)
    starts = np.ones(len(ranges), bool)
    starts[1:] = (thing[1:] != thing[:-1]) | (first[1:] > furthest[:-1])
    at = np.flatnonzero(starts)
    return np.column_stack([thing[at], first[at], furthest[np.append(at[1:], len(ranges)) - 1]])
