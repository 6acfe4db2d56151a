"""Estimate how many measurements, how much time and how much space a matrix will need."""

from collections.abc import Sequence
from typing import NamedTuple

from scmsim.core.units import format_bytes
from scmsim.perf.matrix import Cell, Matrix

# Assumed (not measured) rates of a file system in memory on a current core.  Once cells are finished, their times correct the
# estimate of the time left.
BYTES_PER_S = 2e9
CALLS_PER_S = 1e6
START_S = 0.05  # time to start perf and the program and to make the program's files
PAUSE_S = 5e-5  # counting is off while a file is emptied between two write passes
CELL_BYTES = 8000  # file of a finished cell (a 4 KiB block) and its run in result.json; measured with five passes


class Plan(NamedTuple):
    """Size of a matrix; `seconds` is an estimate, `free_bytes` is the space for the largest file in each directory."""

    cells: int
    points: int
    passes: int
    runs: int
    seconds: float
    free_bytes: int
    out_bytes: int


def plan(matrix: Matrix, cells: Sequence[Cell], passes: int) -> Plan:
    """Return the size of the rest of a matrix: `cells`, each of which runs once for each of `passes` sets of events."""
    return Plan(
        cells=len(cells),
        points=len({cell.point for cell in cells}),
        passes=passes,
        runs=len(cells) * passes,
        seconds=sum(seconds(matrix, cell) for cell in cells) * passes,
        free_bytes=max((cell.pass_calls * cell.length for cell in cells), default=0),
        out_bytes=CELL_BYTES * len(cells),
    )


def seconds(matrix: Matrix, cell: Cell) -> float:
    """Return the estimated seconds of one run of a cell, including the time in which nothing is counted."""
    passes = cell.passes(matrix.total)
    appends = cell.operation in ("write", "fwrite")
    all_passes = passes + matrix.warm_up + (not appends) + (cell.operation == "reread")
    calls = all_passes * cell.pass_calls
    pauses = passes if appends else 1
    return START_S + calls * cell.length / BYTES_PER_S + calls / CALLS_PER_S + pauses * PAUSE_S


def describe(found: Plan, finished: int = 0) -> str:
    """Return the plan as one paragraph."""
    lines = [
        f"{found.points:,} points, {found.cells:,} measurements, {found.passes} pass{'es' * (found.passes != 1)} over the "
        f"events each: {found.runs:,} runs",
        f"time about {duration(found.seconds)} (assuming {BYTES_PER_S / 1e9:g} GB/s, {1e6 / CALLS_PER_S:g} us a call and "
        f"{START_S:g} s a run)",
        f"space {_mib(found.free_bytes)} in each directory, {_mib(found.out_bytes)} of results",
    ]
    if finished:
        lines.insert(0, f"{finished:,} measurements are finished already")
    return "\n".join(lines)


def duration(total: float) -> str:
    """Return seconds as text with at most two units: 90 -> "2 min", 5400 -> "1 h 30 min"."""
    if total < 60:
        return f"{total:.0f} s"
    minutes = round(total / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours // 24} d {hours % 24} h" if hours >= 48 else f"{hours} h {minutes} min"


def _mib(amount: int) -> str:
    return format_bytes(-(-amount >> 20) << 20) if amount >= 1 << 20 else f"{-(-amount // 1024)}KiB"
