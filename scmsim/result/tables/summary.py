"""A few sentences under the table: the largest differences between the runs, and what they come from.

The rule: the run with the most is set against the run with the least, where they differ by more than a tenth.  Causes are the
mechanisms (or the kinds of stored bytes) whose figures a call differ most in the same direction, each a tenth of the difference or
more.  Runs in which operations failed are left out, and so are bytes stored where some are still in the page cache.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scmsim.core.records import KINDS
from scmsim.result.run import Run
from scmsim.result.tables.figures import FEW, number

_DIFFERENT = 1.1
_PART = 0.1
_CAUSES = 3
_TRAFFIC = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
Figure = Callable[[Run], float | None]
Causes = Callable[[Run], Mapping[str, float]]


class Extremes(NamedTuple):
    """The runs with the least and the most of a figure."""

    least: Run
    low: float
    most: Run
    high: float


def extremes(runs: Sequence[Run], value: Figure) -> Extremes | None:
    """The run with the least and the one with the most, of those that have the figure; None where none has it."""
    known = [(found, run) for run in runs if (found := value(run)) is not None]
    if not known:
        return None
    (low, least), (high, most) = (pick(known, key=lambda each: each[0]) for pick in (min, max))
    return Extremes(least, low, most, high)


def traffic_of_sites(run: Run) -> dict[str, float]:
    """Loads and stores of each mechanism."""
    return {site: sum(counts.get(field, 0) for field in _TRAFFIC) for site, counts in run.sites.items()}


def sentences(runs: Sequence[Run]) -> list[str]:
    """At most three: loads and stores, bytes stored, page walks; none for runs of different work."""
    sound = [run for run in runs if run.calls and not run.errors]
    if len({(run.calls, run.operations, run.payload.get("written")) for run in sound}) != 1:
        return []
    names = _names(sound)
    return [
        *_compared(sound, names, "loads and stores", lambda run: run.metrics.get("tlb_traffic"), traffic_of_sites),
        *_compared(
            [run for run in sound if not run.space.get("dirty_bytes")],
            names,
            "stored bytes",
            lambda run: run.counters.get("pm_stored_bytes"),
            lambda run: {kind: run.stored_bytes.get(kind, 0) for kind in KINDS if kind != "none"},
        ),
        *_walks(sound, names),
    ]


def _compared(runs: Sequence[Run], names: Mapping[int, str], what: str, total: Figure, causes: Causes) -> list[str]:
    found = extremes(runs, lambda run: total(run) or None)
    if found is None or found.high < _DIFFERENT * found.low:
        return []
    least, low, most, high = found
    a, b = causes(most), causes(least)
    gaps = sorted(((a[name] - b.get(name, 0), name) for name in a), reverse=True)
    parts = [
        f"{name} {number(round(a[name] / most.calls))} a call against {number(round(b.get(name, 0) / most.calls))}"
        for gap, name in gaps[:_CAUSES]
        if gap >= _PART * (high - low)
    ]
    because = f": {', '.join(parts)}" if parts else ""
    return [f"{names[id(most)]} has {_times(high / low)} times the {what} of {names[id(least)]}{because}."]


def _walks(runs: Sequence[Run], names: Mapping[int, str]) -> list[str]:
    found = extremes(runs, lambda run: run.metrics.get("dtlb_walks"))
    if found is None or found.high < FEW or found.high < _DIFFERENT * found.low:
        return []
    return [
        f"{names[id(found.most)]} takes {number(found.high)} page walks, {names[id(found.least)]} {number(found.low)}."
    ]


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _names(runs: Sequence[Run]) -> dict[int, str]:
    """A name for each run: its file system, and whatever else tells them apart."""
    telling = [part for part in runs[0].names() if part == "fs" or len({run.names()[part] for run in runs}) > 1]
    return {id(run): " on ".join(str(run.names()[part]) for part in telling) for run in runs}
