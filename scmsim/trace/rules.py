"""Check the rules that a trace must fulfil to be replayed, on reading and in `scmsim trace check`."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    FALLOCATE,
    FILE_TO_MM,
    FREE,
    MADVISE,
    MALLOC,
    MM_TO_FILE,
    MMAP,
    MSYNC,
    MUNMAP,
    OPS,
    READ,
    READDIR,
    REMAPPED,
    SYNC,
    TRUNCATE,
    UFENCE,
    UFLUSH,
    ULOAD,
    USTORE,
    WRITE,
    Files,
)

NEEDS_OFFSET = (READ, WRITE, TRUNCATE, FALLOCATE, MMAP)
NEEDS_NO_FILE = (SYNC, MALLOC, FREE, MM_TO_FILE, FILE_TO_MM, ULOAD, USTORE, UFENCE)
_KNOWN_FLAGS = 2 * REMAPPED - 1
_FAR = 1 << 62  # offset + length beyond this would overflow the arithmetic of a model
# Limits of the models: they keep work and sums of thousandths of instructions within int64 (docs/architecture.md).
FILE_END = 1 << 44  # bytes, ext4's limit; a write, truncate or fallocate beyond it fails (pipeline/failing_calls.py)
# operations whose work grows with their length, so they must end at or before FILE_END
MAPS = (READDIR, MMAP, MUNMAP, MSYNC, MADVISE, ULOAD, USTORE, UFLUSH, MALLOC, FREE, MM_TO_FILE, FILE_TO_MM)
NEVER = -(1 << 62)  # ns; a time before the first row
THREAD_BYTES = 1 << 36  # a thread's buffers have addresses below this
OFFSET_OF_OP, FILE_OF_OP = (
    np.zeros(len(OPS), bool),
    np.ones(len(OPS), bool),
)  # by operation: whether a row must have an offset, a file
_MAPS = np.zeros(len(OPS), bool)
_MAPS[list(MAPS)] = True
OFFSET_OF_OP[list(NEEDS_OFFSET)], FILE_OF_OP[list(NEEDS_NO_FILE)] = True, False


class Broken(NamedTuple):
    """The rows of a batch that break one rule, and a description of the first such row."""

    rule: str
    rows: np.ndarray
    text: str


def first_problem(batch: np.ndarray, files: int, before: int = NEVER) -> tuple[int, str] | None:
    """Return the index in `batch` and the problem of the first row that would corrupt a replay, or None."""
    found = [(int(rows[0]), text) for _, rows, text in chain(problems(batch, files), time_problems(batch, before))]
    return min(found) if found else None


def all_sound(columns: Mapping[str, np.ndarray], files: int, before: int = NEVER) -> bool:
    """Return whether a batch breaks no rule, mostly from each column's extremes, which is faster than a search for the row.

    `columns` has an array for each field of records.OP; `before` is the time of the row before the batch.
    """
    times = columns["time_ns"]

    def within(name: str, low: int, high: int) -> bool:
        column = columns[name]
        return not len(column) or bool(low <= column.min() and column.max() <= high)

    return (
        within("op", 0, len(OPS) - 1)
        and within("offset", -1, _FAR // 2)
        and within("length", 0, _FAR // 2)
        and within("file", -1, files - 1)
        and within("file2", -1, files - 1)
        and within("flag", 0, _KNOWN_FLAGS)
        and within("buffer", 0, THREAD_BYTES - 1)
        and within("thread", 0, np.iinfo("i8").max)
        and (
            (within("length", 0, FILE_END // 2) and within("offset", -1, FILE_END // 2))
            or not _ends_too_far(columns["op"], columns["offset"], columns["length"]).any()
        )
        and not (OFFSET_OF_OP[columns["op"]] & (columns["offset"] == -1)).any()
        and not (FILE_OF_OP[columns["op"]] & (columns["file"] == -1)).any()
        and (not len(times) or bool(times[0] >= before and (times[1:] >= times[:-1]).all()))
    )


def _ends_too_far(op: np.ndarray, offset: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return a mask of the known operations in `MAPS` that end beyond FILE_END."""
    ends = offset.clip(0, _FAR) + length.clip(0, _FAR)
    return _MAPS[op.clip(0, len(OPS) - 1)] & (op >= 0) & (ends > FILE_END)


def ends_too_far(op: int, offset: int, length: int) -> bool:
    """Return whether one operation in `MAPS` ends beyond FILE_END."""
    return bool(_MAPS[op]) and max(offset, 0) + length > FILE_END


def problems(batch: np.ndarray, files: int) -> Iterator[Broken]:
    """Yield each broken rule, except the rule about times, with its rows.

    Parameters
    ----------
    batch : array of records.OP
    files : int
        Number of rows of the side table.
    """
    op, offset, length = batch["op"], batch["offset"], batch["length"]
    far = (offset > _FAR) | (length > _FAR) | ((offset >= 0) & (offset.clip(0, _FAR) + length.clip(0, _FAR) > _FAR))
    no_file = (batch["file"] == -1) & ~np.isin(op, NEEDS_NO_FILE)
    wrong_file = (batch["file"] < -1) | (batch["file"] >= files)
    wrong_file2 = (batch["file2"] < -1) | (batch["file2"] >= files)
    no_offset = (offset == -1) & np.isin(op, NEEDS_OFFSET)
    rules = (
        ("operation", (op < 0) | (op >= len(OPS)), op, "unknown operation"),
        ("offset", (offset < -1) | no_offset, offset, "offset {}, which must be 0 or more"),
        ("length", length < 0, length, "length {}, which must be 0 or more"),
        ("end", far, offset, "offset {} plus its length is beyond 2^62"),
        (
            "mapped",
            ~far & _ends_too_far(op, offset, length),
            offset,
            "offset {} plus its length is beyond 2^44 (16 TiB), where the models' files end",
        ),
        ("file", no_file | wrong_file, batch["file"], f"file {{}}, but the side table has the rows 0 to {files - 1}"),
        ("file2", wrong_file2, batch["file2"], f"file2 {{}}, but the side table has the rows 0 to {files - 1}"),
        ("flags", (batch["flag"] & ~_KNOWN_FLAGS) != 0, batch["flag"], "unknown bits in the flags {:#x}"),
        (
            "buffer",
            (batch["buffer"] < 0) | (batch["buffer"] >= THREAD_BYTES),
            batch["buffer"],
            "buffer {}, not below 2^36",
        ),
        ("thread", batch["thread"] < 0, batch["thread"], "thread {}, which must be 0 or more"),
    )
    for rule, broken, values, text in rules:
        rows = np.flatnonzero(broken)
        if len(rows):
            yield Broken(rule, rows, text.format(values[rows[0]]))


def time_problems(batch: np.ndarray, before: int) -> Iterator[Broken]:
    """Yield the rows whose time is before the previous row's time; `before`: time of the row above the batch."""
    times = batch["time_ns"]
    rows = np.flatnonzero(times < np.concatenate(([before], times))[:-1])
    if len(rows):
        yield Broken("time", rows, f"time {times[rows[0]]} ns is before that of the row above")


def files_problems(files: Files) -> Iterator[str]:
    """Yield a text for each problem of the side table."""
    if not len(files.path) == len(files.first_size) == len(files.is_dir):
        yield "the columns of the side table differ in length"
    sizes = np.asarray(files.first_size)
    bad = np.flatnonzero((sizes < -1) | (sizes >= FILE_END))
    if len(bad):
        yield f"side table row {bad[0]}: first size {sizes[bad[0]]}, which must be -1 or more and below 2^44 (16 TiB)"


def clip_first_sizes(files: Files) -> tuple[Files, str]:
    """Return the side table with first sizes below FILE_END, and a note if a file was larger ("" if none was)."""
    sizes = np.asarray(files.first_size)
    large = int((sizes >= FILE_END).sum())
    if not large:
        return files, ""
    note = (
        f"{large} files were larger than 16 TiB before the trace; they are taken as 16 TiB, where the models' files end"
    )
    return Files(files.path, np.minimum(sizes, FILE_END - 1), files.is_dir), note


def check_files(files: Files, where: str = "the trace") -> None:
    """Raise UsageError if the side table cannot be replayed."""
    for problem in files_problems(files):
        raise UsageError(f"{where}: {problem}; make the trace again")


def check_rows(batch: np.ndarray, files: int, first: int) -> None:
    """Raise UsageError for the first row that has one of the `problems`; `first` is the number of the batch's first row."""
    found = [(int(broken.rows[0]), broken.text) for broken in problems(batch, files)]
    if found:
        row, text = min(found)
        raise UsageError(f"the trace: row {first + row}: {text}")
