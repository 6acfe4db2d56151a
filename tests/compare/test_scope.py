"""Like with like: modes of a measurement beside a model, and exact comparison of two simulations."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Done

from scmsim import cli
from scmsim.compare import compare
from scmsim.compare.scope import BOTH, kind, scope
from scmsim.compare.table import text
from scmsim.perf.importer import About, import_files
from scmsim.result import Result, Run

COUNTS = {
    "instructions": 1000,
    "mem_inst_retired_all_loads": 300,
    "mem_inst_retired_all_stores": 200,
    "dtlb_load_misses_walk_completed": 8,
}


def model(**changes: int) -> Result:
    return Result(
        {"kernel": "Linux 5.13"},
        [Run("ext4", machine="i7-8700k", paging="linux", calls=10, counters={**COUNTS, **changes})],
    )


def measured(tmp_path: Path, *counts: tuple[str, int], mode: str = "") -> Result:
    path = tmp_path / "ext4.txt"
    rows = "\n".join(f"{value:>18,}      {event}" for event, value in counts)
    path.write_text(f" Performance counter stats for './a':\n\n{rows}\n")
    return import_files([path], About(calls=10, mode=mode))


def verdicts(*sides: Result, **how: object) -> dict[str, tuple[float, str]]:
    return {row.quantity: (row.measured, row.verdict) for row in compare(*sides, **how).rows}


def test_counts_of_the_kernel_alone_are_used_as_they_are(tmp_path: Path) -> None:
    for rows, mode in (([("instructions:k", 1010)], ""), ([("instructions", 1010)], "kernel")):
        result = measured(tmp_path, *rows, mode=mode)
        assert result.runs[0].counters == {"instructions": 1010} and scope(result.runs[0], "instructions") == "kernel"
        assert verdicts(model(), result) == {"instructions": (101.0, "ok")}
        assert "mixes modes" not in "\n".join(compare(model(), result).warnings)


@pytest.mark.parametrize("suffix", ["", ":uk", ":ku", ":ppp"])
def test_a_program_s_totals_beside_a_model_are_named_a_mixture(tmp_path: Path, suffix: str) -> None:
    result = measured(tmp_path, (f"instructions{suffix}", 9000))
    assert scope(result.runs[0], "instructions") == BOTH
    found = compare(model(), result)
    assert found.verdict == "out"
    (said,) = [warning for warning in found.warnings if "mixes modes" in warning]
    assert "instructions was counted in user and kernel mode together, unlike the other side's kernel counts" in said
    assert "perf stat -e instructions:k" in said and "--count split" in said and len(said) <= 300


def test_of_both_modes_the_kernel_s_is_compared_with_a_model(tmp_path: Path) -> None:
    result = measured(tmp_path, ("instructions:u", 8000), ("instructions:k", 1010), ("cycles:u", 1), ("cycles:k", 2))
    assert result.runs[0].counters == {"instructions": 9010, "cycles": 3}
    assert verdicts(model(), result) == {"instructions": (101.0, "ok")}
    assert not [warning for warning in compare(model(), result).warnings if "mode" in warning]


def test_user_mode_alone_is_not_compared_with_a_model(tmp_path: Path) -> None:
    found = compare(model(), measured(tmp_path, ("instructions:u", 1000)))
    assert found.rows == [] and found.verdict == "nothing in common"
    assert [warning for warning in found.warnings if "counted in user mode alone, so not compared" in warning]


def test_ratios_of_different_modes_are_no_figures(tmp_path: Path) -> None:
    result = measured(
        tmp_path, ("instructions:k", 1000), ("instructions:u", 1),
        ("dtlb_load_misses.walk_completed", 8), ("dtlb_store_misses.walk_completed", 4),
    )  # fmt: skip
    found = compare(model(dtlb_store_misses_walk_completed=0), result)
    assert not [row for row in found.rows if row.quantity.startswith("walks_per")]
    assert any("no metric that is computed from several" in warning for warning in found.warnings)


def test_two_measurements_are_compared_in_the_mode_that_both_have(tmp_path: Path) -> None:
    split = measured(tmp_path, ("instructions:u", 8000), ("instructions:k", 1010))
    kernel = measured(tmp_path, ("instructions:k", 1010))
    assert verdicts(split, kernel) == {"instructions": (101.0, "ok")} == verdicts(kernel, split)


@pytest.mark.parametrize(
    ("event", "mode"),
    [("cycles:k", "kernel"), ("cycles:u", "user"), ("cycles:kppp", "kernel"), ("cpu/event=0x49,umask=0x0e/k", "kernel"),
     ("cpu_core/cycles/u", "user"), ("cycles", BOTH), ("cycles:kh", "kernel"), ("cycles:ukhGH", BOTH), ("cpu/event=0x49/", BOTH),
     ("a:u + a:k", BOTH), ("r1008:k", "kernel"), ("syscalls:sys_enter_write", BOTH), ("address stream", "")],
)  # fmt: skip
def test_modifiers_say_the_mode(event: str, mode: str) -> None:
    assert scope(Run("x", counters={"a": 1}, events={"a": event}), "a") == mode


def test_two_simulations_must_be_equal_unless_asked() -> None:
    same, other = model(), model(dtlb_load_misses_walk_completed=9)
    assert kind(same) == "simulated" and compare(same, model()).verdict == "ok"
    found = compare(same, other)
    assert found.sides == ("first", "second") and found.verdict == "out"
    assert {row.quantity for row in found.rows if row.verdict == "out"} >= {"dtlb_load_misses_walk_completed"}
    head = text(found).splitlines()[0].split()
    assert "first" in head and "second" in head and "measured" not in head
    assert compare(same, other, tolerances={"all": 60}).verdict == "ok"
    assert compare(same, other, tolerances={"all": 60, "dtlb_load_misses_walk_completed": 1}).verdict == "out"
    assert compare(same, model(instructions=1001), events=["all"]).verdict == "out"


def compared(folder: Path, first: Result, second: Result, *args: str) -> Done:
    paths = [str(side.write(folder / f"{number}.json")) for number, side in enumerate((first, second))]
    return CliRunner().invoke(cli.main, ["compare", *paths, *args], standalone_mode=False)


def test_all_tolerances_at_once_and_the_rows_that_are_out(tmp_path: Path) -> None:
    result = measured(tmp_path, ("instructions:k", 1010))
    assert compared(tmp_path, model(), result, "--tolerance", "all=2%").return_value == 0
    done = compared(tmp_path, model(), result, "--tolerance", "all=0%", "--summary")
    assert done.return_value == 1
    assert "out:\n  ext4: instructions 100 simulated, 101 measured per call, ratio 0.990" in done.stdout
    assert json.loads(compared(tmp_path, model(), model(), "--json").stdout)["sides"] == ["first", "second"]


def test_output_of_perf_leads_to_its_import(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    path.write_text(" Performance counter stats for './a':\n\n 5 cycles\n")
    sim = str(model().write(tmp_path / "sim.json"))
    done = CliRunner().invoke(cli.main, ["compare", sim, str(path)])
    assert done.exit_code == 2 and f"scmsim perf import {path} -o measured.json" in done.stderr
