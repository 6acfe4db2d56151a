"""LMDB: look-ups and durable puts of 8-byte keys in a mapped B-tree; two meta pages, copy-on-write, one writer.

A look-up goes from the root to a leaf by binary search.  A put copies the pages of its path and a page of the list of free
pages, makes them durable, and stores a meta page: by pwrite and fdatasync, or with MDB_WRITEMAP by stores and msync.  A page
that a transaction frees is reused three transactions later.
Sources: lmdb.h and mdb.c of LMDB 0.9.24 (MDB_page, MDB_node, MDB_meta), the order of calls under strace, fills as mdb_stat
reports them for 40,000 keys with values of 400 bytes (fitted).
"""

from collections import deque
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    DATA_ONLY,
    FSYNC,
    MMAP,
    MSYNC,
    MUNMAP,
    OPEN,
    SYNCHRONOUS,
    ULOAD,
    USTORE,
    WRITABLE_SHARED,
    WRITE,
    joined,
)
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "LMDB: random look-ups or durable puts in a mapped B-tree, with MDB_WRITEMAP or without"
PARAMS = {
    "op": ("get", "get|put", "operation of a transaction: one look-up, or one value replaced and committed"),
    "entries": ("100000", "keys", "keys of 8 bytes in the database"),
    "value": ("400", "bytes", "bytes of a value"),
    "count": ("10000", "transactions", "number of transactions"),
    "writemap": ("0", "bool", "MDB_WRITEMAP: pages are stored through the mapping"),
    "read_value": ("1", "bool", "whether a look-up loads the value, too; mdb_get returns its address only"),
    "fill": ("63", "percent", "share of each leaf page that is filled"),
    "seed": ("1", "seed", "seed of the keys and of the places of pages"),
}
PAGE = 4096
# bytes of a page's header, of an entry's offset in the page, of a node's header, of a key
HEADER, POINTER, NODE, KEY = 16, 2, 8, 8
META, META_AT = 120, 32  # bytes of a meta page that a commit stores, and their offset (MDB_meta from mm_mapsize on)
BRANCH_FILL = 80  # share of a branch page that is used, percent
_REUSED_AFTER = 3  # transactions after which a freed page is reused
_MOST = 1 << 26  # maximum number of pages


class Workload(_stream.Stream):
    """Stream of the transactions on one database (a records.Source); see PARAMS.

    Raises UsageError for a value of which two do not fit into a page (LMDB would store it on overflow pages), or a
    database of too many pages.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("op of lmdb", p.op, ("get", "put"))
        p.at_least(1, "entries", "value", "count", "fill")
        self.node = NODE + KEY + p.value + p.value % 2
        if p.fill > 100 or 2 * (self.node + POINTER) > PAGE - HEADER:
            raise UsageError("fill is at most 100, and two entries must fit into a page of 4 KiB; take a smaller value")
        self.levels = _levels(p.entries, self.node, p.fill)
        if sum(self.levels) > _MOST:
            raise UsageError(f"{sum(self.levels)} pages are too many; take fewer entries")
        self.op, self.entries, self.value, self.count, self.seed = p.op, p.entries, p.value, p.count, p.seed
        self.writemap, self.read_value = p.writemap, p.read_value
        depth = len(self.levels)
        # two meta pages, the tree, and the pages that the last _REUSED_AFTER transactions freed
        self.pages = 2 + sum(self.levels) + _REUSED_AFTER * (depth + 1)
        self.files = _stream.table(["/lmdb", "/lmdb/data.mdb"], [0, self.pages * PAGE], [True, False])

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the operations in order, a few thousand at a time."""
        whole = {"file": 1, "offset": 0, "length": self.pages * PAGE}
        yield ops(OPEN, 1)
        yield ops(MMAP, **whole, flag=WRITABLE_SHARED if self.writemap and self.op == "put" else 0)
        draw = np.random.default_rng(self.seed)
        place = 2 + draw.permutation(sum(self.levels))  # page number of each node, level by level from the leaves
        spare = deque(range(2 + sum(self.levels), self.pages))
        step = max(_stream.PIECE // (40 * len(self.levels)), 1)
        for first in range(0, self.count, step):
            number = min(step, self.count - first)
            keys = draw.integers(0, self.entries, number)
            if self.op == "get":
                yield self._search(keys, place)
            else:
                for i, key in enumerate(keys.tolist()):
                    yield self._search(np.array([key]), place)
                    yield self._commit(key, place, spare, first + i)
        yield ops(MUNMAP, **whole)
        yield ops(CLOSE, 1)

    def _path(self, keys: np.ndarray) -> list[np.ndarray]:
        """Return the numbers of the pages from the leaf to the root, for each key."""
        path, first, index = [], 0, keys
        for entries, pages in zip([self.entries, *self.levels], self.levels, strict=False):
            index = index * pages // entries
            path.append(first + index)
            first += pages
        return path

    def _search(self, keys: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the loads of a look-up.

        In each page they are the header, then the offset, header and key of each node that a binary search visits.
        """
        parts, at = [], np.arange(len(keys)) * (1 << 12)
        counts = [self.entries, *self.levels]
        for level in reversed(range(len(self.levels))):
            start = place[self._path(keys)[level]] * PAGE
            held = max(counts[level] // self.levels[level], 1)  # nodes in a page of this level
            low, high, wanted = np.zeros(len(keys), np.int64), np.full(len(keys), held - 1), keys * 7919 % held
            node = self.node if level == 0 else NODE + KEY
            parts.append((at, ops(ULOAD, np.ones(len(keys), np.int64), start + 10, 4)))
            for _ in range(held.bit_length()):
                middle = (low + high) // 2
                parts.append((at, ops(ULOAD, 1, start + HEADER + POINTER * middle, POINTER)))
                parts.append((at, ops(ULOAD, 1, start + PAGE - (middle + 1) * node, NODE + KEY)))
                low, high = np.where(middle < wanted, middle + 1, low), np.where(middle < wanted, high, middle)
            if level == 0 and self.read_value:
                parts.append((at, ops(ULOAD, 1, start + PAGE - (wanted + 1) * node + NODE + KEY, self.value)))
        return _stream.weave(*parts)

    def _commit(self, key: int, place: np.ndarray, spare: deque[int], transaction: int) -> np.ndarray:
        """Return what a put writes: new copies of its path and of the list of free pages, in page order; then the meta page."""
        path = [int(level[0]) for level in self._path(np.array([key]))]
        fresh = [spare.popleft() for _ in range(len(path) + 1)]
        spare.extend(place[path].tolist())
        spare.append(fresh[-1])  # the list's page, which the next transactions free
        place[path] = fresh[:-1]
        pages, meta = np.sort(np.array(fresh)) * PAGE, transaction % 2 * PAGE
        if self.writemap:
            whole = self.pages * PAGE
            rows = [ops(USTORE, 1, pages, PAGE), ops(MSYNC, 1, 0, whole), ops(USTORE, 1, meta + META_AT, META)]
            return joined([*rows, ops(MSYNC, 1, meta, PAGE)])
        rows = [ops(WRITE, 1, pages, PAGE), ops(FSYNC, 1, flag=DATA_ONLY)]
        return joined([*rows, ops(WRITE, 1, meta + META_AT, META, flag=SYNCHRONOUS)])


def _levels(entries: int, node: int, fill: int) -> list[int]:
    """Return the number of pages of each level from the leaves to the root."""
    levels, held, share = [], entries, (PAGE - HEADER) // (node + POINTER) * fill
    while True:
        levels.append(-(-held * 100 // max(share, 200)))  # at least two nodes in a page
        if levels[-1] <= 1:
            return levels
        held, share = levels[-1], (PAGE - HEADER) // (NODE + KEY + POINTER) * BRANCH_FILL
