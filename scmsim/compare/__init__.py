"""Compare two results, each simulated or measured: aligned rows with ratio, spread, tolerance and verdict."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scmsim.compare.scope import aligned, kind
from scmsim.compare.tolerances import ALL, FIXED, TOLERANCES, Limit, limits_of, of_interval
from scmsim.core import registry
from scmsim.core.counters import EVERY
from scmsim.core.errors import unknown
from scmsim.perf.event_names import fields, same, spelled
from scmsim.result import FOOTPRINTS, Result, Run, metrics
from scmsim.result.cells import KEYS, Cell, Key, cells, grows, harness, machine

NEARLY_NOTHING = 0.01  # count per call: two smaller counts are treated as equal
_MACHINE_FREE = ("instructions", "fences", "flushes", "pm_", "nt_", "mem_inst_", "tlb_traffic", "write_amp", "read_amp")


class Row(NamedTuple):
    """One quantity of one cell.

    Attributes
    ----------
    quantity, per : str
        The name of a counter or metric, and what its value refers to: "call", "run", or "" for a ratio.
    simulated, measured : float
        Means over the repeats.
    ratio : float or None
        Simulated divided by measured; None if the measured value is 0.
    spread_percent : float or None
        Standard deviation in percent of the mean of the repeats, the larger of both sides; None for single runs.
    tolerance_percent : float or None
        Tolerance in percent of the measured value; None if the quantity has none, or has an interval (`tolerance_ratios`).
    tolerance_ratios : tuple of float or None
        Least and greatest ratio that the 90 % interval of the simulated figure allows; None if the tolerance is not an interval.
    tolerance_basis : str
        "given", "two simulations", "fixed (not checked)", or the measured cells from which the interval is derived.
    verdict : str
        "ok"; "out"; "noisy", which is out, but within two standard errors of the mean; or "-" if there is no tolerance.
    simulated_calls, measured_calls : float
        The divisor of a figure per call: mean number of calls of the runs; 0 for a figure that is not per call.
    """

    key: Key
    quantity: str
    per: str
    simulated: float
    measured: float
    ratio: float | None
    spread_percent: float | None
    repeats: int
    tolerance_percent: float | None
    verdict: str
    simulated_calls: float = 0
    measured_calls: float = 0
    tolerance_basis: str = ""
    tolerance_ratios: tuple[float, float] | None = None


class Quantity(NamedTuple):
    """Summary of the rows of one quantity: number of rows by verdict, and their ratios (None if no row has a ratio)."""

    quantity: str
    rows: int
    ok: int
    noisy: int
    out: int
    least_ratio: float | None
    median_ratio: float | None
    most_ratio: float | None


@dataclass
class Comparison:
    """Rows for cells that both sides have, and lists of cells and quantities that only one side has."""

    rows: list[Row] = field(default_factory=list)
    only_simulated: list[Key] = field(default_factory=list)
    only_measured: list[Key] = field(default_factory=list)
    absent: dict[str, list[str]] = field(default_factory=dict)  # wanted quantity -> the sides that lack it
    warnings: list[str] = field(default_factory=list)
    common: int = 0  # number of cells that both sides have, with or without a row
    sides: tuple[str, str] = (
        "simulated",
        "measured",
    )  # names of the sides; "first" and "second" if both are of one kind

    @property
    def verdict(self) -> str:
        """Return "ok", "out", "nothing in common" (there is no row), or "nothing judged" (no row has a tolerance)."""
        verdicts = {row.verdict for row in self.rows}
        if not verdicts:
            return "nothing in common"
        return "out" if "out" in verdicts else "ok" if verdicts - {"-"} else "nothing judged"

    def quantities(self) -> list[Quantity]:
        """Return a summary of the rows by quantity."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            groups.setdefault(row.quantity, []).append(row)
        found = []
        for name, rows in groups.items():
            verdicts = [row.verdict for row in rows]
            ratios = sorted(row.ratio for row in rows if row.ratio is not None)
            three = (ratios[0], statistics.median(ratios), ratios[-1]) if ratios else (None, None, None)
            found.append(Quantity(name, len(rows), *map(verdicts.count, ("ok", "noisy", "out")), *three))
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as values that can be written as JSON."""
        counts = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in ("ok", "noisy", "out", "-")}
        rows = [{**row.key._asdict(), **{k: v for k, v in row._asdict().items() if k != "key"}} for row in self.rows]
        return {
            "verdict": self.verdict,
            "sides": list(self.sides),
            "counts": counts,
            "quantities": [quantity._asdict() for quantity in self.quantities()],
            "rows": rows,
            "only_simulated": [key._asdict() for key in self.only_simulated],
            "only_measured": [key._asdict() for key in self.only_measured],
            "absent": self.absent,
            "warnings": self.warnings,
        }


def compare(
    simulated: Result,
    measured: Result,
    *,
    events: Sequence[str] = (),
    tolerances: Mapping[str, float] | None = None,
    names: Mapping[str, str] | None = None,
    ignore: Iterable[str] = (),
) -> Comparison:
    """Compare two results cell by cell.

    Parameters
    ----------
    events : sequence of str
        Counters (by any of perf's names) and metrics to compare; by default those of `TOLERANCES`.  "all" means every
        counter and metric of both sides.
    tolerances : mapping
        Tolerance in percent by counter or metric, or for "all".  The default is the 90 % interval of a simulated figure, else a
        fixed percentage of `TOLERANCES`; two simulations must be equal.
    names : mapping
        Name of a file system on the measured side -> its name on the simulated side, e.g. {"nova": "nova-cow"}.
    ignore : sequence of str
        Parts of a cell's key that need not match: "fs", "operation", "file_bytes", "unit_bytes".

    Raises
    ------
    UnknownName
        For a counter that neither side has, or an unknown part of the key.
    """
    for part in ignore:
        if part not in KEYS:
            raise unknown("part of a cell's key", part, KEYS)
    sides = _sides(simulated, measured)
    exact = kind(simulated) == kind(measured) == "simulated"
    about = _wanted(events, _counted(simulated, measured), _tables(measured, simulated))
    simulated, measured, scopes, mixed = aligned(simulated, measured, about)
    ours, theirs = cells(simulated, ignore=ignore), cells(measured, names, ignore)
    had = [set().union(*(cell.values for cell in side.values())) for side in (ours, theirs)]
    known, tables = had[0] | had[1], _tables(measured, simulated)
    wanted = [name for name in _wanted(events, known, tables) if not (mixed and name in metrics.METRICS)]
    given = {
        name if name == ALL else _resolved(name, known, tables): limit for name, limit in (tolerances or {}).items()
    }
    limits = limits_of(wanted, given, exact)
    out = Comparison(
        only_simulated=[key for key in ours if key not in theirs],
        only_measured=[key for key in theirs if key not in ours],
        common=len(ours.keys() & theirs.keys()),
        sides=sides,
    )
    for key, cell in ours.items():
        if key in theirs:
            out.rows += _rows(cell, theirs[key], wanted, limits)
    compared = {row.quantity for row in out.rows}
    for name in wanted:
        lacking = [side for side, has in zip(sides, had, strict=True) if name not in has]
        if name not in compared and lacking:
            out.absent[name] = lacking
    out.warnings = list(dict.fromkeys([*scopes, *_warnings(simulated, measured, compared, sides)]))
    return out


def _sides(first: Result, second: Result) -> tuple[str, str]:
    """Return the names of the two sides."""
    kinds = (kind(first), kind(second))
    if kinds[0] and kinds[0] == kinds[1]:
        return "first", "second"
    return ("measured", "simulated") if "measured" == kinds[0] or "simulated" == kinds[1] else ("simulated", "measured")


def _counted(*sides: Result) -> set[str]:
    """Return the names of all counters and metrics, including counters that have only counts by CPU mode."""
    tables: list[Iterable[str]] = []
    for run in (run for side in sides for run in side.runs):
        tables += [run.counters, run.metrics, *run.groups.values()]
    return set().union(*tables)


def _tables(*sides: Result) -> list[str]:
    """Return the event tables of the measured CPUs, which define what e.g. `dTLB-load-misses` means on each CPU."""
    named = [harness(side).get("table") for side in sides]
    return [table for table in named if table in registry.names("events")]


def _wanted(events: Sequence[str], known: set[str], tables: Sequence[str]) -> list[str]:
    if not events:
        return list(TOLERANCES)
    if list(events) == ["all"]:
        return sorted(known)
    return list(dict.fromkeys(_resolved(name, known, tables) for name in events))


def _resolved(name: str, known: set[str], tables: Sequence[str]) -> str:
    """Return the counter or metric with this name, or with this perf name on the measured CPU."""
    allowed = known | EVERY.keys() | metrics.METRICS.keys()
    meant = (field for table in (*tables, None) for field in fields(name, table))
    for candidate in (name, spelled(name), *meant):
        if candidate in allowed:
            return candidate
    raise unknown("counter or metric", name, sorted(known or allowed), "scmsim list counters")


def _rows(ours: Cell, theirs: Cell, wanted: Iterable[str], limits: Mapping[str, Limit]) -> list[Row]:
    """Return a row for each quantity that both sides have: per call, or per run if a side's number of calls is unknown."""
    by_call = bool(ours.calls and theirs.calls)
    rows = []
    for name in wanted:
        sides = [cell.per_call(name) if by_call else cell.values.get(name) for cell in (ours, theirs)]
        if sides[0] is None or sides[1] is None:
            continue
        mine, other = sides[0], sides[1]
        spread = max((side.spread_percent for side in (mine, other) if side.spread_percent is not None), default=None)
        limit = limits.get(name)
        if limit is None or limit.basis == FIXED:
            limit = of_interval(ours.runs, theirs.runs, name) or limit
        noise = 2 * (mine.error + other.error)
        small = grows(name) and by_call and max(abs(mine.mean), abs(other.mean)) < NEARLY_NOTHING
        if limit is None:
            verdict = "-"
        elif (small and limit.percent != 0) or limit.holds(mine.mean, other.mean):
            verdict = "ok"
        else:
            verdict = "noisy" if abs(mine.mean - other.mean) <= noise else "out"
        per = ("call" if by_call else "run") if grows(name) else ""
        ratio = mine.mean / other.mean if other.mean else None
        calls = (ours.calls, theirs.calls) if per == "call" else (0, 0)
        percent, basis, ratios = limit or (None, "", None)
        row = Row(ours.key, name, per, mine.mean, other.mean, ratio, spread, other.repeats, percent, verdict, *calls)
        rows.append(row._replace(tolerance_basis=basis, tolerance_ratios=ratios))
    return rows


def _warnings(simulated: Result, measured: Result, compared: set[str], sides: tuple[str, str]) -> list[str]:
    """Return warnings about reasons why two correct results may differ."""
    found = [*_machine(simulated, measured, compared), *_kernels(simulated, measured, sides)]
    found += _footprints((simulated, measured), compared)
    meanings = [_meanings(side) for side in (simulated, measured)]
    for name in sorted(compared):
        ours, theirs = (by_name.get(name) or _own_event(name) for by_name in meanings)
        if ours and theirs and not same(ours, theirs):
            found.append(f"{name} is {ours} on one side and {theirs} on the other")
    noted = [f"{sides[1]} {run.fs}: {warning}" for run in measured.runs for warning in run.warnings]
    noted += [f"{sides[0]} {run.fs}: {warning}" for run in simulated.runs for warning in run.warnings]
    about = [str(warning) for side in (simulated, measured) for warning in harness(side).get("warnings", ())]
    return list(dict.fromkeys([*about, *found, *noted]))


def _machine(simulated: Result, measured: Result, compared: set[str]) -> list[str]:
    sides = [machine(simulated), machine(measured)]
    dependent = sorted(name for name in compared if not name.startswith(_MACHINE_FREE))
    if not dependent or sides[0] == sides[1] != "":
        return []
    texts = [side or "unknown" for side in sides]
    return [f"the machines differ or are unknown ({texts[0]}; {texts[1]}): {', '.join(dependent)} depend on them"]


def _footprints(sides: Iterable[Result], compared: set[str]) -> list[str]:
    """Return warnings about replays whose TLB counts exclude the touches of the kernel's own code and data."""
    lacking = [run.fs for side in sides for run in side.runs if run.paging and FOOTPRINTS not in run.params]
    dependent = sorted(name for name in compared if "tlb_" in name and name not in ("tlb_traffic",) or "walk" in name)
    if not lacking or not dependent:
        return []
    return [
        f"replayed without --footprints ({', '.join(dict.fromkeys(lacking))}): far too few of {', '.join(dependent)}; "
        "replay again with --footprints KERNEL"
    ]


def _kernels(simulated: Result, measured: Result, names: tuple[str, str]) -> list[str]:
    """Return warnings about kernels that differ or are not recorded."""
    sides = dict(zip(names, (simulated, measured), strict=True))
    found = {name: _kernel(side) for name, side in sides.items()}
    unknown_sides = [f"the kernel of the {name} side is not recorded" for name, kernels in found.items() if not kernels]
    ours, theirs = found.values()
    if unknown_sides or {_version(kernel) for kernel in ours} & {_version(kernel) for kernel in theirs}:
        return unknown_sides
    return [f"the kernels differ: Linux {' and '.join(ours)} {names[0]}, Linux {' and '.join(theirs)} {names[1]}"]


def _kernel(side: Result) -> list[str]:
    """Return the kernel of a measurement, or the kernels from which a replay's costs come."""
    replays = [run for run in side.runs if run.machine and not run.events]
    if replays:
        return sorted({kernel for run in replays for kernel in _cost_kernels(run)})
    kernel = str(side.manifest.get("kernel") or "").removeprefix("Linux ")
    return [kernel] if kernel[:1].isdigit() else []


def _version(kernel: str) -> str:
    """Return the major and minor number of a version: "5.13" for "5.13.13"."""
    return ".".join(kernel.split(".")[:2])


def _cost_kernels(run: Run) -> list[str]:
    """Return the Linux version of a replay's costs in a list: the chosen version, else the model's; [] for a prototype."""
    if run.fs not in registry.names("fs"):
        return []
    known = registry.literals("fs", run.fs)
    own = known.get("PARAMS", {}).get("kernel", [known.get("KERNEL")])[0]
    kernel = run.params.get("kernel", own)
    return [str(kernel)] if kernel else []


def _meanings(side: Result) -> dict[str, str]:
    """Return the event that supplied each counter of a measurement."""
    return {name: event for run in side.runs for name, event in run.events.items()}


def _own_event(name: str) -> str | None:
    return EVERY[name].event if name in EVERY else None
