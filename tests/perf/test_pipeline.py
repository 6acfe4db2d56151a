"""From end to end: replayed cells against measured ones, and a made-up measurement of the thesis' matrix to its figures."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.result import read
from scmsim.result.cells import cells

LAB = Path(__file__).parent.parent / "verification" / "data" / "measured_513.csv"
SYSTEMS = ("nova-cow", "ext4-dax")
UNIT = 16384


def scmsim(*args: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(cli.main, [*map(str, args)], standalone_mode=False)
    assert not done.exception and (done.return_value or 0) == code, done.exception or done.output
    return done.stdout


@pytest.mark.slow
def test_replayed_cells_agree_with_the_emulated_machine(tmp_path: Path) -> None:
    simulated = tmp_path / "sim"
    simulated.mkdir()
    for operation, calls in (("append", 1024), ("rewrite", 1024), ("read", 1024), ("wsync", 256)):
        trace = tmp_path / f"{operation}.parquet"
        scmsim("synth", "microbench", "--op", operation, "--unit", UNIT, "--total", calls * UNIT, "--out", trace)
        text = scmsim("replay", trace, "--fs", ",".join(SYSTEMS), "--set", "linux.user_page=2MiB", "--json")
        (simulated / f"{operation}.json").write_text(text)
    measured = tmp_path / "lab.json"
    scmsim("perf", "import", LAB, "-o", measured, "--kernel", "5.13.13")
    found = json.loads(scmsim("compare", simulated, measured, "--json"))

    assert found["verdict"] == "ok" and found["counts"]["out"] == 0
    assert all("in no journal or table yet" in warning for warning in found["warnings"])  # ext4's open transaction
    compared = {(row["fs"], row["operation"], row["file_bytes"], row["unit_bytes"]) for row in found["rows"]}
    assert {key[:2] for key in compared} == {(fs, op) for fs in SYSTEMS for op in ("write", "rewrite", "read", "wsync")}
    with LAB.open() as file:
        rows = {(row["fs"], row["op"], row["unit"]): row for row in csv.DictReader(file)}
    assert len(found["only_measured"]) == len(rows) - len(compared) and found["only_simulated"] == []
    stored = {(row["fs"], row["operation"]): row for row in found["rows"] if row["quantity"] == "pm_stored_bytes"}
    for (fs, operation), row in stored.items():
        of_lab = rows[fs, {"write": "append"}.get(operation, operation), str(UNIT)]
        assert row["measured"] == pytest.approx(float(of_lab["pmstB_call"]), rel=1e-5)
    assert "fences" in found["absent"] and "walks_per_1000_instructions_data" in found["absent"]

    strict = scmsim(
        "compare", simulated, measured, "--events", "instructions", "--tolerance", "instructions=0.1%", code=1
    )
    assert "out" in strict.splitlines()[-1] and "pm_stored_bytes" not in strict


MATRIX = """
[fs.ext4]
dir = "/mnt/ext4"
[fs.ext4-dax]
dir = "/mnt/ext4-dax"
[fs.nova-cow]
dir = "/mnt/nova"
[matrix]
operations = ["write"]
file_sizes = ["1MiB", "8MiB", "64MiB", "1GiB"]
units = ["1KiB", "48KiB", "4MiB"]
repeats = 2
[run]
backend = "fake"
"""


def by_hand(c: dict[str, int]) -> dict[str, float]:
    """Table 7 with Skylake's events."""
    walks = c["dtlb_load_misses_walk_completed"] + c["dtlb_store_misses_walk_completed"]
    active = c["dtlb_load_misses_walk_active"] + c["dtlb_store_misses_walk_active"]
    pending = c["dtlb_load_misses_walk_pending"] + c["dtlb_store_misses_walk_pending"]
    return {
        "walk_cycles_percent_data": 100 * active / c["cycles"],
        "walks_per_1000_instructions_data": 1000 * walks / c["instructions"],
        "cycles_per_walk_data": pending / walks,
        "walk_cycles_percent_instruction": 100 * c["itlb_misses_walk_active"] / c["cycles"],
        "walks_per_1000_instructions_instruction": 1000 * c["itlb_misses_walk_completed"] / c["instructions"],
        "cycles_per_walk_instruction": c["itlb_misses_walk_pending"] / c["itlb_misses_walk_completed"],
        "l1_misses": c["l1d_replacement"],
        "l2_misses": c["mem_load_retired_l2_miss"],
        "llc_misses": c["mem_load_retired_l3_miss"],
    }


def test_a_made_up_measurement_becomes_the_nine_figures(tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="the extra 'report' is not installed")
    pytest.importorskip("vl_convert", reason="the extra 'report' is not installed")
    (tmp_path / "matrix.toml").write_text(MATRIX)
    scmsim("perf", "run", tmp_path / "matrix.toml", "-o", tmp_path / "out")
    result = read(tmp_path / "out" / "result.json")
    assert len(result.runs) == 3 * 4 * 3 * 2
    for run in result.runs:
        expected = by_hand(run.counters)
        # a run's ratio is taken inside one pass, its counters are means over the passes: they differ by the noise of 3 %
        assert {name: run.metrics[name] for name in expected} == pytest.approx(expected, rel=0.25)
    for cell in cells(result).values():
        means = {name: sum(run.counters[name] for run in cell.runs) / 2 for name in cell.runs[0].counters}
        assert {name: cell.values[name].mean for name in by_hand(means)} == pytest.approx(by_hand(means))
    drawn = json.loads(scmsim("perf", "figures", tmp_path / "out", "-o", tmp_path / "figures", "--json"))
    assert len(drawn["figures"]) == 9 and drawn["left_out"] == []
    said = scmsim("compare", tmp_path / "out", tmp_path / "out")
    assert "the fake back end measures nothing" in said and said.rstrip().splitlines()[-1].startswith("ok: ")


def test_a_measurement_brings_the_sweep_of_its_cells(tmp_path: Path) -> None:
    from scmsim.sweep import config, table

    (tmp_path / "matrix.toml").write_text(
        MATRIX.replace("fs.ext4]", "fs.disk]").replace('["write"]', '["write", "fwrite"]')
    )
    done = CliRunner().invoke(cli.main, ["perf", "run", str(tmp_path / "matrix.toml"), "-o", str(tmp_path / "out")])
    assert (
        f"next: scmsim sweep {tmp_path / 'out' / 'simulate.toml'} -o simulated; scmsim compare simulated" in done.stderr
    )
    sweep = config.load(tmp_path / "out" / "simulate.toml")
    assert len(sweep.points) == 2 * 4 * 3 and {point["fs"] for point in sweep.points} == {"ext4-dax", "nova-cow"}
    point = sweep.points[0]
    assert (point["workload.op"], point["workload.size_from"], point["workload.unit_from"]) == (
        "write",
        1 << 20,
        1 << 10,
    )
    assert not table.is_sweep(tmp_path / "out")


def test_labels_are_simulated_by_what_is_mounted_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from scmsim.perf import dax_check, simulate
    from tests.perf.helper import matrix

    mounts = {"a": {"type": "ext4", "dax": True}, "b": {"type": "btrfs", "dax": False}}
    monkeypatch.setattr(dax_check, "described", lambda *about: mounts)
    assert simulate.models(matrix(tmp_path), SimpleNamespace(runs_programs=True)) == {"a": "ext4-dax"}
    assert simulate.sweep(matrix(tmp_path), {}) == ""


def test_what_counts_nothing_that_a_model_predicts_says_so(tmp_path: Path) -> None:
    from types import SimpleNamespace

    from scmsim.cli.perf.run import _next
    from tests.perf.helper import matrix

    said = _next(matrix(tmp_path), SimpleNamespace(runs_programs=False), str(tmp_path))
    assert "scmsim report" in said and "nothing here can be compared with a simulation" in said
