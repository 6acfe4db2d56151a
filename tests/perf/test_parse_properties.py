"""Any output of perf stat is read back to its numbers; any other text is one line of error or readings, never a traceback."""

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.perf.parse import Reading, merged, parse_stat, stat_kind
from scmsim.perf.script import parse_script

DATA = Path(__file__).parent.parent / "data" / "perf"
REAL = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.txt"))]

EVENTS = st.sampled_from(
    ["cycles", "page-faults:u", "dTLB-load-misses", "r1008", "ext4:ext4_da_write_begin", "dtlb_load_misses.walk_active"]
)
COUNTS = st.integers(0, 10**15)
PERCENTS = st.integers(0, 10000).map(lambda hundredths: hundredths / 100)
LOCALES = st.sampled_from([(".", ","), (",", "."), (",", "\u202f"), (",", "\u00a0"), (".", "’"), (".", "")])


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    event, cpu = draw(EVENTS), draw(st.sampled_from(["", "CPU0", "S0-D0"]))
    reason = draw(st.sampled_from(["", "", "", "not supported", "not counted"]))
    if reason:
        return Reading(event, None, "", 100.0, "", cpu, reason)
    if draw(st.booleans()):
        return Reading("task-clock", draw(COUNTS) / 100, "msec", 100.0, "", cpu)
    return Reading(event, draw(COUNTS), "", draw(PERCENTS), "", cpu)


def number(value: float, decimals: int, point: str) -> str:
    return f"{value:.{decimals}f}".replace(".", point)


def value_text(r: Reading, decimals: int, point: str) -> str:
    return f"<{r.reason}>" if r.reason else number(r.value or 0, decimals if r.unit else 0, point)


def as_json(r: Reading, point: str) -> str:
    cpu = f'"cpu" : "{r.cpu}", ' if r.cpu else ""
    value = f"<{r.reason}>" if r.reason else number(r.value or 0, 6, point)
    return (
        f'{{{cpu}"counter-value" : "{value}", "unit" : "{r.unit}", "event" : "{r.event}", "event-runtime" : 5, '
        f'"pcnt-running" : {number(r.running_percent, 2, point)}, "metric-value" : {number(0.5, 6, point)}, "metric-unit" : "x"}}'
    )


def as_csv(r: Reading, point: str, separator: str) -> str:
    fields = [r.cpu] if r.cpu else []
    fields += [value_text(r, 2, point), r.unit, r.event, "685063", number(r.running_percent, 2, point), "", ""]
    return separator.join(fields)


def as_text(r: Reading, point: str, group: str) -> str:
    value = value_text(r, 2, point)
    if not r.reason:
        whole, _, fraction = value.partition(point)
        value = f"{int(whole):,}".replace(",", group) + (point + fraction if fraction else "")
    running = f"  ({number(r.running_percent, 2, point)}%)" if r.running_percent < 100 else ""
    return f"{r.cpu}  {value:>20} {r.unit:4} {r.event:25} #  0.5 M/sec {running}"


@settings(max_examples=60)
@given(st.lists(readings(), min_size=1, max_size=8), LOCALES, st.sampled_from(",;|\t"))
def test_what_perf_prints_is_read_back(expected: list[Reading], locale: tuple[str, str], separator: str) -> None:
    point, group = locale
    assert parse_stat("# started on x\n\n" + "\n".join(as_json(r, point) for r in expected)) == expected
    assert parse_stat("\n".join(as_csv(r, point, separator) for r in expected)) == expected
    text = "\n Performance counter stats for 'x':\n\n" + "\n".join(as_text(r, point, group) for r in expected)
    assert parse_stat(text + f"\n\n   0{point}001108255 seconds time elapsed\n") == expected


@given(st.lists(readings(), max_size=8), st.integers(0, 4))
def test_merging_keeps_every_count(found: list[Reading], turns: int) -> None:
    sums = merged(found[turns:] + found[:turns])
    for event, reading in sums.items():
        parts = [r.value for r in found if r.event == event and r.value is not None]
        assert reading.value is None if not parts else abs(reading.value - sum(parts)) <= 1e-6 * sum(parts)
        assert reading.reason == "" or not parts
    assert set(sums) == {r.event for r in found}


def one_line_or_readings(text: str) -> None:
    stat_kind(text)
    for parse in (parse_stat, parse_script):
        try:
            parse(text)
        except UsageError as error:
            assert "\n" not in str(error) and len(str(error)) < 300


@settings(max_examples=100)
@given(st.text(st.sampled_from('{}[]":,;.0123456789<>/#%()+- \n\t\\eventcouralxf\u202f\x00'), max_size=300))
@example('{"counter-value" : "1", "event" : "\\ud800"}')
@example("1,,a,1,1e9")
@example("x 1.000000: 99999999999999999999 a: \n\tf x (y)")
def test_noise_is_no_traceback(text: str) -> None:
    one_line_or_readings(text)
    one_line_or_readings("Performance counter stats for\n" + text)


@settings(max_examples=60)
@given(st.sampled_from(REAL), st.data())
def test_damaged_output_is_no_traceback(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    part = text[start : start + data.draw(st.integers(0, 2000))]
    at = data.draw(st.integers(0, len(part)))
    one_line_or_readings(part[:at] + data.draw(st.text(max_size=5)) + part[at + data.draw(st.integers(0, 3)) :])
