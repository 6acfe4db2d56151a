"""Merge traces by time; their files and threads stay separate."""

import os
from collections.abc import Iterator, Sequence

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import SETUP, Files, joined
from scmsim.trace._rewrite import CHUNK, derived, different, write
from scmsim.trace.store import StoredTrace, open_trace


def merge_traces(
    sources: "Sequence[str | os.PathLike[str]]", out: "str | os.PathLike[str]",
    prepare: "str | os.PathLike[str] | None" = None,
) -> int:  # fmt: skip
    """Write all rows of all traces by time (rows of equal time in source order); return the number of rows written.

    Files of different traces stay different, even under the same name; each trace's thread numbers start after those
    of the trace before.

    Parameters
    ----------
    sources : the traces to merge; at least two, or one with `prepare`
    out : the trace to write
    prepare : trace whose rows run first, as uncounted preparation (SETUP); the other traces start when it ends

    Raises UsageError for too few traces, an input that is not a trace, or an input whose times go backwards.
    """
    every = [*([] if prepare is None else [prepare]), *sources]
    if len(every) < 2:
        raise UsageError("merging takes at least two traces; name them before -o")
    different(out, *every)
    traces = [open_trace(source) for source in every]
    tables = [trace.files for trace in traces]
    files = Files(
        [path for table in tables for path in table.path],
        np.concatenate([table.first_size for table in tables]),
        np.concatenate([table.is_dir for table in tables]),
    )
    streams = [_moved(*each) for each in zip(traces, *_offsets(traces), strict=True)]
    header = {"sources": [str(source) for source in every]}
    if prepare is None:
        return write(out, derived("merge", traces, **header), interleaved(streams), files)
    rows = _prepared(streams[0], interleaved(streams[1:]))
    return write(out, derived("merge", traces, **header, prepared=True), rows, files)


def _prepared(first: Iterator[np.ndarray], rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the rows of `first` as preparation, then those of `rest` with their times after the last time of `first`."""
    end = 0
    for rows in first:
        rows["flag"] |= SETUP
        end = int(rows["time_ns"][-1])
        yield rows
    for rows in rest:
        rows["time_ns"] += end
        yield rows


def interleaved(streams: Sequence[Iterator[np.ndarray]]) -> Iterator[np.ndarray]:
    """Merge streams of rows by time, with about one batch of each stream in memory.

    Every merged batch ends at the earliest last time of the waiting batches, because a stream's next batch may begin
    with the last time of its current batch.
    """
    waiting: list[np.ndarray | None] = [next(stream, None) for stream in streams]
    while any(batch is not None for batch in waiting):
        until = min(int(batch["time_ns"][-1]) for batch in waiting if batch is not None)
        ready = []
        for index, batch in enumerate(waiting):
            while batch is not None and int(batch["time_ns"][-1]) <= until:
                ready.append(batch)
                batch = next(streams[index], None)
            if batch is not None:
                count = int(np.searchsorted(batch["time_ns"], until, side="right"))
                ready.append(batch[:count])
                batch = batch[count:]
            waiting[index] = batch
        rows = joined(ready)
        yield rows[np.argsort(rows["time_ns"], kind="stable")]


def _offsets(traces: Sequence[StoredTrace]) -> tuple[list[int], list[int]]:
    """Return the numbers that file 0 of each trace, and thread 0 of each trace, get in the merged trace."""
    files = np.cumsum([0, *[len(trace.files) for trace in traces[:-1]]]).tolist()
    counts = [1 + max((int(b["thread"].max()) for b in trace.batches(CHUNK)), default=0) for trace in traces[:-1]]
    return files, np.cumsum([0, *counts]).tolist()


def _moved(trace: StoredTrace, file: int, thread: int) -> Iterator[np.ndarray]:
    for batch in trace.batches(CHUNK):
        rows = batch.view(np.ndarray).copy()
        renumbered(rows, file, thread)
        if len(rows):
            yield rows


def renumbered(rows: np.ndarray, file: int, thread: int) -> None:
    """Add offsets to the file and thread numbers of rows, in place."""
    for column in ("file", "file2"):
        rows[column][rows[column] >= 0] += file
    rows["thread"] += thread
