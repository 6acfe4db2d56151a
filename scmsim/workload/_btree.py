"""A SQLite table b-tree that grows at its right end: which pages an insert changes, and which leaf holds a row.

Rows are (INTEGER PRIMARY KEY, BLOB of one length) with ids 1, 2, 3, ...; pages of 4096 bytes without a reserved tail.
Formats: SQLite's file format document, sections 1.6 (pages, cells) and 2 (records).  Growth at the right end as in btree.c of
SQLite 3.40: only the new row goes to a fresh leaf and the full leaf stays unchanged (balance_quick); a full interior page
shares its children with up to two siblings on its left and, if all are full, a new page (balance_nonroot); a full root moves
its children to a new page below it (balance_deeper).
"""

from bisect import bisect_left

import numpy as np

PAGE = 4096
SCHEMA_PAGE, ROOT = 1, 2  # page numbers start at 1
LARGEST_BLOB = 4000  # bytes: a longer row would need overflow pages (4061 bytes of payload, minus headers)
_LEAF_ROOM, _INTERIOR_ROOM = PAGE - 8, PAGE - 12  # bytes after the page header
_POINTER = 2  # bytes of a cell's entry in the page's pointer array
_SIBLINGS = 3  # pages that are balanced together


class Node:
    """Interior page: `kids` (nodes, or page numbers of leaves), and `keys`: the largest row id below each kid but the last."""

    def __init__(self, page: int, keys: list[int], kids: "list[Node | int]") -> None:
        self.page, self.keys, self.kids = page, keys, kids
        self.used = sum(map(_divider, keys))  # bytes of the cells


class Tree:
    """B-tree of one table; each new leaf appends its page number to `leaves` and its first row id to `first`.

    Each row has a blob of `blob` bytes.
    """

    def __init__(self, blob: int) -> None:
        serial = varint(2 * blob + 12)
        payload = 2 + serial + blob  # header size, NULL for the id, the blob's type, the blob
        self.cell = varint(payload) + payload + _POINTER  # bytes of a leaf cell and its pointer, without the row id
        self.rows, self.pages = 0, ROOT
        self.leaves, self.first = [ROOT], [1]
        self.free = _LEAF_ROOM  # bytes in the rightmost leaf
        self.root: Node | None = None  # set once the root is not a leaf
        self.before = self.pages  # number of pages at the start of the transaction
        # pages that the transaction read to balance them: (number of old pages changed before the read, page); the number
        # includes page 1, and excludes pages that the transaction added
        self.siblings: list[tuple[int, int]] = []

    def insert(self, rows: int) -> set[int]:
        """Append rows in one transaction; return the numbers of the pages that it changes, new pages included."""
        changed: set[int] = set()
        self.before, self.siblings = self.pages, []
        while rows:
            size = self.cell + varint(self.rows + 1)
            fits = min(rows, self.free // size, _last_of_length(self.rows + 1) - self.rows)
            if not fits:
                self._new_leaf(changed)
                continue
            changed.add(self.leaves[-1])
            self.rows, self.free, rows = self.rows + fits, self.free - fits * size, rows - fits
        return changed | {SCHEMA_PAGE} if self.pages > self.before else changed  # page 1 records the number of pages

    def pages_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the page number of the leaf that holds each row id."""
        return np.array(self.leaves)[np.searchsorted(np.array(self.first), ids, side="right") - 1]

    def above(self, leaf: int) -> list[int]:
        """Return the page numbers of the interior pages above a leaf, root first."""
        row = self.first[bisect_left(self.leaves, leaf)]
        found, node = [], self.root
        while isinstance(node, Node):
            found.append(node.page)
            node = node.kids[bisect_left(node.keys, row)]  # type: ignore[assignment]
        return found

    def _new_page(self, changed: set[int]) -> int:
        self.pages += 1
        changed.add(self.pages)
        return self.pages

    def _new_leaf(self, changed: set[int]) -> None:
        if self.root is None:  # the root was the only leaf: its rows move to a new page below it
            self.leaves[0] = self._new_page(changed)
            self.root = Node(ROOT, [], [self.leaves[0]])
        self.leaves.append(self._new_page(changed))
        self.first.append(self.rows + 1)
        self.free = _LEAF_ROOM
        path = [self.root]
        while isinstance(path[-1].kids[-1], Node):
            path.append(path[-1].kids[-1])
        path[-1].keys.append(self.rows)
        path[-1].kids.append(self.leaves[-1])
        path[-1].used += _divider(self.rows)
        changed.add(path[-1].page)
        for level in range(len(path) - 1, -1, -1):
            if path[level].used <= _INTERIOR_ROOM:
                return
            if level == 0:
                child = Node(self._new_page(changed), self.root.keys, self.root.kids)
                self.root.keys, self.root.kids, self.root.used = [], [child], 0
            self._share(path[max(level - 1, 0)], changed)

    def _share(self, parent: Node, changed: set[int]) -> None:
        """Balance the last pages below `parent`: spread their cells over these pages, and over new pages as needed."""
        nodes: list[Node] = parent.kids[-_SIBLINGS:]  # type: ignore[assignment]
        changed.add(parent.page)
        # page 1 is counted too: it changes because a page was added
        old = 1 + sum(page <= self.before for page in changed)
        self.siblings += [(old, node.page) for node in reversed(nodes)]
        dividers = parent.keys[len(parent.keys) + 1 - len(nodes) :]
        keys = list(nodes[0].keys)
        for divider, node in zip(dividers, nodes[1:], strict=True):
            keys += [divider, *node.keys]
        kids = [kid for node in nodes for kid in node.kids]
        bounds = _bounds([_divider(key) for key in keys], [len(node.keys) for node in nodes])
        made: list[Node] = []
        start = 0
        for index, stop in enumerate(bounds):
            page = nodes[index].page if index < len(nodes) else self._new_page(changed)
            made.append(Node(page, keys[start:stop], kids[start : stop + 1]))
            start = stop + 1
        parent.kids[-len(nodes) :] = made
        parent.keys[len(parent.keys) - len(dividers) :] = [keys[stop] for stop in bounds[:-1]]
        parent.used = sum(map(_divider, parent.keys))
        changed |= {node.page for node in nodes}


def _bounds(size: list[int], held: list[int]) -> list[int]:
    """Return where to split the cells of sibling pages: the index of the divider after each; for the last, the number of cells.

    `size` has the bytes of all cells in order, including the dividers between the pages; `held`, the cells in each page now.
    """
    end, used, at = [], [], 0
    for count in held:
        used.append(sum(size[at : at + count]))
        end.append(at + count)
        at += count + 1
    page = 0
    while page < len(end):  # from the left: give excess cells to the next page, take cells that fit
        while used[page] > _INTERIOR_ROOM:
            if page + 1 == len(end):
                end.append(len(size))
                used.append(0)
            used[page] -= size[end[page] - 1]
            used[page + 1] += size[end[page]] if end[page] < len(size) else 0
            end[page] -= 1
        while end[page] < len(size) and used[page] + size[end[page]] <= _INTERIOR_ROOM:
            used[page] += size[end[page]]
            end[page] += 1
            used[page + 1] -= size[end[page]] if end[page] < len(size) else 0
        if end[page] >= len(size):
            del end[page + 1 :], used[page + 1 :]
        page += 1
    for page in range(len(end) - 1, 0, -1):  # from the right: balance with the page on the left
        last = page == len(end) - 1
        while end[page - 1] > 0:
            cell, divider = size[end[page - 1] - 1], size[end[page - 1]]
            if used[page] and used[page] + divider > used[page - 1] - cell + (_POINTER if last else 0):
                break
            used[page] += divider
            used[page - 1] -= cell
            end[page - 1] -= 1
    return end


def _divider(key: int) -> int:
    """Return the size in bytes of an interior cell (child page, row id) and its pointer."""
    return 4 + varint(key) + _POINTER


def varint(value: int) -> int:
    """Return the length in bytes of a SQLite varint, which has 7 bits per byte and at most 9 bytes."""
    return min(max(1, -(-value.bit_length() // 7)), 9)


def _last_of_length(value: int) -> int:
    """Return the largest number whose varint is as long as the varint of `value`."""
    return (1 << 7 * varint(value)) - 1
