"""Read event tables (one file of `events/` per micro-architecture), which state the perf event of each counter field.

Units and default meanings are those of `counters.SCHEMA` and `counters.MEASURED`.
Sources: each table's `source`; Intel's names and codes are from intel/perfmon (BSD 3-Clause, (c) 2021 Intel Corporation).
"""

import dataclasses
import fnmatch
import functools
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scmsim.core import registry, schema, toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.file_cache import per_file
from scmsim.core.schema import Mistakes, Rule, listed, named, one_of, text, whole

# These fields are counted in every pass, so that a ratio to one of them is computed within one pass.
ALWAYS_COUNTED = ("instructions", "cycles")

# The 17 events of the thesis's Table 6 in its order, and the LLC misses that its Table 7 needs but Table 6 lacks.  The events
# have the names of Sandy and Ivy Bridge; the fields mean the same quantity on any CPU.
GENERIC = ("dTLB-loads", "dTLB-load-misses", "dTLB-stores", "dTLB-store-misses", "iTLB-loads", "iTLB-load-misses")
THESIS: dict[str, str] = {
    "cpu_clk_unhalted.thread_p": "cycles",
    "l1d.replacement": "l1d_replacement",
    "mem_load_uops_retired.llc_hit": "mem_load_uops_retired_l3_hit",
    "mem_load_uops_llc_hit_retired.xsnp_hit": "mem_load_l3_hit_retired_xsnp_hit",
    "mem_load_uops_llc_hit_retired.xsnp_hitm": "mem_load_l3_hit_retired_xsnp_hitm",
    "mem_load_uops_llc_hit_retired.xsnp_miss": "mem_load_l3_hit_retired_xsnp_miss",
    "dTLB-loads": "mem_inst_retired_all_loads",
    "dTLB-stores": "mem_inst_retired_all_stores",
    "dTLB-load-misses": "dtlb_load_misses_miss_causes_a_walk",
    "dTLB-store-misses": "dtlb_store_misses_miss_causes_a_walk",
    "inst_retired.any_p": "instructions",
    "dtlb_load_misses.walk_completed": "dtlb_load_misses_walk_completed",
    "dtlb_load_misses.walk_duration": "dtlb_load_misses_walk_active",
    "dtlb_store_misses.walk_completed": "dtlb_store_misses_walk_completed",
    "dtlb_store_misses.walk_duration": "dtlb_store_misses_walk_active",
    "itlb_misses.walk_completed": "itlb_misses_walk_completed",
    "itlb_misses.walk_duration": "itlb_misses_walk_active",
    "mem_load_uops_misc_retired.llc_miss": "mem_load_retired_l3_miss",
}


class Row(NamedTuple):
    """A row of an event table: how one counter field is measured."""

    event: str  # perf's symbolic name; the raw code if perf has none
    raw: str  # the same event as a raw code, for a perf that does not know the name
    restriction: str  # "fixed" (its own counter), "any", or the programmable counters that can hold it: "0,1", "0-3"
    meaning: str
    source: str


@dataclasses.dataclass(frozen=True)
class Table:
    """The events of one micro-architecture."""

    name: str
    summary: str
    source: str
    pmu: str  # the PMU's directory in /sys/bus/event_source/devices
    counters: int  # number of programmable counters per hardware thread while SMT is on
    rows: dict[str, Row]  # row of each counter field; fields whose ratio is a metric are adjacent
    absent: dict[str, str]  # the reason for each field that this CPU cannot supply
    # the field that each of perf's generic TLB events counts on this CPU; CPUs differ in what such an event counts
    generic: dict[str, str]

    def on(self, pmu: str) -> "Table":
        """Return this table for another PMU, such as "cpu_core" or "cpu_atom" of a hybrid CPU, or an Arm PMU."""
        if pmu == self.pmu:
            return self
        rows = {field: _bind(row, self.pmu, pmu) for field, row in self.rows.items()}
        return dataclasses.replace(self, pmu=pmu, rows=rows)


def _bind(row: Row, old: str, new: str) -> Row:
    raw = row.raw.replace(f"{old}/", f"{new}/", 1)
    return row._replace(raw=raw, event=raw if row.event == row.raw else f"{new}/{row.event}/")


def table(name: str) -> Table:
    """Return the event table of a micro-architecture; raises UnknownName, or ConfigError with every mistake in its file."""
    return _read(registry.path("events", name), name)


@per_file()
def _read(file: pathlib.Path, name: str) -> Table:
    from scmsim.core.counters import MEASURED, SCHEMA

    literals = toml.load(file, checked)
    known = {**SCHEMA, **MEASURED}
    pmu = literals["pmu"]
    rows = {}
    for field, given in literals["rows"].items():
        raw = f"{pmu}/{given['raw']}/"
        rows[field] = Row(
            given.get("event", raw),
            raw,
            given.get("counters", "any"),
            given.get("meaning", known[field].meaning),
            given.get("source", literals["source"]),
        )
    absent = {field: _reason(field, literals["absent"]) for field in hardware_fields() if field not in rows}
    kept = ("summary", "source", "pmu", "counters", "generic")
    return Table(name=name, rows=rows, absent=absent, **{key: literals[key] for key in kept})


@functools.cache
def hardware_fields() -> tuple[str, ...]:
    """Return the fields that a PMU may supply; an event table has, for each, a row or the reason why it is absent."""
    from scmsim.core.counters import MEASURED, SCHEMA, SOFTWARE

    lookups = {"dtlb_load_lookups", "dtlb_store_lookups", "itlb_lookups"}
    predicted = [field for field, counter in SCHEMA.items() if counter.event or field in lookups]
    return (*predicted, *(field for field in MEASURED if field not in SOFTWARE))


def _reason(field: str, absent: Mapping[str, str]) -> str:
    """Return why a field is absent: the reason of the first pattern that matches it; "" if no pattern matches."""
    return next((why for pattern, why in absent.items() if fnmatch.fnmatchcase(field, pattern)), "")


def checked(given: Any) -> dict[str, Any]:
    """Return the content of an event table; raises Broken with every mistake."""
    fields = {"summary": text, "source": text, "pmu": text, "counters": whole(1, 64), "cpus": listed(_cpu)}
    fields |= {
        "rows": named(_ROW, _field),
        "absent": named(text),
        "generic": named(text, one_of("TLB event of perf", GENERIC)),
    }
    kept: dict[str, Any] = schema.table(fields, fields)(given)
    rows, mistakes = kept["rows"], Mistakes()
    for field, row in rows.items():
        slots = _slots(row.get("counters", "any"), kept["counters"])
        if slots is not None and not (slots and max(slots) < kept["counters"]):
            rule = f"{row['counters']!r} must be fixed, any, or numbers below {kept['counters']}"
            mistakes.note(("rows", field, "counters"), rule)
    without = [field for field in hardware_fields() if field not in rows]
    for field in without:
        if not _reason(field, kept["absent"]):
            mistakes.note(("rows",), f"neither a row nor a reason for {field!r}")
    for pattern in kept["absent"]:
        if not any(fnmatch.fnmatchcase(field, pattern) for field in without):
            mistakes.note(("absent", pattern), f"{pattern!r} matches no counter without a row")
    for event, field in kept["generic"].items():
        if field not in rows:
            mistakes.note(("generic", event), f"{field!r} names no row")
    if not kept["cpus"]:
        mistakes.note(("cpus",), "must name at least one CPU")
    _check_codes(rows, mistakes)
    mistakes.done()
    return kept


def _check_codes(rows: Mapping[str, Mapping[str, str]], mistakes: Mistakes) -> None:
    """Add a mistake for each code with two names, and for each name with two codes."""
    for this, other in (("raw", "event"), ("event", "raw")):
        seen: dict[str, str] = {}
        for field, row in rows.items():
            if this in row and seen.setdefault(row[this], row.get(other, "")) != row.get(other, ""):
                rule = f"{row[this]!r} has two meanings: {seen[row[this]]!r} and {row.get(other)!r}"
                mistakes.note(("rows", field), rule)


def _cpu(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() - {"pmu"} not in _CPUS:
        raise UsageError("needs vendor, family and models, or implementer and parts")
    found: dict[str, Any] = _CPU(value)
    return found


def _field(value: str) -> str:
    if value not in hardware_fields():
        raise unknown("counter", value, hardware_fields(), "scmsim list counters")
    return value


def _like(pattern: str, form: str) -> Rule:
    def checked(value: Any) -> str:
        if not re.fullmatch(pattern, text(value)):
            raise UsageError(f"{value!r} is not {form}")
        return str(value)

    return checked


_CPU = schema.table(
    {
        **dict.fromkeys(("vendor", "models", "parts", "pmu"), text),
        **dict.fromkeys(("family", "implementer"), whole(0, 1 << 16)),
    }
)
_CPUS = ({"vendor", "family", "models"}, {"implementer", "parts"})
_ROW = schema.table(
    {
        "event": _like(r"[a-z][a-z0-9_.]*", "a perf event name in lower case"),
        "raw": _like(r"event=0x[0-9a-f]{2,4}(,umask=0x[0-9a-f]{2})?(,cmask=\d+)?", "like 'event=0x08,umask=0x0e'"),
        "counters": text,
        "meaning": text,
        "source": text,
    },
    ("raw",),
)


def _slots(restriction: str, counters: int) -> set[int] | None:
    """Return the programmable counters that can hold an event; None for an event with its own fixed counter."""
    if restriction == "fixed":
        return None
    if restriction == "any":
        return set(range(counters))
    return _numbers(restriction.replace(",", " "))


def _numbers(text: str) -> set[int]:
    """Return {1, 8, 9} for "0x01 8-9"."""
    found: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found.update(range(int(first, 0), int(last or first, 0) + 1))
    return found


def detect_pmus(cpuinfo: str) -> dict[str, str]:
    """Return PMU -> table, e.g. {"cpu": "skylake"}, or {"cpu_core": "golden-cove", "cpu_atom": "gracemont"} if hybrid.

    `cpuinfo` is the text of /proc/cpuinfo; the result is empty if no table covers the CPU.
    """
    said = dict(re.findall(r"^([\w ]+?)\s*:[ \t]*(.*?)\s*$", cpuinfo.split("\n\n", 1)[0], re.MULTILINE))
    found = {}
    for name in registry.names("events"):
        literals = registry.literals("events", name)
        for cpu in literals.get("cpus", []):
            if _is(said, cpu):
                found[cpu.get("pmu", literals.get("pmu", "cpu"))] = name
    return found


def _is(said: Mapping[str, str], cpu: Mapping[str, Any]) -> bool:
    """Return whether a [[cpus]] entry covers the first processor of /proc/cpuinfo."""
    try:
        if "implementer" in cpu:
            implementer, part = int(said["CPU implementer"], 0), int(said["CPU part"], 0)
            return implementer == cpu["implementer"] and part in _numbers(cpu["parts"])
        vendor, family, model = said["vendor_id"], int(said["cpu family"]), int(said["model"])
    except (KeyError, ValueError):
        return False
    return vendor == cpu["vendor"] and family == cpu["family"] and model in _numbers(cpu["models"])


def passes(table: Table, fields: Iterable[str], per_pass: int = 4) -> list[list[str]]:
    """Return the fields of each pass: few passes that fit the programmable counters, so that nothing is multiplexed.

    Each pass begins with the `ALWAYS_COUNTED`; the fields are in the order of the table.  Two fields that one event supplies are
    in the same pass and share a counter.  A pass uses at most `per_pass` programmable counters (fewer if the CPU has fewer).
    Fixed counters and the `ALWAYS_COUNTED` come in addition; an always-counted field without a fixed counter uses a programmable
    counter beyond `per_pass` if the CPU has one.
    Raises UsageError for a field that the table lacks, with the reason.
    """
    wanted = set(fields)
    for field in wanted - table.rows.keys():
        why = table.absent.get(field) or f"there is no such counter; choose from {', '.join(table.rows)}"
        raise UsageError(f"{table.name} cannot count {field!r}: {why}")
    if per_pass < 1:
        raise UsageError(f"{per_pass} counters in a pass measure nothing; give at least 1")
    always_counted = [field for field in table.rows if field in wanted and field in ALWAYS_COUNTED]
    unfixed = sum(table.rows[field].restriction != "fixed" for field in always_counted)
    room = max(min(per_pass, table.counters - unfixed), 1)
    groups: list[list[str]] = []
    for field in table.rows:
        if field in wanted and field not in ALWAYS_COUNTED:
            group = next((group for group in groups if _fits(table, [*group, field], room)), None)
            if group is None:
                groups.append(group := [])
            group.append(field)
    return [[*always_counted, *group] for group in groups or [[]]] if wanted else []


def _fits(table: Table, fields: list[str], room: int) -> bool:
    """Return whether the events of the fields fit in `room` counters, each event in a counter that can count it."""
    restrictions = {table.rows[field].event: table.rows[field].restriction for field in fields}
    slots = [_slots(restriction, table.counters) for restriction in restrictions.values()]
    programmable = [each for each in slots if each is not None]
    return len(programmable) <= room and _assign(programmable, set())


def _assign(slots: list[set[int]], taken: set[int]) -> bool:
    return not slots or any(_assign(slots[1:], taken | {slot}) for slot in slots[0] - taken)


def thesis(table: Table) -> dict[str, str]:
    """Return event -> field for the thesis's 18 events; events without a field of the same meaning here are left out.

    perf's dTLB misses are walks begun on CPUs up to Broadwell, and walks completed on later ones (`Table.generic`).
    """
    found = {event: table.generic.get(event, field) for event, field in THESIS.items()}
    return {event: field for event, field in found.items() if field in table.rows}


def metric_fields(table: Table) -> dict[str, list[str]]:
    """Return the metrics of Table 7 that this CPU can compute, each with the fields that it needs."""
    from scmsim.result.metrics import TABLE7

    ways = {name: [_supplied(table, way.inputs) for way in metric.ways] for name, metric in TABLE7.items()}
    return {name: next(filter(None, found)) for name, found in ways.items() if any(found)}


def _supplied(table: Table, inputs: Iterable[str]) -> list[str]:
    """Return a field of the table for each of a formula's inputs; empty if the table lacks an input."""
    from scmsim.result.metrics import suppliers

    found = [next((field for field in suppliers(needed) if field in table.rows), "") for needed in inputs]
    return found if all(found) else []


def metrics_absent(table: Table) -> dict[str, str]:
    """Return the metrics of Table 7 that this CPU cannot compute, each with the reason."""
    from scmsim.result.metrics import TABLE7, suppliers

    computable = metric_fields(table)
    reasons = {}
    for name, metric in TABLE7.items():
        if name not in computable:
            lacking = [needed for needed in metric.ways[-1].inputs if not _supplied(table, [needed])]
            known = [field for needed in lacking for field in suppliers(needed) if field in table.absent]
            reasons[name] = f"no {known[-1]}: {table.absent[known[-1]]}" if known else f"no {lacking[0]}"
    return reasons


def study_fields(table: Table) -> list[str]:
    """Return the fields of the thesis's study that this CPU counts: its 18 events and the inputs of Table 7."""
    wanted = {*thesis(table).values(), *(field for fields in metric_fields(table).values() for field in fields)}
    return [field for field in table.rows if field in wanted]
