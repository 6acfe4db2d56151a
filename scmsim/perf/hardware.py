"""Choose hardware events: the machine's event table, the events that perf accepts, and passes that fit the counters."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scmsim.core.errors import unknown
from scmsim.perf import events
from scmsim.perf.backend import Request
from scmsim.perf.counts import Event
from scmsim.perf.machine import Machine

NO_PMU = "no hardware PMU on this machine (/sys/bus/event_source/devices has no cpu)"
# programmable counters of a hyper-thread; the TLB and load events of later CPUs are restricted to four of eight
PER_PASS = 4
REFERENCE = "skylake"  # the family of the thesis's CPU; without a PMU, the fields of its table are reported as absent


class Choice(NamedTuple):
    """Events of each pass, reason for each absent field, and event that supplies each counted field."""

    passes: list[tuple[Event, ...]]
    why_absent: dict[str, str]
    names: dict[str, str]


def table_here(name: str, machine: Machine) -> tuple[events.Table | None, str]:
    """Return (event table, "") for this CPU, or (None, reason) if there is none; `name` chooses a table instead.

    On a hybrid CPU the table of the big cores is returned; the user must pin the program to one of them.
    """
    pmus = machine.pmus()
    if not pmus:
        return None, NO_PMU
    found = machine.tables()
    pmu = "cpu_core" if "cpu_core" in pmus else next(iter(found), pmus[0])
    if name or pmu in found:
        return events.table(name or found[pmu]).on(pmu), ""
    return None, "no event table for this CPU; name the nearest one, see 'scmsim list events'"


def absent(request: Request, why: str) -> dict[str, str]:
    """Return field -> `why` for each requested field, or for each field of the thesis if none was requested."""
    return dict.fromkeys(fields(events.table(REFERENCE), request), why)


def fields(table: events.Table, request: Request) -> list[str]:
    """Return the fields to count: the requested ones, else the thesis's 18 events and the inputs of its Table 7.

    Raises UnknownName for a field that no PMU supplies.
    """
    known = events.hardware_fields()
    for name in request.counters:
        if name not in known:
            raise unknown("counter", name, known, "scmsim list counters")
    if request.counters:
        return list(request.counters)
    return list(dict.fromkeys([*events.study_fields(table), *events.THESIS.values()]))


def choose(table: events.Table, request: Request, why_not: Callable[[str], str | None]) -> Choice:
    """Probe every event by its name, then by its raw code, and put the working events into passes.

    `why_not` returns why perf does not count an event, None if it does.
    """
    names: dict[str, str] = {}
    why_absent: dict[str, str] = {}
    for name in fields(table, request):
        row = table.rows.get(name)
        if row is None:
            why_absent[name] = table.absent.get(name, f"{table.name} has no such event")
            continue
        why = why_not(row.event)
        if why and row.raw:
            raw = _named(row.raw, row.event)
            if why_not(raw) is None:
                names[name] = raw
                continue
        if why:
            why_absent[name] = why
        else:
            names[name] = row.event
    return Choice(list(passes(table, names, request)), why_absent, names)


def passes(table: events.Table, names: dict[str, str], request: Request) -> list[tuple[Event, ...]]:
    """Return the events of each pass; to split modes, every event except `ALWAYS_COUNTED` is counted for user and kernel."""
    split = request.count == "split"
    modes = ("u", "k") if split else ("u",) if request.count == "user" else ("",)
    groups = [list(names)] if request.multiplexed else events.passes(table, names, per_pass=PER_PASS // (1 + split))
    found = []
    for group in groups:
        # `ALWAYS_COUNTED` are counted for both modes together: a second count would use a counter that other events need
        counted = [(name, ("",) if split and name in events.ALWAYS_COUNTED else modes) for name in group]
        found.append(tuple(Event(name, _moded(names[name], m), m) for name, ms in counted for m in ms))
    return found


def _named(raw: str, event: str) -> str:
    """Return a raw code with a name= term, under which perf prints the event; two fields of one event share the name."""
    return f"{raw[:-1]},name={re.sub(r'[^a-z0-9]+', '_', event).strip('_')}/"


def _moded(event: str, mode: str) -> str:
    """Return an event for a mode; the name of a raw event gets the mode as its suffix."""
    return re.sub(r",name=(\w+)/$", rf",name=\1_{mode}/", event) if mode else event


def events_of(passes_: Sequence[tuple[Event, ...]]) -> dict[str, str]:
    """Return field -> requested event; " + " joins the events of user and kernel mode."""
    found: dict[str, list[str]] = {}
    for event in (event for events_ in passes_ for event in events_):
        if event.asked() not in found.setdefault(event.field, []):
            found[event.field].append(event.asked())
    return {name: " + ".join(asked) for name, asked in found.items()}
