"""Compute 90 % intervals of a run's figures from the models' errors against real kernels and published measurements.

An error is ln(measured / replayed) of one measured cell.  A model's centre is its mean error, in which each workload has weight 1
and two imaginary workloads without error are added.  A model's scale is the root mean square of its errors about the centre, to
which two imaginary workloads with the 80 % quantile of all models' errors are added.  An interval is the centre plus and minus
the scale times a factor: the 90 % quantile of all errors' distances from their centres, each in units of its scale, where centre
and scale are computed without the error's own workload.  An interval never exceeds the largest error of all cells, and always
contains the figure itself.  A model without measured cells uses its family's scale, and a family without measured cells the scale
of all models; for these the factor is computed from cells whose model is left out.

Sources: `workload_residuals.csv` (python -m tests.verification.workload_residuals) and, for a single kind of call on data,
`residuals.csv`; docs/validation/intervals.md has the share of cells inside.
"""

import csv
import functools
import math
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scmsim.core import registry
from scmsim.result import residuals
from scmsim.result.run import FOOTPRINTS, TRAFFIC, Run

WORKLOADS = pathlib.Path(__file__).with_name("workload_residuals.csv")
DEFAULT = "default"  # value of the column `costs` for a replay without --kernel
EXACT, UNCHECKED = "exact", "not checked"
SHARE = 0.9
_PRIOR = 2  # number of imaginary workloads that are added to a model's centre and scale
_TYPICAL = 0.8  # quantile that serves as the common scale of all models' errors
_FLOOR = 0.002  # least scale: the figures in the tables are rounded to about this relative error
_LEAST = 0.005  # least distance of a bound from the figure: even figures that are mostly exact have such errors in a few cells
_NEVER = 9.0  # error of a figure that is 0 on one side only, which is outside of every interval
_FEW = 64  # events; smaller counts have no interval, because the tables have no cells with such counts
_CALLS = ("append", "rewrite", "read", "wsync")  # kinds of call of `residuals.csv`
# ratios and times: a small value does not mean few events, so the limit _FEW does not apply
_RATIOS = {"write_amplification": "pm_stored_bytes", "estimated_ns_per_call": "estimated_ns_per_call"}
_EXACT = ("payload_written", "payload_read")
_COUNTED = (
    "instructions",
    *TRAFFIC,
    "tlb_traffic",
    "dtlb_l1_misses",
    "dtlb_walks",
    "pm_stored_bytes",
    "flushes",
    "fences",
)
FIGURES = (*_COUNTED, *_RATIOS, *_EXACT)


class Interval(NamedTuple):
    """Bounds of a figure (None if nothing was measured), and a text on the measured cells that they are derived from."""

    low: float | None
    high: float | None
    basis: str


_NONE = Interval(None, None, UNCHECKED)


class Cell(NamedTuple):
    """The error of one measured cell; cells of the same `group` (a workload or a kind of call) are left out together."""

    model: str
    family: str
    group: str
    error: float


def error(measured: float, replayed: float) -> float:
    """Return ln(measured / replayed): 0 if both are 0."""
    if measured > 0 and replayed > 0:
        return math.log(measured / replayed)
    return 0.0 if measured == replayed else math.copysign(_NEVER, measured - replayed)


@functools.cache
def family(fs: str) -> str:
    """Return the bundled family of a file system; "" for a user's own or an unknown file system."""
    package = pathlib.Path(__file__).parents[1] / "fs"
    if fs not in registry.names("fs"):
        return ""
    folder = registry.path("fs", fs).parent
    return folder.name if folder.parent == package else ""


@functools.cache
def _workloads() -> dict[tuple[str, str], list[tuple[str, Cell]]]:
    """Return the table of workloads: (counter, costs) -> list of (machine, cell)."""
    found: dict[tuple[str, str], list[tuple[str, Cell]]] = {}
    with WORKLOADS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not float(row["replayed"]):
                continue  # a replayed 0 has no interval
            wrong = error(float(row["measured"]), float(row["replayed"]))
            cell = Cell(row["model"], family(row["model"]), row["workload"], wrong)
            found.setdefault((row["counter"], row["costs"]), []).append((row["machine"], cell))
    return found


@functools.cache
def calls() -> dict[str, tuple[Cell, ...]]:
    """Return, for each counter, the cells that were measured with a single kind of data call."""
    found: dict[str, list[Cell]] = {}
    for row in residuals.read():
        wrong = 0.0 if row.percent == 0 else error(row.measured, row.replayed)
        found.setdefault(row.counter, []).append(Cell(row.model, family(row.model), row.call, wrong))
    return {counter: tuple(cells) for counter, cells in found.items()}


@functools.cache
def cells(counter: str, kernel: str | None = None, machine: str | None = None, call: str = "") -> tuple[Cell, ...]:
    """Return the measured cells that are most like a run: cells of its kind of call, else whole workloads with its costs.

    If there are no cells of the kernel or of the machine, they are the cells of the default costs or of all machines.
    """
    if call in _CALLS and counter in calls():
        return calls()[counter]
    table = _workloads()
    rows = table.get((counter, kernel or DEFAULT)) or table.get((counter, DEFAULT), [])
    own = [cell for of, cell in rows if of in ("", machine)]
    return tuple(own or (cell for _, cell in rows))


def quantile(values: Iterable[float], share: float = SHARE) -> float:
    """Return the value that a further draw exceeds in at most 1 - `share` of the cases; the largest if values are too few."""
    ordered = sorted(values)
    return ordered[min(len(ordered), math.ceil(share * (len(ordered) + 1))) - 1]


def _fit(base: Sequence[Cell], own: Iterable[Cell]) -> tuple[float, float]:
    """Return (centre, scale) of the cells `own`, with the imaginary workloads added; `base` are the cells of all models."""
    groups: dict[str, list[float]] = {}
    for cell in own:
        groups.setdefault(cell.group, []).append(cell.error)
    weight = _PRIOR + len(groups)
    centre = sum(statistics.fmean(errors) for errors in groups.values()) / weight
    squares = sum(statistics.fmean((error - centre) ** 2 for error in errors) for errors in groups.values())
    typical = quantile((abs(cell.error) for cell in base), _TYPICAL)
    return centre, math.sqrt((_PRIOR * typical**2 + squares) / weight) + _FLOOR


def _others(level: str, base: Sequence[Cell], cell: Cell) -> tuple[Sequence[Cell], list[Cell]]:
    """Return (all cells, cells for the scale) from which a cell's error is predicted.

    Left out are the cell's group and, at the levels "family" and "all", its model.
    """
    rest = [each for each in base if each.group != cell.group]
    if level == "model":
        return rest, [each for each in rest if each.model == cell.model]
    rest = [each for each in rest if each.model != cell.model]
    return rest, [each for each in rest if level == "all" or each.family == cell.family]


@functools.cache
def _scores(level: str, base: tuple[Cell, ...]) -> tuple[float, ...]:
    """Return each error's distance from the centre of the cells that predict it, in units of their scale."""
    found = []
    for cell in base:
        rest, own = _others(level, base, cell)
        if rest and (own or level == "model"):
            centre, scale = _fit(rest, own)
            found.append(abs(cell.error - centre) / scale)
    return tuple(found)


@functools.cache
def _factor(level: str, base: tuple[Cell, ...]) -> float:
    """Return the 90 % quantile of the cells' scores; for the levels "family" and "all", at least that of "model"."""
    scores = _scores(level, base)
    if level == "model":
        return quantile(scores) if scores else _NEVER
    return max(quantile(scores) if scores else 0.0, _factor("model", base))


def bounds(fs: str, base: tuple[Cell, ...]) -> tuple[float, float, str]:
    """Return (lower bound, upper bound, text on the cells used) of ln(measured / figure) for a model."""
    level, own, basis = "all", list(base), f"all models, {len(base)} cells"
    for name, found in (
        (fs, [cell for cell in base if cell.model == fs]),
        (f"family {family(fs)}", [cell for cell in base if cell.family == family(fs)]),
    ):
        if found:
            level, own, basis = "model" if name == fs else "family", found, f"{name}, {len(found)} cells"
            break
    centre, scale = _fit(base, own)
    reach, most = _factor(level, base) * scale, max(abs(cell.error) for cell in base)
    return min(max(centre - reach, -most), -_LEAST), max(min(centre + reach, most), _LEAST), basis


def of(fs: str, counter: str, kernel: str | None, value: float, machine: str | None = None, call: str = "") -> Interval:
    """Return the 90 % interval of a figure (one of FIGURES) that a model computed.

    `kernel` is the Linux version whose costs were charged (`--kernel`); counts of misses have cells for each `machine`.  `call`
    is append, rewrite, read or wsync if the trace has only this kind of call, else "": then whole workloads are used.
    """
    if counter in _EXACT:
        return Interval(value, value, EXACT)
    if not family(fs) or "UNCHECKED" in registry.literals("fs", fs):
        return _NONE
    base = cells(_RATIOS.get(counter, counter), kernel, machine, call)
    if not base:
        return _NONE
    low, high, basis = bounds(fs, base)
    return Interval(value * math.exp(low), value * math.exp(high), basis)


def figure(run: Run, name: str) -> float | None:
    """Return the figure `name` (one of FIGURES) of a whole run; None if the run lacks it."""
    if name in _EXACT:
        return run.payload.get(name.removeprefix("payload_"))
    return run.counters.get(name, run.metrics.get(name))


def fill(run: Run) -> None:
    """Set the run's `intervals`: {figure: {"low", "high", "basis"}}."""
    kernel, call = run.params.get("kernel"), str(run.cell.get("operation", ""))
    for name in FIGURES:
        value = figure(run, name)
        if value is not None:
            is_measured = name in _EXACT or _is_measured(run, name, value)
            found = of(run.fs, name, kernel, value, run.machine, call) if is_measured else _NONE
            run.intervals[name] = found._asdict()


def _is_measured(run: Run, name: str, value: float) -> bool:
    """Return whether a figure can get an interval from measured errors.

    The run must count calls and charge costs and, for TLB figures, replay footprints.  Counts below _FEW get no interval.
    """
    if not run.is_charged or run.unit != "call" or (name.startswith("dtlb") and FOOTPRINTS not in run.params):
        return False
    return value >= _FEW if name in _COUNTED else value > 0


def columns(run: Run) -> dict[str, float | str]:
    """Return a run's intervals as columns low_NAME, high_NAME and basis_NAME, without bounds where nothing was measured."""
    return {
        f"{part}_{name}": value
        for name, found in run.intervals.items()
        for part, value in found.items()
        if value is not None
    }


def from_columns(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the intervals from a row with the columns that `columns` returns."""
    return {
        name: {part: row.get(f"{part}_{name}") for part in Interval._fields}
        for name in FIGURES
        if row.get(f"basis_{name}") is not None
    }
