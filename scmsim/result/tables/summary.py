"""A few sentences under the table: the largest differences between the runs, and what they come from.

The rule: the run with the most is set against the run with the least, where they differ by more than a tenth.  Causes are the
mechanisms (or the kinds of stored bytes) whose figures a call differ most in the same direction, each a tenth of the difference or
more.  Runs in which operations failed are left out, and so are bytes stored where some are still in the page cache.
"""

from collections.abc import Callable, Mapping, Sequence

from scmsim.core.records import KINDS
from scmsim.result.run import Run
from scmsim.result.tables.figures import FEW, number

_DIFFERENT = 1.1
_PART = 0.1
_CAUSES = 3
_TRAFFIC = ("mem_inst_retired_all_loads", "mem_inst_retired_all_stores")
Causes = Callable[[Run], Mapping[str, float]]


def sentences(runs: Sequence[Run]) -> list[str]:
    """At most three: loads and stores, bytes stored, page walks; none for runs of different work."""
    sound = [run for run in runs if run.calls and not run.errors]
    if len({(run.calls, run.operations, run.payload.get("written")) for run in sound}) != 1:
        return []
    names = _names(sound)
    return [
        *_compared(sound, names, "loads and stores", lambda run: run.metrics.get("tlb_traffic"), _traffic),
        *_compared(
            [run for run in sound if not run.space.get("dirty_bytes")],
            names,
            "stored bytes",
            lambda run: run.counters.get("pm_stored_bytes"),
            lambda run: {kind: run.stored_bytes.get(kind, 0) for kind in KINDS if kind != "none"},
        ),
        *_walks(sound, names),
    ]


def _compared(
    runs: Sequence[Run], names: Mapping[int, str], what: str, total: Callable[[Run], float | None], causes: Causes
) -> list[str]:
    known = [run for run in runs if total(run)]
    if len(known) < 2:
        return []
    least, most = min(known, key=lambda run: total(run) or 0), max(known, key=lambda run: total(run) or 0)
    low, high = total(least) or 0, total(most) or 0
    if high < _DIFFERENT * low:
        return []
    a, b = causes(most), causes(least)
    gaps = sorted(((a[name] - b.get(name, 0), name) for name in a), reverse=True)
    found = [
        f"{name} {number(round(a[name] / most.calls))} a call against {number(round(b.get(name, 0) / most.calls))}"
        for gap, name in gaps[:_CAUSES]
        if gap >= _PART * (high - low)
    ]
    because = f": {', '.join(found)}" if found else ""
    return [f"{names[id(most)]} has {_times(high / low)} times the {what} of {names[id(least)]}{because}."]


def _traffic(run: Run) -> dict[str, float]:
    return {site: sum(counts.get(field, 0) for field in _TRAFFIC) for site, counts in run.sites.items()}


def _walks(runs: Sequence[Run], names: Mapping[int, str]) -> list[str]:
    known = [(walks, run) for run in runs if (walks := run.metrics.get("dtlb_walks")) is not None]
    if len(known) < 2:
        return []
    (low, least), (high, most) = (pick(known, key=lambda each: each[0]) for pick in (min, max))
    if high < FEW or high < _DIFFERENT * low:
        return []
    return [f"{names[id(most)]} takes {number(high)} page walks, {names[id(least)]} {number(low)}."]


def _times(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 100 else f"{ratio:,.0f}"


def _names(runs: Sequence[Run]) -> dict[int, str]:
    """A name for each run: its file system, and whatever else tells them apart."""
    telling = [part for part in runs[0].names() if part == "fs" or len({run.names()[part] for run in runs}) > 1]
    return {id(run): " on ".join(str(run.names()[part]) for part in telling) for run in runs}
