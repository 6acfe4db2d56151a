"""Write the sentences under the table: the largest differences between the runs, and their causes.

For each figure, the run with the most is compared with the run with the least if they differ by more than a tenth.  Causes are
the mechanisms (or the kinds of stored bytes) whose figures per call differ most in the same direction, each by at least a tenth
of the difference.  Runs with failed operations are left out, and so are the stored bytes of runs with bytes still in the page
cache.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scmsim.core.records import KINDS
from scmsim.core.text import times
from scmsim.result.names import axes, said, title
from scmsim.result.run import TRAFFIC, Run
from scmsim.result.tables import spans
from scmsim.result.tables.figures import FEW, number

_DIFFERENT = 1.1
_PART = 0.1
_CAUSES = 3
Figure = Callable[[Run], float | None]
Causes = Callable[[Run], Mapping[str, float]]


class Extremes(NamedTuple):
    """The runs with the least and the most of a figure."""

    least: Run
    low: float
    most: Run
    high: float


def extremes(runs: Sequence[Run], value: Figure) -> Extremes | None:
    """Return the run with the least and the run with the most of a figure, among the runs that have it; None if no run has it."""
    known = [(found, run) for run in runs if (found := value(run)) is not None]
    if not known:
        return None
    (low, least), (high, most) = (pick(known, key=lambda each: each[0]) for pick in (min, max))
    return Extremes(least, low, most, high)


def traffic_of_sites(run: Run) -> dict[str, float]:
    """Return the loads and stores of each mechanism."""
    return {site: sum(counts.get(field, 0) for field in TRAFFIC) for site, counts in run.sites.items()}


def sentences(runs: Sequence[Run], intervals: bool = False) -> list[str]:
    """Return at most four sentences: on models without costs, and on differences in loads and stores, stored bytes, page walks.

    Runs of different work are not compared.  `intervals`: figures whose 90 % intervals overlap do not count as different.
    """
    uncharged = list(dict.fromkeys(run.fs for run in runs if not run.is_charged))
    return [*_without_costs(uncharged), *_differences(runs, intervals)]


def _without_costs(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [
        f"{', '.join(names)}: its model has no costs; its instructions, loads, stores and times are too few, and not compared."
    ]


def _differences(runs: Sequence[Run], intervals: bool) -> list[str]:
    sound = comparable(runs)
    if not sound:
        return []
    names = _names(sound)
    charged = [run for run in sound if run.is_charged]
    found = [
        ("loads and stores", "tlb_traffic", _traffic(charged, names)),
        ("stored bytes", "pm_stored_bytes", _stored([run for run in sound if not run.space.get("dirty_bytes")], names)),
        ("page walks", "dtlb_walks", _walks(charged, names)),
    ]
    return [_said(what, figure, each, names, intervals) for what, figure, each in found if each]


def comparable(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without failed operations; none if they did different work."""
    sound = [run for run in runs if run.divisor and not run.errors]
    return sound if len({(run.divisor, run.operations, run.payload.get("written")) for run in sound}) == 1 else []


class Difference(NamedTuple):
    """The runs with the most and the least of a figure, and the sentence on them."""

    most: Run
    least: Run
    sentence: str


def _said(what: str, figure: str, found: Difference, names: Mapping[int, str], intervals: bool) -> str:
    """Return the sentence on a difference; with `intervals`, state no difference if the two intervals overlap."""
    if intervals and spans.overlap(figure, found.most, found.least):
        both = f"{names[id(found.most)]} and {names[id(found.least)]}"
        return f"{what.capitalize()} of {both}: no difference, the 90 % intervals overlap."
    return found.sentence


def _traffic(runs: Sequence[Run], names: Mapping[int, str]) -> Difference | None:
    return _compared(runs, names, "loads and stores", lambda run: run.metrics.get("tlb_traffic"), traffic_of_sites)


def _stored(runs: Sequence[Run], names: Mapping[int, str]) -> Difference | None:
    kinds = [kind for kind in KINDS if kind != "none"]
    return _compared(
        runs,
        names,
        "stored bytes",
        lambda run: run.counters.get("pm_stored_bytes"),
        lambda run: {kind: run.stored_bytes.get(kind, 0) for kind in kinds},
    )


def _compared(
    runs: Sequence[Run], names: Mapping[int, str], what: str, total: Figure, causes: Causes
) -> Difference | None:
    found = extremes(runs, lambda run: total(run) or None)
    if found is None or found.high < _DIFFERENT * found.low:
        return None
    least, low, most, high = found
    a, b = causes(most), causes(least)
    gaps = sorted(((a[name] - b.get(name, 0), name) for name in a), reverse=True)
    parts = [
        f"{name} {number(_rounded(a[name] / most.divisor))} a {most.unit} against {number(_rounded(b.get(name, 0) / most.divisor))}"
        for gap, name in gaps[:_CAUSES]
        if gap >= _PART * (high - low)
    ]
    because = f": {', '.join(parts)}" if parts else ""
    return Difference(
        most, least, f"{names[id(most)]} has {times(high / low)} the {what} of {names[id(least)]}{because}."
    )


def _walks(runs: Sequence[Run], names: Mapping[int, str]) -> Difference | None:
    found = extremes(runs, lambda run: run.metrics.get("dtlb_walks"))
    if found is None or found.high < FEW or found.high < _DIFFERENT * found.low:
        return None
    most, least = names[id(found.most)], names[id(found.least)]
    return Difference(
        found.most, found.least, f"{most} takes {number(found.high)} page walks, {least} {number(found.low)}."
    )


def _rounded(value: float) -> float:
    """Round a figure for a sentence: to a whole number from 10 on, else to two digits."""
    return round(value) if value >= 10 else float(f"{value:.2g}")


def _names(runs: Sequence[Run]) -> dict[int, str]:
    """Return a name for each run, by `id` of the run: its file system and the other values that distinguish the runs."""
    varying = axes(runs)
    telling = [part for part in runs[0].names() if part == "fs" or part in varying]
    return {
        id(run): " with ".join(
            [
                " on ".join(str(run.names()[part]) for part in telling),
                *(
                    f"{title(name)} {said(name, values[i])}"
                    for name, values in varying.items()
                    if name not in run.names()
                ),
            ]
        )
        for i, run in enumerate(runs)
    }
