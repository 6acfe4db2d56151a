"""Colours and pages of charts: one mechanism has one colour, text has the theme's, files have the format and style asked for."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from scmsim import cli
from scmsim.core.errors import UsageError
from scmsim.pipeline.timeline import timeline
from scmsim.plot import notebook, theme
from scmsim.plot.charts import merged, sites, together
from scmsim.plot.over_time import per_call
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
@pytest.mark.parametrize(
    "command",
    [
        ("trace", "plot", TRACE, "-o"),
        ("mrc", "mapped.u64", "--plot"),
        ("timeline", TRACE, "--fs", "pmfs-4k", "--windows", "5", "--plot"),
    ],
)
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


def test_a_picture_over_time_has_what_the_run_counted() -> None:
    found = timeline(TRACE, "pmfs-4k", windows=7)
    lines = per_call(found, "instructions")
    assert int(found.operations.sum()) == found.run.calls and len(found.operations) == len(found.starts) - 1
    drawn = sum(float((line * found.operations).sum()) for line in lines.values())
    assert drawn == pytest.approx(sum(site.get("instructions", 0) for site in found.run.sites.values()))


def test_a_timeline_is_written_somewhere() -> None:
    done = CliRunner().invoke(cli.main, ["timeline", TRACE])
    assert done.exit_code == 2 and "give -o F.json, --plot F.svg, or both" in done.stderr


def test_notebooks_show_charts_in_the_theme_light_and_dark() -> None:
    alt = pytest.importorskip("altair")
    before = alt.renderers.active
    try:
        notebook.enable()
        shown = alt.Chart(alt.InlineData(values=[{"a": 1, "b": "x"}])).mark_point().encode(x="a:Q", color="b:N")
        picture = shown._repr_mimebundle_(None, None)
    finally:
        alt.renderers.enable(before)
    content = (picture[0] if isinstance(picture, tuple) else picture)["image/svg+xml"]
    assert "@media (prefers-color-scheme: dark)" in content and theme.COLOURS[0] in content
    # every colour of the theme on white has a rule that turns it
    for kind in ("fill", "stroke"):
        for colour in re.findall(rf'{kind}="(#[0-9a-f]{{6}})"', content):
            assert colour in theme.COLOURS or f'[{kind}="{colour}"]' in content


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "notebooks").glob("*.py")), ids=lambda file: file.stem
)
def test_charts_of_notebooks_have_no_other_theme(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert "scheme=" not in text and ("altair" in text) == ("notebook.enable()" in text)
