"""The thesis' figures: what is drawn, what is left out and why, and where files go."""

import builtins
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.plot.files import check_folder as check
from scmsim.plot.panels import draw
from scmsim.result import Result, Run
from scmsim.result.metrics import TABLE7
from tests.report.matrix_results import matrix

FILES = (1 << 20, 8 << 20, 64 << 20, 1 << 30, 1 << 22)


@pytest.fixture
def extra() -> None:
    pytest.importorskip("altair", reason="the extra 'report' is not installed")
    pytest.importorskip("vl_convert", reason="the extra 'report' is not installed")


def small(**more: object) -> Result:
    return matrix(**{"units": (4096, 48 << 10, 4 << 20), "operations": ("write",), **more})


@pytest.mark.slow
def test_the_nine_figures_of_both_sides(tmp_path: Path, extra: None) -> None:
    sides = {"simulated": small(files=FILES, factor=0.8), "measured": small(files=FILES, repeats=3, noise=0.05)}
    for run in sides["simulated"].runs:
        run.machine = "i7-8700k"
    drawn = draw(sides, tmp_path / "figures")
    assert [path.name for path in drawn.paths] == [f"{name}-write.svg" for name in TABLE7] and not drawn.left_out
    texts = [path.read_text() for path in drawn.paths]
    for panel in ("File of 1 MiB", "File of 8 MiB", "File of 64 MiB", "File of 1 GiB", "4 of 5 file sizes are shown."):
        assert all(panel in text for text in texts)
    for words in ("simulated", "measured", "model of i7-8700k; one run", "mean of 3 repeats", "ext4-dax", "4K", "4M"):
        assert all(words in text for text in texts)
    assert "File of 4 MiB" not in texts[0] and "Cycles spent in page walks for data" in texts[0]
    assert "loads per call" in texts[8] and "fake back end" in texts[8]


def test_one_side_as_png_and_pdf(tmp_path: Path, extra: None) -> None:
    result = small(systems=("ext4",), files=(1 << 20,), units=(4096,))
    for suffix, magic in (("png", b"\x89PNG"), ("pdf", b"%PDF")):
        (path,) = draw({"measured": result}, tmp_path, suffix, quantities=["instructions"]).paths
        assert path.read_bytes().startswith(magic) and path.name == f"instructions-write.{suffix}"
    assert {path.name for path in tmp_path.iterdir()} == {"instructions-write.png", "instructions-write.pdf"}


def test_what_cannot_be_drawn_is_said(tmp_path: Path, extra: None) -> None:
    result = small(systems=("ext4",), files=(1 << 20,), units=(4096, 8192))
    for run in result.runs:
        run.counters |= {"flushes": 0, "fences": run.cell["unit_bytes"] - 4096}
        run.why_absent["pm_stored_bytes"] = "a PMU does not count it"
    drawn = draw({"measured": result}, tmp_path, quantities=["flushes", "fences", "pm_stored_bytes", "pm_loaded_bytes"])
    assert [path.name for path in drawn.paths] == ["fences-write.svg"]
    assert "1 value of 0 cannot be shown on a logarithmic axis" in drawn.paths[0].read_text()
    assert [reason.split(": ", 1)[1] for reason in drawn.left_out] == [
        "every value is 0, or the cells do not record their sizes",
        "a PMU does not count it",
        "no result has it",
    ]


def test_names_from_a_result_stay_in_the_folder_and_are_escaped(tmp_path: Path, extra: None) -> None:
    cell = {"operation": "../../x", "file_bytes": 4096, "unit_bytes": 4096}
    result = Result({}, [Run("<script>", calls=1, counters={"fences": 3}, cell=cell)])
    (path,) = draw({"measured": result}, tmp_path / "f", quantities=["fences"]).paths
    assert path.parent == tmp_path / "f" and "<script>" not in path.read_text() and "&lt;script&gt;" in path.read_text()


def test_places_and_the_missing_extra(tmp_path: Path, extra: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="'.*file' is not a folder"):
        check(tmp_path / "file")
    with pytest.raises(UsageError, match="no folder '.*a' for 'b'; create it first"):
        check(tmp_path / "a" / "b")
    imported = builtins.__import__

    def missing(name: str, *more: object) -> object:
        if name == "altair":
            raise ImportError(name)
        return imported(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(EnvironmentProblem, match=r"in the checkout with: pip install -e '.\[report\]'"):
        check(tmp_path)


def test_files_of_all_sizes_in_one_panel(tmp_path: Path, extra: None) -> None:
    sides = {"simulated": small(files=(1 << 20,)), "measured": small(files=(1 << 30,))}
    (path,) = draw(sides, tmp_path, quantities=["l1_misses"], ignore=["file_bytes"]).paths
    assert "All file sizes" in path.read_text() and "File of" not in path.read_text()


def test_commands(tmp_path: Path, extra: None) -> None:
    path = small(systems=("ext4",), files=(1 << 20,), units=(4096,)).write(tmp_path / "r.json")
    run = CliRunner().invoke
    done = run(cli.main, ["perf", "figures", str(path), "-o", str(tmp_path / "f"), "--events", "l1_misses", "--json"])
    assert json.loads(done.stdout) == {"figures": [str(tmp_path / "f" / "l1_misses-write.svg")], "left_out": []}
    figures = ["--figures", str(tmp_path / "g"), "--events", "inst_retired.any"]
    done = run(cli.main, ["compare", str(path), str(path), *figures], standalone_mode=False)
    assert done.return_value == 0 and (tmp_path / "g" / "instructions-write.svg").exists()
    empty = Result().write(tmp_path / "e.json")
    done = run(cli.main, ["perf", "figures", str(empty), "-o", str(tmp_path / "h")], standalone_mode=False)
    assert "nothing to draw" in str(done.exception)


def test_without_a_figure_there_is_no_folder_and_one_warning(tmp_path: Path, extra: None) -> None:
    result = small(systems=("ext4",), files=(1 << 20,), units=(4096,))
    for run in result.runs:
        run.counters, run.metrics = {"page_faults": 3}, {}
    path = result.write(tmp_path / "r.json")
    done = CliRunner().invoke(cli.main, ["compare", str(path), str(path), "--figures", str(tmp_path / "figures")])
    warnings = [line for line in done.stderr.splitlines() if "no figure of" in line]
    assert len(warnings) == 1 and "and 8 more figures" in warnings[0] and not (tmp_path / "figures").exists()
    assert "1 cells on both sides, but none of the default counters in both" in done.stdout
