"""SQLite 3.40: durable transactions on one table, with a rollback journal (DELETE) or a write-ahead log.

Schema: `CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)`, filled with `records` rows of one blob length in one transaction
and closed; that database exists before the trace.  Then one connection runs `transactions` transactions (BEGIN IMMEDIATE ...
COMMIT) of `rows` rows each: update (same length, ids uniform), insert (at the end) or read, and closes the database.  The
page cache holds the whole database (PRAGMA cache_size), so a page is read once; pages are 4096 bytes.

The calls, their offsets, sizes and sync points, from the open to the close, are those of the real library, except locks and
failed look-ups: source strace of SQLite 3.40.1 on Linux 6.18, compared call by call in the tests.  The index of the log is a
shared mapping (`-shm`), whose loads and stores are not calls and not in the trace.  In the program's memory, page n is
assumed to be at n pages; record headers and the copies of a checkpoint go through one buffer at 0.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.workload import _stream
from scmsim.workload._btree import LARGEST_BLOB, PAGE, SCHEMA_PAGE, Tree
from scmsim.workload._sqlite_calls import RollbackCalls, WalCalls

SUMMARY = "SQLite transactions (update, insert, read) with a rollback journal or a write-ahead log"
PARAMS = {
    "journal": ("delete", "delete|wal", "rollback journal, or write-ahead log"),
    "op": ("update", "update|insert|read", "operation of a transaction"),
    "transactions": ("1000", "transactions", "number of transactions"),
    "rows": ("4", "rows", "rows of one transaction"),
    "records": ("10000", "rows", "rows in the table beforehand"),
    "blob": ("100", "bytes", "bytes of the blob in each row"),
    "synchronous": ("full", "full|normal|off", "PRAGMA synchronous"),
    "checkpoint": ("1000", "pages", "frames in the log that start a checkpoint (PRAGMA wal_autocheckpoint)"),
    "seed": ("1", "seed", "seed of the row ids"),
    "interval": ("1us", "time", "trace time between two calls"),
}


class Workload(_stream.Stream):
    """Stream of one connection's calls (a records.Source); see PARAMS.

    Raises UsageError for an unknown choice, a blob that would need overflow pages, or an empty table to update or read.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("journal mode", p.journal, ("delete", "wal"))
        _stream.choose("operation of a transaction", p.op, ("update", "insert", "read"))
        _stream.choose("synchronous setting", p.synchronous, ("full", "normal", "off"))
        p.at_least(1, "transactions", "rows", "records", "checkpoint")
        if not 1 <= p.blob <= LARGEST_BLOB:
            raise UsageError(
                f"blob = {p.blob}; it must be from 1 to {LARGEST_BLOB}, or a row would need overflow pages"
            )
        self.journal, self.op, self.transactions, self.per = p.journal, p.op, p.transactions, p.rows
        self.records, self.blob, self.synchronous, self.checkpoint = p.records, p.blob, p.synchronous, p.checkpoint
        self.seed = p.seed
        size = PAGE * self._table().pages
        side = ["-wal", "-shm"] if p.journal == "wal" else ["-journal"]
        paths = ["/db", "/db/a.db", *[f"/db/a.db{end}" for end in side]]
        self.files = _stream.table(paths, [0, size] + [-1] * len(side), [True] + [False] * (len(side) + 1))

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the opening, the transactions (many at a time) and the closing."""
        tree = self._table()
        calls = (
            RollbackCalls(self.synchronous)
            if self.journal == "delete"
            else WalCalls(self.synchronous, self.checkpoint, tree.pages)
        )
        yield calls.opening()
        random = np.random.default_rng(self.seed)
        seen = np.zeros(tree.pages + 1, bool)
        seen[SCHEMA_PAGE] = True
        step = max(1, _stream.PIECE // (16 + 4 * self.per))
        for first in range(0, self.transactions, step):
            count = min(step, self.transactions - first)
            if self.op == "insert":
                reads, changes = self._inserts(tree, count, seen)
            else:
                touched = self._touched(tree, random, count)
                reads = _cold(tree, touched, seen)
                changes = touched[: 0 if self.op == "read" else None]
            yield from calls.transactions(count, reads, changes)
        yield calls.closing()

    def _table(self) -> Tree:
        tree = Tree(self.blob)
        tree.insert(self.records)
        return tree

    def _touched(self, tree: Tree, random: np.random.Generator, count: int) -> np.ndarray:
        """Return (transaction, position, page) of the leaves that transactions touch, each once, in the order of first touch."""
        ids = random.integers(1, self.records + 1, (count, self.per))
        pages = tree.pages_of(ids.ravel())
        which = np.repeat(np.arange(count), self.per)
        _, first = np.unique(which * (tree.pages + 1) + pages, return_index=True)
        first.sort()
        which, pages = which[first], pages[first]
        return np.column_stack([which, _stream.place_in_run(which), pages])

    def _inserts(self, tree: Tree, count: int, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the reads and changes (transaction, position, page) of inserting transactions; new pages have position -1."""
        reads, changes = [], []
        for each in range(count):
            last = tree.leaves[-1]
            asked = [(0, page) for page in (*tree.above(last), last)]
            pages = sorted(tree.insert(self.per))
            changes += [(each, -1 if page > tree.before else at, page) for at, page in enumerate(pages)]
            for position, page in asked + tree.siblings:
                if page < len(seen) and not seen[page]:  # the page existed at the opening, and was not read since
                    seen[page] = True
                    reads.append((each, position, page))
        return np.array(reads, np.int64).reshape(-1, 3), np.array(changes, np.int64).reshape(-1, 3)


def _cold(tree: Tree, touched: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return the rows of `touched` that read their page for the first time, preceded by the unread interior pages above it."""
    pages = touched[:, 2]
    _, first = np.unique(pages, return_index=True)
    first = np.sort(first[~seen[pages[first]]])
    out: list[tuple[int, int, int]] = []
    for which, position, page in touched[first].tolist():
        for each in (*tree.above(page), page):
            if not seen[each]:
                seen[each] = True
                out.append((which, position, each))
    return np.array(out, np.int64).reshape(-1, 3)
