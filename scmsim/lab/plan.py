"""Plan the guest's work: operations, each with the region in which it is counted, and the meaning of each region.

A plan comes from a trace (a region for each kind of operation) or from the microbenchmark (a region for each pass and unit).
`packed` converts it to the guest's format.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.folders import common_folder
from scmsim.core.records import (
    CLOSE,
    CONTINUES,
    CREATE,
    FILE_TO_MM,
    FSYNC,
    LINK,
    MALLOC,
    MKDIR,
    OP,
    OPEN,
    OPS,
    READ,
    RENAME,
    RMDIR,
    SETUP,
    STAT,
    SYNC,
    UFENCE,
    UFLUSH,
    ULOAD,
    UNLINK,
    USTORE,
    WRITE,
    Files,
    Source,
)

OPERATION = np.dtype(
    [
        ("op", "u1"), ("cpu", "u1"), ("region", "<u2"), ("file", "<i4"), ("file2", "<i4"), ("flag", "<u4"),
        ("offset", "<i8"), ("length", "<i8"), ("buffer", "<i8"),
    ]
)  # fmt: skip
FILE = np.dtype([("parent", "<i4"), ("directory", "<u4"), ("first_size", "<i8")])
HEADER = struct.Struct("<8s5Q")  # magic, bytes of set-up, files, operations, bytes of the buffer, offset of the output
MAGIC = b"SCMJOB1\n"
OUTPUT_ROOM = 32 << 20  # bytes for the guest's symbols
UNKNOWN = (1 << 64) - 1  # value of a number in the guest's output that the guest could not determine

PASSES = ("append", "rewrite", "read", "wsync")
TOUCHES = (ULOAD, USTORE, UFLUSH, UFENCE)  # operations of a program that are not system calls
# Operations of the lab only.  LAYOUT: the guest reports where a file is (file -1: all files and the free space).  REMAKE: it
# makes its file system again, for the `file2` files from number `file` on.
LAYOUT = 255
REMAKE = 254
_BY_NAME = (CREATE, OPEN, UNLINK, LINK, MKDIR, RMDIR, STAT)
_CLOSE = (CLOSE,)
_STEPS: dict[str, Sequence[tuple]] = {
    "create": [(CREATE,), _CLOSE], "stat": [(STAT,)], "openclose": [(OPEN,), _CLOSE], "unlink0": [(UNLINK,)],
    "rename": [(RENAME,)], "link": [(LINK,)], "unlinkl": [(UNLINK,)],
    "cwrite64k": [(CREATE,), (WRITE, 0, 65536), _CLOSE], "unlink64k": [(UNLINK,)],
    "mkdir": [(MKDIR,)], "rmdir": [(RMDIR,)], "create_fsync": [(CREATE,), (FSYNC,), _CLOSE],
}  # fmt: skip
NAMESPACE = tuple(_STEPS)
_DIRECTORIES = (4, 3, 2, 2, 1)  # number of passes over names that run in each successive directory
_GROUP_OF = dict(zip(NAMESPACE, np.repeat(np.arange(5), _DIRECTORIES).tolist(), strict=True))
MAX_OPERATIONS = 20_000_000  # maximum number of operations that fit in the mailbox
_MAX_LENGTH = 1 << 30  # maximum bytes of one call
_WSYNC_CALLS = 256
_WARM_UP = 1 << 20  # bytes written and read in units of 4 KiB before anything is counted


@dataclass
class Region:
    """A region, to which the work of some operations is counted: its label and its numbers of calls, operations and bytes."""

    label: str  # kind of operation, for the result's `groups`
    calls: int = 0
    operations: int = 0
    written: int = 0
    read: int = 0
    cell: dict[str, Any] = field(default_factory=dict)  # the result's `cell`; empty if the region is not a cell


@dataclass
class Plan:
    """A plan: files (dtype FILE), operations (dtype OPERATION) and regions; an operation's region k > 0 is `regions[k - 1]`."""

    files: np.ndarray
    operations: np.ndarray
    regions: list[Region]
    header: dict[str, Any] = field(default_factory=dict)

    def packed(self, setup: Iterable[Sequence[str]]) -> bytes:
        """Return the guest's set-up commands and the plan in the guest's format."""
        words = b"".join(b"%d\0" % len(command) + b"".join(w.encode() + b"\0" for w in command) for command in setup)
        words += bytes(8 - len(words) % 8)
        moves = self.operations[np.isin(self.operations["op"], (READ, WRITE))]
        buffer = max(4096, int((moves["buffer"] + moves["length"]).max(initial=0)))
        if buffer > _MAX_LENGTH:
            buffer = max(4096, int(moves["length"].max(initial=0)))
        body = words + self.files.tobytes() + self.operations.tobytes()
        output = (HEADER.size + len(body) + 4095) // 4096 * 4096
        return HEADER.pack(MAGIC, len(words), len(self.files), len(self.operations), buffer, output) + body


def from_trace(source: Source, cpus: int = 1, layout: bool = False, whole_paths: bool = False) -> Plan:
    """Return the plan of a trace: SETUP operations run uncounted, every other kind has its own region.

    The k-th thread of the trace runs on CPU k modulo `cpus`.
    `layout`: the guest reports where files and free space are at the end.  It does not touch the file system before the trace,
    because files of its own would occupy blocks.
    `whole_paths`: the guest also creates directories that the trace names only in paths, as additional files after the trace's.
    Without them, paths are shorter than the program's, but no block is allocated that a model does not know.
    Raises UsageError for operations that are not system calls (of memory objects), or if they do not fit in the guest.
    """
    if source.rows > MAX_OPERATIONS:
        raise UsageError(
            f"the trace has {source.rows:,} operations, the lab takes at most {MAX_OPERATIONS:,}; "
            "shorten it with 'scmsim trace cut'"
        )
    parts, regions = [], [Region(name) for name in OPS]
    threads: dict[int, int] = {}  # in the order of their first operations
    for batch in source.batches():
        rows = batch.view(np.ndarray)
        objects = (rows["op"] >= MALLOC) & (rows["op"] <= FILE_TO_MM)
        if objects.any():
            kind = OPS[int(rows["op"][objects][0])]
            raise UsageError(
                f"the trace has the operation {kind!r}, which is not a system call; leave it out (trace filter)"
            )
        moved = int(rows["length"][np.isin(rows["op"], (READ, WRITE))].max(initial=0))
        if moved > _MAX_LENGTH:
            raise UsageError(f"an operation moves {moved} bytes, the lab takes at most {_MAX_LENGTH}")
        counted = (rows["flag"] & SETUP) == 0
        out = np.zeros(len(rows), OPERATION)
        for name in ("op", "file", "file2", "offset", "length", "buffer"):
            out[name] = rows[name]
        out["flag"] = rows["flag"] & 0xFFFF
        out["cpu"] = [threads.setdefault(thread, len(threads)) % cpus for thread in rows["thread"].tolist()]
        out["region"] = np.where(counted, rows["op"] + 1, 0)
        parts.append(out)
        _add(regions, rows[counted])
    known = with_directories(source.files) if whole_paths else source.files
    files = np.zeros(len(known), FILE)
    files["parent"], files["first_size"] = _parents(known.path), known.first_size
    files["directory"] = known.is_dir
    operations = np.concatenate(parts) if parts else np.zeros(0, OPERATION)
    first = [CREATE, MKDIR]
    made = np.isin(operations["op"], first) & (operations["file2"] >= 0)
    files["parent"][operations["file"][made][::-1]] = operations["file2"][made][::-1]
    files["directory"][operations["file"][operations["op"] == MKDIR]] = 1
    _break_loops(files)
    _lift(files)
    if layout:
        return Plan(files, np.concatenate([operations, _rows([(LAYOUT, -1)], 0)]), regions, dict(source.header))
    warm, late = _warm_up(len(files))
    files = np.concatenate([files, late])
    each = np.tile(warm, max(1, min(len(threads), cpus)))
    each["cpu"] = np.arange(len(each)) // len(warm)
    return Plan(files, np.concatenate([each, operations]), regions, dict(source.header))


def microbench(units: Sequence[int], total: int = 16 << 20, passes: Sequence[str] = PASSES, names: int = 0) -> Plan:
    """Return the plan of the microbenchmark: for each unit, append to a file, rewrite, read, and append with fsync.

    `units` are the bytes per call, `total` is the bytes per pass (`wsync` has at most 256 calls), `passes` are the passes that
    are counted.  `names` is the number of files of the passes over names (`NAMESPACE`); 0: no such passes.  A syncfs follows each
    pass over names.
    """
    rows: list[np.ndarray] = []
    regions: list[Region] = []

    def region(label: str, calls: int, **cell: Any) -> int:
        regions.append(Region(label, calls, calls, cell={"operation": label, **cell}))
        return len(regions)

    bench = 0
    for unit in units:
        calls = total // unit
        for name in PASSES:
            n = min(_WSYNC_CALLS, calls) if name == "wsync" else calls
            number = 0
            if name in passes:
                number = region(name, n, file_bytes=n * unit, unit_bytes=unit)
                moved = regions[-1]
                moved.written, moved.read = (0, n * unit) if name == "read" else (n * unit, 0)
                moved.operations = 2 * n if name == "wsync" else n
            if name in ("append", "wsync"):
                rows.append(_rows([(UNLINK, bench)] if rows else [], 0))
                rows.append(_rows([(CREATE, bench)], 0))
            else:
                rows.append(_rows([(OPEN, bench)], 0))
            rows.append(_pass(name, unit, n, number, bench))
            rows.append(_rows([(CLOSE, bench)], 0))
    files = np.zeros(1, FILE)
    files["parent"], files["first_size"] = -1, -1
    if names:
        more, named = _names(names, len(files), region)
        rows += more
        files = np.concatenate([files, named])
    warm, late = _warm_up(len(files))
    cell = {"units": list(units), "total": total, "passes": list(passes), "names": names}
    header = {"tool": "scmsim lab run", "microbench": cell}
    return Plan(np.concatenate([files, late]), np.concatenate([warm, *rows]), regions, header)


class Replayable:
    """The operations of a plan as a `records.Source` in which only one region is counted; the rest only changes the state."""

    def __init__(self, plan: Plan, number: int) -> None:
        self._parents = plan.files["parent"].astype(np.int64)
        paths = [f"/{row}" if up < 0 else f"/{up}/f{row:06d}" for row, up in enumerate(self._parents.tolist())]
        self.files = Files(paths, plan.files["first_size"].copy(), plan.files["directory"] > 0)
        self.rows = len(plan.operations)
        self.header: dict[str, Any] = {"tool": "scmsim lab", "cell": plan.regions[number - 1].cell}
        self._operations, self._number = plan.operations, number

    def batches(self, chunk: int = 1 << 14) -> Iterator[np.recarray]:
        """Yield the operations in record arrays of at most `chunk` rows."""
        for start in range(0, self.rows, chunk):
            part = self._operations[start : start + chunk]
            out = np.zeros(len(part), OP)
            for name in ("op", "file", "offset", "length"):
                out[name] = part[name]
            out["file2"] = np.where(np.isin(part["op"], _BY_NAME), self._parents[part["file"]], part["file2"])
            out["flag"] = np.where(part["region"] == self._number, 0, SETUP)
            out["time_ns"] = 1000 * np.arange(start, start + len(part))
            yield out.view(np.recarray)


def _pass(name: str, unit: int, calls: int, number: int, file: int) -> np.ndarray:
    """Return the operations of one pass over a file; `wsync` alternates write and fsync."""
    each = 2 if name == "wsync" else 1
    out = np.zeros(each * calls, OPERATION)
    out["file"], out["file2"], out["region"] = file, -1, number
    out["op"][::each] = READ if name == "read" else WRITE
    out["offset"][::each], out["length"][::each] = np.arange(calls) * unit, unit
    if each == 2:
        out["op"][1::2], out["flag"][1::2] = FSYNC, CONTINUES
    return out


def _names(count: int, first: int, region: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Return (operations of the passes over names, each group of passes in a fresh directory; their files)."""
    groups = len(set(_GROUP_OF.values()))
    files = np.zeros(groups * (count + 1), FILE)
    files["first_size"] = -1
    out = []
    for group in range(groups):
        own = slice(group * (count + 1), (group + 1) * (count + 1))
        parent = first + own.stop - 1
        files["parent"][own], files["parent"][own.stop - 1], files["directory"][own.stop - 1] = parent, -1, 1
        out += [_rows([(MKDIR, parent)], 0), _rows([(SYNC, -1)], 0)]
        rows = range(first + own.start, parent)
        for name in (name for name in NAMESPACE if _GROUP_OF[name] == group):
            if name == "rename":
                out += [_sweep(_STEPS["create"], rows, 0), _rows([(SYNC, -1)], 0)]
            out.append(_sweep(_STEPS[name], rows, region(name, count)))
            out.append(_rows([(SYNC, -1)], region(f"{name}_sync", count)))
    return out, files


def _sweep(steps: Sequence[tuple], files: Iterable[int], number: int) -> np.ndarray:
    """Return the operations that do all steps (op, offset, length) on each of the files in turn."""
    return _rows([(step[0], file, *step[1:]) for file in files for step in steps], number)


def _rows(entries: list[tuple], number: int) -> np.ndarray:
    """Return `entries` (op, file, offset, length), which may be shortened, as an array of operations of one region."""
    out = np.zeros(len(entries), OPERATION)
    padded = [(*entry, *(0,) * (4 - len(entry))) for entry in entries]
    for k, name in enumerate(("op", "file", "offset", "length")):
        out[name] = [entry[k] for entry in padded]
    out["file2"], out["region"] = -1, number
    return out


def _warm_up(file: int) -> tuple[np.ndarray, np.ndarray]:
    """Return uncounted operations that run the file system's code paths once, and the file that they need."""
    each = 4096
    transfers = [(op, file, at, each) for op in (WRITE, READ) for at in range(0, _WARM_UP, each)]
    late = np.zeros(1, FILE)
    late["parent"], late["first_size"] = -1, -1
    return _rows([(CREATE, file), *transfers, (CLOSE, file)], 0), late


def _add(regions: list[Region], rows: np.ndarray) -> None:
    starts = (rows["flag"] & CONTINUES) == 0
    for op in np.unique(rows["op"]):
        here = rows["op"] == op
        found = regions[op]
        found.operations += int(here.sum())
        found.calls += int((here & starts).sum()) if op not in TOUCHES else 0
        moved = int(rows["length"][here].sum())
        found.written += moved if op == WRITE else 0
        found.read += moved if op == READ else 0


def with_directories(files: Files) -> Files:
    """Return the files of a trace, then the directories of their paths that the trace does not have."""
    known, common = {path.rstrip("/") for path in files.path}, common_folder(files.path, files.is_dir).rstrip("/")
    missing: dict[str, None] = {}
    for path in files.path:
        above = path.rstrip("/").rpartition("/")[0]
        while above and above.startswith(common) and above not in known and above not in missing:
            missing[above] = None
            above = above.rpartition("/")[0]
    return Files(
        [*files.path, *missing],
        np.concatenate([files.first_size, np.zeros(len(missing), np.int64)]),
        np.concatenate([files.is_dir, np.ones(len(missing), bool)]),
    )


def _parents(paths: Sequence[str]) -> Iterator[int]:
    """Return the row of each path's directory; -1 if the trace does not have the directory."""
    rows = {path.rstrip("/"): row for row, path in enumerate(paths)}
    return np.fromiter(  # type: ignore[return-value]
        (rows.get(path.rstrip("/").rpartition("/")[0], -1) if "/" in path.rstrip("/") else -1 for path in paths),
        np.int64,
        len(paths),
    )


def guest_paths(paths: Sequence[str]) -> list[str]:
    """Return the path that each file has in a guest, where a file is named by its row number (guest_operations.c)."""
    above, found = list(_parents(paths)), [f"f{row:06d}" for row in range(len(paths))]
    for row in range(len(paths)):
        up = above[row]
        for _ in range(48):  # deeper paths are cut, see `_break_loops`
            if up < 0:
                break
            found[row], up = f"f{up:06d}/{found[row]}", above[up]
    return [f"/{path}" for path in found]


def _break_loops(files: np.ndarray) -> None:
    """Move files whose path has a loop to the mount point; a malicious trace may name a file as its own ancestor."""
    depth, parents = np.zeros(len(files), np.int64), files["parent"]
    parents[(parents >= len(files)) | (parents == np.arange(len(files)))] = -1
    at = np.arange(len(files))
    for _ in itertools.repeat(None, 48):  # deeper paths are cut: the kernel's limit is 4096 bytes
        at = np.where(at >= 0, parents[at], -1)
        depth += at >= 0
        if not (at >= 0).any():
            return
    parents[at >= 0] = -1


def _lift(files: np.ndarray) -> None:
    """Move each file that exists from the start into the nearest ancestor that also exists from the start.

    A directory that a trace removes and creates again has a row for each time, and the file's path refers to the last row.
    """
    there, parents = files["first_size"] >= 0, files["parent"]
    while (lost := there & (parents >= 0) & ~there[parents]).any():
        parents[lost] = parents[parents[lost]]
