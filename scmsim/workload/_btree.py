"""A SQLite table b-tree that grows at its right end: which pages an insert changes, and which leaf holds a row.

Rows are (INTEGER PRIMARY KEY, BLOB of one length) with ids 1, 2, 3, ...; pages of 4096 bytes without a reserved tail.
Formats: SQLite's file format document, sections 1.6 (pages, cells) and 2 (records); growth at the right end: btree.c,
balance_quick (the new row alone goes to a fresh leaf, the full one is left as it is).  A full interior page gets a fresh sibling for the new child only;
SQLite spreads its children over up to three siblings instead, so with more than one interior page (about 500 leaves) it can
be another interior page that changes; the number of interior pages is the same.
"""

import numpy as np

PAGE = 4096
SCHEMA_PAGE, ROOT = 1, 2  # page numbers start at 1
LARGEST_BLOB = 4000  # bytes: a longer row would need overflow pages (4061 bytes of payload, minus headers)
_LEAF_ROOM, _INTERIOR_ROOM = PAGE - 8, PAGE - 12  # bytes behind the page header
_POINTER = 2  # bytes of a cell's entry in the page's pointer array


class Tree:
    """The table; `leaves` and `first` (page number, first row id) grow with its leaves.

    Parameters
    ----------
    blob : int
        Bytes of the blob of each row.
    """

    def __init__(self, blob: int) -> None:
        serial = varint(2 * blob + 12)
        payload = 2 + serial + blob  # header size, NULL for the id, the blob's type, the blob
        self.cell = varint(payload) + payload + _POINTER  # without the row id
        self.rows, self.pages = 0, ROOT
        self.leaves, self.first = [ROOT], [1]
        self.free = _LEAF_ROOM  # bytes in the rightmost leaf
        self.path: list[list[int]] = []  # rightmost interior pages, [page, free bytes], the root first
        self.interior: dict[int, int] = {}  # a leaf's page -> the lowest interior page, where that is not the root

    def insert(self, rows: int) -> set[int]:
        """Append rows in one transaction; returns the numbers of the pages it changes, new ones included."""
        changed: set[int] = set()
        before = self.pages
        while rows:
            size = self.cell + varint(self.rows + 1)
            fits = min(rows, self.free // size, _last_of_length(self.rows + 1) - self.rows)
            if not fits:
                self._new_leaf(changed)
                continue
            changed.add(self.leaves[-1])
            self.rows, self.free, rows = self.rows + fits, self.free - fits * size, rows - fits
        return changed | {SCHEMA_PAGE} if self.pages > before else changed  # page 1 holds the number of pages

    def pages_of(self, ids: np.ndarray) -> np.ndarray:
        """Leaf pages of row ids."""
        return np.array(self.leaves)[np.searchsorted(np.array(self.first), ids, side="right") - 1]

    def above(self, leaf: int) -> list[int]:
        """Interior pages between the root (included) and a leaf."""
        return [] if not self.path else [ROOT] if leaf not in self.interior else [ROOT, self.interior[leaf]]

    def _new_page(self, changed: set[int]) -> int:
        self.pages += 1
        changed.add(self.pages)
        return self.pages

    def _new_leaf(self, changed: set[int]) -> None:
        if not self.path:  # the root was the only leaf: its rows move to a new page below it
            changed.add(ROOT)
            self.leaves[0] = self._new_page(changed)
            self.path = [[ROOT, _INTERIOR_ROOM]]
        self.leaves.append(self._new_page(changed))
        self.first.append(self.rows + 1)
        self.free = _LEAF_ROOM
        self._enter(len(self.path) - 1, changed)
        if len(self.path) > 1:
            self.interior[self.leaves[-1]] = self.path[-1][0]

    def _enter(self, level: int, changed: set[int]) -> None:
        """Put the divider of a new child into the rightmost interior page of a level."""
        size = 4 + varint(self.rows) + _POINTER
        if level < 0:
            self._deepen(changed)
            level = 0
        if self.path[level][1] < size:
            if level == 0:
                self._deepen(changed)
                level = 1
            self.path[level] = [self._new_page(changed), _INTERIOR_ROOM]
            self._enter(level - 1, changed)
            return
        changed.add(self.path[level][0])
        self.path[level][1] -= size

    def _deepen(self, changed: set[int]) -> None:
        """The root is full: its children move to a new page below it."""
        moved = self._new_page(changed)
        if len(self.path) == 1:
            self.interior = dict.fromkeys(self.leaves[:-1], moved)
        self.path = [[ROOT, _INTERIOR_ROOM], [moved, self.path[0][1]], *self.path[1:]]
        changed.add(ROOT)


def varint(value: int) -> int:
    """Bytes of a SQLite varint: 7 bits in each, 9 bytes at most."""
    return min(max(1, -(-value.bit_length() // 7)), 9)


def _last_of_length(value: int) -> int:
    """The largest number whose varint is as long as that of `value`."""
    return (1 << 7 * varint(value)) - 1
