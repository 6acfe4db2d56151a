"""Write a replay over time for Perfetto and chrome://tracing: the trace's operations, and counts by mechanism.

The format is JSON in the "Trace Event Format" (Google, 2016), with instant events for operations, because a trace records no
durations, and counter events for windows of operations, with one process per file system.  The values of a mechanism's track add
up to its count in the run.  Times come from the trace, in microseconds.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from scmsim.core import atomic
from scmsim.core.records import OPS, SETUP, Source
from scmsim.core.text import printable
from scmsim.pipeline.timeline import Timeline

MOST_OPERATIONS = 1_000_000  # Perfetto in a browser has memory for about this many events
_TRACE = 1  # process number of the operations; the numbers after it are file systems


def write(
    path: "str | os.PathLike[str]",
    source: Source,
    timelines: Sequence[Timeline],
    counters: Sequence[str],
    *,
    operations: bool,
) -> int:
    """Write the events to a file, atomically, and return their number."""
    count = 0
    with atomic.whole(path) as draft, open(draft, "w", encoding="utf-8") as out:
        out.write('{"displayTimeUnit":"ns","traceEvents":[')
        for event in events(source, timelines, counters, operations=operations):
            out.write(f"{',' if count else ''}\n{json.dumps(event, separators=(',', ':'))}")
            count += 1
        out.write("\n]}\n")
    return count


def events(
    source: Source, timelines: Sequence[Timeline], counters: Sequence[str], *, operations: bool
) -> Iterator[dict[str, Any]]:
    """Yield the events of a file in order."""
    if operations:
        yield _named(_TRACE, "operations of the trace")
        yield from _operations(source)
    for pid, timeline in enumerate(timelines, _TRACE + 1):
        yield _named(pid, f"{timeline.run.fs} {timeline.run.machine} {timeline.run.paging} {timeline.run.medium}")
        yield from _counts(timeline, pid, counters)


def _named(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": printable(name)}}


def _operations(source: Source) -> Iterator[dict[str, Any]]:
    paths = source.files.path
    names = ("time_ns", "op", "file", "offset", "length", "thread", "flag")
    for batch in source.batches(1 << 14):
        for time_ns, op, file, offset, length, thread, flag in zip(
            *(batch[name].tolist() for name in names), strict=True
        ):
            args = {"path": printable(paths[file])} if file >= 0 else {}
            args |= {"offset": offset} if offset >= 0 else {}
            args |= {"length": length} if length else {}
            category = "setup" if flag & SETUP else "operation"
            event = {"ph": "i", "s": "t", "name": OPS[op], "cat": category, "pid": _TRACE, "tid": thread + 1}
            yield {**event, "ts": time_ns / 1000, "args": args}


def _counts(timeline: Timeline, pid: int, counters: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a counter event per window, counter and mechanism; a final event with the value 0 ends the last window."""
    for counter in counters:
        for site, counts in timeline.counts.items():
            if counter in counts:
                values = [*counts[counter].tolist(), 0]
                for time_ns, value in zip(timeline.starts.tolist(), values, strict=True):
                    event = {"ph": "C", "name": f"{counter}: {site}", "pid": pid, "ts": time_ns / 1000}
                    yield {**event, "args": {"value": value}}
