"""Repeat a trace on new files: one copy after the other, or all copies at once, each on its own threads."""

import os
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import Files, joined
from scmsim.trace._rewrite import CHUNK, derived, different, write
from scmsim.trace.merge import renumbered
from scmsim.trace.store import StoredTrace, open_trace

MOST_FILES = 1 << 27  # maximum rows of a side table


def scale_trace(
    source: "str | os.PathLike[str]", out: "str | os.PathLike[str]", *, times: int, together: bool = False
) -> int:
    """Write `times` copies of a trace, each on its own files (suffixes `.1`, `.2`, ...); return the number of rows.

    Parameters
    ----------
    times : int
        Copies, including the original.
    together : bool
        All copies begin at time 0 on their own threads; else each copy begins when the copy before has ended.

    Raises UsageError for less than one copy, or more files than a trace can name.
    """
    different(out, source)
    trace = open_trace(source)
    if times < 1:
        raise UsageError(f"{times} copies is not a valid number; give at least 1")
    if times * len(trace.files) > MOST_FILES:
        raise UsageError(f"{times} copies of {len(trace.files)} files are more than {MOST_FILES}; give fewer copies")
    names = [path + (f".{copy}" if copy else "") for copy in range(times) for path in trace.files.path]
    files = Files(names, np.tile(trace.files.first_size, times), np.tile(trace.files.is_dir, times))
    threads, span = _extent(trace)
    rows = _together(trace, times, threads) if together else _in_turn(trace, times, span)
    return write(out, derived("scale", [trace], times=times, together=together), rows, files)


def _in_turn(trace: StoredTrace, times: int, span: int) -> Iterator[np.ndarray]:
    for copy in range(times):
        for batch in trace.batches(CHUNK):
            yield _moved(batch.view(np.ndarray), copy * len(trace.files), 0, copy * span)


def _together(trace: StoredTrace, times: int, threads: int) -> Iterator[np.ndarray]:
    for batch in trace.batches(max(1, CHUNK // times)):
        rows = batch.view(np.ndarray)
        copies = joined([_moved(rows, copy * len(trace.files), copy * threads, 0) for copy in range(times)])
        yield copies[np.argsort(copies["time_ns"], kind="stable")]


def _moved(rows: np.ndarray, file: int, thread: int, later: int) -> np.ndarray:
    rows = rows.copy()
    rows["time_ns"] += later
    renumbered(rows, file, thread)
    return rows


def _extent(trace: StoredTrace) -> tuple[int, int]:
    """Return (number of threads, ns from the trace's start to just after its last row)."""
    threads = span = 0
    for batch in trace.batches(CHUNK):
        threads, span = max(threads, 1 + int(batch["thread"].max())), max(span, 1 + int(batch["time_ns"].max()))
    return threads, span
