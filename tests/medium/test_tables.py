"""Media as tables: the package's own are right, and a wrong one of the user's own is told with its lines."""

import pytest

from scmsim import medium
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.toml import ConfigError


@pytest.mark.parametrize("name", registry.names("medium"))
def test_every_medium_is_whole(name):
    table = medium.read(name)
    assert set(table) - {
        "cached",
        "crowd",
        "curves",
        "stream_ns",
        "unit",
        "units",
        "write_miss_ns",
        "write_miss_line_ns",
    } == {*("summary", "source", "granule", "buffer", "load_ns", "store_ns", "fence_ns", "read_gb_s", "write_gb_s")}
    assert isinstance(table["buffer"], int) and table["read_gb_s"] > 0


def test_a_wrong_medium_is_told_with_its_lines(tmp_path, monkeypatch):
    (tmp_path / "medium").mkdir()
    (tmp_path / "medium" / "mine.toml").write_text('granule = 0\nload_ns = "5"\nsource = "x"\nlatency = 3\n')
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        medium.read("mine")
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [
        (1, "buffer"),
        (1, "granule"),
        (2, "load_ns"),
        (4, "latency"),
    ]
    with pytest.raises(UsageError, match="no medium named 'optain'; did you mean 'optane'"):
        medium.read("optain")


@pytest.mark.parametrize("name", [name for name in registry.names("medium") if medium.read(name).get("cached", True)])
def test_every_medium_with_a_cache_names_what_its_bandwidth_is_of(name):
    table = medium.read(name)
    assert table["units"] >= 1 and table["unit"] in ("DDR4 channel", "module", "x8 link, PCIe 5.0")


@pytest.mark.parametrize("name", [name for name in registry.names("medium") if "curves" in medium.read(name)])
def test_a_curve_agrees_with_its_medium(name):
    """The curve's last point is within the medium's bandwidth, its first is the idle latency within a tenth."""
    table = medium.read(name)
    curve = table["curves"]
    assert curve.largest() <= max(table["read_gb_s"], table["write_gb_s"])
    assert curve.latency(0) == pytest.approx(table.get("stream_ns", table["load_ns"]), rel=0.1)


def test_a_curve_of_ones_own_stands_beside_the_medium(tmp_path, monkeypatch):
    (tmp_path / "medium").mkdir()
    (tmp_path / "medium" / "mine.toml").write_text(
        'granule = 64\nbuffer = "0B"\nload_ns = 5\nsource = "x"\ncurves = "m.csv"\n'
    )
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    with pytest.raises(UsageError, match=r"cannot read the curves '.*m.csv': No such file"):
        medium.read("mine")
    (tmp_path / "medium" / "m.csv").write_text("reads_percent,gb_s,ns\n100,1,7\n")
    assert medium.read("mine")["curves"].latency(0) == 7


@pytest.mark.parametrize("rows", ["[]", "[[1, 1]]", "[[2, 1, 1]]", "[[1, 1, 1], [1, 1, 1]]", "[[1, 1, 1], [2, 0, 1]]"])
def test_a_crowd_that_is_no_table_of_speeds_is_refused(tmp_path, monkeypatch, rows):
    (tmp_path / "medium").mkdir()
    (tmp_path / "medium" / "mine.toml").write_text(f'granule = 64\nbuffer = "0B"\nsource = "x"\ncrowd = {rows}\n')
    monkeypatch.setenv(registry.OWN_FOLDER, str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"must be rows of \[threads, speed of reads, speed of writes\], threads ascending"
    ):
        medium.read("mine")
