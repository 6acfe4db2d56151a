"""Keep the rows of a span of time; files start with the sizes that the earlier rows gave them."""

import os
from collections.abc import Iterator

import numpy as np

from scmsim.core.errors import UsageError
from scmsim.core.records import SETUP
from scmsim.trace._rewrite import CHUNK, Renumber, derived, different, write
from scmsim.trace._sizes import Sizes
from scmsim.trace.store import StoredTrace, open_trace


def cut_trace(
    source: "str | os.PathLike[str]",
    out: "str | os.PathLike[str]",
    *,
    start: int = 0,
    stop: int | None = None,
    prepare: bool = False,
) -> int:
    """Write the rows with start <= time < stop (nanoseconds), their times counted from `start`.

    Parameters
    ----------
    stop : int, optional
        End of the span, ns; None: the end of the trace.
    prepare : bool
        Keep the rows before `start` as preparation (SETUP, time 0), so that the file system has the same age; else
        drop them and record each file's size at `start` in the side table.

    Returns
    -------
    int
        Rows written.

    Raises UsageError for a negative time, an empty span, or a span that contains no row.
    """
    different(out, source)
    if start < 0 or (stop is not None and stop < 0):
        name, time = ("start", start) if start < 0 else ("end", stop)
        raise UsageError(f"the {name} of the span is {time} ns, a negative time; give 0 or more")
    if stop is not None and stop <= start:
        raise UsageError(f"the span from {start} ns to {stop} ns is empty; give a start below the end")
    trace = open_trace(source)
    sizes, renumber, inside = Sizes(trace.files), Renumber(trace.files), 0
    for rows, counted in _span(trace, start, stop):
        if not prepare:
            sizes.follow(rows[~counted])
        renumber.see(rows if prepare else rows[counted])
        inside += int(counted.sum())
    if not inside:
        raise UsageError(
            f"no row of {str(source)!r} is from {start} ns to {'the end' if stop is None else f'{stop} ns'}; "
            f"the trace lasts {_last(trace)} ns (see 'scmsim trace info')"
        )

    def kept() -> Iterator[np.ndarray]:
        for rows, counted in _span(trace, start, stop):
            chosen = renumber.apply(rows if prepare else rows[counted])
            chosen["time_ns"] = (chosen["time_ns"] - start).clip(0)
            if prepare:
                chosen["flag"][~counted] |= SETUP
            yield chosen

    files = renumber.table(trace.files.first_size if prepare else sizes.now)
    return write(out, derived("cut", [trace], start=start, stop=stop, prepare=prepare), kept(), files)


def _span(trace: StoredTrace, start: int, stop: int | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (rows before `stop`, mask of the rows at or after `start`) of each batch."""
    for batch in trace.batches(CHUNK):
        rows = batch.view(np.ndarray)
        if stop is not None:
            rows = rows[rows["time_ns"] < stop]
        yield rows, rows["time_ns"] >= start


def _last(trace: StoredTrace) -> int:
    return max((int(batch["time_ns"].max()) for batch in trace.batches(CHUNK)), default=0)
