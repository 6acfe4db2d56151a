"""A RocksDB-like store (log, memtable flush, leveled compaction, block reads) under YCSB A to F, or filled at random.

The calls are those of RocksDB 7.8.3 under strace (db_bench fillrandom, overwrite, readrandom):
- A put is one `write` to the log.  The log is pre-allocated to 1.1 write buffers without changing its size; after the flush it is
  truncated to its size, closed and removed.
- A sorted table is written in pieces of whole blocks up to 1 MiB, fdatasync'ed, closed, opened again and its tail read in four
  pieces.
- Compaction reads its inputs block by block and pre-allocates its outputs.
- The manifest is appended to and fdatasync'ed at each change of the tables.

Left out: sync_file_range and fadvise (not operations of a trace), compression, and the block cache: each look-up reads its
blocks from the file, as a store on storage-class memory without its own cache would (`bloom` bits per key spare the tables
without the key).

YCSB's records have 10 fields of 100 bytes, which its RocksDB binding stores as 1140 bytes, under keys of 23 bytes; `update`
reads the record and writes all of it, as that binding does.  The load of the `records` is marked SETUP.  Thread 0 is the
program, thread 1 flushes and compacts.  State grows with the records of the store, not with the operations.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    APPENDS,
    CLOSE,
    CREATE,
    DATA_ONLY,
    FALLOCATE,
    FSYNC,
    KEEP_SIZE,
    OPEN,
    READ,
    RENAME,
    SETUP,
    TRUNCATE,
    UNLINK,
    WRITE,
    joined,
)
from scmsim.workload import _stream, _ycsb
from scmsim.workload._lsm import (
    FOOTER,
    META_INDEX,
    PROPERTIES,
    Levels,
    Table,
    disjoint,
    log_records,
    memtable_records,
    merge,
    shape,
)
from scmsim.workload._stream import ops, weave

SUMMARY = "a RocksDB-like LSM store under YCSB A to F (zipfian, latest, uniform) or filled at random"
PARAMS = {
    "workload": ("a", "a|b|c|d|e|f|fill", "YCSB core workload, or puts of random keys into an empty store"),
    "distribution": ("own", "own|zipfian|latest|uniform", "distribution of the keys instead of the workload's own"),
    "records": ("100000", "records", "records loaded beforehand (fill: the key space)"),
    "operations": ("100000", "operations", "number of requests"),
    "value": ("1140", "bytes", "bytes of a value (YCSB: 10 fields of 100 bytes and their names)"),
    "write_buffer": ("64MiB", "bytes", "memtable size"),
    "target": ("64MiB", "bytes", "size of a table of level 1 and below"),
    "level_base": ("256MiB", "bytes", "size of level 1; each further level is ten times larger"),
    "level0": ("4", "tables", "tables of level 0 that start a compaction"),
    "block": ("4KiB", "bytes", "size of a data block"),
    "bloom": ("0", "bits", "bits of a bloom filter for each key (0: none, RocksDB's default)"),
    "sync": ("no", "bool", "fdatasync the log after each put"),
    "seed": ("1", "seed", "seed of the requests"),
    "interval": ("1us", "time", "trace time between two calls"),
}
KEY = 23  # bytes: "user" and 19 digits
TABLE_WRITER = 1 << 20  # bytes of a table's write buffer, which is written when the next block does not fit
MANIFEST_RECORD = 137  # bytes of a record; median of a trace with keys of 23 bytes
FOLDER, MANIFEST, CURRENT, LOGS, TABLES = 0, 1, 2, (3, 4), 5  # object ids
LOG_BUFFER, TABLE_BUFFER, READ_BUFFER = 0, 1 << 20, 4 << 20  # buffer addresses in the program's memory
# sort keys reserved for each request's rows: one for each sorted run, the last for the log; must exceed the number of runs
_RUNS = 1 << 10


class Workload(_stream.Stream):
    """Stream of the store's calls (a records.Source); see PARAMS.

    A subclass may set `key` (bytes of a key), `has_log` and `multiplier` before it calls this class' constructor.

    Raises UsageError for an unknown workload or distribution, or sizes below one record.
    """

    key = KEY
    has_log = True
    multiplier: float = 10  # ratio of the sizes of two consecutive levels

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("workload", p.workload, (*_ycsb.MIXES, "fill"))
        self.mix, self.longest = self.mixed(p.workload)
        _stream.choose("distribution", p.distribution, ("own", *_ycsb.DISTRIBUTIONS))
        p.at_least(1, "records", "operations", "value", "level0", "block")
        p.at_least(0, "bloom")
        record = self.key + 8 + p.value
        if min(p.write_buffer, p.target, p.level_base) < record:
            raise UsageError(f"write_buffer, target and level_base must hold at least one record of {record} bytes")
        self.workload, self.distribution = p.workload, "" if p.distribution == "own" else p.distribution
        self.records, self.operations, self.seed = p.records, p.operations, p.seed
        self.shape, self.sync, self.write_buffer = shape(self.key, p.value, p.block), p.sync, p.write_buffer
        self.per_memtable = memtable_records(self.key, p.value, p.write_buffer)
        self.target, self.room = p.target, p.target * 11 // 10
        self.levels_of = p.level0, p.level_base, self.multiplier
        self.manifest_record = MANIFEST_RECORD + 2 * (self.key - KEY)  # it has a table's first and last key
        self.miss = 0.6185**p.bloom if p.bloom else 1.0  # best false-positive rate of a bloom filter (1: no filter)
        self.log = log_records(self.key, p.value, self.per_memtable)
        inserts = p.operations if p.workload == "fill" else int(p.operations * self.mix[0][_ycsb.INSERT] * 2)
        slots = (
            4 * (p.records + inserts) // min(max(1, p.target // self.shape.record), self.per_memtable)
            + 4 * p.level0
            + 64
        )
        paths = ["/db", "/db/MANIFEST-000001", "/db/000001.dbtmp", "/db/000002.log", "/db/000003.log"]
        paths += [f"/db/{4 + slot:06}.sst" for slot in range(slots)]
        self.files = _stream.table(paths, [0] + [-1] * (len(paths) - 1), [True] + [False] * (len(paths) - 1))

    def mixed(self, workload: str) -> tuple[tuple[Sequence[float], str], int]:
        """Return the shares and the distribution of the requests, and the longest scan."""
        return _ycsb.MIXES.get(workload, _ycsb.MIXES["c"]), _ycsb.LONGEST_SCAN

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the opening, the load and the requests, in blocks that end where the memtable is full."""
        store = Store(self)
        yield setup(store.opening())
        random = np.random.default_rng([self.seed, 1])
        if self.workload == "fill":
            for first in range(0, self.operations, _stream.PIECE):
                count = min(_stream.PIECE, self.operations - first)
                yield from store.puts(_ycsb.fnv(random.integers(0, self.records, count)))
            return
        for first in range(0, self.records, _stream.PIECE):
            keys = _ycsb.fnv(np.arange(first, min(first + _stream.PIECE, self.records)))
            yield from map(setup, store.puts(keys))
        requested = (self.mix, self.records, self.operations, self.seed, self.distribution, self.longest)
        for block in _ycsb.requests(*requested):
            yield from store.requests(block, random)


class Store:
    """The running store: memtable, tables, log, and the calls that they cause."""

    def __init__(self, given: Workload) -> None:
        self.given = given
        self.levels = Levels(*given.levels_of)
        self.memtable = np.zeros(0, np.int64)  # sorted keys of the memtable
        self.held = 0  # records in the memtable, and in the log
        self.written = 0  # bytes in the log
        self.current = 0  # index of the current log file
        self.manifest = 0  # bytes of the manifest
        self.free = list(range(len(given.files) - 1, TABLES - 1, -1))
        self.known = np.zeros(0, np.int64)  # all keys, sorted; kept for scans

    def opening(self) -> np.ndarray:
        """Return the calls that make the manifest, CURRENT (by renaming a temporary file), and the first log."""
        sync = ops(FSYNC, CURRENT, flag=DATA_ONLY)
        made = [ops(CREATE, file, parent=FOLDER) for file in (MANIFEST, CURRENT)]
        return joined(
            [*made, ops(WRITE, CURRENT, 0, 16), sync, ops(CLOSE, CURRENT), ops(RENAME, CURRENT), self._new_log()]
        )

    def puts(self, keys: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the calls of puts of these keys, without other requests."""
        none = np.zeros(len(keys), np.int64)
        yield from self.requests(_ycsb.Requests(none + _ycsb.INSERT, keys, none), np.random.default_rng(0), hashed=True)

    def requests(
        self, block: _ycsb.Requests, random: np.random.Generator, hashed: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield the calls of a block of requests; cut where a put fills the memtable."""
        kind, scan = block.kind, block.scan
        key = block.key if hashed else _ycsb.fnv(block.key)
        puts = np.cumsum((kind != _ycsb.READ) & (kind != _ycsb.SCAN))
        start = done = 0
        while start < len(kind):
            stop = min(len(kind), int(np.searchsorted(puts - done, self.given.per_memtable - self.held)) + 1)
            part = slice(start, stop)
            yield self._segment(kind[part], key[part], scan[part], random)
            start, done = stop, int(puts[stop - 1])
            if self.held >= self.given.per_memtable:
                yield self._flush()
                while work := self.levels.due():
                    yield self._compact(*work)

    def _segment(self, kind: np.ndarray, key: np.ndarray, scan: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return the calls of requests between two flushes."""
        puts = np.flatnonzero((kind != _ycsb.READ) & (kind != _ycsb.SCAN))
        gets = np.flatnonzero((kind == _ycsb.READ) | (kind == _ycsb.UPDATE) | (kind == _ycsb.MODIFY))
        fresh, first = np.unique(key[puts], return_index=True)
        parts = [self._log_rows(puts)]
        if len(gets):
            recent = _among(key[gets], fresh)
            recent[recent] = puts[first[np.searchsorted(fresh, key[gets[recent]])]] < gets[recent]
            gets = gets[~recent]
            gets = gets[np.argsort(key[gets])]  # searchsorted is several times faster on sorted keys
            gets = gets[~_among(key[gets], self.memtable)]
            parts += self._get_rows(gets, key[gets], random)
        if len(scans := np.flatnonzero(scan)):
            scans = scans[np.argsort(key[scans])]
            parts += self._scan_rows(scans, key[scans], scan[scans])
        self.memtable = merge(self.memtable, fresh)
        if len(self.known):
            self.known = merge(self.known, fresh)
        self.held += len(puts)
        return weave(*parts)

    def _log_rows(self, puts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self.given.has_log:
            return puts[:0], ops(WRITE, puts[:0])
        length = self.given.log[self.held : self.held + len(puts)]
        offset = self.written + np.cumsum(length) - length
        self.written += int(length.sum())
        rows = ops(WRITE, LOGS[self.current], offset, length, flag=APPENDS, buffer=LOG_BUFFER)
        if not self.given.sync:
            return puts * _RUNS + _RUNS - 1, rows
        durable = _stream.alternating(rows, np.repeat(ops(FSYNC, LOGS[self.current], flag=DATA_ONLY), len(rows)))
        return np.repeat(puts, 2) * _RUNS + _RUNS - 1, durable

    def _get_rows(
        self, at: np.ndarray, key: np.ndarray, random: np.random.Generator
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the block reads of look-ups: table by table until the key is found."""
        parts = []
        for number, run in enumerate(self.levels.runs()):
            index = np.searchsorted(run.keys, key)
            found = (index < len(run.keys)) & (run.keys[np.minimum(index, len(run.keys) - 1)] == key)
            asked = found | ~np.isin(index, run.starts)  # a key between two tables, or beyond them, is in no table
            if self.given.miss < 1:
                asked &= found | (random.random(len(key)) < self.given.miss)
            file, offset, length = run.place(np.where(found, index, index - 1)[asked])
            parts.append((at[asked] * _RUNS + number, ops(READ, file, offset, length, buffer=READ_BUFFER)))
            at, key = at[~found], key[~found]
        return parts

    def _scan_rows(self, at: np.ndarray, key: np.ndarray, scan: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the block reads of scans: in each run, the blocks from the first key to the key `scan` records further on."""
        if not len(self.known):
            self.known = merge(self.memtable, *[run.keys for run in self.levels.runs()])
        last = self.known[np.minimum(np.searchsorted(self.known, key) + scan, len(self.known)) - 1]
        parts = []
        for number, run in enumerate(self.levels.runs()):
            starts = run.block_starts()
            low = np.searchsorted(starts, np.searchsorted(run.keys, key), side="right") - 1
            high = np.searchsorted(starts, np.searchsorted(run.keys, last, side="right"), side="left")
            count = np.maximum(high - low, 1)
            which = np.repeat(np.arange(len(at)), count)
            block = low[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
            file, offset, length = run.place(starts[np.minimum(block, len(starts) - 1)])
            parts.append((at[which] * _RUNS + number, ops(READ, file, offset, length, buffer=READ_BUFFER)))
        return parts

    def _new_log(self) -> np.ndarray:
        log = LOGS[self.current]
        room = self.given.write_buffer * 11 // 10
        return joined([ops(CREATE, log, parent=FOLDER), ops(FALLOCATE, log, 0, room, flag=KEEP_SIZE)])

    def _flush(self) -> np.ndarray:
        """Return the calls that turn the memtable into a table of level 0, begin a new log and remove the old one."""
        old = LOGS[self.current]
        table = Table(self.free.pop(), self.memtable, self.given.shape)
        self.levels.add(table)
        written = self.written
        self.memtable, self.held, self.written = np.zeros(0, np.int64), 0, 0
        parts = [_written(table), _opened(table), self._edit()]
        if self.given.has_log:  # without puts in the log, the empty log file stays
            self.current = 1 - self.current
            parts = [self._new_log(), *parts, ops(TRUNCATE, old, new_size=written, thread=1)]
            parts += [ops(CLOSE, old, thread=1), ops(UNLINK, old, parent=FOLDER, thread=1)]
        return joined(parts)

    def _compact(self, level: int, tables: list[Table], below: list[Table]) -> np.ndarray:
        """Merge tables into the next level; a table that overlaps nothing moves without a copy."""
        if not below and (level or disjoint(tables)):
            self.levels.replace(level, tables, tables)
            return self._edit()
        inputs = [*tables, *below]
        merged = merge(*[table.keys for table in inputs])
        ends = self.levels.cuts(level, merged, self.given.target)
        spans = list(zip([0, *ends], ends, strict=False))
        made = [Table(self.free.pop(), merged[first:end], self.given.shape) for first, end in spans]
        parts = [_read_for_merge(table, merged) for table in inputs]
        parts += [
            _written_by_merge(table, first, self.given.room) for table, (first, _) in zip(made, spans, strict=True)
        ]
        gone = joined(
            [joined([ops(CLOSE, t.file, thread=1), ops(UNLINK, t.file, parent=FOLDER, thread=1)]) for t in inputs]
        )
        self.levels.replace(level, inputs, made)
        self.free += [table.file for table in reversed(inputs)]
        return joined([weave(*parts), *map(_opened, made), self._edit(), gone])

    def _edit(self) -> np.ndarray:
        """Return the calls that record a change of the tables in the manifest."""
        offset, self.manifest = self.manifest, self.manifest + self.given.manifest_record
        record = ops(WRITE, MANIFEST, offset, self.manifest - offset, flag=APPENDS, thread=1)
        return joined([record, ops(FSYNC, MANIFEST, flag=DATA_ONLY, thread=1)])


def _among(key: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return a mask of the keys that are in a sorted array."""
    if not len(known):
        return np.zeros(len(key), bool)
    return known[np.minimum(np.searchsorted(known, key), len(known) - 1)] == key


def setup(rows: np.ndarray) -> np.ndarray:
    """Return the rows, marked as preparation."""
    rows["flag"] |= SETUP
    return rows


def _written(table: Table, room: int = 0) -> np.ndarray:
    """Return the calls that create a table, write it in pieces, make it durable and close it.

    With `room` bytes pre-allocated, the file is cut to its size.
    """
    piece = max(1, TABLE_WRITER // table.shape.block) * table.shape.block
    sizes = np.array([table.size])
    _, writes = _stream.transfers(WRITE, table.file, sizes, piece, flag=APPENDS, thread=1, buffer=TABLE_BUFFER)
    parts = [ops(CREATE, table.file, parent=FOLDER, thread=1), writes, ops(FSYNC, table.file, flag=DATA_ONLY, thread=1)]
    if room:
        parts.insert(1, ops(FALLOCATE, table.file, 0, room, flag=KEEP_SIZE, thread=1))
        parts.append(ops(TRUNCATE, table.file, new_size=table.size, thread=1))
    return joined([*parts, ops(CLOSE, table.file, thread=1)])


def _opened(table: Table) -> np.ndarray:
    """Return the calls that open a table and read its tail backwards: footer, meta index, properties, index."""
    length = np.array([FOOTER, META_INDEX, PROPERTIES, table.index])
    reads = ops(READ, table.file, table.size - np.cumsum(length), length, thread=1, buffer=READ_BUFFER)
    return joined([ops(OPEN, table.file, thread=1), reads])


def _read_for_merge(table: Table, merged: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the reads of all blocks of an input, each at the place of its first key in the merged order."""
    number = np.arange(table.blocks)
    offset, length = table.block(number)
    place = np.searchsorted(merged, table.keys[:: table.shape.per_block])
    return place * 2, ops(READ, table.file, offset, length, thread=1, buffer=READ_BUFFER)


def _written_by_merge(table: Table, first: int, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the calls of an output whose first key is number `first`: a piece is written once its last record is known."""
    rows = _written(table, room)
    early = (rows["op"] == CREATE) | (rows["op"] == FALLOCATE)
    records = np.minimum(rows["offset"] + rows["length"], table.size) * len(table.keys) // table.size
    place = first + np.where(early, 0, np.where(rows["op"] == WRITE, records, len(table.keys)))
    return place * 2 + np.where(early, 0, 1), rows
