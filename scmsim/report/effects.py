"""Find the effect of each parameter of a sweep: compare whole runs that differ only in that parameter."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from scmsim.core.text import percent
from scmsim.plot.charts import bars
from scmsim.plot.library import Chart
from scmsim.result import Run
from scmsim.result.names import axes, said, title
from scmsim.result.tables.figures import FEW, number

_SAME = 0.002  # a smaller relative change of a figure is not reported
_MOST = 4  # maximum number of sentences
Figure = Callable[[Run], float | None]


class Effect(NamedTuple):
    """The effect of a parameter: relative time by value, and pairs of runs that differ only in that value.

    The slowest value comes first and has the relative time 1.  A pair has the slowest and the fastest value.
    """

    axis: str
    times: dict[Any, float]
    pairs: list[tuple[Run, Run]]  # slowest, fastest


def effects(runs: Sequence[Run]) -> list[Effect]:
    """Return the effects of the parameters, the largest change of time first; none if only the file system varies."""
    every = axes(runs)
    if "result" in every or not set(every) - {"fs"}:
        return []
    found = filter(None, (_effect(runs, every, axis) for axis in every))
    return sorted(found, key=lambda one: min(one.times.values()))


def sentences(runs: Sequence[Run]) -> list[str]:
    """Return a sentence per parameter: "paging linux in place of base-4k: page walks per call 1.38 to 0.0003, time -0.7 %"."""
    return [_sentence(one) for one in effects(runs)[:_MOST]]


def charts(runs: Sequence[Run]) -> list[Chart]:
    """Return charts of time and of page walks by the values of each parameter."""
    found, every = effects(runs), axes(runs)
    rows = [
        {"run": f"{title(one.axis)} {said(one.axis, value)}", "part": "time", "value": 100 * share}
        for one in found
        for value, share in one.times.items()
    ]
    caption = "Time of the whole run, slowest value = 100 %: median over the runs that differ in that parameter alone."
    time = bars("effect-time", "Time by parameter", caption, rows, "% of the slowest", grouped=True)
    rows = [
        {"run": f"{title(one.axis)} {said(one.axis, value)}", "part": "walks", "value": walks}
        for one in found
        for value in one.times
        if (walks := _median(_walks(run) for run, own in zip(runs, every[one.axis], strict=True) if own == value))
        is not None
    ]
    caption = "Page walks for data per call: median over all runs with that value."
    walked = bars("effect-walks", "Page walks by parameter", caption, rows, "walks per call", grouped=True)
    return [chart for chart in (time, walked) if chart]


def _effect(runs: Sequence[Run], every: dict[str, list[Any]], axis: str) -> Effect | None:
    groups: dict[tuple[Any, ...], dict[Any, Run]] = {}
    for i, run in enumerate(runs):
        rest = tuple(values[i] for name, values in every.items() if name != axis)
        if every[axis][i] is not None and _time(run):
            groups.setdefault((*rest, _work(run)), {})[every[axis][i]] = run
    values = list(dict.fromkeys(value for value in every[axis] if value is not None))
    whole = [group for group in groups.values() if len(group) == len(values) > 1]
    if not whole:
        return None
    shares = {value: _median(_ratio(group, value, values[0]) for group in whole) or 1.0 for value in values}
    ordered = sorted(shares, key=lambda value: -shares[value])
    times = {value: shares[value] / shares[ordered[0]] for value in ordered}
    return Effect(axis, times, [(group[ordered[0]], group[ordered[-1]]) for group in whole])


def _ratio(group: dict[Any, Run], value: Any, base: Any) -> float:
    return (_time(group[value]) or 0) / (_time(group[base]) or 1)


def _sentence(one: Effect) -> str:
    slow, fast = next(iter(one.times)), next(reversed(one.times))
    name = "" if one.axis in ("fs", "trace") else f"{title(one.axis)} "
    told = [_walks_said(one.pairs), *(_changed(what, value, one.pairs) for what, value in _CHANGED)]
    pairs = f" (median of {len(one.pairs)} pairs of runs)" if len(one.pairs) > 1 else ""
    parts = ", ".join(filter(None, told))
    return f"{name}{said(one.axis, fast)} in place of {said(one.axis, slow)}: {parts}{pairs}."


def _walks_said(pairs: Sequence[tuple[Run, Run]]) -> str:
    """Return text on the page walks of both sides if they differ: per call, or in total if walks are few."""
    known = [(a, b) for a, b in pairs if _total(a) is not None and _total(b) is not None]
    totals = [_median(_total(pair[side]) for pair in known) for side in (0, 1)]
    rates = [_median(_walks(pair[side]) for pair in known) for side in (0, 1)]
    if None in totals or None in rates or totals[0] == totals[1]:
        return ""
    if max(map(float, filter(None, totals))) < FEW:
        return f"page walks in all {number(totals[0])} to {number(totals[1])}"
    return f"page walks per call {number(rates[0])} to {number(rates[1])}"


def _changed(what: str, value: Figure, pairs: Sequence[tuple[Run, Run]]) -> str:
    ratio = _median(b / a for one, two in pairs if (a := value(one)) and (b := value(two)) is not None)
    if ratio is None or (abs(ratio - 1) < _SAME and what != "time"):
        return ""
    sign = "+" if ratio > 1 else "-" if ratio < 1 else ""
    return f"{what} {sign}{percent(abs(ratio - 1))}"


def _time(run: Run) -> float | None:
    estimate = run.metrics.get("estimated_ns_per_call")
    return estimate * run.calls if estimate is not None and run.calls else run.counters.get("task_clock")


def _total(run: Run) -> float | None:
    return run.metrics.get("dtlb_walks")


def _walks(run: Run) -> float | None:
    total = _total(run)
    return total / run.calls if total is not None and run.calls else None


def _work(run: Run) -> Any:
    """Return a key that is equal for runs with equal work: bytes written and read, or the calls of a measurement."""
    return (run.payload.get("written"), run.payload.get("read")) if run.payload else run.calls


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


_CHANGED: tuple[tuple[str, Figure], ...] = (
    ("time", _time),
    ("loads and stores", lambda run: run.metrics.get("tlb_traffic")),
    ("bytes stored", lambda run: run.counters.get("pm_stored_bytes")),
)
