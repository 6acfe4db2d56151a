"""From perf's readings to counters: spelling, modes, multiplexing, passes, and which events go into which pass."""

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as some

from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem, UnknownName, UsageError
from scmsim.perf import events, hardware
from scmsim.perf.backend import Request
from scmsim.perf.counts import Counts, Event, combined, from_stat, mean
from scmsim.perf.machine import Machine

LINE = '{"counter-value" : "%s", "unit" : "%s", "event" : "%s", "event-runtime" : 1, "pcnt-running" : %s}\n'


def text(*rows: tuple[str, str], running: str = "100.00", unit: str = "") -> str:
    return "".join(LINE % (value, unit, event, running) for event, value in rows)


def test_values_by_name_whatever_perf_makes_of_it() -> None:
    asked = [Event("cycles", "cycles"), Event("page_faults", "page-faults"), Event("x", "cpu/event=0x08,name=x/")]
    found = from_stat(text(("page-faults:u", "7"), ("cpu_core/cycles/", "5.000000"), ("x", "9")), asked)
    assert found.values == {"cycles": 5, "page_faults": 7, "x": 9} and not found.why_absent


def test_hybrid_cpus_idle_cores_and_times() -> None:
    asked = [Event("cycles", "cycles"), Event("task_clock", "task-clock")]
    readings = text(("cpu_core/cycles/", "50"), ("cpu_atom/cycles/", "<not counted>"))
    found = from_stat(readings + text(("task-clock", "1.5"), unit="msec"), asked)
    assert found.values == {"cycles": 50, "task_clock": 1_500_000}


def test_unsupported_and_missing_events_are_absent_with_their_reason() -> None:
    asked = [Event("cycles", "cycles"), Event("b", "b-event"), Event("c", "c-event")]
    found = from_stat(text(("cycles", "<not supported>"), ("b-event", "3")), asked)
    assert found.values == {"b": 3}
    assert found.why_absent == {"cycles": "perf: cycles not supported", "c": "perf: c-event is not in its output"}


def test_modes_add_up_and_one_missing_mode_leaves_no_sum() -> None:
    asked = [Event("w", "walks", "u"), Event("w", "walks", "k")]
    found = from_stat(text(("walks:u", "3"), ("walks:k", "40")), asked)
    assert found.values == {"w": 43} and found.modes == {"user": {"w": 3}, "kernel": {"w": 40}}
    found = from_stat(text(("walks:u", "3"), ("walks:k", "<not counted>")), asked)
    assert found.values == {} and "w" in found.why_absent


def test_two_fields_of_one_event() -> None:
    asked = [Event("misses", "e.walks"), Event("walks", "e.walks")]
    assert from_stat(text(("e.walks", "8")), asked).values == {"misses": 8, "walks": 8}


def test_multiplexing_is_refused_unless_asked_for() -> None:
    asked = [Event("cycles", "cycles")]
    with pytest.raises(EnvironmentProblem, match="cycles was on a counter for only 75 % .*nmi_watchdog"):
        from_stat(text(("cycles", "100"), running="75.00"), asked)
    found = from_stat(text(("cycles", "100"), running="75.00"), asked, allow_multiplexing=True)
    assert found.values == {"cycles": 100} and found.scaled == {"cycles": 75.0}


def test_what_is_no_output_of_perf_is_refused() -> None:
    with pytest.raises(UsageError):
        from_stat("Segmentation fault\n", [Event("cycles", "cycles")])


@given(some.lists(some.integers(0, 1 << 60), min_size=1, max_size=9))
def test_mean_is_exact_and_rounds_half_up(values: list[int]) -> None:
    found = mean(values)
    assert -len(values) <= 2 * (sum(values) - found * len(values)) < len(values)
    assert min(values) <= found <= max(values)


def test_passes_are_put_together_and_riders_averaged() -> None:
    passes = [
        Counts({"instructions": 100, "a": 1}, {"user": {"a": 1}}, {"c": "no"}, {"a": 90.0}),
        Counts({"instructions": 103, "b": 2}, {"user": {"b": 2}}, {}, {"a": 80.0}),
    ]
    found = combined(passes)
    assert found.values == {"instructions": 102, "a": 1, "b": 2} and found.modes == {"user": {"a": 1, "b": 2}}
    assert found.why_absent == {"c": "no"} and found.scaled == {"a": 80.0}


@pytest.mark.parametrize("name", registry.names("events"))
@pytest.mark.parametrize("count", ["all", "split", "user"])
def test_no_pass_needs_more_counters_than_there_are(name: str, count: str) -> None:
    table = events.table(name)
    choice = hardware.choose(table, Request(count=count), lambda event: None)
    for events_ in choice.passes:
        counters = {event.asked() for event in events_ if event.field not in events.ALWAYS_COUNTED}
        assert len(counters) <= hardware.PER_PASS
        modes = {event.mode for event in events_ if event.field not in events.ALWAYS_COUNTED}
        assert modes == {"all": {""}, "split": {"u", "k"}, "user": {"u"}}[count]
    counted = {event.field for events_ in choice.passes for event in events_}
    assert counted | choice.why_absent.keys() >= set(hardware.fields(table, Request()))
    if count == "split":
        modes = [
            (e.field, e.mode) for events_ in choice.passes for e in events_ if e.field not in events.ALWAYS_COUNTED
        ]
        assert {mode for _, mode in modes} == {"u", "k"} and len(modes) == len(set(modes))


def test_events_that_perf_does_not_know_fall_back_to_their_code_or_are_absent() -> None:
    table = events.table("skylake")
    asked: list[str] = []

    def why_not(event: str) -> str | None:
        asked.append(event)
        if event == "dtlb_load_misses.walk_active" or event.startswith("l1d.") or "event=0x51" in event:
            return f"perf does not know {event!r} here"
        return None

    wanted = ("dtlb_load_misses_walk_active", "l1d_replacement", "cycles")
    choice = hardware.choose(table, Request(counters=wanted), why_not)
    assert choice.names["dtlb_load_misses_walk_active"] == (
        "cpu/event=0x08,umask=0x10,cmask=1,name=dtlb_load_misses_walk_active/"
    )
    assert choice.why_absent == {"l1d_replacement": "perf does not know 'l1d.replacement' here"}
    assert [event.asked() for event in choice.passes[0]][-1].endswith("name=dtlb_load_misses_walk_active/")
    split = hardware.choose(table, Request(counters=wanted, count="split"), why_not)
    names = [event.asked() for event in split.passes[0] if event.field.startswith("dtlb")]
    assert [name.split("name=")[1] for name in names] == [
        "dtlb_load_misses_walk_active_u/u",
        "dtlb_load_misses_walk_active_k/k",
    ]


def test_counters_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'cycles'"):
        hardware.choose(events.table("skylake"), Request(counters=("cycle",)), lambda event: None)


def test_the_table_of_this_cpu(tmp_path: pathlib.Path) -> None:
    def here(model: int, *pmus: str, name: str = "") -> tuple[events.Table | None, str]:
        root = tmp_path / f"{model} {pmus}"
        for pmu in pmus:
            (root / "sys/bus/event_source/devices" / pmu).mkdir(parents=True)
        (root / "proc").mkdir(parents=True)
        (root / "proc/cpuinfo").write_text(f"vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: {model}\n")
        return hardware.table_here(name, Machine(root))

    assert here(158) == (None, hardware.NO_PMU)
    table, why = here(158, "cpu")
    assert table is not None and table.name == "skylake" and not why
    hybrid, _ = here(151, "cpu_atom", "cpu_core")
    assert hybrid is not None and hybrid.pmu == "cpu_core" and hybrid.rows["cycles"].event.startswith("cpu_core/")
    assert here(1, "cpu")[0] is None and "no event table" in here(2, "cpu")[1]
    assert here(3, "cpu", name="skylake")[0] == events.table("skylake")
