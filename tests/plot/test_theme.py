"""Colours and pages of charts: one mechanism has one colour, text has the theme's, files have the format and style asked for."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.plot import theme
from scmsim.plot.charts import merged, sites, together
from scmsim.result import Run

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
TRACE = str(Path(__file__).parents[2] / "traces/sqlite-load.parquet")
COUNTS = {"mem_inst_retired_all_loads": 5, "mem_inst_retired_all_stores": 1}


def test_every_mechanism_has_a_colour_of_its_own() -> None:
    known = list(theme.names())
    assert len({theme.site_colour(name) for name in known}) == len(known)
    for name in ("copy", "block zeroing", "writeback", "data", "metadata"):
        assert theme.is_site(name)


def test_a_mechanism_has_the_same_colour_whatever_else_is_in_the_chart() -> None:
    seen: dict[str, set[str]] = {}
    for names in (["journal", "log scan"], ["allocation", "journal", "inode"], ["log scan", "inode"]):
        chart = sites([Run("a", calls=1, sites=dict.fromkeys(names, COUNTS))])
        assert chart is not None
        scale = chart.spec["layer"][0]["encoding"]["color"]["scale"]
        for name, colour in zip(scale["domain"], scale["range"], strict=True):
            seen.setdefault(name, set()).add(colour)
    assert len(seen) == 4 and all(len(colours) == 1 for colours in seen.values())


@pytest.mark.parametrize("dark", [False, True])
def test_text_has_the_colour_of_the_theme(dark: bool) -> None:
    config, ink = theme.config(dark), (theme.DARK if dark else theme.LIGHT)["ink"]
    assert {
        config["text"]["color"],
        config["axis"]["labelColor"],
        config["legend"]["labelColor"],
        config["title"]["color"],
    } == {ink}


def test_a_palette_replaces_colours_and_no_data() -> None:
    spec = {"color": {"range": ["#0072b2", theme.shade("#0072b2", 0.42)]}, "data": {"values": [{"name": "#0072b2"}]}}
    own = theme.recoloured(spec, ("#112233",))
    assert own["color"]["range"] == ["#112233", theme.shade("#112233", 0.42)] and own["data"] == spec["data"]
    assert theme.palette("grey") and theme.palette("#AABBCC, #000000") == ("#aabbcc", "#000000")
    with pytest.raises(UsageError, match="'red' is not a colour; give one of okabe-ito"):
        theme.palette("red")


def test_lines_that_cover_each_other_are_one() -> None:
    lines = {"a x": {1: 10.0, 2: 20.0}, "a y": {1: 10.0, 2: 20.01}, "b": {1: 5.0, 2: 9.0}}
    assert merged(lines) == {"a x": "a x, y", "b": "b"} and together(["n 1 z", "n 2 z"]) == "n 1 z, 2 z"


@pytest.mark.parametrize(
    ("suffix", "magic"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("html", b"<!doctype")]
)
@pytest.mark.parametrize("command", [("trace", "plot", TRACE, "-o"), ("mrc", "mapped.u64", "--plot")])
def test_pictures_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], suffix: str, magic: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mapped.u64").write_bytes(b"".join((4096 * (i * i % 50)).to_bytes(8, "little") for i in range(200)))
    style = ["--width", "400", "--title", "Mine <b>", "--palette", "#123456,#654321"]
    done = CliRunner().invoke(cli.main, [*command, f"f.{suffix}", *style])
    assert done.exit_code == 0, done.output
    content = Path(f"f.{suffix}").read_bytes()
    assert content.startswith(magic)
    if suffix == "svg":
        width = re.search(r' width="([0-9.]+)"', content.decode())
        assert (
            width is not None
            and abs(float(width[1]) - 400) <= 4
            and b"#123456" in content
            and b"Mine &lt;b&gt;" in content
        )
    if suffix == "html":
        text = content.decode()
        assert (
            'name="viewport"' in text
            and "<title>Mine &lt;b&gt;</title>" in text
            and "prefers-color-scheme: dark" in text
        )
