"""`scmsim map --expect`: which mappings keep the expected page size, what is told to do, and the exit code."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.study.page_size import cost, expect
from scmsim.study.page_size.from_process import LARGE, NOTHING, SMALL
from scmsim.study.page_size.rules import EDGE, MISALIGNED, WHOLE
from scmsim.trace import TraceWriter
from tests.fs import drive

MIB = 1 << 20


@pytest.mark.parametrize(
    ("page", "regions", "of", "have"),
    [
        ("2MiB", {"huge": 3, "edge": 1}, 3, 3),
        ("2MiB", {"huge": 2, "unwritten": 1, "edge": 1}, 3, 2),  # loads alone get one entry
        ("2MiB", {"never": 4}, 4, 0),
        ("2MiB", {"edge": 1}, 0, 0),
        ("4KiB", {"huge": 2, "misaligned": 1, "edge": 1}, 4, 2),
        ("4KiB", {"empty": 1}, 1, 0),
        ("4KiB", {"never": 2}, 2, 2),
    ],
)
def test_pages_of_a_mapping(page, regions, of, have):
    found = expect.of_classes(page, regions, 0)
    assert (found.of, found.have, found.holds) == (of, have, of == have)
    assert "\n" not in found.text and found.text.startswith(f"expected {page}: ")


def test_pages_of_1_gib_do_not_hold_on_linux():
    assert [expect.giants_in(3 << 30), expect.giants_in(3 << 30, 1), expect.giants_in(5)] == [3, 2, 0]
    found = expect.of_classes("1GiB", {"huge": 1536}, 3)
    assert (found.of, found.have, found.holds) == (3, 0, False) and "2 MiB at most" in found.text
    assert expect.of_classes("1GiB", {"huge": 5}, 0).holds


def test_what_to_do_is_of_the_most_frequent_reason():
    regions = {"edge": 9, "misaligned": 2, "hole": 1}
    assert expect.of_classes("2MiB", regions, 0, ["edge: a", "misaligned: b", "hole: c"]).text.endswith("misaligned: b")
    assert expect.of_classes("2MiB", regions, 0, ["--set x"]).text.endswith("misaligned: --set x")
    assert "does not begin at a multiple" in expect.of_classes("2MiB", regions, 0).text


@pytest.mark.parametrize(
    ("page", "now", "of", "have"),
    [
        ("2MiB", [LARGE, LARGE, SMALL], 2, 2),  # the last one is at the file's end
        ("2MiB", [LARGE, SMALL, NOTHING], 2, 1),
        ("2MiB", [NOTHING, LARGE, SMALL], 1, 1),
        ("4KiB", [SMALL, NOTHING, SMALL], 2, 2),
        ("4KiB", [SMALL, LARGE, SMALL], 3, 2),
    ],
)
def test_pages_of_a_process(page, now, of, have):
    found = expect.of_process(page, np.array([WHOLE, MISALIGNED, EDGE]), np.array(now), 0)
    assert (found.of, found.have, found.holds) == (of, have, of == have)


def test_what_to_do_for_a_process_is_not_about_the_end_of_the_file():
    given = np.array([WHOLE, MISALIGNED, EDGE]), np.array([LARGE, SMALL, SMALL]), 0
    assert expect.of_process("2MiB", *given, ["edge: a", "misaligned: b"]).text.endswith("; misaligned: b")
    assert expect.of_process("2MiB", *given, ["edge: a"]).text.endswith("; the reasons are above")


def test_a_process_that_touched_nothing_does_not_pass():
    found = expect.of_process("2MiB", np.array([WHOLE]), np.array([NOTHING]), 0)
    assert not found.holds and "touched" in found.text


def run(*words):
    return CliRunner().invoke(cli.main, ["map", *words])


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """A trace of a mapped file of 4 MiB; the walks, which take minutes in plain Python, are not counted."""
    monkeypatch.setattr(cost, "walks_per_touch", lambda *given: 0.0)
    path = tmp_path / "mapped.parquet"
    with TraceWriter(path, {"tool": "test"}) as writer:
        writer.append(drive.ops(("create", 0), ("write", 0, 0, 4 * MIB), ("mmap", 0, 0, 4 * MIB)))
        writer.close(drive.files(-1))
    return str(path)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--fs", "ext4-dax,winefs", "--expect", "2MiB"], 1, "ext4-dax: expected 2MiB: 0 of 2 x 2 MiB are mapped at once; mis"),
        (["--fs", "winefs", "--expect", "2MiB"], 0, "winefs: expected 2MiB: all 2 x 2 MiB are mapped at once"),
        (["--fs", "ext4-dax", "--set", "ext4-dax.data_alignment=2MiB", "--expect", "2MiB"], 0, "all 2 x 2 MiB"),
        (["--fs", "nova-cow", "--expect", "4KiB"], 0, "all 2 x 2 MiB are mapped by 4 KiB alone"),
        (["--fs", "winefs", "--expect", "4KiB"], 1, "MADV_NOHUGEPAGE"),
    ],
)  # fmt: skip
def test_exit_codes(trace, words, code, told):
    done = run(trace, *words)
    assert done.exit_code == code and told in done.stdout


def test_the_remedy_is_the_model_s_parameter_and_json_has_the_verdict(trace):
    done = run(trace, "--fs", "ext4-dax", "--expect", "2MiB", "--json")
    (verdict,) = json.loads(done.stdout)["expected"].values()
    assert done.exit_code == 1 and not verdict["holds"] and (verdict["of"], verdict["have"]) == (2, 0)
    assert verdict["text"].endswith("--set ext4-dax.data_alignment=2MiB")


def test_a_model_without_mappings_cannot_be_checked(trace):
    done = run(trace, "--fs", "simfs", "--expect", "2MiB")
    assert done.exit_code == 2 and "cannot be checked" in done.stderr
