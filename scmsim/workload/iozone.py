"""IOzone 3.489 in automatic mode (-a): each file size with each record size, through all tests, call by call.

Source: iozone.c (auto_test, begin and the *_perf_test functions), checked with strace of a build.  Not modelled: the mixed
test (8), the extension tests (-E: pread, pwritev, ...), threads (-t), and other options that change the calls (-o, -I, -B).
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import CLOSE, CREATE, FSYNC, OPEN, READ, STAT, SYNC, TRUNCATE, UNLINK, WRITE, Files
from scmsim.workload import _foreign, _stream
from scmsim.workload._mt64 import permutation
from scmsim.workload._steps import Stream, calls, check_times, run

SUMMARY = "IOzone 3 in automatic mode: its tests and its fixed random order, call by call"
PARAMS = {
    "min_file": ("64KiB", "bytes", "smallest file (-n)"),
    "max_file": ("512MiB", "bytes", "largest file (-g); each size is twice the one before"),
    "min_record": ("4KiB", "bytes", "smallest record (-y)"),
    "max_record": ("16MiB", "bytes", "largest record (-q); each size is twice the one before"),
    "crossover": ("16MiB", "bytes", "larger files start with records of 64 KiB; 0: with min_record (-z, -y or -q)"),
    "tests": ("all", "text", "all, or numbers as with -i: 0 write, 1 read, 2 random, 3 backward, 4 record rewrite, 5 stride, "
              "6 fwrite, 7 fread; such as 0,1,6"),
    "command": ("", "text", "IOzone's command line, such as '-a -g 4m -i 0 -i 1', in place of the parameters"),
    "interval": ("1us", "time", "trace time between two calls"),
}  # fmt: skip
COMMAND = "command"  # scmsim synth iozone -o OUT.parquet -- -a -g 4m

STRIDE = 17
LARGE_RECORD = 65536
SEEDS = [0x12345, 0x23456, 0x34567, 0x45678]
_BLOCK = 1 << 15  # STEPs in one array


class Workload(Stream):
    """Stream of IOzone's operations (a records.Source); see PARAMS: sizes in bytes, interval in nanoseconds.

    Raises UsageError for sizes without a test, or an unknown test.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        if p.command:
            _foreign.merge(p, _foreign.iozone(p.command), Workload.__init__)
            self.header = _stream.header("iozone", p)
        if not 1 <= p.min_record <= min(p.min_file, p.max_record) or p.min_file > p.max_file:
            raise UsageError(
                "min_record must be at least 1 byte and at most min_file and max_record; min_file must be at most max_file"
            )
        self.pairs = list(_pairs(p.min_file, p.max_file, p.min_record, p.max_record, p.crossover))
        self.tests = _chosen(p.tests)
        paths = [path for size, record in self.pairs for path in 2 * [f"/iozone/{size}-{record}"]]
        self.files = Files(
            ["/iozone", *paths],
            np.array([0] + [-1] * len(paths), np.int64),
            np.array([True] + [False] * len(paths)),
        )
        check_times(sum(32 * (size // record + 8) for size, record in self.pairs), p.interval)

    def steps(self) -> Iterator[np.ndarray]:
        """Yield the operations as STEPs: each pair of sizes begins with a new file and ends with its removal."""
        for number, (size, record) in enumerate(self.pairs):
            probe, file = 2 * number + 1, 2 * number + 2
            yield calls(2, op=SYNC)
            yield _calls(probe, CREATE, STAT, TRUNCATE, CLOSE, STAT, UNLINK)
            for test in self.tests:
                yield from _TESTS[test](file, size // record, record)
            yield _calls(file, STAT, UNLINK)


def _pairs(min_file: int, max_file: int, low: int, high: int, crossover: int) -> Iterator[tuple[int, int]]:
    size = min_file
    while size <= max_file:
        record = LARGE_RECORD if crossover and size > crossover else low
        while record <= min(high, size):
            yield size, record
            record *= 2
        size *= 2


def _chosen(tests: str) -> list[int]:
    """Return the numbers of the tests to run, in IOzone's order."""
    words = [str(i) for i in range(len(_TESTS))] if tests == "all" else str(tests).split(",")
    wrong = [word for word in words if word.strip() not in map(str, range(len(_TESTS)))]
    if wrong:
        raise UsageError(f"no IOzone test {wrong[0]!r}; give all, or numbers from 0 to {len(_TESTS) - 1} as in 0,1,6")
    if 0 not in map(int, words):
        raise UsageError("IOzone's other tests need the file of test 0 (write); add it, as in 0,2")
    return sorted(set(map(int, words)))


def _calls(file: int, *ops: int) -> np.ndarray:
    steps = calls(len(ops), op=np.array(ops), file=file)
    steps["parent"][np.isin(steps["op"], (CREATE, UNLINK))] = 0
    steps["offset"][steps["op"] == TRUNCATE] = 0
    return steps


def _write(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    yield _calls(file, CREATE, CLOSE)
    yield from 2 * _written(file, count, record)


def _fwrite(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    """Yield the calls of test 6.

    setvbuf gives the stream a buffer of one record, so each fwrite bypasses the buffer in one piece.
    """
    yield _calls(file, STAT)
    yield from 2 * _written(file, count, record)


def _written(file: int, count: int, record: int) -> list[np.ndarray]:
    return [_calls(file, OPEN, FSYNC), run(WRITE, file, count * record, record), _calls(file, FSYNC, CLOSE)]


def _read(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    for _ in range(2):
        yield _calls(file, OPEN, FSYNC)
        yield run(READ, file, record, record)  # the first record is read before the clock starts
        yield run(READ, file, count * record, record)
        yield _calls(file, FSYNC, CLOSE)


def _random(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    for op in (READ, WRITE):
        yield _calls(file, OPEN)
        yield from _records(op, file, shuffled(count), record)
        yield _calls(file, FSYNC, CLOSE)


def _backward(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    for _ in range(2):
        yield _calls(file, OPEN, FSYNC, STAT)
        yield run(READ, file, count * record, record, offset=(count - 1) * record, stride=-record)
        yield _calls(file, FSYNC, CLOSE)


def _record_rewrite(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    yield _calls(file, OPEN, FSYNC)
    yield run(WRITE, file, count * record, record, stride=0)
    yield _calls(file, FSYNC, CLOSE)


def _stride(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    yield _calls(file, OPEN, FSYNC)
    yield from _records(READ, file, strided(count), record)
    yield _calls(file, FSYNC, CLOSE)


def _fread(file: int, count: int, record: int) -> Iterator[np.ndarray]:
    for _ in range(2):
        yield _calls(file, OPEN, OPEN, FSYNC, CLOSE)  # the second descriptor is for the fsync
        yield run(READ, file, count * record, record)
        yield _calls(file, CLOSE)


def _records(op: int, file: int, order: np.ndarray, record: int) -> Iterator[np.ndarray]:
    for first in range(0, len(order), _BLOCK):
        offsets = order[first : first + _BLOCK] * record
        yield calls(len(offsets), op=op, file=file, offset=offsets, length=record)


@lru_cache(maxsize=1)
def shuffled(count: int) -> np.ndarray:
    """Return the order of the random tests: the same permutation of all records each time."""
    return np.array(permutation(count, SEEDS), np.int64)


@lru_cache(maxsize=1)
def strided(count: int) -> np.ndarray:
    """Return the order of the stride test: every 17th record, then the same one record further on.

    Some records occur twice, some never.
    """
    order = np.empty(count, np.int64)
    done = start = wraps = 0
    while done < count:
        # a sweep ends with the first record that is at most 18 records before the last one (number count - 1)
        sweep = np.arange(start, max(start, count - 1 - STRIDE - 1) + STRIDE, STRIDE, dtype=np.int64)
        sweep = sweep[: 1 + int(np.argmax(sweep + STRIDE + 1 >= count - 1))][: count - done]
        order[done : done + len(sweep)] = sweep
        done, wraps = done + len(sweep), wraps + 1
        start = 0 if count <= STRIDE else wraps % count
    return order


_TESTS = (_write, _read, _random, _backward, _record_rewrite, _stride, _fwrite, _fread)
