"""Event tables against their own schema, against perf's list where this machine has one, and packed into passes."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core import registry
from scmsim.core.counters import COUNTERS, MEASURED, SCHEMA
from scmsim.core.errors import UnknownName, UsageError
from scmsim.perf import events
from scmsim.result.metrics import METRICS, TABLE7, table7

NAMES = registry.names("events")

# Metrics of Table 7 that a CPU cannot compute; every other one must be computable from its rows.
DATA_TIME = {"walk_cycles_percent_data", "cycles_per_walk_data"}
CODE_TIME = {"walk_cycles_percent_instruction", "cycles_per_walk_instruction"}
CACHES = {"l2_misses", "llc_misses"}
SHARES = {"walk_cycles_percent_data", "walk_cycles_percent_instruction"}
NOT_COMPUTABLE = {
    "core2": DATA_TIME | CODE_TIME | {"walks_per_1000_instructions_instruction", "llc_misses"},
    "nehalem": DATA_TIME | CODE_TIME | {"l2_misses"},
    "westmere": {"l2_misses"},
    "gracemont": DATA_TIME | CODE_TIME | {"l1_misses"},
    "crestmont": SHARES | {"l1_misses"},
    "skymont": SHARES | {"l1_misses", "llc_misses"},
    **{f"zen{n}": DATA_TIME | CODE_TIME | CACHES | ({"l1_misses"} if n < 3 else set()) for n in range(1, 6)},
    **{f"neoverse-{core}": DATA_TIME | CODE_TIME | CACHES for core in ("n1", "n2", "v1", "v2")},
    "neoverse-v3": SHARES | CACHES,
}


def cpuinfo(vendor: str, family: int, model: int) -> str:
    return f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n\nprocessor\t: 1\n"


def arm(part: int) -> str:
    return f"processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: {part:#x}\n\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_table_keeps_the_schema(name: str) -> None:
    table = events.table(name)
    assert table.rows.keys().isdisjoint(table.absent)
    assert table.rows.keys() | table.absent.keys() == set(events.hardware_fields())
    for field, row in table.rows.items():
        assert row.meaning and row.source and row.raw.startswith(f"{table.pmu}/event=0x"), field
    assert all(table.absent.values()) and {"instructions", "cycles"} <= table.rows.keys()


@pytest.mark.parametrize("name", NAMES)
def test_every_metric_of_table_7_is_computable_or_declared_not(name: str) -> None:
    table = events.table(name)
    missing = NOT_COMPUTABLE.get(name, set())
    assert events.metric_fields(table).keys() == TABLE7.keys() - missing
    reasons = events.metrics_absent(table)
    assert reasons.keys() == missing and all(reasons.values())
    found = table7(dict.fromkeys(table.rows, 7))
    assert found.values.keys() == TABLE7.keys() - missing


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_same_field_in_every_table(name: str) -> None:
    for field, row in events.table(name).rows.items():
        if row.event == "mem_load_uops_retired.l3_hit":
            continue  # big cores leave out the hits that needed a snoop, E-cores do not
        for other in NAMES:
            same = [f for f, r in events.table(other).rows.items() if r.event == row.event and "/" not in r.event]
            assert not same or field in same or {field, *same} <= _TIMES, (field, other, same)


# walk_duration and walk_cycles are the time and the cost of a walk where there is one walker, the cost where there are two.
_TIMES = {
    f"{side}_misses_walk_{what}" for side in ("dtlb_load", "dtlb_store", "itlb") for what in ("pending", "active")
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pmu": 3}, "pmu: must be text in quotes, not 3"),
        ({"extra": 1}, "extra: no key named 'extra'"),
        ({"rows": {"dtlb_laod": {"raw": "event=0x08"}}}, "rows.dtlb_laod: no counter named 'dtlb_laod'"),
        ({"rows": {"cycles": {"raw": "0x3c"}}}, "rows.cycles.raw: '0x3c' is not like"),
        (
            {"rows": {"cycles": {"raw": "event=0x3c", "counters": "3-4"}}},
            "rows.cycles.counters: '3-4' must be fixed, any",
        ),
        (
            {"rows": {"cycles": {"raw": "event=0x3c", "event": "A B"}}},
            "rows.cycles.event: 'A B' is not a perf event name",
        ),
        ({"rows": {"cycles": {"raw": "event=0x3c", "unit": "x"}}}, "rows.cycles.unit: no key named 'unit'"),
        (
            {
                "rows": {
                    "cycles": {"raw": "event=0x3c", "event": "a"},
                    "instructions": {"raw": "event=0x3c", "event": "b"},
                }
            },
            "'event=0x3c' has two meanings: 'a' and 'b'",
        ),
        (
            {
                "rows": {
                    "cycles": {"raw": "event=0x3c", "event": "a"},
                    "instructions": {"raw": "event=0x3d", "event": "a"},
                }
            },
            "'a' has two meanings: 'event=0x3c' and 'event=0x3d'",
        ),
        ({"absent": {}}, "neither a row nor a reason for 'l1d_replacement'"),
        ({"absent": {"*": "why", "xtlb_*": "why"}}, "absent.xtlb_*: 'xtlb_*' matches no counter without a row"),
        ({"generic": {"dTLB-loads": "nothing"}}, "generic.dTLB-loads: 'nothing' names no row"),
        ({"cpus": []}, "cpus: must name at least one CPU"),
        ({"cpus": [{"vendor": "v"}]}, "cpus.0: needs vendor, family and models"),
    ],
)
def test_a_wrong_table_is_refused_with_what_is_wrong(change: dict, message: str) -> None:
    right = {
        "summary": "x",
        "source": "y",
        "pmu": "cpu",
        "counters": 4,
        "cpus": [{"vendor": "v", "family": 6, "models": "1"}],
        "rows": {"cycles": {"raw": "event=0x3c"}},
        "absent": {"*": "not here"},
        "generic": {},
    }
    events.checked(right)
    with pytest.raises(UsageError, match=re.escape(message)):
        events.checked({**right, **change})


def test_an_unknown_table_says_the_nearest() -> None:
    with pytest.raises(UnknownName, match="no event table named 'skylak'; did you mean 'skylake'"):
        events.table("skylak")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (cpuinfo("GenuineIntel", 6, 158), "skylake"),  # the thesis' i7-8700K
        (cpuinfo("GenuineIntel", 6, 0x55), "skylake"),
        (cpuinfo("GenuineIntel", 6, 0x17), "core2"),
        (cpuinfo("GenuineIntel", 6, 0x2D), "sandybridge-ep"),
        (cpuinfo("GenuineIntel", 6, 0x4F), "broadwell"),
        (cpuinfo("GenuineIntel", 6, 0x8F), "golden-cove"),
        (cpuinfo("GenuineIntel", 6, 0x97), "golden-cove"),
        (cpuinfo("GenuineIntel", 6, 0xAF), "crestmont"),
        (cpuinfo("AuthenticAMD", 0x17, 0x01), "zen1"),
        (cpuinfo("HygonGenuine", 0x18, 0), "zen1"),
        (cpuinfo("AuthenticAMD", 0x17, 0x31), "zen2"),
        (cpuinfo("AuthenticAMD", 0x19, 0x21), "zen3"),
        (cpuinfo("AuthenticAMD", 0x19, 0x61), "zen4"),
        (cpuinfo("AuthenticAMD", 0x1A, 0x44), "zen5"),
        (arm(0xD0C), "neoverse-n1"),
        (arm(0xD84), "neoverse-v3"),
        (cpuinfo("GenuineIntel", 15, 4), None),
        (arm(0xD08), None),
        ("", None),
        ("vendor_id : GenuineIntel\ncpu family : six\nmodel : 158\n", None),
    ],
)
def test_the_micro_architecture_follows_from_cpuinfo(text: str, name: str | None) -> None:
    assert next(iter(events.detect_pmus(text).values()), None) == name


def test_a_hybrid_cpu_has_a_table_for_each_kind_of_core() -> None:
    found = events.detect_pmus(cpuinfo("GenuineIntel", 6, 0x97))
    assert found == {"cpu_core": "golden-cove", "cpu_atom": "gracemont"}
    bound = events.table("golden-cove").on("cpu_core").rows["dtlb_load_misses_walk_active"]
    assert bound.event == "cpu_core/dtlb_load_misses.walk_active/"
    assert bound.raw == "cpu_core/event=0x12,umask=0x10,cmask=1/"
    nameless = events.table("core2").on("cpu_x").rows["page_walks_active"]
    assert nameless.event == nameless.raw == "cpu_x/event=0x0c,umask=0x02/"
    skylake = events.table("skylake")
    assert skylake.on("cpu") is skylake


def test_no_two_tables_claim_one_cpu() -> None:
    claims: dict[tuple, str] = {}
    for name in NAMES:
        for cpu in registry.literals("events", name)["cpus"]:
            for model in events._numbers(cpu.get("models") or cpu["parts"]):
                key = (cpu.get("vendor"), cpu.get("family"), model, cpu.get("pmu"))
                assert claims.setdefault(key, name) == name, key


@given(name=st.sampled_from(NAMES), per_pass=st.integers(1, 6), data=st.data())
def test_passes_measure_each_field_once_and_never_need_too_many_counters(name, per_pass, data) -> None:
    table = events.table(name)
    fields = data.draw(st.lists(st.sampled_from(sorted(table.rows)), unique=True))
    groups = events.passes(table, fields, per_pass)
    always_counted = [field for field in events.ALWAYS_COUNTED if field in fields]
    others = [field for group in groups for field in group if field not in events.ALWAYS_COUNTED]
    assert sorted(others + always_counted) == sorted(fields)
    assert all(group[: len(always_counted)] == always_counted for group in groups)
    for group in groups:
        counted = {table.rows[field].event for field in group}
        programmable = {event for event in counted if _restriction(table, event) != "fixed"}
        spent = programmable - {table.rows[field].event for field in always_counted}
        assert len(spent) <= per_pass and len(programmable) <= max(table.counters, 1 + len(always_counted))
        assert sum(_restriction(table, event) == "0,1" for event in programmable) <= 2


def _restriction(table: events.Table, event: str) -> str:
    return next(row.restriction for row in table.rows.values() if row.event == event)


def test_the_study_takes_five_passes_on_the_thesis_cpu() -> None:
    table = events.table("skylake")
    groups = events.passes(table, events.study_fields(table))
    assert len(groups) == 5 and all(group[:2] == ["instructions", "cycles"] for group in groups)
    together = [field for field in groups[0] if field not in events.ALWAYS_COUNTED]
    assert set(together) == set(events.metric_fields(table)["cycles_per_walk_data"])


def test_one_event_that_supplies_two_fields_takes_one_counter() -> None:
    table = events.table("sandybridge")
    fields = [
        f"dtlb_{side}_misses_walk_{what}" for side in ("load", "store") for what in ("active", "pending", "completed")
    ]
    (only,) = events.passes(table, fields)
    assert set(only) == set(fields) and len({table.rows[field].event for field in only}) == 4


def test_restricted_events_do_not_compete_for_one_counter() -> None:
    table = events.table("core2")  # L2 misses on counter 0 only, two counters in all
    groups = events.passes(table, ["mem_load_retired_l2_miss", "l1d_replacement", "page_walks_active"])
    assert [len(group) for group in groups] == [2, 1]


@pytest.mark.parametrize(
    ("fields", "per_pass", "message"),
    [
        (
            ["dtlb_load_misses_walk_active"],
            4,
            "zen4 cannot count 'dtlb_load_misses_walk_active': no Zen counts the cycles",
        ),
        (["nonsense"], 4, "zen4 cannot count 'nonsense': there is no such counter; choose from instructions, "),
        (["cycles"], 0, "0 counters in a pass measure nothing"),
    ],
)
def test_passes_refuse_what_cannot_be_counted(fields: list[str], per_pass: int, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        events.passes(events.table("zen4"), fields, per_pass)


def test_nothing_to_measure_is_no_pass() -> None:
    assert events.passes(events.table("skylake"), []) == []
    assert events.passes(events.table("skylake"), ["cycles"]) == [["cycles"]]


def test_the_thesis_events_by_cpu() -> None:
    assert len(events.THESIS) == 18
    assert set(events.thesis(events.table("sandybridge"))) == set(events.THESIS)
    skylake = events.thesis(events.table("skylake"))
    # perf's generic name means walks completed from Skylake on; the hits without a snoop are not counted apart.
    assert skylake["dTLB-load-misses"] == "dtlb_load_misses_walk_completed"
    assert set(events.THESIS) - set(skylake) == {"mem_load_uops_retired.llc_hit"}
    assert events.thesis(events.table("haswell"))["dTLB-load-misses"] == "dtlb_load_misses_miss_causes_a_walk"


@pytest.mark.parametrize(
    ("table", "field", "event"),
    [
        ("sandybridge", "dtlb_load_misses_walk_active", "dtlb_load_misses.walk_duration"),
        ("ivybridge", "dtlb_load_misses_walk_completed", "dtlb_load_misses.walk_completed"),
        ("skylake", "dtlb_load_misses_walk_pending", "dtlb_load_misses.walk_pending"),
        ("sandybridge", "mem_load_retired_l3_miss", "mem_load_uops_misc_retired.llc_miss"),
        ("sandybridge-ep", "mem_load_retired_l3_miss", "mem_load_uops_retired.llc_miss"),
    ],
)
def test_names_by_generation(table: str, field: str, event: str) -> None:
    assert events.table(table).rows[field].event == event


def test_the_same_code_means_duration_pending_or_nothing() -> None:
    raw = "cpu/event=0x08,umask=0x10/"
    meanings = {
        n: [f for f, r in events.table(n).rows.items() if r.raw == raw] for n in ("haswell", "broadwell", "skylake")
    }
    assert meanings["haswell"] == ["dtlb_load_misses_walk_pending", "dtlb_load_misses_walk_active"]
    assert meanings["broadwell"] == meanings["skylake"] == ["dtlb_load_misses_walk_pending"]
    assert events.table("westmere").rows["dtlb_load_misses_stlb_hit"].raw == raw


def test_measured_counters_leave_the_simulators_record_alone() -> None:
    assert MEASURED.keys().isdisjoint(SCHEMA) and MEASURED.keys().isdisjoint(METRICS)
    assert COUNTERS.names == tuple(SCHEMA)
    assert all(counter.unit and counter.meaning for counter in MEASURED.values())


def perf_encodings() -> dict[str, set[str]]:
    """Event name -> codes, from the tables that were compiled into this machine's perf (all CPUs of its architecture)."""
    found: dict[str, set[str]] = {}
    binary = shutil.which("perf")
    if binary is None:
        return found
    strings = [string for string in Path(binary).resolve().read_bytes().split(b"\0") if string]
    for i, string in enumerate(strings):
        if re.fullmatch(rb"[a-z][a-z0-9_]+(\.[a-z0-9_]+)?", string):
            # A record is name, topic, description, code, ...; the PMU's name may stand second on hybrid CPUs.
            code = next((s for s in strings[i + 1 : i + 6] if re.match(rb"(\w+=\w+,)*event=0x", s)), None)
            if code:
                found.setdefault(string.decode(), set()).add(_normal(code.decode()))
    return found


def _normal(code: str) -> str:
    terms = dict(term.split("=", 1) for term in code.split(",") if "=" in term)
    kept = [f"{key}={int(terms[key], 0):#x}" for key in ("event", "umask", "cmask") if int(terms.get(key, "0"), 0)]
    return ",".join(kept)


def test_codes_agree_with_the_perf_of_this_machine() -> None:
    """`perf list` shows a CPU's events only where it has a PMU, so the tables inside the program are read instead."""
    known = perf_encodings()
    if "dtlb_load_misses.walk_completed" not in known:
        pytest.skip("no perf here, or one whose event tables are not laid out as in 6.1")
    checked = 0
    for name in set(NAMES) - {"crestmont", "skymont", "lion-cove", "zen5"}:  # perf 6.1 is older than these
        for field, row in events.table(name).rows.items():
            if row.event in known and row.restriction != "fixed":
                assert _normal(row.raw.split("/")[1]) in known[row.event], (name, field)
                checked += 1
    assert checked > 200


def test_perf_list_agrees_where_it_shows_this_cpu() -> None:
    if shutil.which("perf") is None:
        pytest.skip("no perf here")
    name = next(iter(events.detect_pmus(Path("/proc/cpuinfo").read_text()).values()), None)
    listed = subprocess.run(["perf", "list", "--details"], capture_output=True, text=True, timeout=60).stdout
    if name is None or "dtlb_load_misses" not in listed and "ls_l1_d_tlb_miss" not in listed:
        pytest.skip("perf list shows no events of a CPU's PMU here")
    for row in events.table(name).rows.values():
        assert "/" in row.event or row.restriction == "fixed" or re.search(rf"\b{re.escape(row.event)}\b", listed)
