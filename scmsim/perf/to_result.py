"""Convert finished cells to a Result: one Run per cell and repeat, in the schema of the simulator's results."""

from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.resumable import Folder
from scmsim.perf import dax_check, hardware
from scmsim.perf.backend import Backend
from scmsim.perf.cells import load
from scmsim.perf.check import examine
from scmsim.perf.machine import Machine
from scmsim.perf.matrix import Cell, Matrix
from scmsim.perf.runner import warnings
from scmsim.result import Result, Run, provenance
from scmsim.result.metrics import TABLE7, table7


def result(matrix: Matrix, backend: Backend, store: Folder, config: str | None = None) -> Result:
    """Return all cells of a finished matrix, in the order of the file (not of the run).

    `config` is the file that the matrix was read from, recorded with its digest.
    """
    events = hardware.events_of(backend.passes)
    cells = [cell._replace(repeat=repeat) for cell in matrix.points() for repeat in range(1, matrix.repeats + 1)]
    about: dict[str, Any] = {"harness": {**backend.facts, "warnings": warnings(matrix, backend)}}
    if backend.runs_programs:
        machine = Machine()
        about["machine"] = {finding.name: finding.value for finding in examine(machine).findings}
        about["mounts"] = dax_check.described(matrix, machine)
    made = provenance.build([config] if config else [], {"order": matrix.seed}, None, matrix=matrix.identity(), **about)
    runs = [run(cell, load(store, cell.key), backend.why_absent, events) for cell in cells]
    return Result(made, runs)


def run(cell: Cell, record: Mapping[str, Any], why_absent: Mapping[str, str], events: Mapping[str, str]) -> Run:
    """Return one finished cell as a Run.

    `counters` has the counts of user and kernel mode together, and `elapsed_ns`, the median over the passes.  `groups` has the
    counts of each mode if they were counted separately.
    """
    reads = cell.operation in ("read", "reread")
    found = Run(
        cell.fs,
        calls=record["calls"],
        operations=record["calls"],
        counters={**record["counters"], "elapsed_ns": record["elapsed_ns"][len(record["elapsed_ns"]) // 2]},
        groups={mode: dict(counts) for mode, counts in record["modes"].items()},
        payload={"written": 0 if reads else record["bytes"], "read": record["bytes"] if reads else 0},
        warnings=[*record["warnings"], *_scaled(record["scaled"])],
        cell={
            "operation": cell.operation,
            "file_bytes": cell.file_bytes,
            "unit_bytes": cell.unit_bytes,
            "repeat": cell.repeat,
        },
        events={name: events[name] for name in record["counters"] if name in events},
    )
    finish(found, {**why_absent, **record["why_absent"]})
    found.metrics |= inside(record["passes"])
    return found


def inside(passes: Sequence[Mapping[str, int]]) -> dict[str, float]:
    """Return the metrics of Table 7 whose inputs were all counted in one pass, that is, in the same run.

    If several passes supply a metric, the result has the mean of their values.
    """
    found: dict[str, list[float]] = {}
    for counts in passes if len(passes) > 1 else ():
        for name, value in table7(counts).values.items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def finish(found: Run, why_absent: Mapping[str, str]) -> Run:
    """Derive the metrics that a measurement's counters allow, and record why other metrics of Table 7 are absent."""
    found.derive()
    found.metrics = {name: value for name, value in found.metrics.items() if value is not None}
    kept = {name: why for name, why in found.why_absent.items() if name in TABLE7}  # only a model can supply the rest
    found.why_absent = {**kept, **why_absent}
    return found


def _scaled(scaled: Mapping[str, float]) -> list[str]:
    if not scaled:
        return []
    least = min(scaled.values())
    return [f"{', '.join(sorted(scaled))}: scaled by perf, on a counter for {least:g} % of the time at the least"]
