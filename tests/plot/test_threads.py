"""The chart of throughput by threads: its points, its files, and when it is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.plot.threads import CALLS, PERFECT, draw, points

ROWS = [{"fs": "tmpfs", "medium": "nvdimm", "threads": n, "calls_per_s": per_s} for n, per_s in ((2, 10.0), (8, 25.0))]


def test_the_points_are_throughput_and_perfect_scaling_of_the_first_row() -> None:
    found = {(point["threads"], point["how"]): point["calls_per_s"] for point in points(ROWS)}
    assert found == {(2, CALLS): 10.0, (2, PERFECT): 10.0, (8, CALLS): 25.0, (8, PERFECT): 40.0}


def test_a_chart_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    draw(ROWS, str(tmp_path / "t.svg"))
    text = (tmp_path / "t.svg").read_text(encoding="utf-8")
    assert "Throughput by threads" in text and "tmpfs, nvdimm" in text


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--chart", "t.svg"], "--chart needs --threads"), (["--threads", "1,2", "--chart", "t.doc"], "t.doc")],
)
def test_a_chart_needs_threads_and_a_known_kind_of_file(tmp_path: Path, more: list[str], message: str) -> None:
    done = CliRunner().invoke(cli.main, ["replay", str(tmp_path / "none.parquet"), *more])
    assert done.exit_code == 2 and message in done.stderr
