"""Calls that SQLite 3.40 makes around its pages: opening, transactions, checkpoints and closing, in both journal modes."""

from collections.abc import Iterator

import numpy as np

from scmsim.core.records import (
    CLOSE,
    CREATE,
    DATA_ONLY,
    DIRECTORY,
    FSYNC,
    MMAP,
    OPEN,
    READ,
    STAT,
    TRUNCATE,
    UNLINK,
    WRITABLE_SHARED,
    WRITE,
    joined,
)
from scmsim.workload._btree import PAGE, SCHEMA_PAGE
from scmsim.workload._stream import alternating, ops, place_in_run, weave

FOLDER, DB, SIDE, SHM = 0, 1, 2, 3  # object ids; SIDE is the journal or the log
RECORD = 4 + PAGE + 4  # bytes of a page in the journal
# bytes of the journal's header; SQLite looks for a second header at the journal's length rounded up to a multiple
SECTOR = 512
FRAME, LOG_HEADER = 24 + PAGE, 32  # bytes of a frame (header, page) and of the log's header
_SYNC = DATA_ONLY
_LAST = 1 << 40  # position of page 1 among the changes of a transaction
_DIRECTORY_SYNC = (
    (OPEN, FOLDER, -1, 0, DIRECTORY),
    (FSYNC, FOLDER, -1, 0, DATA_ONLY | DIRECTORY),
    (CLOSE, FOLDER, -1, 0, DIRECTORY),
)


def calls(*rows: tuple[int, ...]) -> np.ndarray:
    """Return records from rows of (op, file, offset, length, flag); missing values at the end are -1, 0, 0."""
    full = np.array([(*row, *(-1, 0, 0)[len(row) - 2 :]) for row in rows], np.int64).reshape(-1, 5)
    out = ops(*full.T[:4], flag=full.T[4])
    out["parent"][np.isin(out["op"], (CREATE, UNLINK))] = FOLDER
    return out


_OPENING = (
    (STAT, FOLDER, -1, 0, DIRECTORY), (STAT, DB), (OPEN, DB), (STAT, DB), (STAT, DB), (STAT, DB), (READ, DB, 0, 100), (STAT, DB),
    (READ, DB, 0, PAGE),
)  # fmt: skip
_CLOSING = ((STAT, DB), (STAT, DB), (CLOSE, DB))


class RollbackCalls:
    """Calls of transactions with a rollback journal that is deleted at each commit."""

    def __init__(self, synchronous: str) -> None:
        self.synchronous = synchronous

    def opening(self) -> np.ndarray:
        return calls(*_OPENING)

    def closing(self) -> np.ndarray:
        return calls((STAT, DB), *_CLOSING)

    def transactions(self, count: int, reads: np.ndarray, changes: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the calls of `count` transactions.

        `changes` has a row (transaction, position, page) for each page that a transaction changes; it may omit page 1, which
        every commit changes.  `position` is the change's number within the transaction, or -1 for a new page, which has no old
        content.  `reads` has a row (transaction, position, page) for each page that is read before the change `position`.
        """
        which = np.arange(count)
        writers = np.unique(changes[:, 0])
        old = changes[(changes[:, 1] >= 0) & (changes[:, 2] != SCHEMA_PAGE)]
        schema = np.column_stack([writers, np.full_like(writers, _LAST), np.full_like(writers, SCHEMA_PAGE)])
        old = np.concatenate([old, schema])  # one entry for each journal record
        many, _, page = old[np.lexsort((old[:, 1], old[:, 0]))].T
        at = place_in_run(many)
        records = np.bincount(many, minlength=count)
        end = 32 + 8 * max(int(records.max(initial=1)), int(reads[:, 1].max(initial=0)) + 1)
        step = end + 32
        before = np.where(reads[:, 1] > 0, 32 + 8 * reads[:, 1], 2)
        body = SECTOR + RECORD * at
        record = (
            (1, ops(WRITE, SIDE, body, 4)), (2, ops(WRITE, SIDE, body + 4, PAGE, buffer=PAGE * page)),
            (3, ops(WRITE, SIDE, body + 4 + PAGE, 4)),
        )  # fmt: skip
        pages = _with_schema_page(changes, writers)
        start = [(READ, DB, 24, 16), (STAT, DB)]
        parts = [(which * step, calls(row)) for row in start]
        parts += [(reads[:, 0] * step + before, _read(reads))]
        parts += [(writers * step + 3 + i, calls(row)) for i, row in enumerate(self._begin())]
        parts += [(many * step + 32 + 8 * at + i, rows) for i, rows in record]
        tail = -(-(SECTOR + RECORD * records[writers]) // SECTOR) * SECTOR
        if self.synchronous != "off":
            parts += [(writers * step + end, ops(READ, SIDE, tail, 0))]
        parts += [(writers * step + end + 1 + i, calls(row)) for i, row in enumerate(self._sync_journal())]
        parts += [
            (pages[:, 0] * step + end + 10, ops(WRITE, DB, (pages[:, 1] - 1) * PAGE, PAGE, buffer=PAGE * pages[:, 1]))
        ]
        parts += [(writers * step + end + 11 + i, calls(row)) for i, row in enumerate(self._end())]
        yield weave(*(_broadcast(place, rows) for place, rows in parts))

    def _begin(self) -> tuple[tuple[int, ...], ...]:
        return (STAT, DB), (STAT, DB), (CREATE, SIDE), (STAT, SIDE), (WRITE, SIDE, 0, SECTOR)

    def _sync_journal(self) -> list[tuple[int, ...]]:
        """Return the calls that make the journal durable before its pages may be overwritten.

        With synchronous = full, the journal's length is written after that.
        """
        sync, length = (FSYNC, SIDE, -1, 0, _SYNC), (WRITE, SIDE, 0, 12)
        if self.synchronous == "off":
            return []
        if self.synchronous == "normal":
            return [length, sync, *_DIRECTORY_SYNC]
        return [sync, *_DIRECTORY_SYNC, length, sync]

    def _end(self) -> list[tuple[int, ...]]:
        sync: list[tuple[int, ...]] = [] if self.synchronous == "off" else [(FSYNC, DB, -1, 0, _SYNC)]
        return [*sync, (CLOSE, SIDE), (UNLINK, SIDE)]


class WalCalls:
    """Calls of transactions with a write-ahead log, which is copied to the database at `checkpoint` frames and at the close."""

    def __init__(self, synchronous: str, checkpoint: int, pages: int) -> None:
        self.synchronous, self.checkpoint = synchronous, checkpoint
        self.pages = pages  # pages of the database
        self.frames = 0  # frames in the log
        self.newest = np.zeros(0, np.int64)  # page number of each frame
        self.fresh = True  # nothing has been written to the log yet
        self.full = False  # all frames are in the database: the next transaction restarts the log

    def opening(self) -> np.ndarray:
        """Return the calls that create the log and its index.

        The index grows by one-byte writes to each of its pages, and is then mapped.
        """
        grown = [(WRITE, SHM, 4096 * (i + 1) - 1, 1) for i in range(8)]
        return calls(
            *_OPENING, (STAT, DB), (CREATE, SIDE), (STAT, SIDE), (STAT, DB), (CREATE, SHM), (STAT, SHM), (TRUNCATE, SHM, 3),
            (STAT, SHM), (STAT, SHM), *grown, (MMAP, SHM, 0, 32768, WRITABLE_SHARED), (STAT, SIDE), (STAT, DB),
            (READ, DB, 0, PAGE),
        )  # fmt: skip

    def closing(self) -> np.ndarray:
        checkpoint = [] if self.full or not self.frames else [self._checkpoint()]
        end = calls((UNLINK, SHM), (CLOSE, SHM), (CLOSE, SIDE), (UNLINK, SIDE), *_CLOSING)
        return joined([calls((STAT, DB)), *checkpoint, end])

    def transactions(self, count: int, reads: np.ndarray, changes: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the calls of `count` transactions; the parameters are those of RollbackCalls."""
        pages = np.unique(changes[:, [0, 2]], axis=0)
        ends = np.cumsum(np.bincount(pages[:, 0], minlength=count))  # frames written up to the end of each transaction
        start = written = 0
        while start < count:
            here = 0 if self.full else self.frames
            stop = min(count, int(np.searchsorted(ends - written, self.checkpoint - here)) + 1)
            mine = (reads[:, 0] >= start) & (reads[:, 0] < stop)
            part = pages[written : ends[stop - 1]]
            yield self._commits(start, stop, part, reads[mine])
            if self.frames >= self.checkpoint and len(part):
                yield self._checkpoint()
                self.full = True
            start, written = stop, int(ends[stop - 1])

    def _commits(self, start: int, stop: int, pages: np.ndarray, reads: np.ndarray) -> np.ndarray:
        """Return the calls of transactions `start` to `stop`.

        `pages` has (transaction, page) of consecutive frames in the log.
        """
        parts = [(reads[:, 0] * 8 + 1, _read(reads))]
        if self.fresh:  # without a log, each transaction queries the size of the database
            without = np.arange(start, pages[0, 0] + 1 if len(pages) else stop)
            parts.append(_broadcast(without * 8, calls((STAT, DB))))
        if not len(pages):
            return weave(*parts)
        if self.full:
            self.frames, self.newest, self.full = 0, np.zeros(0, np.int64), False
        sync = (FSYNC, SIDE, -1, 0, _SYNC)
        if not self.frames:
            durable = [] if self.synchronous == "off" else [sync, *(_DIRECTORY_SYNC if self.fresh else ())]
            parts.append((pages[0, 0] * 8 + 2, calls((WRITE, SIDE, 0, LOG_HEADER), *durable)))
            self.fresh = False
        index = self.frames + np.arange(len(pages))
        at = LOG_HEADER + FRAME * index
        whole = ops(WRITE, SIDE, at + 24, PAGE, buffer=PAGE * pages[:, 1])
        frames = alternating(ops(WRITE, SIDE, at, 24), whole)
        parts.append((np.repeat(pages[:, 0], 2) * 8 + 3, frames))
        if self.synchronous == "full":
            writers = np.unique(pages[:, 0])
            parts.append(_broadcast(writers * 8 + 4, calls(sync)))
        self.frames += len(pages)
        self.newest = np.append(self.newest, pages[:, 1])
        self.pages = max(self.pages, int(pages[:, 1].max()))
        return weave(*parts)

    def _checkpoint(self) -> np.ndarray:
        """Return the calls that copy the newest frame of each page from the log to the database, in page order."""
        page, last = np.unique(self.newest[::-1], return_index=True)
        frame = len(self.newest) - 1 - last
        reads = ops(READ, SIDE, LOG_HEADER + FRAME * frame + 24, PAGE)
        copies = alternating(reads, ops(WRITE, DB, (page - 1) * PAGE, PAGE))
        durable = self.synchronous != "off"
        return joined([
            calls(*([(FSYNC, SIDE, -1, 0, _SYNC)] if durable else []), (STAT, DB)), copies,
            calls((TRUNCATE, DB, self.pages * PAGE), *([(FSYNC, DB, -1, 0, _SYNC)] if durable else [])),
        ])  # fmt: skip


def _read(reads: np.ndarray) -> np.ndarray:
    """Return reads of pages (last column) from the database into the page cache, where page n is at n * PAGE."""
    return ops(READ, DB, (reads[:, 2] - 1) * PAGE, PAGE, buffer=PAGE * reads[:, 2])


def _broadcast(place: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sort keys `place` (see `weave`) and the rows; a single row is repeated for each key."""
    return place, np.repeat(rows, len(place)) if len(rows) == 1 and len(place) != 1 else rows


def _with_schema_page(changes: np.ndarray, writers: np.ndarray) -> np.ndarray:
    """Return (transaction, page) of the changes and of page 1 of every writing transaction, sorted."""
    schema = np.column_stack([writers, np.full(len(writers), SCHEMA_PAGE)])
    return np.unique(np.concatenate([changes[:, [0, 2]], schema]), axis=0)
