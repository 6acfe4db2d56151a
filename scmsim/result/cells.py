"""Cells of a result: runs grouped by file system, operation, file size and unit, with mean and spread over the repeats."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes
from scmsim.result import Result, Run, metrics
from scmsim.result.rules import check

# Metrics that grow with the work, as counters do; the other metrics are ratios.
EXTENSIVE = (
    "l1_misses", "l2_misses", "llc_misses", "tlb_traffic", "dtlb_lookups", "dtlb_l1_misses", "dtlb_walks",
    "dtlb_kernel_l1_misses", "dtlb_kernel_walks",
)  # fmt: skip
_SAME_OPERATION = {"append": "write"}  # the microbenchmark's name for the thesis's write, which writes a fresh file
KEYS = ("fs", "operation", "file_bytes", "unit_bytes")


class Key(NamedTuple):
    """Key of a cell; a part is empty or None if a result lacks it."""

    fs: str
    operation: str = ""
    file_bytes: int | None = None
    unit_bytes: int | None = None

    def __str__(self) -> str:
        sizes = [f"file {_bytes(self.file_bytes)}", f"unit {_bytes(self.unit_bytes)}"]
        known = [part for part, size in zip(sizes, self[2:], strict=True) if size is not None]
        return " ".join([self.fs, *([self.operation] if self.operation else []), *known])


class Value(NamedTuple):
    """A quantity over repeats: mean, sample standard deviation (0 for one repeat), and number of repeats that have it."""

    mean: float
    deviation: float
    repeats: int

    @property
    def error(self) -> float:
        """Return the standard error of the mean."""
        return self.deviation / math.sqrt(self.repeats)

    @property
    def spread_percent(self) -> float | None:
        """Return the standard deviation as a percentage of the mean; None for a single repeat or a mean of 0."""
        return 100 * self.deviation / abs(self.mean) if self.repeats > 1 and self.mean else None


class Cell:
    """The runs of one cell.

    Attributes
    ----------
    calls : float
        Mean number of calls of a run; 0 if a run lacks it.
    values : dict of str to Value
        Counters and metrics.  A counter is the mean over the runs that have it.  For a metric, as in Table 7, the formula is
        applied to the mean counters instead of averaging the runs' metrics; its deviation is the deviation of the runs' metrics.
    """

    def __init__(self, key: Key, runs: list[Run]) -> None:
        self.key, self.runs = key, runs
        self.calls = _mean([run.calls for run in runs]) if all(run.calls for run in runs) else 0.0
        counters = {name: _value([run.counters[name] for run in runs if name in run.counters]) for name in _names(runs)}
        self.values = {**self._metrics({name: value.mean for name, value in counters.items()}), **counters}

    def _metrics(self, counters: Mapping[str, float]) -> dict[str, Value]:
        of_runs = [_run_metrics(run) for run in self.runs]
        found = {}
        for name, mean in (_computed(counters, self.runs) if len(self.runs) > 1 else of_runs[0]).items():
            repeats = [values[name] for values in of_runs if name in values]
            found[name] = Value(mean, _deviation(repeats), max(1, len(repeats)))
        return found

    def per_call(self, name: str) -> Value | None:
        """Return a quantity, divided by the calls if it grows with them; None if it or the number of calls is unknown."""
        value = self.values.get(name)
        if value is None or not grows(name):
            return value
        return Value(value.mean / self.calls, value.deviation / self.calls, value.repeats) if self.calls else None


def cells(result: Result, names: Mapping[str, str] | None = None, ignore: Iterable[str] = ()) -> dict[Key, Cell]:
    """Return the cells of a result, in the order of its runs.

    Parameters
    ----------
    names : mapping
        Other names for file systems: {"nova": "nova-cow"}.
    ignore : sequence of str
        Parts of the key (`KEYS`) to leave out; runs whose keys become equal count as repeats.

    Raises
    ------
    UsageError
        If one cell was run on several machines, mappings or media: such runs are not repeats.
    """
    for run in result.runs:
        _check(run)
    operations = {run.cell.get("operation") for run in result.runs}
    same = {old: new for old, new in _SAME_OPERATION.items() if new not in operations}
    groups: dict[Key, list[Run]] = {}
    for run in result.runs:
        groups.setdefault(_key(run, names or {}, same, set(ignore)), []).append(run)
    for key, runs in groups.items():
        others = sorted({name for run in runs for name in run.cell} - {*KEYS, "repeat"})  # parameters of a sweep
        for part in ("machine", "paging", "medium", *others):
            found = sorted({str({**run.cell, **run.names()}.get(part)) for run in runs})
            if len(found) > 1:
                raise UsageError(
                    f"{key} was run with {part} {' and '.join(found)}; give results with only one {part} each"
                )
    return {key: Cell(key, runs) for key, runs in groups.items()}


def by_operation(result: Result) -> Result:
    """Return a result with a cell for each group of each run, that is for each kind of operation of a trace.

    The trace must have been replayed with `by="op"`, or run in the lab.  The number of calls of these cells is unknown, so
    counts are compared per run.

    Raises UsageError if a run has no groups.
    """
    runs = []
    for run in result.runs:
        if not run.groups:
            raise UsageError(f"the run of {run.fs!r} has no breakdown by operation; replay the trace with --by op")
        for label, counters in run.groups.items():
            cell = {**run.cell, "operation": label}
            named = (run.fs, run.machine, run.paging, run.medium)
            runs.append(Run(*named, counters=counters, cell=cell, events=run.events))
    return Result(result.manifest, runs)


def harness(result: Result) -> Mapping[str, Any]:
    """Return the entries of the perf harness or of an import in the manifest; empty for a replay."""
    found = result.manifest.get("harness")
    return found if isinstance(found, dict) else {}


def machine(result: Result) -> str:
    """Return the machine of a result: a replay's presets, or the name of the measured CPU; "" if unknown."""
    presets = sorted({run.machine for run in result.runs if run.machine})
    examined = result.manifest.get("machine")
    found = examined.get("micro-architecture") if isinstance(examined, dict) else None
    about = harness(result)
    return ", ".join(presets) or str(about.get("cpu") or about.get("table") or found or "")


def grows(name: str) -> bool:
    """Return whether a quantity grows with the number of calls, as counters and sums of counters do."""
    return name in EXTENSIVE or name not in metrics.METRICS


def _key(run: Run, names: Mapping[str, str], same: Mapping[str, str], ignore: set[str]) -> Key:
    operation = run.cell.get("operation")
    sizes = [run.cell.get(part) for part in ("file_bytes", "unit_bytes")]
    full = Key(names.get(run.fs, run.fs), same.get(operation or "", operation or ""), *sizes)
    blank = Key("")
    return Key._make(b if part in ignore else a for part, a, b in zip(KEYS, full, blank, strict=True))


def _run_metrics(run: Run) -> dict[str, float]:
    """Return the metrics of one run: the stored ones, which may depend on the model's time, and the rest computed."""
    stored = {name: value for name, value in run.metrics.items() if value is not None}
    return {**_computed(run.counters, [run]), **stored}


def _computed(counters: Mapping[str, float], runs: list[Run]) -> dict[str, float]:
    def mean(table: str) -> dict[str, float]:
        rows = [getattr(run, table) for run in runs]
        return {
            name: _mean([row[name] for row in rows if name in row])
            for name in dict.fromkeys(n for r in rows for n in r)
        }

    payload = mean("payload")
    return metrics.compute(
        counters,
        written_bytes=payload.get("written"),  # type: ignore[arg-type]  # means of whole numbers
        read_bytes=payload.get("read"),  # type: ignore[arg-type]
        stored_bytes=mean("stored_bytes"),  # type: ignore[arg-type]
        space=mean("space"),  # type: ignore[arg-type]
    ).values


def _names(runs: list[Run]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.counters))


def _value(samples: list[int]) -> Value:
    return Value(_mean(samples), _deviation(samples), len(samples))


def _mean(samples: list) -> float:
    return sum(samples) / len(samples)


def _deviation(samples: list) -> float:
    """Return the sample standard deviation; 0 for a single sample."""
    if len(samples) < 2:
        return 0.0
    mean = _mean(samples)
    return math.sqrt(sum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1))


def _check(run: Run) -> None:
    """Raise UsageError for a run that was made in Python with figures that no result file may hold."""
    try:
        check(run)
    except ValueError as error:
        raise UsageError(f"a run of {str(run.fs)!r} has something that cannot be compared: {error}") from None


def _bytes(size: int | None) -> str:
    return "" if size is None else format_bytes(size)
