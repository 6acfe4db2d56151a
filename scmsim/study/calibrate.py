"""Fit a model's cost table to a real kernel: `WORK` per mechanism, fitted to some measured cells and tested on the rest.

How often each cost is charged in a cell is the model's and stays fixed; replays in which one cost counts 1 and all others 0
determine it.  A cell's measured count, minus the count of its copies, is then a weighted sum of costs.  Least squares on
relative errors finds the costs.  A weak pull towards the model's table keeps the costs that the cells do not determine.
"""

import contextlib
import os
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import schema, toml
from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError
from scmsim.core.records import Source
from scmsim.footprint import NONE_AT_ALL
from scmsim.fs.engine import costs
from scmsim.fs.engine.costs import COLUMNS
from scmsim.lab.plan import Replayable
from scmsim.lab.plan import microbench as microbench_plan
from scmsim.pipeline import replay
from scmsim.result import Result
from scmsim.result.cells import Cell, Key, cells
from scmsim.workload import microbench

COUNTERS = ("instructions", "mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
_PULL = 0.02  # weight of the table's values: a cost may double if that reduces the error of one cell by 2 %
_PAGING = {"linux": {"user_page": "2MiB"}}

_LEAST = 1.0  # count per call; a cell is left out if any of its counters is not above this count
# Passes over names (see lab.plan): FIT_NAMES have one cost each, TEST_NAMES are sums of several.
FIT_NAMES = (
    "create", "create_sync", "stat", "openclose", "unlink0", "rename", "rename_sync", "link", "link_sync", "unlinkl", "mkdir",
    "mkdir_sync", "rmdir", "rmdir_sync", "unlink64k",
)  # fmt: skip
TEST_NAMES = ("unlink0_sync", "unlinkl_sync", "cwrite64k", "cwrite64k_sync", "unlink64k_sync", "create_fsync")

Table = dict[str, Any]
Params = Mapping[str, Any]


class Tuned(NamedTuple):
    """A model, and the parameters of its replays."""

    fs: str
    params: Params


class Work(NamedTuple):
    """The operations of a cell, and its number of calls (0: the replay counts them)."""

    source: Source
    calls: int


@dataclass
class Error:
    """Relative errors of the model for a cell, before and after the fit, by column; `fitted`: whether the fit used the cell."""

    key: Key
    fitted: bool
    before: np.ndarray
    after: np.ndarray


@dataclass
class Calibration:
    """Result of a fit: the new table, the name of the table that it replaces, errors by cell, and costs that cells determine."""

    name: str
    table: Table
    errors: list[Error]
    told: list[str]

    def summary(self) -> list[str]:
        """Return lines of text: median and worst error of each column, for calibration and test cells separately."""
        lines = []
        for fitted, what in ((True, "calibration"), (False, "test")):
            chosen = [error for error in self.errors if error.fitted == fitted]
            for k, column in enumerate(COLUMNS) if chosen else ():
                before, after = ([abs(100 * getattr(e, side)[k]) for e in chosen] for side in ("before", "after"))
                lines.append(
                    f"{what:11} {len(chosen):3} cells  {column:12} median {statistics.median(before):5.1f} % -> "
                    f"{statistics.median(after):5.1f} %   worst {max(before):6.1f} % -> {max(after):6.1f} %"
                )
        return lines


def calibrate(measured: Result, fs: str, units: Sequence[int], params: Params | None = None) -> Calibration:
    """Fit the costs of `fs` to a result of `scmsim lab run` with the microbenchmark.

    The cells with `units` bytes per call are fitted; the others are for testing.  Passes over names, if the result has them, are
    fitted as well, except sums of other passes (`TEST_NAMES`).  `params` are the model's; `kernel` among them chooses the
    structure and the table to start from.
    Raises UsageError if the result has no cells of `fs`, or no cell with one of `units`.
    """
    found = {key: cell for key, cell in cells(measured).items() if key.fs == fs and _known(key, cell)}
    if not any(key.unit_bytes in units for key in found):
        raise UsageError(
            f"the result has no microbenchmark cell of {fs!r} with the units {', '.join(map(str, units))}; "
            "measure with: scmsim lab run transfers"
        )
    model = Tuned(fs, {**_PAGING, fs: dict(params or {})})
    name, table = _table_of(model)
    names = [cost for cost, entry in table.items() if isinstance(entry, dict)]
    works = _works(list(found), found)
    base, counts, now = _structure(model, works, name, names)
    target = np.array([[_per_call(cell, counter) for counter in COUNTERS] for cell in found.values()])
    chosen = np.array([key.unit_bytes in units or key.operation in FIT_NAMES for key in found])
    fitted = _fit(base, counts, now, target, chosen)
    old, new = (base + counts @ values for values in (now, fitted))
    errors = [
        Error(key, bool(chosen[i]), old[i] / target[i] - 1, new[i] / target[i] - 1) for i, key in enumerate(found)
    ]
    told = [cost for k, cost in enumerate(names) if counts[chosen, k].any()]
    kernel = str(measured.manifest.get("kernel", "")).removeprefix("Linux ")
    return Calibration(name, _changed(table, names, told, fitted, kernel, units), errors, told)


def write(found: Calibration, path: str | os.PathLike[str], kernel: str) -> None:
    """Write the fitted table as TOML, atomically; `kernel` is the measured kernel's version."""
    text = (
        f"# Costs on Linux {kernel}: instructions, loads and stores (rep-strings left out) per unit, in place of {found.name}.\n"
        f"# Written by scmsim lab calibrate; use it with: scmsim replay --costs FILE\n\ntable = {_quoted(found.name)}\n"
    )
    for cost, entry in found.table.items():
        if isinstance(entry, dict):
            text += f"\n[{cost}]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in entry.items())
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def using(paths: Sequence[str]) -> Iterator[None]:
    """Use the costs in files written by `write`, within a block, instead of the models' tables that the files name."""
    tables = dict(_read(path) for path in paths)
    asked: set[str] = set()

    def change(name: str, table: Table) -> Table:
        asked.add(name)
        return {**table, **tables.get(name, {})}

    with costs.changed(change):
        yield
    unused = sorted(tables.keys() - asked)
    if unused:
        raise UsageError(f"no file system of this run uses the --costs for {', '.join(unused)}; leave them out")


def _read(path: str) -> tuple[str, Table]:
    found = toml.load(path, _file)
    return found.pop("table"), found


def _file(given: dict[str, Any]) -> dict[str, Any]:
    """Return the checked content of a file of costs: the name of a table, and costs."""
    fields = {"table": schema.text, **dict.fromkeys(given.keys() - {"table"}, costs.COST)}
    hint = "name the table of costs that the file replaces, as scmsim lab calibrate does"
    return dict(schema.table(fields, {"table": hint})(given))


def _pass(key: Key) -> str:
    """Return the microbenchmark's pass of a cell; results call the pass `append` a write, as the thesis does."""
    return "append" if key.operation == "write" else key.operation


def _known(key: Key, cell: Cell) -> bool:
    measured = all(_per_call(cell, counter) > _LEAST for counter in COUNTERS)
    passed = _pass(key) in microbench.PASSES and key.unit_bytes and key.file_bytes
    return bool(cell.calls and measured and (passed or key.operation in (*FIT_NAMES, *TEST_NAMES)))


def _works(keys: Sequence[Key], found: Mapping[Key, Cell]) -> list[Work]:
    """Return the operations of each cell for a replay."""
    calls = [int(found[key].calls) for key in keys if not key.unit_bytes]
    names = microbench_plan((4096,), 4096, names=calls[0]) if calls else None
    numbers = {region.label: k for k, region in enumerate(names.regions, 1)} if names else {}
    works = []
    for key in keys:
        if key.unit_bytes or names is None:
            source = microbench.Workload(op=_pass(key), unit=key.unit_bytes or 0, total=key.file_bytes or 0)
            works.append(Work(source, 0))
        else:
            works.append(Work(Replayable(names, numbers[key.operation]), calls[0]))
    return works


def _per_call(cell: Cell, counter: str) -> float:
    value = cell.per_call(counter)
    return value.mean if value else 0.0


def _table_of(model: Tuned) -> tuple[str, Table]:
    """Return (name, table) of the costs that a model loads."""
    found: list[tuple[str, Table]] = []

    def note(name: str, table: Table) -> Table:
        found.append((name, dict(table)))
        return table

    with costs.changed(note):
        _replayed(model, [Work(microbench.Workload(unit=4096, total=4096), 0)])
    if not found:
        raise UsageError(f"the model {model.fs!r} has no cost table to calibrate")
    return found[0]


def _structure(
    model: Tuned, works: Sequence[Work], name: str, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays from which the cells' counts per call follow.

    They are the counts without any cost (cells, 3), how often each cost is charged (cells, costs), and the current costs
    (costs, 3).
    """
    none = np.zeros((len(names), 3))
    now = np.zeros((len(names), 3))

    def read(table_name: str, table: Table) -> Table:
        if table_name == name:
            now[:] = [[table[cost][column] for column in COLUMNS] for cost in names]
        return table

    with costs.changed(read):
        _replayed(model, works[:1])
    base = _with(model, works, name, names, none)
    counts = np.zeros((len(works), len(names)))
    for first in range(0, len(names), 3):  # three costs at a time, one in each column
        values = none.copy()
        several = range(first, min(first + 3, len(names)))
        for column, cost in enumerate(several):
            values[cost, column] = 1000.0
        found = _with(model, works, name, names, values)
        for column, cost in enumerate(several):
            counts[:, cost] = (found[:, column] - base[:, column]) / 1000.0
    return base, counts, now


def _with(model: Tuned, works: Sequence[Work], name: str, names: Sequence[str], values: np.ndarray) -> np.ndarray:
    def change(table_name: str, table: Table) -> Table:
        if table_name != name:
            return table
        return {cost: {**table[cost], **dict(zip(COLUMNS, values[k], strict=True))} for k, cost in enumerate(names)}

    with costs.changed(change):
        return _replayed(model, works)


def _replayed(model: Tuned, works: Sequence[Work]) -> np.ndarray:
    """Return the counts per call of each cell."""
    out = np.zeros((len(works), 3))
    for i, work in enumerate(works):
        run = replay(work.source, fs=model.fs, params=model.params, footprints=NONE_AT_ALL).runs[0]
        out[i] = [run.counters[counter] / (work.calls or run.calls) for counter in COUNTERS]
    return out


def _fit(base: np.ndarray, counts: np.ndarray, now: np.ndarray, target: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the fitted costs (costs, 3), none negative."""
    out = now.copy()
    told = np.flatnonzero(counts[chosen].any(0))
    for column in range(3):
        scale = target[chosen, column]
        matrix = counts[chosen][:, told] / scale[:, None]
        rest = (target[chosen, column] - base[chosen, column]) / scale
        held = np.maximum(now[told, column], 1.0)
        both = np.vstack([matrix * held, _PULL * np.eye(len(told))])
        wanted = np.concatenate([rest, _PULL * now[told, column] / held])
        out[told, column] = held * _nonnegative(both, wanted)
    return out


def _nonnegative(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solve least squares with no negative unknown (Lawson and Hanson's active set)."""
    x = np.zeros(matrix.shape[1])
    free = np.zeros(len(x), bool)
    for _ in range(10 * len(x) + 10):
        gradient = matrix.T @ (target - matrix @ x)
        gradient[free] = -1.0
        if not len(x) or gradient.max() < 1e-10:
            break
        free[gradient.argmax()] = True
        while True:
            trial = np.zeros(len(x))
            trial[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
            if trial[free].min() > 0:
                x = trial
                break
            low = free & (trial <= 0)
            x = x + (x[low] / (x[low] - trial[low])).min() * (trial - x)
            free &= x > 1e-12
            if not free.any():
                break
    return x


def _changed(
    table: Table, names: Sequence[str], told: Sequence[str], values: np.ndarray, kernel: str, units: Sequence[int]
) -> Table:
    out = {}
    for k, cost in enumerate(names):
        out[cost] = dict(table[cost])
        if cost in told:
            out[cost] |= {column: round(float(value), 1) for column, value in zip(COLUMNS, values[k], strict=True)}
            out[cost]["kind"] = "fitted"
            out[cost]["source"] = (
                f"emulated machine, Linux {kernel}: cells with units of {', '.join(map(str, units))} bytes"
            )
    return out


def _quoted(value: Any) -> str:
    if isinstance(value, int | float):
        return str(value)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", " ", str(value)).replace("\\", "\\\\").replace('"', '\\"') + '"'
