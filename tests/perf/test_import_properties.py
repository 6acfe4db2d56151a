"""Any file that is imported, and any JSON that claims to be a result, gives a result or one line of error."""

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scmsim.compare import compare
from scmsim.compare.table import text
from scmsim.core.errors import UsageError
from scmsim.perf.importer import import_files
from scmsim.result import Result

LAB = (Path(__file__).parent.parent / "verification" / "data" / "measured_513.csv").read_text()
NAMES = st.sampled_from(["x.csv", "x.txt", "form_cycles_EXT4.txt", "form__.txt"])
NOISE = st.text(st.sampled_from("0123456789.,;-+eE \n\tfsopunitcalins_{}\"':\x00é"), max_size=60)

SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
)
TABLES = st.dictionaries(
    st.sampled_from(["instructions", "fences", "cycles", "written", "operation", "unit_bytes", "repeat"]),
    JSON,
    max_size=4,
)
FIELDS = (
    "cell",
    "counters",
    "metrics",
    "events",
    "payload",
    "space",
    "stored_bytes",
    "why_absent",
    "warnings",
    "machine",
    "calls",
)


def one_line(error: UsageError) -> None:
    assert "\n" not in str(error) and len(str(error)) < 600


@settings(max_examples=80)
@given(NAMES, st.integers(0, len(LAB)), st.integers(0, 400), NOISE, st.booleans())
def test_damaged_files(name: str, at: int, length: int, noise: str, header: bool) -> None:
    body = LAB.split("\n", 1)[0] + "\n" + LAB[at : at + length] + noise + LAB[at + length : at + 2 * length]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(body if header else noise)
        try:
            assert Result.from_json(import_files([path]).to_json()).runs is not None
        except UsageError as error:
            one_line(error)


@settings(max_examples=150)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), TABLES | JSON, max_size=5), max_size=3), TABLES | JSON)
def test_hostile_results(runs: list[dict], harness: object) -> None:
    table = {
        "schema": 1,
        "manifest": {"harness": harness, "kernel": harness},
        "results": [{"fs": "ext4", **run} for run in runs],
    }
    try:
        result = Result.from_json(json.dumps(table))
        found = compare(result, result, events=["all"])
        text(found)
        json.dumps(found.as_dict(), allow_nan=False)
    except UsageError as error:
        one_line(error)
