"""Several threads at once: what N cores that run the same calls get from one medium.

A run is the work of one core.  Of its estimated time, the bytes at the medium's full bandwidth are the share that other cores can
be in the way of; the rest (instructions, latency, fences) each core spends for itself.  So N cores are a closed queueing network
with one station.  A medium may lose speed with threads (`crowd` in its file).  Every thread has its own core, its own files and no
lock of the file system in common.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.medium import read as read_medium
from scmsim.result.queues import Load, Station, solve
from scmsim.result.run import Run
from scmsim.result.time import media_bytes

MOST = 256  # threads; more would overflow the network's numbers
MEDIUM = "medium"  # name of the station


def parse(text: str) -> list[int]:
    """Return the numbers of threads of "8", "1..16" or "1,2,4".

    Raises
    ------
    UsageError
        For another form, or a number that is not 1 to `MOST`.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        ends = [
            int(end) for end in (first, last if dots else first) if end.isascii() and end.isdigit() and len(end) < 6
        ]
        if len(ends) != 2 or not 1 <= ends[0] <= ends[1] <= MOST:
            raise UsageError(f"threads must be like 8, 1..16 or 1,2,4, from 1 to {MOST}, not {text!r}")
        found += range(ends[0], ends[1] + 1)
    return list(dict.fromkeys(found))


def under_load(run: Run, threads: Iterable[int]) -> list[Load]:
    """Return the state of each number of threads that run the calls of a run.

    Raises
    ------
    UsageError
        If the run has no calls, or lacks an estimated time.
    """
    missing = [why for name, why in run.why_absent.items() if name.startswith("time_ns.")]
    if not run.calls or not run.time_ns or missing or run.medium is None:
        why = f"its time is not estimated ({missing[0]})" if missing else "it has no calls whose time is estimated"
        raise UsageError(f"no load of {run.fs}: {why}; replay calls on a machine with a [time] table")
    medium = read_medium(run.medium)
    alone = sum(run.time_ns.values()) / run.calls
    loads = run.counters.get("pm_loaded_bytes", 0) / medium["read_gb_s"] / run.calls
    stores = media_bytes(run.counters, medium["granule"]) / medium["write_gb_s"] / run.calls
    shared = min(loads + stores, alone)
    station = Station(MEDIUM, shared, lambda count: _speed(medium, count, loads, stores))
    return [solve(count, alone - shared, [station]) for count in threads]


def _speed(medium: Mapping[str, Any], count: int, loads: float, stores: float) -> float:
    """Return the speed of a medium with `count` threads, relative to one thread, for that mix of loads and stores."""
    rows = medium.get("crowd")
    if not rows or loads + stores == 0:
        return 1.0
    slower = [_between([(row[0], row[column]) for row in rows], count) for column in (1, 2)]
    return (loads + stores) / (loads / slower[0] + stores / slower[1])


def _between(points: list[tuple[float, float]], x: float) -> float:
    """Interpolate linearly between points ascending in x; outside of them, return the nearest point's value."""
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        if x <= x1:
            return y0 + (y1 - y0) * max(0.0, x - x0) / (x1 - x0)
    return points[-1][1]


def table(runs: Iterable[Run], threads: list[int], markdown: bool = False) -> str:
    """Return a table: for each run and number of threads, calls per second, time of a call, and what of it is waiting."""
    head = ["", "medium", "threads", "calls/s", "call, ns", "waiting, ns", "medium busy, %", "bytes/ns"]
    rows = []
    for run in runs:
        states = under_load(run, threads)
        (one,) = under_load(run, [1])
        moved = (run.counters.get("pm_loaded_bytes", 0) + run.counters.get("pm_stored_bytes", 0)) / run.calls
        for state in states:
            rows.append([
                run.fs, str(run.medium), str(state.threads), f"{1e9 * state.calls_per_ns:,.0f}", f"{state.call_ns:,.0f}",
                f"{state.call_ns - one.call_ns:,.0f}", f"{100 * state.busy[MEDIUM]:.1f}", f"{moved * state.calls_per_ns:.2f}",
            ])  # fmt: skip
    title = "threads at once, each on its own core and its own files, without locks in common (estimate)"
    if markdown:
        return "\n".join([f"{title}\n", *(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))])
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
    return "\n".join([title, *(line.rstrip() for line in lines)])
