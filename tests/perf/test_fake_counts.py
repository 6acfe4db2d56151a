"""Check the made-up and recorded counts of the fake back end, and the ratios taken from them."""

import pathlib

import pytest

from scmsim.core.errors import UsageError
from tests.perf.helper import matrix, measure, records, result


def test_fake_counts_have_the_faults_that_were_ordered(tmp_path: pathlib.Path) -> None:
    noisy = matrix(tmp_path, backend_params={"noise": 10, "missing": "l1d_replacement", "multiplexed": 50})
    with pytest.raises(Exception, match="was on a counter for only 75 %"):
        measure(noisy, tmp_path / "one")
    allowed = matrix(tmp_path, allow_multiplexing=True, backend_params=noisy.backend_params)
    measure(allowed, tmp_path / "two")
    found = records(tmp_path / "two")
    assert any(record["scaled"] for record in found.values())
    assert all(
        record["why_absent"] == {"l1d_replacement": "perf: l1d.replacement not supported"} for record in found.values()
    )
    values = {
        record["counters"]["instructions"] for key, record in found.items() if key.startswith("a-write-64KiB-4KiB")
    }
    assert len(values) == 2  # repeats differ by the noise
    with pytest.raises(UsageError, match="'cycels' is not counted here"):
        measure(matrix(tmp_path, backend_params={"missing": "cycels"}), tmp_path / "three")


def test_ratios_are_taken_inside_a_pass(tmp_path: pathlib.Path) -> None:
    small = matrix(tmp_path, operations=("write",), repeats=1, backend_params={"noise": 30})
    measure(small, tmp_path / "out")
    walks = ("dtlb_load_misses_walk_active", "dtlb_store_misses_walk_active")
    for one in result(small, tmp_path / "out").runs:
        key = f"{one.fs}-write-64KiB-{one.cell['unit_bytes'] >> 10}KiB-01"
        passes = records(tmp_path / "out")[key]["passes"]
        (counts,) = [counts for counts in passes if walks[0] in counts]
        inside = 100 * (counts[walks[0]] + counts[walks[1]]) / counts["cycles"]
        assert one.metrics["walk_cycles_percent_data"] == pytest.approx(inside)
        assert one.counters["cycles"] == pytest.approx(sum(each["cycles"] for each in passes) / len(passes), abs=1)
        across = 100 * sum(one.counters[name] for name in walks) / one.counters["cycles"]
        assert across != pytest.approx(inside)


def test_fake_repeats_differ_by_three_percent_unless_told_otherwise(tmp_path: pathlib.Path) -> None:
    measure(matrix(tmp_path, repeats=20, operations=("write",), units=(4096,)), tmp_path / "out")
    values = [
        record["counters"]["l1d_replacement"] for key, record in records(tmp_path / "out").items() if key[0] == "a"
    ]
    average = sum(values) / 20
    assert 0.01 < (sum((value - average) ** 2 for value in values) / 19) ** 0.5 / average < 0.06


def test_recorded_answers(tmp_path: pathlib.Path) -> None:
    line = '{"counter-value" : "%d", "unit" : "", "event" : "%s", "event-runtime" : 1, "pcnt-running" : 100.00}\n'
    (tmp_path / "stat.json").write_text(line % (41, "inst_retired.any") + line % (42, "cpu_clk_unhalted.thread"))
    given = {"counters": ("instructions", "cycles"), "backend_params": {"recorded": str(tmp_path / "stat.json")}}
    measure(matrix(tmp_path, **given), tmp_path / "out")
    assert {record["counters"]["instructions"] for record in records(tmp_path / "out").values()} == {41}
    given["backend_params"] = {"recorded": str(tmp_path / "none")}
    with pytest.raises(UsageError, match="cannot be read"):
        measure(matrix(tmp_path, **given), tmp_path / "other")
