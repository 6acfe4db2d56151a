"""Real output of perf stat and perf script, read back."""

import re
from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.perf.merge import merge
from scmsim.perf.parse import parse_stat, stat_kind
from scmsim.perf.reading import Reading, Stat
from scmsim.perf.script import parse_script

DATA = Path(__file__).parent.parent / "data" / "perf"
PARTS = dict(
    re.findall(r"^### (.+)\n((?:(?!### ).*\n)*)", (DATA / "stat_6.1.txt").read_text(encoding="utf-8"), re.MULTILINE)
)
LOCALES = dict(
    re.findall(r"^### (.+)\n((?:(?!### ).*\n)*)", (DATA / "stat_locales.txt").read_text(encoding="utf-8"), re.MULTILINE)
)


def merged(readings: list[Reading]) -> dict[str, Reading]:
    return merge(Stat(list(readings))).readings


def values(text: str) -> list[tuple]:
    return [(r.event, r.value if r.reason == "" else r.reason, r.unit) for r in parse_stat(text)]


def test_mixed_json_and_csv_hold_the_same_events() -> None:
    json, csv = (PARTS[f"perf stat {mode} (mixed supported / unsupported)"] for mode in ("-j", "-x,"))
    assert (stat_kind(json), stat_kind(csv)) == ("json", "csv")
    absent = [(e, "not supported", "") for e in ("cycles", "instructions", "dTLB-loads", "dTLB-load-misses")]
    absent += [("iTLB-load-misses", "not supported", ""), ("r1008", "not supported", "")]
    assert values(json) == [*absent, ("task-clock", 0.717805, "msec"), ("page-faults", 49, "")]
    assert values(csv) == [*absent, ("task-clock", 0.69, "msec"), ("page-faults", 46, "")]


def test_plain_text_skips_the_times() -> None:
    found = [("cycles", "not supported", ""), ("dTLB-loads", "not supported", ""), ("task-clock", 0.76, "msec")]
    assert values(PARTS["human"]) == found


def test_a_group_with_an_unsupported_member_counts_nothing() -> None:
    found = [("page-faults", "not counted", ""), ("cycles", "not supported", "")]
    assert values(PARTS["group with one unsupported member"]) == found


@pytest.mark.parametrize("part", ["symbolic Intel event, no cpu PMU", "cpu// syntax"])
def test_a_refusal_of_perf_is_quoted(part: str) -> None:
    with pytest.raises(UsageError, match="perf stat counted nothing and said .event syntax error"):
        parse_stat(PARTS[part])


def test_repeats_intervals_and_modifiers() -> None:
    repeats = parse_stat(PARTS["-r 3"])
    assert [r.spread_percent for r in repeats] == [1.25, 0.69]
    csv = "\n".join(line for line in PARTS["-r 3"].splitlines() if not line.startswith("{"))
    assert [(r.event, r.spread_percent) for r in parse_stat(csv)] == [("task-clock", 1.59), ("page-faults", 1.20)]
    intervals = parse_stat(PARTS["-I 100"])
    assert [r.interval for r in intervals] == [0.100130663, 0.200425083, 0.251438399]
    assert merged(intervals)["task-clock"].value == pytest.approx(0.712619 + 0.053703)
    assert values(PARTS["unprivileged (paranoid=2)"]) == [("page-faults:u", 45, ""), ("cycles:u", "not supported", "")]


def _modes(text: str) -> tuple[str, str, str, str]:
    """JSON, CSV with commas, CSV with semicolons, and plain text of one locale."""
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if "Performance counter stats" in line)
    csv = [line for i, line in enumerate(lines) if re.search(r",,|,msec,", line) and ";" not in line]
    human = [line for line in lines[start:] if line not in csv]
    return (
        "".join(line for line in lines if "Byte" in line or "octets" in line or line.startswith("{")),
        "".join(csv),
        "".join(line for line in lines if ";" in line),
        "".join(human),
    )


@pytest.mark.parametrize("locale", LOCALES)
def test_the_locale_changes_no_number(locale: str) -> None:
    json, csv, semicolons, human = _modes(LOCALES[locale])
    assert [stat_kind(text) for text in (json, csv, semicolons, human)] == ["json", "csv", "csv", "text"]
    for text in (json, csv, semicolons, human):
        for reading in parse_stat(text):
            assert reading.running_percent == 100
            if reading.event == "page-faults":
                assert isinstance(reading.value, int) and reading.value < 100
            elif reading.event == "task-clock":
                assert isinstance(reading.value, float) and 0.01 < reading.value < 200
    assert ("syscalls:sys_enter_write", 300003, "") in values(human)
    assert {r.cpu for r in parse_stat(human)} == {"", "CPU0", "CPU1"}
    assert [(r.cpu, r.event) for r in parse_stat(csv)][-2:] == [("S0", "page-faults"), ("S0", "task-clock")]
    assert [r.spread_percent is None for r in parse_stat(csv)].count(False) == 5
    assert {r.interval for r in parse_stat(csv)} - {None} and all(r.interval for r in parse_stat(semicolons))


def test_the_decimal_commas_are_read_exactly() -> None:
    json, csv, _, human = _modes(LOCALES["de_DE"])
    assert values(json) == [("page-faults", 92, ""), ("task-clock", 28.807949, "msec")]
    assert values(csv)[:2] == [("page-faults", 97, ""), ("task-clock", 0.61, "msec")]
    assert values(csv)[-1] == ("task-clock", 21.85, "msec")
    assert values(human)[1] == ("task-clock", 98.11, "msec")


HYBRID = """\
{"counter-value" : "1000.000000", "unit" : "", "event" : "cpu_core/cycles/u", "pcnt-running" : 60.00, "metric-value" : "none"}
{"counter-value" : "<not counted>", "unit" : "", "event" : "cpu_atom/cycles/u", "pcnt-running" : 0.00}
{"counter-value" : "7.000000", "unit" : "(null)", "event" : "cpu_core/event=0x12,umask=0xe/", "pcnt-running" : 100.00}
{"metricgroup" : "TopdownL1", "metric-value" : "12.5", "metric-unit" : "%  tma_backend_bound"}
"""


def test_hybrid_cpus_and_new_fields() -> None:
    core, atom, raw = parse_stat(HYBRID)
    assert core == Reading("cycles:u", 1000, "", 60.0, "cpu_core")
    assert (atom.event, atom.value, atom.reason, atom.pmu) == ("cycles:u", None, "not counted", "cpu_atom")
    assert (raw.event, raw.value, raw.pmu, raw.unit) == ("cpu_core/event=0x12,umask=0xe/", 7, "cpu_core", "")
    assert merged([atom, core])["cycles:u"] == core
    twice = merged([core, core._replace(pmu="cpu_atom", value=5, running_percent=40.0)])["cycles:u"]
    assert (twice.value, twice.running_percent, twice.pmu) == (602, 100.0, "")  # 1000 in 60 % of the time and 5 in 40 %


def test_csv_with_a_raw_event_and_a_share_of_the_time() -> None:
    line = "12,,cpu/event=0x08,umask=0x10,cmask=0x1/u,685063,49.96,,\n"
    assert parse_stat(line) == [Reading("cpu/event=0x08,umask=0x10,cmask=0x1/u", 12, "", 49.96, "cpu")]
    text = "Performance counter stats for 'x':\n  1.234.567      cycles        #  1,2 GHz     (66,67%)\n"
    assert parse_stat(text) == [Reading("cycles", 1234567, "", 66.67)]


def test_an_array_made_by_another_tool() -> None:
    rows = HYBRID.strip().replace("\n", ",\n")
    assert parse_stat(f"[{rows}]") == parse_stat(HYBRID)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no reading of perf stat found; give the output"),
        (HYBRID[:70], "line 1 of perf stat's JSON is cut off or wrong"),
        ('{"event" : "cycles"}', "line 1 of perf stat's JSON lacks event or counter-value"),
        ('{"counter-value" : "-1", "event" : "cycles"}', "line 1 .* has '-1' where a count belongs"),
        ('{"counter-value" : "nan", "event" : "cycles"}', "has 'nan' where a count belongs"),
        ('{"counter-value" : "1", "event" : "cycles", "pcnt-running" : 900}', "'900' where a percentage belongs"),
        ('{"counter-value" : "1", "event" : "a b"}', "names no event: 'a b'"),
        ('{"counter-value" : "1", "event" : ' + "[" * 9000, "JSON is cut off or wrong"),
        ("46,,page-faults,685063,100.00,,\n46,,page-faults", "line 2 of perf stat's CSV is cut off or wrong"),
        ("46,,page-faults,685063,100.00,,\n" + "a" * 20000, "line 2 has 20000 characters"),
    ],
)
def test_bad_output_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_stat(text)
    assert "\n" not in str(caught.value)


def test_profile_agrees_with_perf_report() -> None:
    """Figures of `perf report --no-children` and `--children` over the same recording."""
    profile = parse_script((DATA / "script_callgraph.txt").read_text())
    assert profile.events == {"cpu-clock": 26 * 200000}
    rows = {row.symbol: row for row in profile.rows}
    assert [round(profile.share(rows[s]), 2) for s in ("block_commit_write", "__filemap_add_folio")] == [11.54, 3.85]
    assert rows["block_commit_write"].samples == 3 and rows["block_commit_write"].own == 600000
    children = {"do_syscall_64": 88.46, "__GI___libc_write": 42.31, "ksys_write": 42.31, "generic_perform_write": 38.46}
    for symbol, percent in children.items():
        assert round(100 * rows[symbol].total / profile.events["cpu-clock"], 2) == percent
    assert rows["do_syscall_64"].kernel and not rows["__GI___libc_write"].kernel


def test_flat_profile() -> None:
    profile = parse_script((DATA / "script_flat.txt").read_text())
    assert profile.events == {"page-faults": 60}
    assert sum(row.samples for row in profile.rows) == 60 and all(row.own == row.total for row in profile.rows)
    assert {row.dso for row in profile.rows if row.kernel} == {"[kernel.kallsyms]"}


def test_names_that_look_like_addresses_and_symbols_with_brackets() -> None:
    text = (
        "dd 12 1.000001: cycles: \n\t7f00 f(int, char (*)[4])+0x1 (/lib/a b.so)\n\t7f01 f(int, char (*)[4])+0x9 (/lib/a b.so)\n\n"
        "dd 12 1.000002: sched:x: comm=a\n"
        "dd 12 1.000003: cycles:k: \n\tffffffff81000000 nova_memcpy ([nova])\n"
    )
    profile = parse_script(text)
    assert profile.events == {"cycles": 1, "cycles:k": 1}
    assert [(r.symbol, r.dso, r.own, r.total) for r in profile.rows] == [
        ("f(int, char (*)[4])", "/lib/a b.so", 1, 1),
        ("nova_memcpy", "[nova]", 1, 1),
    ]


@pytest.mark.parametrize("text", ["", "hello\n", "dd 12 1.000001: raw_syscalls:sys_exit: NR 59 = 0\n"])
def test_no_symbol_at_all(text: str) -> None:
    with pytest.raises(UsageError, match="no sample with a symbol found; make the text with 'perf script -F"):
        parse_script(text)
