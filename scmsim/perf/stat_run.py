"""Fill a run of a result from the output of `perf stat`: counters, counts by mode, figures with a unit, and warnings."""

from collections.abc import Mapping

from scmsim.core.errors import UsageError
from scmsim.core.text import printable
from scmsim.perf.event_names import fields, meanings, modifier
from scmsim.perf.merge import merge
from scmsim.perf.parse import read_stat
from scmsim.perf.reading import Reading, Stat
from scmsim.result import Run

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "msec": 1_000_000}
_NAMED = 3  # maximum number of lines that are not understood, or of event tables, that a warning names
UNIT = "unit of "  # prefix of the names of a run's params that hold the units of its figures


def fill(run: Run, text: str, table: str | None = None, mode: str = "") -> None:
    """Put the counts of one `perf stat` into a run.

    The run receives `counters` (whole counts, times in ns), `groups` by mode, `metrics` (figures with another unit), `events`,
    `why_absent` and `warnings`.  `table` is the event table of the measured CPU.  `mode` is the mode of events whose names have no
    modifier: "user", "kernel" or "" for both.
    Raises UsageError if perf counted nothing, or if its output cannot be read or added up.
    """
    stat = read_stat(text)
    found = merge(stat)
    figures: dict[str, float] = {}
    for event, reading in found.readings.items():
        name, own = modifier(event)
        for field in fields(name, table):
            _take(run, figures, field, own or mode, reading)
    _total(run)
    run.warnings += _rounded(found.readings)
    if not run.counters and not run.groups and not figures:
        why = "; ".join(sorted(set(run.why_absent.values())))
        raise UsageError(f"perf stat counted none of its events ({printable(why)[:160]}); see 'scmsim perf check'")
    run.warnings += [*found.notes, *_not_understood(stat), *(_untranslated(found.readings) if table is None else ())]
    absent = dict(run.why_absent)
    run.derive()
    run.metrics |= figures
    run.why_absent |= {field: why for field, why in absent.items() if field not in {*run.counters, *figures}}


def _take(run: Run, figures: dict[str, float], field: str, mode: str, reading: Reading) -> None:
    """Put one reading into a run: its counters, its modes, its figures, or the reasons of absence."""
    run.events[field] = reading.event
    if reading.value is None:
        run.why_absent[field] = f"perf: {reading.event} {reading.reason}"
        return
    if reading.unit and reading.unit not in _NANOSECONDS:
        figures[field] = float(reading.value)
        run.params[UNIT + field] = reading.unit
    else:
        value = round(reading.value * _NANOSECONDS.get(reading.unit, 1))
        target = run.groups.setdefault(mode, {}) if mode else run.counters
        target[field] = value
    if reading.running_percent < 99.995:
        run.warnings.append(
            f"{reading.event} was on a counter for {reading.running_percent:g} % of the time; scaled up"
        )


def _total(run: Run) -> None:
    """Set totals to the sums of user and kernel counts; if everything was counted in one mode, to the counts of that mode."""
    for field in dict.fromkeys(field for counts in run.groups.values() for field in counts):
        modes = {mode: counts[field] for mode, counts in run.groups.items() if field in counts}
        if {"user", "kernel"} <= modes.keys():
            run.counters.setdefault(field, modes["user"] + modes["kernel"])
            run.events[field] = modifier(run.events[field])[0]
    if not run.counters and len(run.groups) == 1:
        ((mode, counts),) = run.groups.items()
        run.counters.update(counts)
        run.warnings.append(f"every event was counted in {mode} mode alone")
        return
    for mode, counts in run.groups.items():
        for field in counts.keys() - run.counters.keys():
            run.warnings.append(f"{field} was counted in {mode} mode only; it has no total")


def _rounded(readings: Mapping[str, Reading]) -> list[str]:
    """Return a warning that names the counts that are not whole numbers, because they are means of repeated runs."""
    found = [
        f"{event} {reading.value:,}"
        for event, reading in readings.items()
        if not reading.unit and isinstance(reading.value, float) and not reading.value.is_integer()
    ]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"means of repeated runs are rounded to whole counts: {', '.join(found[:_NAMED])}{more}"] if found else []


def _not_understood(stat: Stat) -> list[str]:
    lines = stat.not_understood
    if not lines:
        return []
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return [
        f"{len(lines)} line{'s' * (len(lines) > 1)} not understood, which count nothing: {', '.join(lines[:_NAMED])}{more}"
    ]


def _untranslated(readings: Mapping[str, Reading]) -> list[str]:
    """Return a warning for each event that an event table would translate, with the translations."""
    found = []
    for event in readings:
        name = modifier(event)[0]
        several = meanings(name)
        if several:
            parts = [
                f"{field} ({', '.join(tables[:_NAMED])}{', ...' * (len(tables) > _NAMED)})"
                for field, tables in several.items()
            ]
            found.append(
                f"{name} keeps its own name, as CPUs count it differently: {'; '.join(parts)}; choose with --events TABLE"
            )
    return found
