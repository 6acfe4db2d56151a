"""Convert the `perf stat` output of a measurement's passes to counter fields, and refuse or record multiplexed events."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scmsim.core.errors import EnvironmentProblem
from scmsim.perf.merge import merge
from scmsim.perf.parse import read_stat
from scmsim.perf.reading import Reading

MODES = {"": "", "u": "user", "k": "kernel"}


class Event(NamedTuple):
    """One event of a pass: the counter field that it supplies, perf's name for it, and the mode ("" for user + kernel)."""

    field: str
    name: str
    mode: str = ""

    def asked(self) -> str:
        """Return the event as given to perf -e."""
        if not self.mode:
            return self.name
        return f"{self.name}{self.mode}" if self.name.endswith("/") else f"{self.name}:{self.mode}"


@dataclass
class Counts:
    """Counter fields of one measurement: totals, counts by mode (`user`, `kernel`), and why fields are absent."""

    values: dict[str, int] = field(default_factory=dict)
    modes: dict[str, dict[str, int]] = field(default_factory=dict)
    why_absent: dict[str, str] = field(default_factory=dict)
    # multiplexed field -> smallest percentage of the time that its event was on a counter
    scaled: dict[str, float] = field(default_factory=dict)


def from_stat(text: str, events: Sequence[Event], allow_multiplexing: bool = False) -> Counts:
    """Return the counts of one pass from the output of `perf stat` for `events`, in the order of the request.

    `allow_multiplexing`: accept extrapolated values, and name their fields in `scaled`, instead of raising an error.
    Raises EnvironmentProblem if an event was not on a counter all the time; UsageError if the text is not the output of
    perf stat.
    """
    readings = merge(read_stat(text)).readings
    found = Counts()
    for event, reading in zip(events, _in_order(events, readings), strict=True):
        if reading is None or reading.value is None:
            found.why_absent[event.field] = (
                f"perf: {event.asked()} {reading.reason if reading else 'is not in its output'}"
            )
            continue
        if reading.running_percent < 99.995:  # perf prints two decimals
            if not allow_multiplexing:
                raise EnvironmentProblem(
                    f"{event.asked()} was on a counter for only {reading.running_percent:g} % of the time, something else uses "
                    "the counters; set kernel.nmi_watchdog=0, end other perf sessions, or accept scaled values with "
                    "--allow-multiplexing"
                )
            found.scaled[event.field] = min(reading.running_percent, found.scaled.get(event.field, 100.0))
        _add(found, event, _whole(reading))
    for name in found.why_absent.keys() & found.values.keys():  # one mode of two is missing: the sum would be wrong
        del found.values[name]
    return found


def combined(passes: Iterable[Counts]) -> Counts:
    """Return the counts of all passes of a measurement together; a field that several passes counted gets their mean."""
    passes = list(passes)
    out = Counts()
    out.values = _means([counts.values for counts in passes])
    for mode in dict.fromkeys(mode for counts in passes for mode in counts.modes):
        out.modes[mode] = _means([counts.modes.get(mode, {}) for counts in passes])
    for counts in passes:
        out.why_absent.update({name: why for name, why in counts.why_absent.items() if name not in out.values})
        for name, percent in counts.scaled.items():
            out.scaled[name] = min(percent, out.scaled.get(name, 100.0))
    return out


def mean(values: Sequence[int]) -> int:
    """Return the mean of whole numbers, rounded half up."""
    return (2 * sum(values) + len(values)) // (2 * len(values))


def _means(tables: Sequence[dict[str, int]]) -> dict[str, int]:
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: mean([table[name] for table in tables if name in table]) for name in names}


def _add(found: Counts, event: Event, value: int) -> None:
    found.values[event.field] = found.values.get(event.field, 0) + value
    if event.mode:
        found.modes.setdefault(MODES[event.mode], {})[event.field] = value


def _whole(reading: Reading) -> int:
    """Return the value as a whole number; a time is converted to ns."""
    return round((reading.value or 0) * (1_000_000 if reading.unit == "msec" else 1))


def _in_order(events: Sequence[Event], readings: dict[str, Reading]) -> list[Reading | None]:
    """Return the reading of each event: by name, or by position if perf spells the name differently."""
    asked = list(dict.fromkeys(event.asked() for event in events))
    by_place = dict(zip(asked, readings.values(), strict=True)) if len(readings) == len(asked) else {}
    return [
        next((readings[name] for name in _spellings(event) if name in readings), by_place.get(event.asked()))
        for event in events
    ]


def _spellings(event: Event) -> list[str]:
    """Return the names under which perf may print an event.

    The names are the requested one, the one in its name= term, and the last of these two with `:u`, which perf appends if it
    may only count user mode.
    """
    asked = event.asked()
    names = [asked]
    term = re.search(r"\bname=([^,/]+)", asked)
    if term:
        names += [term[1], f"{term[1]}:{event.mode}"]
    return names if event.mode else [*names, f"{names[-1]}:u"]
