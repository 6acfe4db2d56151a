"""Comparison of two results: alignment, verdicts, warnings, table, JSON and exit code."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Done

from scmsim import cli
from scmsim.compare import compare
from scmsim.compare.table import text
from scmsim.compare.tolerances import TOLERANCES
from scmsim.core.errors import UnknownName, UsageError
from scmsim.result import Result, Run
from scmsim.result.cells import Key, cells

CELL = {"operation": "write", "file_bytes": 1 << 20, "unit_bytes": 4096}


def result(*values: dict, kernel: str = "Linux 5.13.13", cpu: str = "i7-8700k", **run: object) -> Result:
    """One run for each table of counters, repeats of one cell of ext4, 10 calls each."""
    defaults = {"fs": "ext4", "calls": 10, "cell": CELL}
    return Result(
        {"kernel": kernel, "harness": {"cpu": cpu}},
        [Run(**{**defaults, **run, "counters": counters}) for counters in values],
    )


def verdicts(*args: object, **more: object) -> dict[str, str]:
    return {row.quantity: row.verdict for row in compare(*args, **more).rows}


def test_the_same_twice_is_ok_and_two_percent_off_is_out() -> None:
    same = compare(result({"pm_stored_bytes": 1000}), result({"pm_stored_bytes": 1000}))
    (row,) = same.rows
    assert (same.verdict, row.verdict, row.ratio, row.per, row.measured) == ("ok", "ok", 1.0, "call", 100.0)
    for value, verdict in ((1020, "ok"), (1021, "out"), (980, "ok"), (979, "out")):
        assert compare(result({"pm_stored_bytes": value}), result({"pm_stored_bytes": 1000})).verdict == verdict


def test_tolerances_can_be_set_under_any_name_of_the_event() -> None:
    sides = result({"mem_inst_retired_all_loads": 103}), result({"mem_inst_retired_all_loads": 100})
    assert verdicts(*sides)["mem_inst_retired_all_loads"] == "ok"
    assert verdicts(*sides, tolerances={"MEM_INST_RETIRED.ALL_LOADS": 2})["mem_inst_retired_all_loads"] == "out"
    assert verdicts(*sides, events=["mem_inst_retired.all_loads"]) == {"mem_inst_retired_all_loads": "ok"}
    with pytest.raises(UnknownName, match="no counter or metric named 'lodas'; "):
        compare(*sides, tolerances={"lodas": 1})
    with pytest.raises(UnknownName, match="no counter or metric named 'lodas'; "):
        compare(*sides, events=["lodas"])


def with_interval(value: int, low: float | None, high: float | None, **more: object) -> Result:
    """A replay's result whose figure has an interval."""
    found = result({"instructions": value, "fences": 1000}, machine="i7-8700k", **more)
    found.runs[0].intervals = {
        "instructions": {"low": low, "high": high, "basis": "ext4, 8 cells" if low else "not checked"}
    }
    return found


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [(1250, "ok"), (1251, "out"), (900, "ok"), (899, "out")],
    ids=["high", "over", "low", "under"],
)
def test_a_figure_s_interval_is_its_tolerance(measured: int, verdict: str) -> None:
    sides = with_interval(1000, 900, 1250), result({"instructions": measured})
    (row,) = compare(*sides).rows
    assert (row.verdict, row.tolerance_percent, row.tolerance_basis) == (verdict, None, "ext4, 8 cells")
    assert row.tolerance_ratios == pytest.approx((1 / 1.25, 1 / 0.9))
    (swapped,) = compare(*reversed(sides)).rows
    assert (swapped.verdict, swapped.tolerance_basis) == (verdict, "ext4, 8 cells")
    assert swapped.tolerance_ratios == pytest.approx((0.9, 1.25))
    assert verdicts(*sides, tolerances={"instructions": 30}) == {"instructions": "ok"}  # the user's tolerance wins
    assert verdicts(*sides, tolerances={"all": 0}) == {"instructions": "out"}


def test_the_bases_of_the_tolerances_are_shown() -> None:
    measured = result({"instructions": 1200, "fences": 1000})
    shown = text(compare(with_interval(1000, 800, 1250), measured))
    assert "0.800 to 1.250" in shown and "  90 % interval from ext4, 8 cells: instructions\n" in shown
    assert "  fixed (not checked): fences\n" in shown
    unchecked = compare(with_interval(1000, None, None), measured)
    assert {row.quantity: (row.verdict, row.tolerance_basis) for row in unchecked.rows} == {
        "instructions": ("out", "fixed (not checked)"),
        "fences": ("ok", "fixed (not checked)"),
    }
    assert "tolerances:" not in text(unchecked)


def test_two_simulations_must_be_equal_although_they_have_intervals() -> None:
    (row, _) = compare(
        with_interval(1000, 800, 1250), with_interval(1001, 800, 1250), events=["instructions", "fences"]
    ).rows
    assert (row.verdict, row.tolerance_basis) == ("out", "two simulations")


def test_of_several_replays_the_widest_interval_counts() -> None:
    several = with_interval(1000, 900, 1000 / 0.9)
    several.runs += with_interval(1000, 800, 1250).runs
    (row,) = compare(several, result({"instructions": 1240})).rows
    assert (row.verdict, row.tolerance_ratios) == ("ok", pytest.approx((0.8, 1.25)))


def test_a_quantity_without_a_tolerance_is_shown_and_not_judged() -> None:
    sides = result({"pm_loaded_bytes": 1}), result({"pm_loaded_bytes": 1000})
    assert "pm_loaded_bytes" not in TOLERANCES and verdicts(*sides) == {}
    found = compare(*sides, events=["all"])
    assert [(row.quantity, row.verdict) for row in found.rows] == [("pm_loaded_bytes", "-")]
    assert found.verdict == "nothing judged" and "set one with --tolerance" in text(found)
    assert compare(*sides, events=["pm_loaded_bytes"], tolerances={"pm_loaded_bytes": 50}).verdict == "out"


def test_the_spread_of_the_repeats_can_make_a_row_too_noisy_to_judge() -> None:
    simulated = result({"instructions": 1150})
    steady = result({"instructions": 1000}, {"instructions": 1001}, {"instructions": 999})
    shaky = result({"instructions": 600}, {"instructions": 1400}, {"instructions": 1000})
    (row,) = compare(simulated, steady).rows
    assert (row.verdict, row.repeats, row.measured) == ("out", 3, 100.0) and row.spread_percent == pytest.approx(0.1)
    (row,) = compare(simulated, shaky).rows
    assert row.verdict == "noisy" and row.spread_percent == pytest.approx(40)
    assert compare(simulated, shaky).verdict == "ok" and "1 too noisy to tell" in text(compare(simulated, shaky))


def test_nothing_and_nearly_nothing_are_alike_and_a_ratio_to_nothing_is_none() -> None:
    assert verdicts(result({"flushes": 0}), result({"flushes": 0})) == {"flushes": "ok"}
    (row,) = compare(result({"flushes": 40}), result({"flushes": 0})).rows
    assert (row.verdict, row.ratio) == ("out", None)
    assert "  -  " in text(compare(result({"flushes": 40}), result({"flushes": 0})))


def test_counts_are_compared_per_call_or_per_run_where_the_calls_are_unknown() -> None:
    simulated = result({"instructions": 2000}, calls=20)
    (row,) = compare(simulated, result({"instructions": 1000})).rows
    assert (row.per, row.simulated, row.verdict) == ("call", 100.0, "ok")
    (row,) = compare(simulated, result({"instructions": 1000}, calls=0)).rows
    assert (row.per, row.simulated, row.verdict) == ("run", 2000.0, "out")


def test_cells_on_one_side_are_listed() -> None:
    simulated = result({"instructions": 1})
    simulated.runs.append(Run("nova-cow", counters={"instructions": 5}, cell=CELL))
    measured = result({"instructions": 1})
    measured.runs += [Run("ext4", counters={"fences": 5}, cell={**CELL, "unit_bytes": 512}), Run("xfs")]
    found = compare(simulated, measured)
    assert found.only_simulated == [Key("nova-cow", "write", 1 << 20, 4096)]
    assert found.only_measured == [Key("ext4", "write", 1 << 20, 512), Key("xfs")]
    assert found.absent["fences"] == ["simulated"] and found.absent["flushes"] == ["simulated", "measured"]
    shown = text(found)
    for line in ("only simulated:\n  nova-cow write file 1MiB unit 4KiB", "  ext4 write file 1MiB unit 512\n  xfs"):
        assert line in shown
    assert "  fences: not simulated" in shown and "flushes: not simulated and not measured" in shown


def test_names_and_parts_of_the_key_can_be_told_apart_or_not() -> None:
    simulated = result({"instructions": 1}, fs="nova-cow")
    measured = result({"instructions": 1}, fs="nova", cell={**CELL, "file_bytes": 5})
    assert compare(simulated, measured).verdict == "nothing in common"
    assert compare(simulated, measured, names={"nova": "nova-cow"}, ignore=["file_bytes"]).verdict == "ok"
    assert compare(simulated, measured, ignore=["fs", "file_bytes"]).verdict == "ok"
    with pytest.raises(UnknownName, match="no part of a cell's key named 'file'; choose from fs, operation"):
        compare(simulated, measured, ignore=["file"])


def test_the_microbenchmark_s_append_is_the_thesis_write_unless_there_are_both() -> None:
    append = result({"instructions": 1}, cell={**CELL, "operation": "append"})
    assert compare(append, result({"instructions": 1})).verdict == "ok"
    append.runs += result({"instructions": 9}).runs
    assert [key.operation for key in cells(append)] == ["append", "write"]


def test_runs_on_several_machines_are_no_repeats() -> None:
    several = result({"instructions": 1}, machine="i7-8700k")
    several.runs += result({"instructions": 1}, machine="core2-q8200").runs
    with pytest.raises(
        UsageError, match="ext4 write .* was run with machine core2-q8200 and i7-8700k; give results with only one"
    ):
        compare(several, several)


def test_metrics_are_formulas_over_mean_counters() -> None:
    walks = [{"itlb_misses_walk_completed": w, "instructions": i} for w, i in ((1, 1000), (1, 3000))]
    (cell,) = cells(result(*walks)).values()
    assert cell.values["walks_per_1000_instructions_instruction"].mean == pytest.approx(1000 * 2 / 4000)
    assert cell.values["walks_per_1000_instructions_instruction"].deviation > 0


def warnings_of(simulated: Result, measured: Result, **more: object) -> str:
    return "\n".join(compare(simulated, measured, **more).warnings)


def test_other_kernels_machines_and_event_meanings_are_warnings() -> None:
    counts = {"instructions": 1000, "dtlb_load_misses_walk_active": 50, "dtlb_store_misses_walk_active": 1}
    events = ["instructions", "dtlb_load_misses_walk_active"]
    simulated = result(counts, machine="i7-8700k")
    old = result(
        counts,
        kernel="Linux 6.1.0",
        cpu="Xeon",
        events={
            "dtlb_load_misses_walk_active": "cpu_core/dtlb_load_misses.walk_duration/",
            "instructions": "inst_retired.any:k",
        },
        warnings=["scaled"],
    )
    said = warnings_of(simulated, old, events=events)
    assert "the kernels differ: Linux 5.13 simulated, Linux 6.1.0 measured" in said
    assert "the machines differ or are unknown (i7-8700k; Xeon): dtlb_load_misses_walk_active depend on them" in said
    assert (
        "dtlb_load_misses_walk_active is dtlb_load_misses.walk_active on one side and cpu_core/dtlb_load_misses.walk_d"
        in said
    )
    assert "measured ext4: scaled" in said and "inst_retired" not in said
    assert warnings_of(simulated, result(counts), events=["instructions"]) == ""
    assert "the kernel of the measured side is not recorded" in warnings_of(simulated, result(counts, kernel=""))
    assert "Linux 5.13.13 simulated, Linux 6.1.0 measured" in warnings_of(result(counts), old)


def run(folder: Path, simulated: Result, measured: Result, *args: str) -> Done:
    paths = [simulated.write(folder / "s.json"), measured.write(folder / "m.parquet")]
    return CliRunner().invoke(cli.main, ["compare", *map(str, paths), *args], standalone_mode=False)


def test_rows_are_summed_up_by_quantity() -> None:
    pairs = [(100, 100), (150, 100), (0, 0), (90, 100)]
    sides = []
    for side in (0, 1):
        runs = [(i, pair[side]) for i, pair in enumerate(pairs)]
        sides.append(
            Result(
                {},
                [Run("ext4", calls=1, cell={**CELL, "unit_bytes": i}, counters={"instructions": v}) for i, v in runs],
            )
        )
    found = compare(*sides)
    assert found.quantities() == [("instructions", 4, 3, 0, 1, 0.9, 1.0, 1.5)]
    assert found.as_dict()["quantities"][0]["median_ratio"] == 1.0
    short = text(found, rows=False)
    assert short.splitlines()[1].split() == ["instructions", "4", "3", "0", "1", "0.900", "1.000", "1.500"]
    assert (
        "\nout:\n  ext4 write file 1MiB unit 1: instructions 150 simulated, 100 measured per call, ratio 1.500\n"
        in short
    )


def test_many_warnings_are_cut_in_the_table(tmp_path: Path) -> None:
    noisy = result({"instructions": 1}, warnings=[f"number {i}" for i in range(30)])
    shown = text(compare(noisy, noisy))
    assert "number 3" in shown and "number 29" not in shown and "more warnings; see --json" in shown


def test_exit_codes_and_json(tmp_path: Path) -> None:
    one, other = result({"instructions": 1000}), result({"instructions": 1200})
    assert run(tmp_path, one, one).return_value == 0
    done = run(tmp_path, one, other, "--json")
    assert done.return_value == 1
    found = json.loads(done.stdout)
    assert found["verdict"] == "out" and found["counts"] == {"ok": 0, "noisy": 0, "out": 1, "-": 0}
    assert (
        found["rows"][0] | {"fs": "ext4", "unit_bytes": 4096, "quantity": "instructions", "verdict": "out"}
        == found["rows"][0]
    )
    assert run(tmp_path, one, other, "--tolerance", "instructions=20%").return_value == 0
    assert run(tmp_path, one, result({}, fs="x")).return_value == 1
    assert "nothing in common" in run(tmp_path, one, result({}, fs="x")).stdout
    for arguments, message in (
        (["--tolerance", "x"], "'x' is not COUNTER=PERCENT"),
        (["--fs", "x"], "'x' is not OLD=NEW"),
    ):
        assert message in str(run(tmp_path, one, one, *arguments).exception)


def test_folders_of_results(tmp_path: Path) -> None:
    folder = tmp_path / "sim"
    folder.mkdir()
    measured = result({"instructions": 1}, {"instructions": 3})
    measured.write(tmp_path / "m.json")
    arguments = ["compare", str(folder), str(tmp_path / "m.json")]
    done = CliRunner().invoke(cli.main, arguments, standalone_mode=False)
    assert "no .json or .parquet in the folder" in str(done.exception)
    for number in (1, 3):
        result({"instructions": number}).write(folder / f"{number}.json")
    assert CliRunner().invoke(cli.main, arguments, standalone_mode=False).return_value == 0
    (folder / "other.json").write_text("{}")
    result({"instructions": 2}).write(folder / "result.json")
    assert CliRunner().invoke(cli.main, arguments, standalone_mode=False).return_value == 0


@pytest.mark.parametrize(
    "part",
    [{"cell": {"operation": 3}}, {"cell": {"unit_bytes": "x"}}, {"counters": {"a": "x"}}, {"metrics": {"a": [1]}}],
)
def test_a_result_with_something_else_than_numbers_is_one_line(part: dict) -> None:
    with pytest.raises(UsageError, match="a run of 'ext4' has ") as caught:
        compare(Result({}, [Run("ext4", **part)]), Result({}, [Run("ext4")]))
    assert "\n" not in str(caught.value)


def test_every_tolerance_is_of_something_that_exists_and_has_a_reason() -> None:
    from scmsim.core.counters import SCHEMA
    from scmsim.result.metrics import METRICS

    for name, tolerance in TOLERANCES.items():
        assert name in SCHEMA or name in METRICS
        assert 0 < tolerance.percent <= 100 and len(tolerance.reason) > 20


def test_the_documented_tolerances_are_the_ones_used() -> None:
    documented = (Path(__file__).parents[2] / "docs/guide/compare.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) % \|", documented, re.MULTILINE))
    assert {name: float(percent) for name, percent in rows.items()} == {n: t.percent for n, t in TOLERANCES.items()}


def test_an_event_means_what_the_measured_cpu_means_by_it() -> None:
    counts = {"dtlb_load_misses_walk_completed": 10, "dtlb_load_misses_miss_causes_a_walk": 20}
    for table, field in (("skylake", "dtlb_load_misses_walk_completed"), ("nothing", None)):
        measured = result(counts)
        measured.manifest["harness"]["table"] = table
        if field:
            assert verdicts(result(counts), measured, events=["dTLB-load-misses"]) == {field: "ok"}
        else:
            with pytest.raises(UnknownName):
                compare(result(counts), measured, events=["dTLB-load-misses"])


def test_a_renamed_file_system_must_be_there(tmp_path: Path) -> None:
    path = str(result({"instructions": 10}).write(tmp_path / "r.json"))
    done = CliRunner().invoke(cli.main, ["compare", path, path, "--fs", "ext3=ext4"])
    assert done.exit_code == 2
    assert "no file system in MEASURED named 'ext3'; did you mean 'ext4'?" in done.stderr


def test_a_rate_out_of_a_few_events_is_printed_as_their_number() -> None:
    sides = result({"flushes": 7}, calls=1000), result({"flushes": 99, "fences": 1}, calls=1000)
    found = compare(*sides)
    assert "7 in all" in text(found) and "99 in all" in text(found)
    many = text(compare(result({"flushes": 700}, calls=10_000_000), result({"flushes": 7000}, calls=1000)))
    assert "in all" not in many and "0.00007" in many and "e-0" not in many
