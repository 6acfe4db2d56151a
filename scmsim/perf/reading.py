"""Data types for the output of `perf stat`: readings of events, and everything else that it printed."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from scmsim.core.errors import UsageError
from scmsim.perf import numbers

MAX_EVENT = 256
MAX_READINGS = 1 << 20
NOT_COUNTED = {"<not supported>": "not supported", "<not counted>": "not counted"}
EVENT = r"[A-Za-z_][^\s;\"'#]*"
CORE_TYPE = r"(?:cpu|cpu_core|cpu_atom|cpu_lowpower|cpum_cf|armv[789]_\w+|apple_\w+)"  # PMUs that count a core's events
# Messages of perf in any form of output
MESSAGE = re.compile(
    r"\s*(?:Couldn't resolve comm name for pid \d+|Some events weren't counted\..*|echo \d > /proc/sys/kernel/nmi_watchdog|"
    r"perf stat \.\.\.|The events in group usually have to be from the same PMU\..*|Warning:.*)$",
    re.IGNORECASE,
)
# cpu_core/cycles/u, but not raw codes (event=0x..), which keep their spelling
_NAMED = re.compile(rf"({CORE_TYPE})/([^/=,]+)/(\w*)")
_INSTANCE = re.compile(r"(\S+) \[([\w.-]+)\]")  # "data_read [uncore_imc_0]" of perf stat --no-merge
_CLOCK = re.compile(r"(?:task|cpu)-clock(?::\w+)?")  # in ms, and without a unit before perf 4.20


class Reading(NamedTuple):
    """One event as perf reported it."""

    event: str  # name as perf printed it, without the PMU of a hybrid CPU but with a modifier: "page-faults:u"
    value: int | float | None  # None if perf could not count; then `reason` is "not supported" or "not counted"
    unit: str = ""  # "" for counts, else perf's unit: "msec", "Joules"
    # share of the time in which the event was on a counter; below 100 the value is an extrapolation
    running_percent: float = 100.0
    pmu: str = ""  # "cpu_core", "cpu_atom" ... if the event named one, else ""
    # CPUs or thread of this value, as perf printed them ("CPU0", "S0-D0", "perf-1234"); "" for the whole run
    cpu: str = ""
    reason: str = ""
    interval: float | None = None  # seconds since the start, with `perf stat -I`
    # with `perf stat -r`: standard error of the mean, in percent of the mean (perf calls it variance)
    spread_percent: float | None = None
    cgroup: str | None = None  # the control group that was counted, with -G or --for-each-cgroup


@dataclass
class Stat:
    """The output of one `perf stat`."""

    # counts, in the order in which perf printed them, without rows that total other rows
    readings: list[Reading] = field(default_factory=list)
    # text of lines that are neither a count nor a known line without a count, with line numbers
    not_understood: list[str] = field(default_factory=list)
    system_wide: bool = False  # whether the output states that all tasks of the CPUs were counted (-a, -C)
    metrics: int = 0  # lines with only metrics (--metric-only, --topdown)
    # rows with totals of the intervals (--summary), which are compared with the intervals and never added to them
    totals: list[Reading] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # notes for the reader of the counts

    def add(self, found: Reading, total: bool = False) -> None:
        """Add a reading; a reading that totals the intervals is kept in `totals`."""
        (self.totals if total else self.readings).append(found)
        if len(self.readings) > MAX_READINGS:
            raise UsageError(f"perf stat output has more than {MAX_READINGS} readings; import it in parts")

    def name(self, number: int, line: str) -> None:
        """Record a line that is not understood, unless it is one of perf's messages."""
        if not MESSAGE.match(line):
            self.not_understood.append(f"line {number} {quoted(line)}")


def reading(event: str, value: int | float | None, where: str, *, unit: str = "", **more: object) -> Reading:
    """Return a reading whose event is split into name and PMU; raise UsageError if the event or the unit is invalid."""
    instance = _INSTANCE.fullmatch(event)
    pmu = event.partition("/")[0] if "/" in event else ""
    if instance:
        event, pmu = instance[1], instance[2]
    if len(event) > MAX_EVENT or not event.isprintable() or not re.fullmatch(EVENT, event):
        raise UsageError(
            f"{where} of perf stat's output names no event: {quoted(event)}; run perf stat again, or remove the line"
        )
    named = _NAMED.fullmatch(event)
    if named:
        event = named[2] + (f":{named[3]}" if named[3] else "")
    if unit and not unit.isprintable():
        raise UsageError(
            f"{where} of perf stat's output has a unit that is not text: {quoted(unit)}; run perf stat again, or remove the line"
        )
    if not unit and _CLOCK.fullmatch(event):
        unit = "msec"
    return Reading(event, value, unit[:MAX_EVENT], pmu=pmu, **more)  # type: ignore[arg-type]


def counted(text: str, where: str, groups: bool) -> tuple[int | float | None, str]:
    """Return (value, "") or (None, reason for the missing count); with `groups`, digits may be grouped (plain text)."""
    text = text.strip(" \t")
    if text in NOT_COUNTED:
        return None, NOT_COUNTED[text]
    try:
        return (numbers.grouped if groups else numbers.ungrouped)(text), ""
    except UsageError as error:
        if groups:
            raise UsageError(f"{where} of perf stat's output: {error}") from None
        raise UsageError(
            f"{where} of perf stat's output has {quoted(text)} where a count belongs; run perf stat again, or remove the line"
        ) from None


def percentage(value: object, where: str) -> float:
    """Return a share of the time in percent, at most 100."""
    percent = optional(value, where)
    if percent is None or percent > 100.01:
        raise UsageError(
            f"{where} of perf stat's output has {quoted(str(value))} where a percentage belongs; run perf stat again, or "
            "remove the line"
        )
    return min(percent, 100.0)


def optional(value: object, where: str) -> float | None:
    """Return a number without groups; None for None."""
    if value is None:
        return None
    found, _ = counted(str(value), where, groups=False)
    return None if found is None else float(found)


def quoted(text: str) -> str:
    """Return a text in quotes, cut to 80 characters."""
    text = text.strip()
    return repr(text if len(text) <= 80 else f"{text[:77]}...")
