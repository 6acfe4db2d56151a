"""RocksDB's db_bench: its command line, as requests to the store of `lsm`, one benchmark after the other.

Source: RocksDB, tools/db_bench_tool.cc (see _db_bench, lsm).  Keys are numbers in order, as db_bench makes them.
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, READ, UNLINK
from scmsim.workload import _stream, _ycsb, lsm
from scmsim.workload._db_bench import Benchmark, parse
from scmsim.workload._lsm import merge
from scmsim.workload._stream import ops, weave

SUMMARY = "RocksDB's db_bench: reads its command line and sends the requests of its benchmarks to an LSM store (lsm)"
PARAMS = {
    "command": ("", "text", "db_bench's command line, such as '--benchmarks=fillrandom,readrandom --num=100000'"),
    "seed": ("1", "seed", "seed of the requests, unless the line has --seed"),
    "interval": ("1us", "time", "trace time between two calls"),
}
COMMAND = "command"  # scmsim synth db_bench -o OUT.parquet -- --benchmarks=fillrandom --num=100000
_BLOCK = 1 << 14  # requests generated at a time


class Workload(lsm.Workload):
    """Stream of the store's calls under db_bench's benchmarks (a records.Source); see PARAMS.

    Raises UsageError for a flag or a benchmark that is not modelled; all mistakes are named.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if not p.command:
            raise UsageError("give db_bench's command line, such as -- --benchmarks=fillrandom,readrandom --num=100000")
        self.line = parse(p.command)
        numbers = self.line.numbers
        self.key, self.has_log, self.multiplier = numbers["key_size"], self.line.has_log, self.line.multiplier
        writing = [
            each.requests * each.threads for each in self.line.benchmarks if each.does not in ("scan", "get", "seek")
        ]
        super().__init__(
            workload="fill",
            records=numbers["num"],
            operations=max(writing, default=1) + sum(writing),
            value=self.line.benchmarks[0].value,
            write_buffer=numbers["write_buffer_size"],
            target=numbers["target_file_size_base"],
            level_base=numbers["max_bytes_for_level_base"],
            level0=numbers["level0_file_num_compaction_trigger"],
            block=numbers["block_size"],
            bloom=self.line.bloom,
            seed=numbers["seed"] or p.seed,
            interval=p.interval,
        )
        self.header = _stream.header("db-bench", p)
        self.header["notes"] = self.line.notes

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the opening, the store that exists beforehand, and the benchmarks."""
        store = lsm.Store(self)
        self.sync = 0
        yield lsm.setup(store.opening())
        num, is_first = self.line.numbers["num"], True
        if self.line.is_there:
            for first in range(0, num, _BLOCK):
                yield from map(lsm.setup, store.puts(np.arange(first, min(first + _BLOCK, num))))
        for number, each in enumerate(self.line.benchmarks):
            if each.is_fresh and not is_first:
                yield _destroyed(store)
                store = lsm.Store(self)
                yield store.opening()
            is_first, self.sync = False, int(each.sync)
            random = np.random.default_rng([self.seed, number])
            if each.does == "scan":
                yield from _scanned(store, each)
                continue
            for block in self._requests(each, random):
                yield from store.requests(block, random, hashed=True)

    def _requests(self, each: Benchmark, random: np.random.Generator) -> Iterator[_ycsb.Requests]:
        """Yield the requests of a benchmark in blocks: each turn has all threads, then the additional writer."""
        does, _, writes = each.does.partition(" ")
        kind_of = {"get": _ycsb.READ, "seek": _ycsb.SCAN, "update": _ycsb.MODIFY}.get(does, _ycsb.INSERT)
        order = random.permutation(each.keys) if does == "unique" else None
        wide = each.threads + bool(writes)
        many = max(1, _BLOCK // wide)
        for first in range(0, each.requests, many):
            turn = np.arange(first, min(first + many, each.requests))
            if order is not None or does == "sequential":
                key = np.repeat(turn if order is None else order[turn], wide)
            else:
                key = random.integers(0, each.keys, len(turn) * wide)
            kinds = np.full((len(turn), wide), kind_of)
            if does == "mix":  # a hundred requests of a thread: the reads, then the writes
                kinds[turn % 100 < self.line.numbers["readwritepercent"]] = _ycsb.READ
            if writes:
                kinds[:, -1] = _ycsb.INSERT
            kind = kinds.reshape(-1)
            scan = np.where(kind == _ycsb.SCAN, max(1, self.line.numbers["seek_nexts"]), 0)
            yield _ycsb.Requests(kind, key, scan)


def _destroyed(store: lsm.Store) -> np.ndarray:
    """Return the calls that remove a store before the next benchmark that begins with an empty one."""
    tables = [table.file for level in store.levels.levels for table in level]
    open_files = np.array([lsm.MANIFEST, lsm.LOGS[store.current], *tables])
    closed = ops(CLOSE, open_files)
    gone = ops(UNLINK, np.array([*open_files, lsm.CURRENT]), parent=lsm.FOLDER)
    return weave((0, closed), (1, gone))


def _scanned(store: lsm.Store, each: Benchmark) -> Iterator[np.ndarray]:
    """Yield the block reads of a scan from the first key on: each table's blocks, in the order of their first keys."""
    tables = [table for level in store.levels.levels for table in level]
    if not tables:
        return
    merged = merge(*[table.keys for table in tables])
    reads = []
    for table in tables:
        offset, length = table.block(np.arange(table.blocks))
        place = np.searchsorted(merged, table.keys[:: table.shape.per_block])
        is_read = place < each.requests
        reads.append((place[is_read], ops(READ, table.file, offset[is_read], length[is_read], buffer=lsm.READ_BUFFER)))
    rows = weave(*reads)
    for first in range(0, len(rows), _BLOCK):
        yield np.repeat(rows[first : first + _BLOCK], each.threads)
