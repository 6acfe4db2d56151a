"""Merge the readings of one `perf stat` over all places, intervals, core types and groups into one per event."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from scmsim.core.errors import UsageError
from scmsim.perf.reading import CORE_TYPE, Reading, Stat

_ALMOST = 99.0  # percent: if the time shares of core types add up to less, nothing was counted for part of the time
_MOST = 100.5  # percent: maximum sum of shares, which are printed with two decimals
_ALIKE = 0.01  # largest relative difference of two counts of one event over the whole time, in two groups
_OF_THE_SYSTEM = re.compile(r"(?:CPU\d+|[SN]\d+(?:-[A-Z]+\d+)*)$")  # CPUs, cores, sockets, nodes; else a task


class Merged(NamedTuple):
    """One reading per event, and notes for the reader on how the readings were merged."""

    readings: dict[str, Reading]
    notes: list[str]


def merge(stat: Stat) -> Merged:
    """Return one reading per event.

    Counts are summed over places (CPUs, cores, sockets, nodes, tasks), intervals and control groups.  For an event that was
    counted in two groups of events, the count that was longest on a counter is taken.  Core types of a hybrid CPU are summed,
    weighted by their share of the time, because perf scales the count of each to the whole time.

    Raises UsageError if a sum would count something twice.
    """
    notes = list(stat.notes)
    _check_places(stat.readings)
    rows: dict[tuple, list[Reading]] = {}
    for one in stat.readings:
        rows.setdefault((one.event, one.cpu, one.cgroup, one.interval, one.pmu), []).append(one)
    places: dict[tuple, list[Reading]] = {}
    for key, several in rows.items():
        places.setdefault(key[:4], []).append(_one_of(several, notes))
    events: dict[str, list[Reading]] = {}
    for (event, *_), several in places.items():
        events.setdefault(event, []).extend(_core_types(several, stat.system_wide, notes))
    readings = {event: _sum(several) for event, several in events.items()}
    _check_totals(stat, readings, notes)
    return Merged(readings, list(dict.fromkeys(notes)))


def _check_places(readings: Sequence[Reading]) -> None:
    """Raise UsageError if a place contains another: a whole and its parts, cores and their threads, nested control groups."""
    groups: dict[str, list[Reading]] = {}
    for one in readings:
        if "percore" in one.event and one.cpu.startswith("CPU"):
            raise UsageError(
                f"{one.event!r} repeats a core's count for each of its CPUs; run perf stat without --percore-show-thread"
            )
        if one.value is not None:
            groups.setdefault(one.event, []).append(one)
    for event, counts in groups.items():
        if len({(one.interval is None, _level(one.cpu)) for one in counts}) > 1:
            raise UsageError(
                f"{event!r} was counted more than once, as a whole and in parts; write each run of perf stat to its own file"
            )
        names = {one.cgroup or "" for one in counts}
        nested = next(((a, b) for a in names for b in names if a != b and _holds(a, b)), None)
        if nested:
            raise UsageError(
                f"{event!r} was counted in control group {nested[0] or '/'!r} and in its subgroup {nested[1]!r}, so "
                "a sum would count it twice; count only one of the groups"
            )


def _level(place: str) -> str:
    """Return the kind of place that a count is for.

    The kind is "" for the whole system, "CPU", "S-D-C" ... for a part of the system (without its numbers), else "task".
    """
    return re.sub(r"\d+", "", place) if not place or _OF_THE_SYSTEM.match(place) else "task"


def _holds(outer: str, inner: str) -> bool:
    """Return whether a control group contains another; every group is in the root."""
    outer, inner = outer.strip("/"), inner.strip("/")
    return not outer or inner.startswith(f"{outer}/")


def _one_of(several: Sequence[Reading], notes: list[str]) -> Reading:
    """Return one of the counts of one event at one place: the one longest on a counter, the first at a tie."""
    counts = [one for one in several if one.value is not None]
    if len(counts) < 2:
        return counts[0] if counts else several[0]
    values = [one.value or 0 for one in counts]
    apart = max(values) - min(values) > _ALIKE * max(values)
    if apart and any(one.running_percent > 99.995 for one in counts):
        raise UsageError(
            f"{counts[0].event!r} was counted more than once ({min(values):,} and {max(values):,}); "
            "write each run of perf stat to its own file, and name each event once"
        )
    best = max(counts, key=lambda one: one.running_percent)
    if max(values) != min(values):
        others = ", ".join(f"{value:,}" for value in values if value != best.value)
        notes.append(
            f"{best.event} was counted in {len(counts)} groups: {best.value:,} is taken, which was longest on a counter or first "
            f"(also {others})"
        )
    return best


def _core_types(several: Sequence[Reading], system_wide: bool, notes: list[str]) -> list[Reading]:
    """Return the readings of one place; a task's readings on several core types become their sum, weighted by time."""
    cores = [one for one in several if one.value is not None and re.fullmatch(CORE_TYPE, one.pmu)]
    if len(cores) < 2 or system_wide or _OF_THE_SYSTEM.match(cores[0].cpu):
        return list(several)
    share = sum(one.running_percent for one in cores)
    parts = " + ".join(f"{one.value:,} on {one.pmu} for {one.running_percent:g} %" for one in cores)
    if share > _MOST:
        raise UsageError(
            f"{cores[0].event!r}: {parts} of the time are more than 100 %, so these counts cannot be added up; count each CPU "
            "separately (perf stat -a -A), or only one core type"
        )
    scaled = sum((one.value or 0) * one.running_percent / 100 for one in cores)
    if share < _ALMOST and share:
        scaled *= 100 / share  # as perf scales an event that was on a counter for part of the time
    value = scaled if cores[0].unit else round(scaled)
    notes.append(f"{cores[0].event} is the sum of values by their share of the time: {parts}")
    rest = [one for one in several if one.value is not None and one not in cores]
    percent = share if share < _ALMOST else 100.0
    return [cores[0]._replace(value=value, running_percent=percent, pmu=""), *rest]


def _sum(several: Sequence[Reading]) -> Reading:
    """Return the sum of readings over places and intervals, without readings that perf could not count."""
    counts = [one for one in several if one.value is not None]
    if not counts:
        return several[0]._replace(cpu="", interval=None, cgroup=None)
    first = counts[0]
    if len(counts) == 1:
        return first._replace(cpu="", interval=None, cgroup=None)
    return first._replace(
        value=sum(one.value or 0 for one in counts),
        running_percent=min(one.running_percent for one in counts),
        pmu=first.pmu if all(one.pmu == first.pmu for one in counts) else "",
        cpu="",
        interval=None,
        cgroup=None,
    )


def _check_totals(stat: Stat, readings: dict[str, Reading], notes: list[str]) -> None:
    """Add a note for each event whose total from perf differs from the sum of its intervals."""
    totals = {
        event: _sum([one for one in stat.totals if one.event == event]) for event in {t.event for t in stat.totals}
    }
    for event, total in totals.items():
        found = readings.get(event)
        if total.value is None or found is None or found.value is None or found.running_percent < 99.995:
            continue
        if abs(total.value - found.value) > max(1 + len(stat.readings) / 100, _ALIKE * total.value):
            notes.append(f"{event}: the intervals add up to {found.value:,}, the summary says {total.value:,}")
