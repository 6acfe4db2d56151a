"""Read the table of a sweep as a Result: one Run per point, with the varying settings as its cell."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from scmsim.core.counters import SCHEMA
from scmsim.core.errors import UsageError
from scmsim.result import Result, Run, intervals, metrics
from scmsim.result.rules import check
from scmsim.sweep.point import WARNINGS, differing
from scmsim.sweep.store import FAILED, RESULTS, SWEEP

_TABLES = ("payload", "stored_bytes", "space", "time_ns", "errors")
_NAMED = ("fs", "machine", "paging", "medium")  # settings that are fields of a Run
_SETTINGS = ("trace", "policy", "workload.", "set.", "machine.")


def is_sweep(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the folder of a sweep, or the table in it."""
    folder = _folder(path)
    return (folder / SWEEP.name).is_file() and (folder / "points").is_dir()


def read(path: str | os.PathLike[str]) -> Result:
    """Return the computed points of a sweep, with the varying parameters in each run's `cell`.

    Raises UsageError if the sweep has no table yet, or no point of it could be run.
    """
    import pyarrow
    import pyarrow.parquet

    table = _folder(path) / RESULTS
    try:
        rows = pyarrow.parquet.read_table(table).to_pylist()
    except FileNotFoundError:
        raise UsageError(
            f"{str(path)!r} has no {RESULTS}: the sweep was stopped before its end; "
            "run the same 'scmsim sweep' command again to finish it"
        ) from None
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{str(table)!r} cannot be read ({str(error).splitlines()[0]}); run the sweep again") from None
    if not rows:
        raise UsageError(f"no point of the sweep {str(path)!r} was computed; the reasons are in its {FAILED}")
    axes = _axes(rows)
    try:
        about = {"tool": "scmsim sweep", "folder": str(path), "failed points": _failed(_folder(path) / FAILED)}
        return Result({name: value for name, value in about.items() if value}, [_run(row, axes) for row in rows])
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{str(table)!r} is not the table of a sweep: {error}; run the sweep again") from None


def _folder(path: str | os.PathLike[str]) -> pathlib.Path:
    return pathlib.Path(path).parent if pathlib.Path(path).name == RESULTS else pathlib.Path(path)


def _failed(path: pathlib.Path) -> str:
    """Return the number of points that could not be run, as text; empty if there are none."""
    try:
        count = len(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return ""
    return f"{count}, see {FAILED}" if count else ""


def _axes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that vary, without those that a run states anyway (names, and its cell's operation and sizes)."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    said = [[row.get(name) for row in rows] for name in names if name in _NAMED or name.startswith("cell_")]
    said.append([row.get("fs") or row.get("policy") for row in rows])
    found = []
    different = differing([{key: value for key, value in row.items() if value is not None} for row in rows])
    for name in names:
        column = [row.get(name) for row in rows]
        if name.startswith(_SETTINGS) and name in different and column not in said:
            said.append(column)
            found.append(name)
    return found


def _run(row: Mapping[str, Any], axes: Sequence[str]) -> Run:
    """Return a row as a run; for a point of a policy, the run's file system is the policy's name."""
    given = {name: value for name, value in row.items() if value is not None}
    machine, paging, medium = (given.get(name) for name in _NAMED[1:])
    run = Run(given.get("fs") or given["policy"], machine, paging, medium)
    run.calls, run.operations, run.repeated = (int(given.get(name, 0)) for name in ("calls", "operations", "repeated"))
    run.counters = {name: int(given[name]) for name in SCHEMA if name in given}
    run.metrics = {name: given[name] for name in metrics.METRICS if name in given}
    for table in _TABLES:
        found = {name.removeprefix(f"{table}_"): value for name, value in given.items() if name.startswith(f"{table}_")}
        whole = table != "time_ns"
        setattr(run, table, {name: int(value) if whole else value for name, value in found.items()})
    run.warnings = [text for text in str(given.get("warnings", "")).split(WARNINGS) if text]
    run.params = {name.removeprefix("param_"): value for name, value in given.items() if name.startswith("param_")}
    run.intervals = intervals.from_columns(given)
    run.touches = int(given.get("touches", 0))
    run.cell = {name.removeprefix("cell_"): value for name, value in given.items() if name.startswith("cell_")}
    run.cell |= {name: given[name] for name in axes if name in given}
    check(run)
    return run
