"""Any text is one line of error or readings, never a traceback.  What perf prints is in `test_stat_forms`."""

from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.perf.merge import merge
from scmsim.perf.parse import read_stat, stat_kind
from scmsim.perf.script import parse_script

DATA = Path(__file__).parent.parent / "data" / "perf"
REAL = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.txt"))]


def one_line_or_readings(text: str) -> None:
    stat_kind(text)
    for parse in (lambda text: merge(read_stat(text)), parse_script):
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
