"""Memory objects that can become files: the workloads of the SCM manager ("Research on a software architecture for SCM").

- micro: Table 2, `malloc`, `store`, `load`, `free` of 512, 1024 and 4096 bytes, 100 times each, and Table 3, `creat`, `open`,
  `write`, `read`, `close` of the same sizes, 10 times each
- distillery, ftpget, insmod, cp, cat: the five programs of section 5.3 on its five files (35761, 2278, 1108, 2598, 4797 bytes),
  either through file calls (unchanged) or through `mm_to_file` and `file_to_mm` (changed as that section states)
- churn: objects of log-uniform size (32 B to 128 KiB, the buddy's units) allocated and freed at random; not in the paper

Not in the paper but our choice: distillery's output is half its input; ftpget receives in 512-byte pieces (the paper reports times
per 512 bytes); file calls move 4 KiB.

Columns of the operations:
- `file`: the object, which stays the same object when it becomes a file
- `length` of malloc, mm_to_file and file_to_mm: its size
- `parent` of mm_to_file: the directory that gets the name
- `parent` of file_to_mm: the directory that loses the name (the flag deletes the metadata), or -1 if the name stays
"""

from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    CLOSE,
    CREATE,
    FILE_TO_MM,
    FREE,
    MALLOC,
    MM_TO_FILE,
    OPEN,
    READ,
    SETUP,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
    joined,
)
from scmsim.workload import _stream
from scmsim.workload._stream import ops

SUMMARY = "the SCM manager's memory objects: malloc, store, load, free, mm_to_file, file_to_mm"
PARAMS = {
    "app": ("micro", "micro|distillery|ftpget|insmod|cp|cat|churn", "program to trace"),
    "interface": ("objects", "objects|files", "whether the program uses memory objects or file calls"),
    "repeats": ("10", "runs", "runs of the program; micro: ten times as many for memory objects (100 in the paper)"),
    "live": ("1000", "objects", "churn: objects that exist at once"),
    "calls": ("100000", "calls", "churn: mallocs and frees after the first fill"),
    "seed": ("1", "seed", "churn: seed of the sizes and of the victims"),
    "interval": ("1us", "time", "trace time between two calls"),
}
APPS = ("micro", "distillery", "ftpget", "insmod", "cp", "cat", "churn")
FILES = (35761, 2278, 1108, 2598, 4797)  # bytes, section 5.3
SIZES = (512, 1024, 4096)  # bytes, Tables 2 and 3
PIECE = 512  # bytes: Table 5's times are per 512 bytes
UNIT = 4 << 10  # bytes of one file call
SMALLEST, LARGEST = 32, 128 << 10  # bytes: the buddy allocator's units, section 4.2
FOLDER = 0  # object id of the directory


class Workload(_stream.Stream):
    """Stream of one program's operations (a records.Source); see PARAMS.

    Raises UsageError for an unknown program or interface, or counts below 1.
    """

    @_stream.declared(PARAMS)
    def __init__(self, p: _stream.Params) -> None:
        _stream.choose("program", p.app, APPS)
        _stream.choose("interface", p.interface, ("objects", "files"))
        p.at_least(1, "repeats", "live", "calls")
        if p.app in ("micro", "churn") and p.interface == "files":
            raise UsageError(f"{p.app} has no separate version with file calls; leave interface at 'objects'")
        self.app, self.interface, self.repeats = p.app, p.interface, p.repeats
        self.live, self.calls, self.seed = p.live, p.calls, p.seed
        paths, sizes = self._objects()
        self.files = _stream.table(["/scm", *paths], [0, *sizes], [True] + [False] * len(paths))

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield the runs of the program."""
        if self.app == "churn":
            yield from self._churn()
        elif self.app == "micro":
            yield from _times([_memory(1 + i, size) for i, size in enumerate(SIZES)], 10 * self.repeats)
            yield from _times([_file(4 + i, size) for i, size in enumerate(SIZES)], self.repeats)
        else:
            program = getattr(self, f"_{self.app}")
            yield from _times([program(1 + i, 6 + i, size) for i, size in enumerate(FILES)], self.repeats)

    def _objects(self) -> tuple[list[str], list[int]]:
        """Return the names and initial sizes of the objects after the directory."""
        if self.app == "churn":
            return [f"object-{i}" for i in range(self.live)], [-1] * self.live
        if self.app == "micro":
            return [f"object-{size}" for size in SIZES] + [f"/scm/file-{size}" for size in SIZES], [-1] * 6
        inputs = [-1 if self.app == "ftpget" else size for size in FILES]
        return [f"/scm/in-{size}" for size in FILES] + [f"/scm/out-{size}" for size in FILES], inputs + [-1] * 5

    def _distillery(self, source: int, target: int, size: int) -> np.ndarray:
        return joined([self._take(source, size), self._give(target, size // 2, size // 2)])

    def _ftpget(self, source: int, target: int, size: int) -> np.ndarray:
        return self._give(target, size, PIECE)

    def _insmod(self, source: int, target: int, size: int) -> np.ndarray:
        return self._take(source, size)

    def _cp(self, source: int, target: int, size: int) -> np.ndarray:
        return joined([self._take(source, size), self._give(target, size, UNIT)])

    _cat = _insmod

    def _take(self, file: int, size: int) -> np.ndarray:
        """Return the operations that read a file: file_to_mm and loads through the pointer, or open, read and close."""
        if self.interface == "objects":
            return joined([ops(FILE_TO_MM, file, length=size), ops(ULOAD, file, 0, size)])
        return joined([ops(OPEN, file), _stream.transfers(READ, file, np.array([size]), UNIT)[1], ops(CLOSE, file)])

    def _give(self, file: int, size: int, unit: int) -> np.ndarray:
        """Return the operations that create a file: malloc, stores and mm_to_file, or create, write and close.

        The file is then removed for the next run (SETUP).
        """
        sizes = np.array([size])
        remove = ops(UNLINK, file, parent=FOLDER, flag=SETUP)
        if self.interface == "objects":
            stores = _stream.transfers(USTORE, file, sizes, unit)[1]
            named = ops(MM_TO_FILE, file, length=size, parent=FOLDER)
            return joined([ops(MALLOC, file, length=size), stores, named, ops(CLOSE, file), remove])
        writes = _stream.transfers(WRITE, file, sizes, min(unit, UNIT))[1]
        return joined([ops(CREATE, file, parent=FOLDER), writes, ops(CLOSE, file), remove])

    def _churn(self) -> Iterator[np.ndarray]:
        """Fill all objects, then free one and allocate it again with another size; a store follows each malloc."""
        random = np.random.default_rng(self.seed)
        objects = 1 + np.arange(self.live)
        yield _born(objects, _sizes(random, self.live))
        for first in range(0, self.calls, _stream.PIECE):
            victims = random.integers(1, self.live + 1, min(_stream.PIECE, self.calls - first))
            order = 2 * np.arange(len(victims))
            born = _born(victims, _sizes(random, len(victims)))
            yield _stream.weave((order, ops(FREE, victims)), (1 + np.repeat(order, 2), born))


def _times(parts: list[np.ndarray], times: int) -> Iterator[np.ndarray]:
    for part in parts:
        yield from _stream.repeated(lambda part=part: [part], len(part), times)  # type: ignore[misc]


def _memory(thing: int, size: int) -> np.ndarray:
    calls = (ops(MALLOC, thing, length=size), ops(USTORE, thing, 0, size), ops(ULOAD, thing, 0, size), ops(FREE, thing))
    return joined(calls)


def _file(file: int, size: int) -> np.ndarray:
    """Return creat, close, open, write, read, close; then the file's removal for the next run (SETUP)."""
    return joined([
        ops(CREATE, file, parent=FOLDER), ops(CLOSE, file), ops(OPEN, file), ops(WRITE, file, 0, size), ops(READ, file, 0, size),
        ops(CLOSE, file), ops(UNLINK, file, parent=FOLDER, flag=SETUP),
    ])  # fmt: skip


def _born(objects: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return, for each object, a malloc and then a store of the whole object."""
    codes = np.tile([MALLOC, USTORE], len(objects))
    return ops(codes, np.repeat(objects, 2), np.where(codes == MALLOC, -1, 0), np.repeat(sizes, 2))


def _sizes(random: np.random.Generator, count: int) -> np.ndarray:
    """Return log-uniform sizes in bytes between the buddy's smallest and largest unit."""
    return np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST), count)).astype(np.int64)
