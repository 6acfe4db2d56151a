"""Translate perf's event names to counter fields by the event tables (`perf/events`)."""

import functools
import re

from scmsim.core import registry
from scmsim.core.counters import SCHEMA
from scmsim.core.errors import unknown

# Events of programmable counters that count the same as a fixed counter, and perf's names for fixed counters, on every CPU.
_EVERYWHERE = {
    "cpu_clk_unhalted_thread_p": "cycles",
    "cpu_clk_unhalted_thread": "cycles",
    "cpu_cycles": "cycles",
    "inst_retired_any_p": "instructions",
    "inst_retired_any": "instructions",
    "inst_retired": "instructions",
}


def spelled(event: str) -> str:
    """Return an event's name in the spelling of fields: "dTLB-load-misses" -> "dtlb_load_misses"."""
    return re.sub(r"[^a-z0-9]+", "_", event.lower()).strip("_")


def same(one: str, other: str) -> bool:
    """Return whether two events count the same: their names are equal, or a fixed counter has both names.

    Modifiers, PMUs and raw codes with a name (`cpu/event=0x08,name=.../`) do not matter.
    """
    names = [spelled(_bare(event)) for event in (one, other)]
    return len({_EVERYWHERE.get(name, name) for name in names}) == 1


def _bare(event: str) -> str:
    term = re.search(r"\bname=([^,/]+)", event) or re.fullmatch(r"\w+/([^/=,]+)/\w*", event)
    return term[1] if term else modifier(event)[0]


def modifier(event: str) -> tuple[str, str]:
    """Return an event's name and the mode that its modifiers choose.

    The mode is "user", "kernel", "hypervisor", or "" for user and kernel.  Modifiers follow a colon, or the last slash of a
    PMU's event: `cycles:u`, `cpu/event=0x49,umask=0x0e/k`.
    """
    match = re.fullmatch(r"(.+(?=:)|.+/)(?:(?<!/):)?([ukhGHpPSDWeIbR]+)", event)
    if not match:
        return event, ""
    modes = set("ukh") & set(match[2])
    chosen = modes - {"h"} or modes
    return match[1], {"u": "user", "k": "kernel", "h": "hypervisor"}[chosen.pop()] if len(chosen) == 1 else ""


def fields(event: str, table: str | None = None) -> tuple[str, ...]:
    """Return the counter fields that an event supplies.

    `event` is perf's name, or a raw code as an event table writes it (`cpu/event=0x08,umask=0x10/`).  `table` is the CPU's event
    table (`scmsim list events`).  Without it, only names that have the same meaning in every table are translated; others, such
    as `dTLB-loads`, are returned unchanged.
    """
    name = spelled(event)
    if name in SCHEMA or name in _EVERYWHERE:
        return (_EVERYWHERE.get(name, name),)
    meanings = {_table(one).get(name, ()) for one in ([table] if table else registry.names("events"))} - {()}
    return meanings.pop() if len(meanings) == 1 else (name,)


def meanings(event: str) -> dict[str, list[str]]:
    """Return field -> event tables for an event that CPUs count differently; empty for an event with a single meaning."""
    name, found = spelled(event), dict[str, list[str]]()
    if name in SCHEMA or name in _EVERYWHERE:
        return {}
    for table in registry.names("events"):
        for field in _table(table).get(name, ()):
            found.setdefault(field, []).append(table)
    return found if len(found) > 1 else {}


def check_table(table: str | None) -> None:
    """Raise UnknownName for a table that does not exist; accept None for no table."""
    if table is not None and table not in registry.names("events"):
        raise unknown("event table", table, registry.names("events"))


@functools.cache
def _table(name: str) -> dict[str, tuple[str, ...]]:
    """Return spelled event -> fields, for one table."""
    literals = registry.literals("events", name)
    found: dict[str, tuple[str, ...]] = {}
    for field, row in literals.get("rows", {}).items():
        pmu = literals.get("pmu", "cpu")
        for event in (row.get("event", ""), f"{pmu}/{row['raw']}/" if "raw" in row else ""):
            key = spelled(event)
            if key and field not in found.get(key, ()):
                found[key] = (*found.get(key, ()), field)
    for event, field in literals.get("generic", {}).items():
        found.setdefault(spelled(event), (field,))
    return found
