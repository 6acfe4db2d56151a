"""The traces of the repository: small, sound, described, and silent about the machine that made them."""

import re
from pathlib import Path

import pytest

from scmsim.trace import open_trace
from scmsim.trace.summary import all_problems

FOLDER = Path(__file__).parents[2] / "traces"
TRACES = sorted(FOLDER.rglob("*.parquet"))
MEGABYTE = 1_000_000


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_trace_is_small_and_sound(path: Path) -> None:
    trace = open_trace(path)
    assert path.stat().st_size <= MEGABYTE and trace.rows > 100
    assert all_problems(trace) == []
    assert trace.header["lost_events"] == 0 and trace.header["status"] == 0 and trace.header["bad_lines"]["count"] == 0
    assert trace.header["counts"]["unknown_offsets"] < trace.rows / 100


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_names_in_a_trace_are_neutral(path: Path) -> None:
    trace = open_trace(path)
    under = trace.header["under"]
    assert under.startswith("/var/tmp/") and all(
        name.startswith(under) for name in trace.files.path if name != "/var/tmp"
    )
    assert trace.header["program"].startswith("/usr/bin/")
    assert not any(
        "/" in word and not word.startswith("/var/tmp/") for word in trace.header["command"] if "\n" not in word
    )


def test_the_table_in_the_readme_is_that_of_the_files() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([\w-]+\.parquet)` \|.*\| ([\d,]+) \| ([\d,]+) \| [\d. /]+ \| ([\d,]+) \|$", text, re.MULTILINE
    )
    told = {name: tuple(int(number.replace(",", "")) for number in numbers) for name, *numbers in rows}
    found = {path.name: (open_trace(path).rows, len(open_trace(path).files), path.stat().st_size) for path in TRACES}
    assert told == found and sum(size for _, _, size in found.values()) <= 10 * MEGABYTE
