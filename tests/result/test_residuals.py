"""The errors of the models in measured cells: the table has every measured cell, and the summary its quantiles."""

import csv

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core import registry
from scmsim.result import residuals
from scmsim.result.residuals import Residual
from tests.verification import cells
from tests.verification.residuals import HEAD, MEASURED
from tests.verification.validate import SYSTEMS


def test_the_table_has_every_measured_figure_of_the_validation() -> None:
    expected = {}
    for cell in cells.measured(*SYSTEMS):
        for counter, columns in MEASURED.items():
            key = (cell["fs"], cell.get("kernel", "5.13.13"), cell["op"], int(cell["unit"]), counter)
            expected[key] = sum(cell.get(column, 0.0) for column in columns)
    found = {tuple(one[:5]): one.measured for one in residuals.read()}
    assert found == pytest.approx(expected, abs=0.06)


def test_the_models_of_the_table_exist_and_its_head_is_that_of_the_script() -> None:
    assert {one.model for one in residuals.read()} <= set(registry.names("fs"))
    with residuals.TABLE.open(newline="") as file:
        assert tuple(next(csv.reader(file))) == HEAD


def test_what_follows_from_the_structure_agrees_with_the_kernels_within_the_documented_limits() -> None:
    rows = [one for one in residuals.read() if one.counter in ("pm_stored_bytes", "flushes")]
    assert len(rows) > 400 and all(abs(one.percent) <= 2 for one in rows)


@pytest.mark.parametrize(
    "measured, replayed, percent", [(100, 90, -10), (0.4, 0.1, 0), (0, 0, 0), (2, 3, 50), (0, 1, float("inf"))]
)
def test_the_error_is_a_share_of_the_measured_figure(measured: float, replayed: float, percent: float) -> None:
    assert Residual("a", "6.1", "read", 1, "flushes", "predicted", measured, replayed).percent == pytest.approx(percent)


def test_nine_of_ten_errors_are_at_most_the_ninetieth(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Residual("a", "6.1", "read", i, "instructions", "fitted", 100, 100 + i) for i in range(1, 11)]
    monkeypatch.setattr(residuals, "read", lambda: rows)
    assert residuals.of_model("a")[0][:4] == ("6.1", "instructions", "fitted", 10)
    assert residuals.of_model("a")[0][4:] == pytest.approx((5.5, 9, 10))


def test_the_command_prints_the_errors_of_a_model() -> None:
    done = CliRunner().invoke(cli.main, ["explain", "nova-cow", "--errors"])
    assert done.exit_code == 0 and "instructions      fitted" in done.output and "predicted" in done.output


@pytest.mark.parametrize(
    "fs, code, text", [("ctfs", 0, "ctfs: not checked"), ("nowa", 2, "no file system named 'nowa'")]
)
def test_a_model_that_was_never_measured_says_so(fs: str, code: int, text: str) -> None:
    done = CliRunner().invoke(cli.main, ["explain", fs, "--errors"])
    assert done.exit_code == code and text in done.output
