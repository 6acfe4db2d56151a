"""State of a log-structured merge tree of equal-sized records: sorted tables in levels, and which block holds a key.

Leveled compaction as in RocksDB 7.8 (db/version_set.cc, db/compaction/compaction_picker_level.cc): level 0 is merged with
level 1 when it has `level0` tables; a level beyond its size gives the table with the least overlap per byte
(kMinOverlappingRatio) to the next level; outputs are cut at borders of the level below (CompactionOutputs::ShouldStopBefore).
Background work is done as soon as it is due, not concurrently with the program's calls.
"""

import math
from typing import NamedTuple

import numpy as np

TRAILER = 5  # bytes after each block: compression type and checksum
RESTART = 8  # bytes at the end of a block of up to 16 records: one restart point and the number of points
# leading bytes that a key shares with the previous key; fitted to the median block of 3809 bytes (400-byte values)
SHARED = 6
INDEX_ENTRY = 19  # bytes of a block's entry in the index; measured (strace of db_bench, 16,277 bytes for 841 blocks)
FOOTER, META_INDEX, PROPERTIES = 53, 40, 878  # bytes at a table's end, last part first; measured (strace of db_bench)
LOG_BLOCK, LOG_HEADER, BATCH_HEADER = 32 << 10, 7, 12  # bytes, by RocksDB's log format
ARENA_PAGE, ARENA_UNIT = 4096, 16  # bytes to which blocks and nodes of a memtable are rounded up
MOVED = 4  # maximum number of tables that move to the next level together (kMaxMultiTrivialMove)
TAIL = FOOTER + META_INDEX + PROPERTIES


class Shape(NamedTuple):
    """Constant sizes: bytes of a record in a block, records of a block, and bytes of a full block."""

    record: int
    per_block: int
    block: int


def shape(key: int, value: int, block: int) -> Shape:
    """Return the shape of blocks: a block takes records until it has `block` bytes.

    A block stops at 90 % of `block` bytes if the next record would not fit.
    """
    record = 4 + key + 8 - SHARED + value
    count = 1
    while count * record < block and not (10 * count * record > 9 * block and (count + 1) * record > block):
        count += 1
    return Shape(record, count, count * record + RESTART + TRAILER)


class Table:
    """One sorted table: its file, keys, data blocks, bytes of the index (which precedes the tail) and of the file."""

    def __init__(self, file: int, keys: np.ndarray, shape: Shape) -> None:
        self.file, self.keys, self.shape = file, keys, shape
        self.blocks = -(-len(keys) // shape.per_block)
        self.index = self.blocks * INDEX_ENTRY
        self.size = len(keys) * shape.record + self.blocks * (RESTART + TRAILER) + self.index + TAIL

    def block(self, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the offsets and lengths (bytes) of data blocks."""
        return _block(self.shape, number, len(self.keys))


class Run:
    """Tables that do not overlap, in key order: one table of level 0, or a whole level."""

    def __init__(self, tables: list[Table]) -> None:
        self.tables = tables
        self.keys = np.concatenate([table.keys for table in tables]) if len(tables) > 1 else tables[0].keys
        self.starts = np.cumsum([0, *[len(table.keys) for table in tables]])
        self.files = np.array([table.file for table in tables])

    def place(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the file, offset and bytes of the blocks that hold the keys at these indices."""
        which = np.searchsorted(self.starts, index, side="right") - 1
        form = self.tables[0].shape
        number = (index - self.starts[which]) // form.per_block
        return self.files[which], *_block(form, number, np.diff(self.starts)[which])

    def block_starts(self) -> np.ndarray:
        """Return the indices of the first key of every block."""
        per = self.tables[0].shape.per_block
        return np.concatenate(
            [start + np.arange(0, len(t.keys), per) for start, t in zip(self.starts, self.tables, strict=False)]
        )


class Levels:
    """All tables: level 0 newest first, the other levels in key order."""

    def __init__(self, level0: int, base: int, multiplier: float = 10) -> None:
        self.level0, self.base, self.multiplier = level0, base, multiplier
        self.levels: list[list[Table]] = [[], []]
        self._runs: list[Run] | None = None

    def runs(self) -> list[Run]:
        """Return the runs that a look-up searches, in search order."""
        if self._runs is None:
            upper = [Run([table]) for table in self.levels[0]]
            self._runs = upper + [Run(level) for level in self.levels[1:] if level]
        return self._runs

    def add(self, table: Table) -> None:
        """Add a flushed table as the newest of level 0."""
        self.levels[0].insert(0, table)
        self._runs = None

    def due(self) -> tuple[int, list[Table], list[Table]] | None:
        """Return the next compaction, (level, its tables, overlapping tables of the next level), or None."""
        scores = [len(self.levels[0]) / self.level0]
        scores += [sum(t.size for t in level) / self.limit(i) for i, level in enumerate(self.levels[1:], 1)]
        level = int(np.argmax(scores))
        if scores[level] < 1 or (level and scores[level] <= 1):
            return None
        if level + 1 == len(self.levels):
            self.levels.append([])
        if level:
            index = self._least_overlap(level)
            if not self._below(level, self.levels[level][index]):
                return level, self._movable(level, index), []
        tables = self.levels[0] if level == 0 else [self.levels[level][index]]
        low, high = min(t.keys[0] for t in tables), max(t.keys[-1] for t in tables)
        return level, list(tables), _overlapping(self.levels[level + 1], low, high)

    def limit(self, level: int) -> float:
        """Return the bytes of a level (from 1 on) beyond which it is compacted."""
        return self.base * self.multiplier ** (level - 1)

    def replace(self, level: int, gone: list[Table], made: list[Table]) -> None:
        """Apply a compaction's result: remove the tables `gone`, add the tables `made`."""
        dead = {id(table) for table in gone}
        for number in (level, level + 1):
            self.levels[number] = [table for table in self.levels[number] if id(table) not in dead]
        self.levels[level + 1] = sorted([*self.levels[level + 1], *made], key=lambda table: int(table.keys[0]))
        self._runs = None

    def cuts(self, level: int, merged: np.ndarray, target: int) -> list[int]:
        """Return the ends of the tables to which merged keys are written in the level below `level`.

        A table ends with the block that reaches `target` bytes.  If tables one level deeper exist, it may have twice that,
        and ends early at a border of those tables if it has half of `target` plus 5 % for each border passed, up to 90 %.
        """
        deeper = self.levels[level + 2] if level + 2 < len(self.levels) else []
        form = deeper[0].shape if deeper else self.levels[level][0].shape
        longest = form.per_block * -(-target * (2 if deeper else 1) // form.block)
        borders = [np.searchsorted(merged, table.keys[0]) for table in deeper]
        borders += [np.searchsorted(merged, table.keys[-1], side="right") for table in deeper]
        places, counts = np.unique(np.array(borders, np.int64), return_counts=True)
        ends, start = [], 0
        while start < len(merged):
            end = min(start + longest, len(merged))
            ahead = (places > start) & (places < end)
            share = 50 + np.minimum(5 * np.cumsum(counts[ahead]), 40)
            written = (places[ahead] - start) // form.per_block * form.block
            fit = np.flatnonzero(written * 100 >= target * share)
            start = int(places[ahead][fit[0]]) if len(fit) else end
            ends.append(start)
        return ends

    def _below(self, level: int, table: Table) -> list[Table]:
        return _overlapping(self.levels[level + 1], table.keys[0], table.keys[-1])

    def _least_overlap(self, level: int) -> int:
        """Return the index of the table with the fewest overlapping bytes in the level below, per byte of its own."""
        first, last, size = (np.array(column) for column in zip(*map(_extent, self.levels[level]), strict=True))
        if not self.levels[level + 1]:
            return 0
        below = [np.array(column) for column in zip(*map(_extent, self.levels[level + 1]), strict=True)]
        total = np.concatenate([[0], np.cumsum(below[2])])
        overlap = total[np.searchsorted(below[0], last, side="right")] - total[np.searchsorted(below[1], first)]
        return int(np.argmin(overlap / size))

    def _movable(self, level: int, index: int) -> list[Table]:
        """Return a table and the neighbours that move down with it, since no table of the next level overlaps them.

        Neighbours on the right are added first, up to MOVED tables in all.
        """
        tables, low, high = self.levels[level], index, index
        while high - low + 1 < MOVED and high + 1 < len(tables) and not self._below(level, tables[high + 1]):
            high += 1
        while high - low + 1 < MOVED and low > 0 and not self._below(level, tables[low - 1]):
            low -= 1
        return tables[low : high + 1]


def merge(*sorted_keys: np.ndarray) -> np.ndarray:
    """Return the distinct keys of sorted arrays, sorted.

    A stable sort merges runs; np.unique would hash, four times slower.
    """
    keys = np.sort(np.concatenate(sorted_keys), kind="stable")
    return keys[np.diff(keys, prepend=-1) != 0]


def _extent(table: Table) -> tuple[int, int, int]:
    return table.keys[0], table.keys[-1], table.size


def _overlapping(level: list[Table], low: int, high: int) -> list[Table]:
    return [table for table in level if table.keys[-1] >= low and table.keys[0] <= high]


def _block(shape: Shape, number: np.ndarray, records: "int | np.ndarray") -> tuple[np.ndarray, np.ndarray]:
    held = np.minimum(shape.per_block, records - number * shape.per_block)
    return number * shape.block, held * shape.record + RESTART + TRAILER


def memtable_records(key: int, value: int, write_buffer: int) -> int:
    """Return how many records fill a memtable: a skip list in an arena (RocksDB 7.8, MemTable::ShouldFlushNow, InlineSkipList).

    An arena of blocks of an eighth of the buffer, up to 1 MiB, is full when its last block is full to three quarters.
    Measured (db_bench 7.8.3, writes to each log): within 0.2 % for eight sizes.
    """
    block = -(-min(1 << 20, write_buffer // 8) // ARENA_PAGE) * ARENA_PAGE or ARENA_PAGE
    encoded = _varint(key + 8) + key + 8 + _varint(value) + value
    # a node has a pointer of 8 bytes for each of its levels, and a quarter of the nodes of a level are in the next one
    sizes = [-(-(encoded + 8 * levels) // ARENA_UNIT) * ARENA_UNIT for levels in range(1, 13)]
    entry = sum(size * 0.75 * 0.25**number for number, size in enumerate(sizes))
    allowed = write_buffer - 0.4 * block
    if entry > block / 4:  # has a block of its own
        return max(1, math.ceil(allowed / entry))
    full = max(0, math.ceil(allowed / block) - 1)
    return max(1, full * int(block / entry) + int(0.75 * block / entry))


def disjoint(tables: list[Table]) -> bool:
    """Return whether no two tables overlap."""
    ordered = sorted(tables, key=lambda table: int(table.keys[0]))
    return all(one.keys[-1] < other.keys[0] for one, other in zip(ordered, ordered[1:], strict=False))


def log_records(key: int, value: int, count: int) -> np.ndarray:
    """Return the bytes of each `write` to a log of equal puts.

    A record that crosses a block of 32 KiB has a second header; the end of a block that is too short for a header is
    zero-filled.
    """
    payload = BATCH_HEADER + 1 + _varint(key) + key + _varint(value) + value
    out = np.empty(count, np.int64)
    position = 0
    for index in range(count):
        left, start = payload, position
        while left >= 0:
            room = LOG_BLOCK - position % LOG_BLOCK
            if room < LOG_HEADER:
                position += room
                room = LOG_BLOCK
            part = min(left, room - LOG_HEADER)
            position += LOG_HEADER + part
            left = left - part or -1
        out[index] = position - start
    return out


def _varint(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))
