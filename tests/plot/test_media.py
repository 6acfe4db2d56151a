"""The chart of `scmsim list medium --plot`: which points it has."""

import pytest
from click.testing import CliRunner

from scmsim import medium
from scmsim.cli import main
from scmsim.plot.media import ASSUMED, MEASURED, rows


def run(*args):
    return CliRunner().invoke(main, ["list", *map(str, args)])


def test_a_curve_is_drawn_as_measured_and_a_medium_without_one_is_flat():
    found = rows({name: medium.read(name) for name in ("cxl-vistara", "cxl")})
    curve = [(row["gb_s"], row["ns"]) for row in found if row["medium"] == "cxl-vistara"]
    assert curve == [(0, 250), (3.84, 269), (11.52, 292), (23.04, 372)]  # table VI of the source
    flat = [(row["gb_s"], row["ns"]) for row in found if row["medium"] == "cxl"]
    cxl = medium.read("cxl")
    assert flat == [(0, cxl["load_ns"]), (cxl["read_gb_s"], cxl["load_ns"])]
    assert [row["how"] for row in found] == [MEASURED] * 4 + [ASSUMED] * 2


@pytest.mark.parametrize(("names", "there", "absent"), [((), "cxl-remote", "nand"), (("cxl,nand",), "nand", "optane")])
def test_the_chart_is_written(tmp_path, names, there, absent):
    pytest.importorskip("vl_convert")
    done = run("medium", *names, "--plot", tmp_path / "m.svg")
    text = (tmp_path / "m.svg").read_text()
    assert done.exit_code == 0 and f">{there}<" in text and f">{absent}<" not in text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("fs", "--plot", "m.svg"), "--plot draws media, not fs"),
        (("--plot", "m.svg"), "--plot draws media, not every kind"),
        (("medium", "cxll", "--plot", "m.svg"), "did you mean 'cxl'?"),
        (("medium", "--plot", "m.txt"), "'m.txt' must end in one of .svg"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    done = run(*args)
    assert done.exit_code == 2 and said in done.output and not list(tmp_path.iterdir())
