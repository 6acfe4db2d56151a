"""Whatever perf stat counted is read alike from each of its forms, in each locale of glibc."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from scmsim.core.errors import UsageError
from scmsim.perf.merge import merge
from scmsim.perf.numbers import grouped
from scmsim.perf.parse import read_stat
from scmsim.perf.reading import Stat
from tests.perf.stat_printer import AGGREGATIONS, DATA, LOCALES, Count, Locale, as_csv, as_json, as_text

EVENTS = [
    ("cycles", ""), ("instructions", ""), ("dTLB-load-misses", ""), ("r1008", ""), ("page-faults:u", ""), ("task-clock", "msec"),
    ("power/energy-pkg/", "Joules"), ("cpu/event=0x08,umask=0x10,name=walks/", ""), ("cpu/event=0x49,umask=0x0e/k", ""),
    ("duration_time", "ns"), ("dtlb_load_misses.walk_active", ""), ("uncore_imc_0/cas_count_read/", "MiB"),
    ("ext4:ext4_da_write_begin", ""),
]  # fmt: skip
NOT_COUNTED = some.sampled_from(["<not counted>", "<not supported>"])


@some.composite
def values(draw: some.DrawFn, unit: str) -> float | str:
    if draw(some.integers(0, 9)) == 0:
        return draw(NOT_COUNTED)
    count = draw(some.one_of(some.integers(0, 10**6), some.integers(0, 10**12)))
    return count if unit in ("", "ns") else count / 100


@some.composite
def outputs(draw: some.DrawFn) -> tuple[str, list[Count]]:
    """An aggregation of perf stat, and the rows that it prints, with a summary of the intervals at the end or not."""
    aggregation = draw(some.sampled_from(sorted(AGGREGATIONS)))
    intervals = draw(some.sampled_from([[""], [""], ["0.100161549"], ["0.100161549", "1.204291740"]]))
    events = draw(some.lists(some.sampled_from(EVENTS), min_size=1, max_size=5, unique=True))
    cgroup = draw(some.sampled_from([None, None, "user.slice", "/"]))
    repeated = draw(some.booleans()) and intervals == [""]
    rows = []
    for interval in intervals:
        for event, unit in events:
            for place in AGGREGATIONS[aggregation]:
                value = draw(values(unit))
                percent = 0.0 if value == "<not counted>" else draw(some.sampled_from([100.0, 100.0, 49.96, 0.43]))
                spread = draw(some.sampled_from([0.5, 12.34])) if repeated and not isinstance(value, str) else None
                rows.append(Count(event, value, unit, percent, place, interval, spread, cgroup))
    if intervals != [""] and draw(some.booleans()):
        rows += [row.at(interval="", total=True) for row in rows if row.interval == intervals[-1]]
    return aggregation, rows


def expected(rows: list[Count]) -> dict[str, tuple[float | None, float]]:
    """Event -> sum and least percentage."""
    found: dict[str, tuple[float | None, float]] = {}
    for row in rows:
        name = re.sub(r"^cpu/([^/=,]+)/", r"\1", row.event)
        total, percent = found.setdefault(name, (None, 100.0))
        if not row.total and not isinstance(row.value, str):
            found[name] = (total or 0) + row.value, min(percent, row.percent)
    return found


def check(text: str, rows: list[Count]) -> None:
    stat = read_stat(text)
    found = {event: (reading.value, reading.running_percent) for event, reading in merge(stat).readings.items()}
    assert stat.not_understood == []
    assert found.keys() == expected(rows).keys()
    for event, (value, percent) in expected(rows).items():
        assert found[event][0] == (None if value is None else pytest.approx(value, rel=1e-12, abs=1e-9)), event
        assert value is None or found[event][1] == percent
    assert {row.spread for row in rows} - {None} == {one.spread_percent for one in stat.readings} - {None}
    assert {row.place[0] for row in rows} == {one.cpu for one in stat.readings}
    assert {row.cgroup for row in rows} == {one.cgroup for one in stat.readings}


@settings(max_examples=150, deadline=None)
@given(
    outputs(),
    some.sampled_from(sorted(LOCALES)),
    some.sampled_from([",", ";", "|", "\t", ":", "@", "::", " ", "^"]),
    some.booleans(),
)
def test_each_form_holds_the_same_counts(output: tuple[str, list[Count]], name: str, separator: str, big: bool) -> None:
    aggregation, rows = output
    locale = LOCALES[name]
    check(as_text(rows, locale, big=big), rows)
    check(as_json(rows, locale, aggregation), rows)
    names = [part for row in rows for part in (row.event, row.cgroup and f"{row.event}:")]
    if separator == ":" and any(":" in name for name in names if name):
        with pytest.raises(UsageError, match="the separator ':' is also in names of events|names no event"):
            read_stat(as_csv(rows, locale, separator))
    else:
        check(as_csv(rows, locale, separator), rows)


@pytest.mark.parametrize("separator", ["-", "/"])
def test_a_separator_that_is_in_names_is_refused(separator: str) -> None:
    rows = [Count("dTLB-load-misses", 5), Count("cycles", 7), Count("duration_time", 9, "ns")]
    with pytest.raises(UsageError, match=f"the separator '{separator}' is also in names of events .* with -x ';'"):
        read_stat(as_csv(rows, Locale(), separator))


@pytest.mark.parametrize("name", sorted(LOCALES))
def test_each_locale_s_numbers_are_read(name: str) -> None:
    locale = LOCALES[name]
    for digits in range(16):
        for value in (10**digits, 10**digits * 9 + 7, int("123456789012345678"[: digits + 1])):
            assert grouped(locale.number(value, 0, big=True)) == value
            assert grouped(locale.number(value + 0.25, 2, big=True)) == value + 0.25


@pytest.mark.parametrize(
    "text", ["1,23,45", "0,123", "1.234,567.890", "1,2345,678", "1234 567", "1'23", "1 2", "12,34,5678"]
)
def test_a_number_of_no_locale_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="run perf with LC_ALL=C"):
        grouped(text)


def test_a_task_s_name_is_no_count_and_no_count_is_a_task_s_name() -> None:
    rows = [Count("page-faults", 5000, place=("12 monkeys-8", None)), Count("cycles", 7, place=("a 1 b-9", None))]
    check(as_text(rows, Locale(), "process id '8'"), rows)


def test_a_title_of_many_lines_is_no_count() -> None:
    title = "'python3 -c \nfor i in range(3): pass\n  12 cycles and more\n'"
    rows = [Count("cycles", 7)]
    check(as_text(rows, Locale(), title), rows)


def case(name: str) -> Stat:
    return read_stat((DATA / "stat" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("interval-summary-doubled.txt", {"page-faults": 15701, "context-switches": 367}),
        ("hybrid-scaled-summed.txt", {"cycles": 602404700}),
        ("per-thread-comm-with-blank.txt", {"page-faults": 8000, "task-clock": pytest.approx(23.92)}),
        ("locale-en_IN-count-dropped.txt", {"page-faults": 132516, "context-switches": 246, "task-clock": 583.57}),
        ("interval-csv-not-supported.csv", {"page-faults": 76, "dTLB-load-misses": None}),
        ("cgroup-as-event.txt", {"dTLB-load-misses": 1234}),
        ("cycles-in-two-groups.txt", {"cycles": 1_000_000, "dTLB-load-misses": 1234, "iTLB-load-misses": 234}),
        ("units-lost.txt", {
            "r0149": 1_000_000, "cpu/event=0x08,umask=0x10,name=walks/": 1234, "cpu/event=0x49,umask=0x0e/u": 777, "exc_dtlb": 5678,
            "uncore_imc/cas_count_read/": 2345.5, "power/energy-pkg/": 12.34, "duration_time": 10**9,
        }),
    ],
)  # fmt: skip
def test_outputs_that_were_misread(name: str, counts: dict) -> None:
    stat = case(name)
    assert {event: reading.value for event, reading in merge(stat).readings.items()} == counts
    assert stat.not_understood == []


def test_shares_of_the_time_on_a_second_line_and_in_square_brackets() -> None:
    assert [(one.event, one.running_percent) for one in case("amd-second-line-percentage.txt").readings] == [
        ("instructions", 33.22), ("cycles", 100.0),
    ]  # fmt: skip
    old = {one.event: (one.value, one.running_percent, one.unit) for one in case("old-perf-brackets.txt").readings}
    assert old == {
        "task-clock": (5.123456, 100.0, "msec"), "cycles": (1_000_000, 50.12, ""), "instructions": (2_000_000, 75.10, ""),
        "dTLB-load-misses": (1234, 25.0, ""), "dTLB-loads": (10_000, 25.0, ""),
    }  # fmt: skip


CORES = "{:,} cpu_core/cycles/ ({:.2f}%)\n{:,} cpu_atom/cycles/ ({:.2f}%)\n"


@given(some.integers(0, 10**12), some.integers(0, 10**12), some.integers(1, 9999))
def test_core_types_count_their_share_of_the_time(core: int, atom: int, hundredths: int) -> None:
    share = hundredths / 100
    text = " Performance counter stats for './a':\n\n" + CORES.format(core, share, atom, 100 - share)
    found = merge(read_stat(text))
    assert found.readings["cycles"].value == pytest.approx((core * share + atom * (100 - share)) / 100, abs=1)
    assert "by their share of the time" in found.notes[0]


def test_core_types_that_overlap_are_refused_and_those_of_a_whole_system_added_up() -> None:
    both = CORES.format(233, 60, 604, 60)
    with pytest.raises(UsageError, match="more than 100 %, so these counts cannot be added up; count each"):
        merge(read_stat(f" Performance counter stats for './a':\n\n{both}"))
    assert merge(read_stat(f" Performance counter stats for 'system wide':\n\n{both}")).readings["cycles"].value == 837


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CPU0 5 cpu/cycles,percore/\nCPU4 5 cpu/cycles,percore/", "repeats a core's count for each of its CPUs"),
        (
            "5 cycles                    /\n5 cycles                    user.slice",
            "control group '/' and in its subgroup 'user.slice'",
        ),
        ("10 cycles\nCPU0 5 cycles", "as a whole and in parts"),
        ("49 cycles\n48 cycles", "'cycles' was counted more than once \\(48 and 49\\); write each run of perf stat"),
        (
            "5 cycles\n1,234,5678 instructions",
            "line 4 of perf stat's output: '1,234,5678' can be read as more than one",
        ),
    ],
)
def test_what_would_count_twice_or_wrongly_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        merge(read_stat(f" Performance counter stats for 'system wide':\n\n{text}\n"))


@pytest.mark.parametrize("line", ["Terminated", "12 monkeys escaped today", "hello", "5 cycles (or so)"])
def test_a_line_that_is_not_understood_is_named(line: str) -> None:
    stat = read_stat(f" Performance counter stats for 'x':\n\n 5 cycles\n{line}\n")
    assert stat.not_understood == [f"line 4 {line!r}"]
    for text in ('{"event": "a", "counter-value": "1"}', "46,,page-faults,685063,100.00,,"):
        assert read_stat(f"{text}\n{line}\n").not_understood == [f"line 2 {line!r}"]


def test_metrics_alone_are_no_counts() -> None:
    text = " Performance counter stats for 'x':\n\n    GHz   insn per cycle\n    2.10    1.20\n\n  1.0 seconds time elapsed\n"
    with pytest.raises(UsageError, match="printed metrics and no counts; run it without --metric-only"):
        read_stat(text)


def test_a_program_s_output_between_intervals_is_no_summary() -> None:
    text = "#           time             counts unit events\n     0.100161549    5 cycles\n7 cycles\n     0.200161549    6 cycles\n"
    stat = read_stat(text)
    assert merge(stat).readings["cycles"].value == 11 and stat.not_understood == ["line 3 '7 cycles'"]
