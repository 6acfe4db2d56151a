"""Record a guest's stores to persistent memory, and report what its kernel finds on a device with given content.

The plugin persistence.c makes a recording: stores with their data, write-backs, fences, and the begin and end of operations.
The crash guest gets states of the device one after another; it mounts each, reads the listed files, and unmounts.
"""

import dataclasses
import math
import pathlib
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import numpy as np

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import FALLOCATE, MMAP, OP, OP_COLUMNS, PUNCH_HOLE, Source
from scmsim.lab import cache, calls, counts, machine
from scmsim.lab.machine import Setting
from scmsim.lab.plan import FILE, OPERATION, Plan, from_trace
from scmsim.lab.systems import System

STORED, NT_STORED, WRITTEN_BACK, FENCED, LOCKED_FENCE, BEGUN, ENDED, UNSEEN, FULL = range(1, 10)  # enum entry
LINE = 64
MOST_BYTES = 1 << 30  # maximum bytes of a recording
MOST_OPERATIONS = 100_000
MOST_PATHS = 4096
_HEAD = struct.Struct("<QQIHBB")  # struct entry_head: at, code, node, length, kind, cpu
_GIVEN = np.dtype(
    [("result", "<i8"), ("inode", "<u8"), ("parent", "<i4"), ("owner", "<i4"), ("number", "<i4"), ("unused", "<i4")]
)  # struct given of guest.h
_PIECE = struct.Struct("<QII")  # struct piece
_ARRIVED, _STATE, _LEFT = range(3)
_SEEN = struct.Struct("<QQ")
_SEEN_FILE = struct.Struct("<QqIIIIii")
_RUN = np.dtype([("word", "<u8"), ("count", "<u8")])
_LETTERS = 20  # range of a name's first letter, from f on: guest_operations.c
_RESULTS_ROOM = 384 << 20  # bytes for the results of one boot
_STUCK_S = 120.0  # seconds without a new state after which a guest is ended
_START_S = 600.0  # seconds to the first state, long enough for a guest on a busy host
_NO_ROOM = "write what was found"  # guest_crash.c's message for a full mailbox
_MOST_RUNS = 1 << 16  # maximum number of runs per file: guest_crash.c
_LOOK_WORDS = 60  # number of paths per command
_MOST_PIECE = 4096


class Entry(NamedTuple):
    """One entry of a recording: `at` is an offset on the device, `length` is in bytes (for WRITTEN_BACK: cache lines)."""

    kind: int
    at: int
    length: int
    code: int
    node: int
    data: bytes = b""
    cpu: int = 0


class Name(NamedTuple):
    """A name of a file: its directory, and the numbers that the guest builds the name from."""

    parent: int
    owner: int
    number: int

    @property
    def leaf(self) -> str:
        """Return the last part of the path."""
        more = f".{self.number // _LETTERS}" if self.number >= _LETTERS else ""
        return f"{chr(ord('f') + self.number % _LETTERS)}{self.owner:06d}{more}"


@dataclass
class Recording:
    """A recording of one guest's operations and of its stores to the device."""

    entries: Iterable[Entry]  # may be iterated several times
    operations: np.ndarray  # array of OP: what the guest ran, in order
    files: np.ndarray
    results: list[int]  # return value of each operation's system call
    first: list[tuple[Name, int]]  # the initial name and the inode of each file; inode 0 if there is no such file
    names: list[tuple[Name, int]]  # the name that each operation gave, and the inode; 0 as above
    base: pathlib.Path  # content of the device when the recording began
    seconds: float
    functions: counts.Symbols
    nodes: np.ndarray = field(default_factory=lambda: np.zeros(0, calls.NODE))

    def __post_init__(self) -> None:
        self._chains: dict[int, tuple[str, ...]] = {}
        self._names: dict[int, str] = {}

    def function(self, code: int) -> str:
        """Return the function that contains an instruction."""
        if code not in self._names:
            self._names[code] = counts.functions_at(np.array([code], np.uint64), self.functions)[0]
        return self._names[code]

    def chain(self, entry: Entry) -> tuple[str, ...]:
        """Return the functions that led to an entry, innermost first."""
        return (self.function(entry.code), *self._callers(entry.node))

    def _callers(self, node: int) -> tuple[str, ...]:
        if node not in self._chains:
            found, at = [], node
            while at < len(self.nodes) and self.nodes["parent"][at] != calls.NO_PARENT:
                found.append(self.function(int(self.nodes["site"][at])))
                at = int(self.nodes["parent"][at])
            self._chains[node] = tuple(found)
        return self._chains[node]


def plan_of(source: Source, cpus: int = 1) -> Plan:
    """Return the plan of a trace for a guest with `cpus` CPUs, without the parts that only counting needs.

    Raises UsageError for operations that a crash check does not support.
    """
    if source.rows > MOST_OPERATIONS:
        raise UsageError(
            f"the trace has {source.rows:,} operations, lab crash takes at most {MOST_OPERATIONS:,}; "
            "shorten it with 'scmsim trace cut'"
        )
    found = from_trace(source, cpus)
    operations = found.operations[len(found.operations) - source.rows :]
    if (operations["op"] == MMAP).any():
        raise UsageError(
            "the trace maps files, and lab crash does not support stores through a mapping; keep the other operations "
            "(scmsim trace filter --op)"
        )
    if ((operations["op"] == FALLOCATE) & (operations["flag"] & PUNCH_HOLE > 0)).any():
        raise UsageError(
            "the trace punches holes, which lab crash does not support; keep the other operations (scmsim trace filter --op)"
        )
    return Plan(found.files[: len(source.files)], operations, found.regions, found.header)


def _as_of_a_trace(operations: np.ndarray) -> np.ndarray:
    """Convert operations of a plan (OPERATION) to operations of a trace (OP)."""
    found = np.zeros(len(operations), OP)
    for name in set(OP_COLUMNS) & set(operations.dtype.names or ()):
        found[name] = operations[name]
    return found


def record(setting: Setting, system: System, plan: Plan, folder: pathlib.Path) -> Recording:
    """Run a plan on a fresh file system; return the recording of its stores, whose files stay in the caller's folder.

    Raises EnvironmentProblem if the guest fails, stores more than MOST_BYTES, or runs a write-back that the plugin could not
    follow.
    """
    setup, image = machine.prepared(setting.kernel, system)
    job = plan.packed([["label"], *setup])
    places = {name: folder / name for name in ("ram", "record", "calls", "base")}
    words = machine.plugin_words(cache.plugin(setting.qemu.api, "persistence"), **places, most=MOST_BYTES)
    seconds = machine.boot(folder, setting, system.name, job, image, words)
    wanted = (len(plan.files) + len(plan.operations)) * _GIVEN.itemsize
    symbols, _, raw = machine.report(folder, machine.output_at(job), wanted)
    given = np.frombuffer(raw, _GIVEN)
    names = [(Name(*row[:3]), row[3]) for row in given[["parent", "owner", "number", "inode"]].tolist()]
    functions = counts.symbols(symbols)
    found = Recording(
        Recorded(folder / "record"), _as_of_a_trace(plan.operations), plan.files,
        given["result"][len(plan.files) :].tolist(), names[: len(plan.files)], names[len(plan.files) :],
        places["base"], seconds, functions, calls.read(places["calls"]),
    )  # fmt: skip
    for name in ("ram", "calls"):
        (folder / name).unlink()
    problem = next((entry for entry in found.entries if entry.kind in (UNSEEN, FULL)), None)
    if problem and problem.kind == UNSEEN:
        raise machine.Failed(
            f"{system.name}: a write-back of {found.function(problem.code)} ran for the first time in the trace, so its lines "
            "are not known: the rehearsal before the recording did not execute it; try the run again"
        )
    if problem:
        raise EnvironmentProblem(
            f"the trace stores more than {MOST_BYTES >> 30} GiB to the device; shorten it with 'scmsim trace cut'"
        )
    return found


@dataclass(frozen=True)
class Recorded:
    """The entries of a recording in a file; each iteration reads the file, so the entries need not fit in memory."""

    path: pathlib.Path

    def __iter__(self) -> Iterator[Entry]:
        with self.path.open("rb") as file:
            while head := file.read(_HEAD.size):
                place, code, node, length, kind, cpu = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
                padded = -(-length // 8) * 8 if kind in (STORED, NT_STORED) else 0
                data = file.read(padded)
                if len(head) < _HEAD.size or len(data) < padded:
                    raise EnvironmentProblem("the recording of stores is cut short; is the disk full?")
                yield Entry(kind, place, length, code, node, data[:length] if padded else b"", cpu)


class StateWriter:
    """Writer of states of the device for the crash guest; bytes written by `arrived` are in all later states."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.count = file, 0

    def arrived(self, at: int, data: bytes) -> None:
        """Write bytes that are in this and all later states."""
        self._put(_ARRIVED, at, data)

    def state(self, pieces: Sequence[tuple[int, bytes]]) -> None:
        """Write the next state: the bytes that arrived so far, then these pieces (offset, bytes), in this order."""
        self.file.write(_PIECE.pack(0, 0, _STATE))
        self.count += 1
        for at, data in pieces:
            self._put(_LEFT, at, data)

    def _put(self, kind: int, at: int, data: bytes) -> None:
        for start in range(0, len(data), _MOST_PIECE):
            part = data[start : start + _MOST_PIECE]
            self.file.write(_PIECE.pack(at + start, len(part), kind) + part + bytes(-len(part) % 8))


class SeenFile(NamedTuple):
    """A path in a state, as the guest found it.

    `length`: bytes of the file, or minus an error number.  `runs`: its content as pairs (8-byte word, count).  `listed`: whether
    its directory lists the name.  `error`: error number of lstat, or of listing the directory.  `use`: error number of removing
    the file, or of creating a file in the directory.
    """

    inode: int
    length: int
    directory: bool
    runs: tuple[tuple[int, int], ...]
    links: int = 1
    listed: bool = True
    error: int = 0
    use: int = 0


class Seen(NamedTuple):
    """A state as the guest found it: `error` is mount's error number, or a text if the state killed the guest.

    `files` has the requested paths, and the root as the last one.
    """

    error: int | str
    files: tuple[SeenFile, ...]


def look(
    setting: Setting,
    system: System,
    states: pathlib.Path,
    base: pathlib.Path,
    numbers: range,
    paths: Sequence[str],
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Seen]:
    """Yield the guest's findings in each of the states `numbers`.

    If a guest dies after it has seen other states, they or the emulator may be the cause, so a new guest begins with the state
    at which the old one died. A state that kills a guest that has seen no other state is the cause, and a new guest begins
    with the next state.
    `states` is the file that `StateWriter` wrote, `base` the device's content before the first state, and `paths` are the
    files to look at, below the mount point.
    """
    at = numbers.start
    while at < numbers.stop:
        found, error = _boot(setting, system, states, base, range(at, numbers.stop), paths, progress)
        yield from found
        at += len(found)
        if error and not found:
            yield Seen(error, ())
            at += 1


class _Stuck(Exception):
    """Error for a guest without a new state for a long time."""


def _boot(
    setting: Setting, system: System, states: pathlib.Path, base: pathlib.Path, numbers: range, paths: Sequence[str],
    progress: Callable[[int], None],
) -> tuple[list[Seen], str]:  # fmt: skip
    """Return (findings of one guest, why it ended early or "" if it ran to its end)."""
    setup, image = machine.prepared(setting.kernel, system, fresh=False)
    looks = [["look", *paths[i : i + _LOOK_WORDS]] for i in range(0, len(paths), _LOOK_WORDS)]
    setup += [["states", str(len(numbers)), system.type, system.mount_options(fresh=False)], *looks]
    job = Plan(np.zeros(0, FILE), np.zeros(0, OPERATION), []).packed(setup)
    with machine.scratch() as folder:
        begun, clock = folder / "progress", [0, time.monotonic()]
        given = {"ram": folder / "ram", "base": base, "states": states, "progress": begun, "first": numbers.start}
        words = machine.plugin_words(cache.plugin(setting.qemu.api, "persistence"), **given)

        def watch() -> None:
            now = _begun(begun)
            if now != clock[0]:
                clock[:] = [now, time.monotonic()]
                progress(max(0, now - numbers.start))
            elif time.monotonic() - clock[1] > (_STUCK_S if now else _START_S):
                raise _Stuck

        error, done = "", len(numbers)
        # `watch` ends the guest.  Without oops=panic, a mount waits forever for a recovery thread that died.
        patient = dataclasses.replace(setting, timeout_s=math.inf, words=(*setting.words, "oops=panic"))
        try:
            machine.boot(folder, patient, system.name, job, image, words, _RESULTS_ROOM, watch)
        except (machine.Failed, _Stuck) as problem:
            done = _begun(begun) - 1 - numbers.start
            error = str(problem) or f"the kernel did nothing for {_STUCK_S if done >= 0 else _START_S:.0f} s"
            if done < 0 or (isinstance(problem, machine.Failed) and problem.status != 0):
                raise machine.Failed(error) from None  # no state is to blame
            if _NO_ROOM in error and done:
                error = ""  # go on with an empty mailbox
        return list(_found(folder / "ram", machine.output_at(job), done, len(paths))), error


def _begun(path: pathlib.Path) -> int:
    try:
        return int.from_bytes(path.read_bytes()[:8], "little")
    except OSError:
        return 0


def _found(ram: pathlib.Path, at: int, count: int, paths: int) -> Iterator[Seen]:
    with ram.open("rb") as file:
        file.seek(at + machine.OUTPUT_HEAD)
        for _ in range(count):
            head = file.read(_SEEN.size)
            error, size = _SEEN.unpack(head)
            yield Seen(error, tuple(_files(file.read(size - _SEEN.size), 0 if error else paths + 1)))


def _files(raw: bytes, count: int) -> Iterator[SeenFile]:
    at = 0
    for _ in range(count):
        inode, length, directory, runs, links, listed, failed, use = _SEEN_FILE.unpack_from(raw, at)
        at += _SEEN_FILE.size
        if runs > _MOST_RUNS:
            raise UsageError(
                f"a file has more than {_MOST_RUNS:,} pieces of one call and page, and the rest was not checked; "
                "take a trace of smaller files"
            )
        words = tuple(np.frombuffer(raw, _RUN, runs, at).tolist())
        yield SeenFile(inode, length, bool(directory), words, links, bool(listed), failed, use)
        at += runs * _RUN.itemsize
