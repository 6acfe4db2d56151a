"""The 90 % intervals: how often they hold with a workload left out, what they are from, and where they are shown."""

import csv
import dataclasses
import json
import math
import re

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli, replay
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.report import page, tables
from scmsim.result import Result, Run, intervals
from scmsim.result.intervals import Cell, Interval
from scmsim.result.tables import spans, summary
from tests.verification import intervals as check
from tests.verification.workload_residuals import COUNTERS


def test_nine_in_ten_cells_are_inside_with_their_workload_left_out() -> None:
    found = list(check.checks())
    assert len(found) >= 28
    assert [one for one in found if one.inside < 0.9] == []
    assert [one for one in found if one.needed < 0.5 and one.printed > 1.08] == []  # narrower: most cells are exact


def test_the_table_has_known_models_and_counters() -> None:
    with intervals.WORKLOADS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["model"] for row in rows} <= set(registry.names("fs"))
    assert {row["counter"] for row in rows} <= {*COUNTERS, *intervals.FIGURES}
    assert {row["basis"] for row in rows} == {"predicted", "fitted"}
    assert len({tuple(row[key] for key in list(row)[:6]) for row in rows}) > 0.98 * len(rows)


@pytest.mark.parametrize(
    "fs, counter, basis",
    [
        ("ext4-dax", "instructions", "ext4-dax, 8 cells"),
        ("ext4-linux4", "instructions", "family ext4, 16 cells"),
        ("nova-cow", "instructions", "all models, 40 cells"),
        ("nova-cow", "payload_written", "exact"),
        ("famfs", "instructions", "not checked"),
        ("nowhere", "instructions", "not checked"),
        ("ext4-dax", "dtlb_lookups", "not checked"),
    ],
)
def test_the_basis_falls_back_from_the_model_to_its_family_to_all(fs: str, counter: str, basis: str) -> None:
    found = intervals.of(fs, counter, None, 1000)
    assert found.basis == basis
    if basis == "exact":
        assert found == Interval(1000, 1000, basis)
    elif basis == "not checked":
        assert found == Interval(None, None, basis)
    else:
        assert found.low is not None and found.high is not None and found.low < 1000 < found.high


def test_a_kernel_a_machine_and_a_kind_of_call_choose_the_cells() -> None:
    costs = {kernel: intervals.cells("instructions", kernel) for kernel in ("6.1", "6.12", None, "5.10")}
    assert len(costs["6.1"]) == len(costs["6.12"]) == 40 and costs["5.10"] == costs[None] != costs["6.1"]
    machines = {name: intervals.cells("dtlb_l1_misses", machine=name) for name in ("zen2", "core2-q8200", "mine")}
    assert len(machines["zen2"]) == 40 != machines["core2-q8200"] and len(machines["mine"]) == 160
    assert {cell.group for cell in intervals.cells("flushes", call="wsync")} == {"append", "rewrite", "read", "wsync"}
    assert intervals.cells("flushes", call="fsync") == intervals.cells("flushes")


def test_the_bounds_are_those_computed_by_hand() -> None:
    """Two models, each with one error in ten workloads.

    Centres are 10 / 12 of the errors.  Scales are drawn towards 0.4, the 80 % quantile; left out: 9 workloads, centre 9 / 11.
    """
    base = tuple(Cell(fs, fs, f"w{i}", wrong) for fs, wrong in (("a", 0.1), ("b", 0.4)) for i in range(10))

    def fit(wrong: float, workloads: int) -> tuple[float, float]:
        centre = workloads * wrong / (workloads + 2)
        return centre, math.sqrt((2 * 0.4**2 + workloads * (wrong - centre) ** 2) / (workloads + 2)) + 0.002

    scores = {wrong: (wrong - fit(wrong, 9)[0]) / fit(wrong, 9)[1] for wrong in (0.1, 0.4)}
    factor = max(scores.values())  # of 20 scores the 19th
    for fs, wrong in (("a", 0.1), ("b", 0.4)):
        centre, scale = fit(wrong, 10)
        low, high, basis = intervals.bounds(fs, base)
        assert (low, basis) == (pytest.approx(min(centre - factor * scale, -0.005)), f"{fs}, 10 cells")
        assert high == pytest.approx(min(centre + factor * scale, 0.4))
    assert intervals.bounds("c", base)[2] == "all models, 20 cells"


def _cells(errors: list[float]) -> tuple[Cell, ...]:
    return tuple(Cell("ab"[i % 2], "f", f"w{i // 2}", error) for i, error in enumerate(errors))


@given(st.lists(st.floats(-2, 2), min_size=6, max_size=16), st.sampled_from("abc"))
def test_opposite_errors_give_opposite_bounds_around_the_figure(errors: list[float], fs: str) -> None:
    low, high, basis = intervals.bounds(fs, _cells(errors))
    assert low < 0 < high and max(-low, high) <= max(*map(abs, errors), 0.005)
    mirrored = intervals.bounds(fs, _cells([-error for error in errors]))
    assert mirrored == (pytest.approx(-high), pytest.approx(-low), basis)


@pytest.mark.parametrize(
    "measured, replayed, wrong", [(0, 0, 0), (0, 1, -9), (1, 0, 9), (2, 1, math.log(2)), (1, 2, -math.log(2))]
)
def test_an_error_is_the_logarithm_of_the_ratio(measured: float, replayed: float, wrong: float) -> None:
    assert intervals.error(measured, replayed) == pytest.approx(wrong)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_quantile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = intervals.quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= min(share * (len(values) + 1), len(values)) - 1e-9


@pytest.fixture(scope="module")
def replayed() -> Result:
    return replay("traces/sqlite-load.parquet", fs=["ext4-dax", "tmpfs", "famfs"], footprints="none")


def test_a_replay_has_intervals_and_keeps_them_in_files(replayed: Result) -> None:
    run = replayed.runs[0]
    assert set(run.intervals) == set(intervals.FIGURES)
    found = run.intervals["instructions"]
    assert found["low"] < run.counters["instructions"] < found["high"] and found["basis"] == "ext4-dax, 8 cells"
    assert replayed.runs[2].intervals["instructions"] == {"low": None, "high": None, "basis": "not checked"}
    assert Result.from_json(replayed.to_json()).runs == replayed.runs


def test_small_counts_and_models_without_costs_have_no_interval() -> None:
    counts = {"instructions": 10**6, "mem_inst_retired_all_loads": 6 * 10**5, "mem_inst_retired_all_stores": 4 * 10**5}
    run = Run("ext4", counters={**counts, "flushes": 63, "fences": 64}, calls=10)
    intervals.fill(run)
    assert {found["basis"] for found in run.intervals.values()} == {"not checked"}
    run.counters["instructions"] += 1
    intervals.fill(run)
    assert run.intervals["flushes"]["low"] is None and run.intervals["fences"]["low"] is not None
    run.touches = 11
    intervals.fill(run)
    assert run.intervals["fences"]["low"] is None


def test_misses_without_footprints_have_no_interval() -> None:
    run = Run("ext4", "i7-8700k", metrics={"dtlb_walks": 100}, calls=10)
    for params, basis in (({}, "not checked"), ({"footprints": "5.10 ext4"}, "ext4, 8 cells")):
        run.params = params
        intervals.fill(run)
        assert run.intervals["dtlb_walks"]["basis"] == basis


def test_columns_of_a_sweep_give_the_intervals_back(replayed: Result) -> None:
    for run in replayed.runs:
        columns = intervals.columns(run)
        assert None not in columns.values() and intervals.from_columns(columns) == run.intervals
    assert intervals.columns(replayed.runs[0])["basis_payload_read"] == "exact"


def test_the_table_shows_intervals_only_if_asked(replayed: Result) -> None:
    plain, shown = replayed.table(), replayed.table(intervals=True)
    assert not re.search(r"\([^)]* to ", plain) and spans.NOTE not in plain and shown.endswith(spans.NOTE)
    lines = {line[:30].strip(): line for line in shown.splitlines() if line.startswith("  ")}
    assert "(exact)" in lines["bytes written by the program"] and "(not checked)" in lines["time (estimate), ns"]
    found = replayed.runs[0].intervals["estimated_ns_per_call"]
    assert f"({found['low']:,.0f}"[:2] in lines["time (estimate), ns"]


def test_a_line_below_the_table_has_the_figure_that_may_be_furthest_off(replayed: Result) -> None:
    (line,) = [line for line in replayed.table(rows="instructions").splitlines() if line.startswith("90 % intervals")]
    spans_of = {run.fs: (run.intervals["instructions"], run.counters["instructions"]) for run in replayed.runs[:2]}
    far = {fs: max(value / found["low"], found["high"] / value) for fs, (found, value) in spans_of.items()}
    name = max(far, key=lambda fs: far[fs])
    assert f"up to {far[name]:.1f} times, instructions of {name};" in line and line.endswith("not checked: famfs")
    shown = (replayed.table(intervals=True), Result(runs=replayed.runs[2:]).table(), replayed._repr_html_())
    assert not any("90 % intervals:" in text for text in shown)


def test_a_sentence_says_more_only_where_intervals_do_not_overlap() -> None:
    def made(fs: str, loads: int, low: float, high: float) -> Run:
        counters = {"instructions": 9 * loads, "mem_inst_retired_all_loads": loads, "mem_inst_retired_all_stores": 0}
        run = Run(fs, counters=counters, calls=10).derive()
        run.intervals = {"tlb_traffic": {"low": low, "high": high, "basis": "all"}}
        return run

    apart, near = [made("ext4", 1000, 900, 1100), made("tmpfs", 500, 300, 899)], made("tmpfs", 500, 300, 900)
    assert summary.sentences(apart, intervals=True) == summary.sentences(apart)
    assert summary.sentences(apart) == ["ext4 has 2.0 times the loads and stores of tmpfs."]
    assert summary.sentences([apart[0], near], intervals=True) == [
        "Loads and stores of ext4 and tmpfs: no difference, the 90 % intervals overlap."
    ]
    near.intervals = {}
    assert "no difference" in summary.sentences([apart[0], near], intervals=True)[0]


@pytest.mark.parametrize(
    "found, text",
    [
        ({"low": "a", "high": 1, "basis": "all"}, r"intervals.fences.low is 'a'; it must be a number"),
        ({"low": 1, "high": 2}, r"intervals.fences.basis is None; it must be text"),
        ({"low": 0, "high": 1e40, "basis": "all"}, r"intervals.fences.high is 1e\+40"),
        (3, "intervals.fences is 3; it must be a JSON object"),
    ],
)
def test_an_interval_of_a_file_is_checked(found: object, text: str) -> None:
    run = {"fs": "ext4", "counters": {"fences": 100}, "intervals": {"fences": found}}
    with pytest.raises(UsageError, match=text):
        Result.from_json(json.dumps({"schema": 1, "manifest": {}, "results": [run]}))


def test_odd_intervals_of_a_file_are_shown() -> None:
    for low, high, text in ((0, 1, "(0 to 0.1)"), (5, 1, "(0.5 to 0.1)"), (None, 1, "(all)")):
        run = Run(
            "ext4",
            counters={"fences": 1000},
            calls=10,
            intervals={"fences": {"low": low, "high": high, "basis": "all"}},
        )
        assert text in Result(runs=[run]).table(intervals=True)


def test_a_report_has_the_intervals_as_hints(replayed: Result) -> None:
    text = page.page(replayed)
    assert re.search(r'<td title="90 % interval [\d,]+ to [\d,]+, from ext4-dax, 8 cells">[\d,]+</td>', text)
    assert '<td title="exact">' in text and '<td title="not checked">' in text and tables.HINTED in text
    bare = [dataclasses.replace(run, intervals={}) for run in replayed.runs]
    assert tables.HINTED not in tables.figures(bare) and "title=" not in tables.figures(bare)
    assert "title=" in tables.figures(list(replayed.runs) * 4)


def test_the_command_prints_intervals() -> None:
    command = [
        "replay",
        "traces/sqlite-load.parquet",
        "--fs",
        "tmpfs",
        "--footprints",
        "none",
        "--rows",
        "instructions",
    ]
    plain, shown = (CliRunner().invoke(cli.main, [*command, *more]) for more in ([], ["--intervals"]))
    assert plain.exit_code == shown.exit_code == 0 and "(" not in plain.stdout.split("per call")[1].split("totals")[0]
    assert " to " in shown.stdout and spans.NOTE in shown.stdout
