"""db_bench's command line: the store's sizes, and the benchmarks that run one after the other.

Source: RocksDB, tools/db_bench_tool.cc (7.8.3 and 1dfa7297 of 2026-08-07).
"""

import re
from typing import NamedTuple

from scmsim.core.errors import UsageError, unknown
from scmsim.workload._flags import OFF, SWITCH, Flags, read
from scmsim.workload._mistakes import Mistakes

# benchmark -> (kind of its requests, whether it begins with an empty store)
BENCHMARKS = {
    "fillseq": ("sequential", True), "fillrandom": ("random", True), "filluniquerandom": ("unique", True),
    "fillsync": ("random", True), "fill100K": ("random", True), "overwrite": ("random", False),
    "readseq": ("scan", False), "readtocache": ("scan", False), "readrandom": ("get", False), "readrandomsmall": ("get", False),
    "seekrandom": ("seek", False), "updaterandom": ("update", False), "readrandomwriterandom": ("mix", False),
    "readwhilewriting": ("get while writing", False), "seekrandomwhilewriting": ("seek while writing", False),
}  # fmt: skip
# benchmarks that only print, or wait for background work, which the model does as soon as it is due
_SILENT_BENCHMARKS = (
    "stats", "levelstats", "memstats", "sstables", "resetstats", "stats_history", "waitforcompaction", "crc32c", "xxhash",
    "xxhash64", "xxh3", "acquireload", "compress", "uncompress",
)  # fmt: skip
_NUMBERS = {  # defaults of RocksDB 7.8.3
    "num": 1_000_000, "key_size": 16, "value_size": 100, "write_buffer_size": 64 << 20, "target_file_size_base": 64 << 20,
    "max_bytes_for_level_base": 256 << 20, "level0_file_num_compaction_trigger": 4, "block_size": 4096, "threads": 1,
    "reads": -1, "writes": -1, "readwritepercent": 90, "seek_nexts": 0, "seed": 0, "duration": 0,
}  # fmt: skip
_SILENT_SWITCHES = """
    allow_concurrent_memtable_write cache_index_and_filter_blocks confidence_interval_only enable_pipelined_write
    enable_write_thread_adaptive_yield force_consistency_checks histogram optimize_filters_for_hits paranoid_checks
    pin_l0_filter_and_index_blocks_in_cache pin_top_level_index_and_filter print_malloc_stats progress_reports
    rate_limiter_auto_tuned report_bg_io_stats report_file_operations show_table_properties statistics
    stats_per_interval thread_status_per_interval unordered_write use_adaptive_mutex verify_checksum
    whole_key_filtering readonly
""".split()
_SILENT_VALUES = """
    arena_block_size benchmark_read_rate_limit benchmark_write_rate_limit bytes_per_sync wal_bytes_per_sync
    cache_numshardbits cache_high_pri_pool_ratio cache_size cache_type compaction_readahead_size compression_level
    compression_parallel_threads compression_ratio checksum_type db delayed_write_rate file_opening_threads
    hard_pending_compaction_bytes_limit soft_pending_compaction_bytes_limit level0_slowdown_writes_trigger
    level0_stop_writes_trigger max_background_compactions max_background_flushes max_background_jobs
    max_write_buffer_number memtablerep num_bottom_pri_threads num_high_pri_threads num_low_pri_threads
    num_levels open_files ops_between_duration_checks perf_level rate_limiter_bytes_per_sec report_file
    report_interval_seconds slow_usecs stats_dump_period_sec stats_interval stats_interval_seconds stats_level
    subcompactions wal_dir compaction_pri format_version min_level_to_compress max_total_wal_size
    metadata_block_size table_cache_numshardbits writable_file_max_buffer_size
""".split()
_OFF = {  # switches that must be off -> the effect that is not modelled
    "use_direct_reads": "reads of other sizes", "use_direct_io_for_flush_and_compaction": "writes of other sizes",
    "mmap_read": "loads in place of reads", "mmap_write": "stores in place of writes", "partition_index": "another table format",
    "use_blob_db": "values in files of their own", "enable_blob_files": "values in files of their own",
    "level_compaction_dynamic_level_bytes": "other sizes of levels", "transaction_db": "transactions",
    "disable_auto_compactions": "levels that grow without compaction", "optimistic_transaction_db": "transactions",
    "use_plain_table": "another table format", "use_cuckoo_table": "another table format", "manual_wal_flush": "a buffered log",
    "inplace_update_support": "updates in the memtable", "finish_after_writes": "a writer that goes on after the readers",
    "reverse_iterator": "scans backwards", "universal_allow_trivial_move": "another compaction",
    "use_tailing_iterator": "other iterators",
}  # fmt: skip
_ONLY = {
    "batch_size": "1|1", "compaction_style": "0|0", "num_column_families": "1|1", "num_multi_db": "0|1",
    "value_size_distribution_type": "fixed|FIXED", "target_file_size_multiplier": "1|1", "merge_operator": "none|none",
    "keys_per_prefix": "0|0", "prefix_size": "0|0", "row_cache_size": "0|0", "min_write_buffer_number_to_merge": "1|1",
    "max_scan_distance": "0|0", "write_buffer_manager_size": "0|0", "db_write_buffer_size": "0|0",
}  # fmt: skip
FLAGS = Flags(
    program="db_bench",
    known={
        **dict.fromkeys(_NUMBERS, "number"), "benchmarks": "text", "bloom_bits": "share", "sync": SWITCH, "disable_wal": SWITCH,
        "max_bytes_for_level_multiplier": "share", "use_existing_db": SWITCH,
        "compression_type": "none|snappy|zlib|bzip2|lz4|lz4hc|zstd",
    },
    silent={
        **dict.fromkeys(_SILENT_SWITCHES, SWITCH), **dict.fromkeys(_SILENT_VALUES, "text"), **dict.fromkeys(_OFF, OFF), **_ONLY,
    },
    refused={
        **{flag: f"it means {what}; take it out" for flag, what in _OFF.items()},
        **{flag: f"only {unit.partition('|')[0]} is" for flag, unit in _ONLY.items()},
        "options_file": "write its options as flags",
    },
)  # fmt: skip
MAX_THREADS, MOST = 1 << 12, 1 << 40


class Benchmark(NamedTuple):
    """One benchmark: its name, the kind of its requests, whether the store is emptied before, and its options."""

    name: str
    does: str
    is_fresh: bool
    requests: int  # requests of each thread
    threads: int
    keys: int  # number of keys: the keys are 0 to keys - 1
    sync: bool
    value: int


class Line(NamedTuple):
    """A command line: numbers by flag, the benchmarks, whether the store exists before, whether it has a log, and notes."""

    numbers: dict[str, int]
    bloom: float
    multiplier: float
    benchmarks: list[Benchmark]
    is_there: bool
    has_log: bool
    notes: list[str]


def parse(text: str) -> Line:
    """Parse a command line of db_bench; raise UsageError with all mistakes."""
    line = read(text, FLAGS)
    given, mistakes = line.given, line.mistakes
    numbers = {name: int(given.get(name, default)) for name, default in _NUMBERS.items()}
    _check(numbers, mistakes)
    if "benchmarks" not in given:
        mistakes.add(
            "db_bench: no --benchmarks; its own default list has benchmarks that are not modelled, so name them"
        )
    found, skipped = list[Benchmark](), list[str]()
    for name in filter(None, str(given.get("benchmarks", "")).split(",")):
        if name in _SILENT_BENCHMARKS:
            skipped.append(name)
            continue
        try:
            found += _benchmarks(name, numbers, bool(given.get("sync")))
        except UsageError as error:
            mistakes.add(error)
    is_there = bool(given.get("use_existing_db"))
    if is_there and (fresh := [each.name for each in found if each.is_fresh]):
        mistakes.add(f"db_bench: {fresh[0]} with --use_existing_db is skipped, in db_bench too; take one out")
    if len({each.value for each in found}) > 1:
        mistakes.add(
            "db_bench: fill100K beside benchmarks with a different value size is not modelled; run fill100K alone"
        )
    if not found and not mistakes.texts:
        mistakes.add("db_bench: no benchmark makes a request; add one, such as --benchmarks=fillrandom")
    mistakes.check()
    if not found[0].is_fresh and not is_there and found[0].does != "random":
        text = f"db_bench: {found[0].name} would run on an empty store"
        raise UsageError(f"{text}; put fillrandom or another fill before it, or add --use_existing_db")
    notes = [f"flags and benchmarks that change no call: {', '.join(line.silent + skipped)}"] * bool(
        line.silent or skipped
    )
    if given.get("compression_type") != "none":
        notes.append("tables are not compressed here, as with --compression_type=none")
    notes.append(
        "each look-up reads its blocks from the tables, as without a block cache; the random numbers are not RocksDB's"
    )
    if is_there:
        notes.append(f"the store beforehand (--use_existing_db) has {numbers['num']:,} keys, filled in order")
    if any(each.threads > 1 or "while" in each.does for each in found):
        notes.append(
            "threads take turns, one request each, as one thread; a writer beside readers writes once in a turn"
        )
    bloom, multiplier = (
        max(0.0, float(given.get("bloom_bits", 0))),
        float(given.get("max_bytes_for_level_multiplier", 10)),
    )
    return Line(numbers, bloom, max(multiplier, 1.0), found, is_there, not given.get("disable_wal"), notes)


def _benchmarks(name: str, numbers: dict[str, int], sync: bool) -> list[Benchmark]:
    """Return a benchmark as often as it runs: [X3-W1] in its name readrandom[X3-W1] means four times."""
    match = re.fullmatch(r"(\w+)(?:\[((?:[XW][0-9]{1,4}-?)+)\])?", name)
    plain = match[1] if match else name
    if plain not in BENCHMARKS:
        raise UsageError(f"db_bench: {unknown('modelled benchmark', plain[:40], (*BENCHMARKS, *_SILENT_BENCHMARKS))}")
    times = sum(int(part[1:]) for part in (match[2] or "X1").split("-") if part) if match else 1
    does, is_fresh = BENCHMARKS[plain]
    num, reads, writes = numbers["num"], numbers["reads"], numbers["writes"]
    either = max(reads, writes) if max(reads, writes) >= 0 else num
    reads, writes = (num if value < 0 else value for value in (reads, writes))
    keys = num // 1000 if plain in ("fillsync", "fill100K") else num
    count = {"scan": reads, "get": reads, "seek": reads, "update": either, "mix": either}.get(
        does.partition(" ")[0], writes or keys
    )
    count = keys if plain == "filluniquerandom" or plain == "readtocache" else count
    count = reads // 1000 if plain == "readrandomsmall" else count
    threads = 1 if plain in ("filluniquerandom", "readtocache") else numbers["threads"]
    if not count or not keys:
        raise UsageError(f"db_bench: {plain} makes no request; give a larger --num, --reads or --writes")
    value = 100_000 if plain == "fill100K" else numbers["value_size"]
    is_synchronous = sync or plain == "fillsync"
    return times * [Benchmark(plain, does, is_fresh, count, threads, keys, is_synchronous, value)]


def _check(numbers: dict[str, int], mistakes: Mistakes) -> None:
    """Add a mistake for every number that is out of range."""
    least = {"key_size": 8, "reads": -1, "writes": -1, "readwritepercent": 0, "seek_nexts": 0, "seed": 0, "duration": 0}
    most = {"threads": MAX_THREADS, "key_size": 1 << 16, "readwritepercent": 100, "seek_nexts": 1 << 9}
    for name, value in numbers.items():
        low, high = least.get(name, 1), most.get(name, MOST)
        if not low <= value <= high:
            mistakes.add(f"db_bench: --{name}={value} is out of range; give {low:,} to {high:,}")
    if numbers["duration"]:
        mistakes.add(
            "db_bench: --duration makes the clock decide how many calls run; give --duration=0 and --reads or --writes"
        )
