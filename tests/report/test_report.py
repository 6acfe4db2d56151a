"""The report page: what it holds, that names from files stay text, and that a browser draws it without a complaint."""

import base64
import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from click.testing import CliRunner

import scmsim
from scmsim import cli
from scmsim.plot import charts, lines
from scmsim.plot.library import bundle
from scmsim.report import page
from scmsim.result import Result, Run, provenance
from tests.fs import drive

HOSTILE = "</script><script>document.title='owned'</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def replayed(name="/mail", by="file"):
    """A small replay on two file systems, broken down by file."""
    files = drive.files(0, -1, -1, dirs=[0])
    files.path[1] = name
    rows = [("create", 1, 0, 0, 0)] + [("write", 1, 4096 * i, 4096) for i in range(20)] + [("fsync", 1)]
    return scmsim.replay(drive.source(files, drive.ops(*rows)), "nova-cow,ext4-dax", by=by)


@pytest.fixture(scope="module")
def result():
    return replayed(f"/{HOSTILE}")


def test_every_chart_has_words_units_and_data(result):
    found = charts.charts(result.runs)
    assert {chart.name for chart in found} >= {
        "traffic",
        "misses",
        "walks",
        "sites",
        "amplification",
        "stored",
        "space",
        "hot",
    }
    text = page.page(result)
    assert " of the loads and stores have addresses." not in text  # the kernel's own memory is in the TLB
    for chart in found:
        assert chart.caption.endswith(".") and f'id="chart-{chart.name}"' in text
        assert chart.spec["encoding"]["x"]["title"] and "labelExpr" not in chart.spec["encoding"]["y"]["axis"]
        link = re.search(rf'download="{chart.name}.csv" href="data:text/csv;base64,([^"]+)"', text)
        assert link is not None
        table = list(csv.DictReader(io.StringIO(base64.b64decode(link[1]).decode())))
        assert len(table) == len(chart.rows)
        assert [float(row["value"]) for row in table] == pytest.approx([row["value"] for row in chart.rows])


def test_the_bars_add_up_to_the_counters(result):
    run = result.runs[0]
    total = (run.counters["mem_inst_retired_all_loads"] + run.counters["mem_inst_retired_all_stores"]) / run.calls
    for chart in (charts.traffic(result.runs), charts.sites(result.runs)):
        assert sum(row["value"] for row in chart.rows if row["run"] == "nova-cow") == pytest.approx(total, rel=0.01)


def test_names_from_traces_stay_text(result):
    text = page.page(result, title=HOSTILE)
    assert "<script>document" not in text and HOSTILE not in text
    text = text.replace(bundle(), "")
    assert "default-src 'none'" in text and not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text)


def test_a_formula_in_a_name_is_quoted(result):
    run = Run("=cmd()", calls=1, counters={"mem_inst_retired_all_loads": 1, "mem_inst_retired_all_stores": 2})
    link = re.search(r'base64,([^"]+)"', page.page(Result({}, [run])))
    assert "'=cmd()" in base64.b64decode(link[1]).decode()


def test_size_and_sections(result):
    text = page.page(result)
    assert len(text.encode()) < 2 << 20
    for section in (
        "What was run",
        "Headline",
        "TLB",
        "Where the traffic comes from",
        "Space and waste",
        "All figures",
    ):
        assert f"<h2>{section}</h2>" in text


def test_a_measured_run_is_compared(tmp_path, result):
    simulated = Run(
        "nova-cow", paging="directmap-1g", calls=10, counters={"instructions": 1000}, cell={"operation": "write"}
    )
    measured = Run("nova-cow", calls=10, counters={"instructions": 1050}, cell={"operation": "write"})
    for name, run in (("sim", simulated), ("real", measured)):
        Result({}, [run]).write(tmp_path / f"{name}.json")
    out = tmp_path / "both.html"
    args = ["report", str(tmp_path / "sim.json"), str(tmp_path / "real.json"), "-o", str(out)]
    assert CliRunner().invoke(cli.main, args).exit_code == 0
    assert "Simulated and measured" in out.read_text() and "instructions" in out.read_text()


def test_both_sides_keep_what_their_manifests_say(tmp_path):
    simulated = Run("ext4", paging="p", calls=10, counters={"instructions": 1000}, cell={"operation": "write"})
    measured = Run("ext4", calls=10, counters={"instructions": 1050}, cell={"operation": "write"})
    Result({}, [simulated]).write(tmp_path / "sim.json")
    Result({"kernel": "Linux 6.1.0-56"}, [measured]).write(tmp_path / "real.json")
    out = tmp_path / "both.html"
    args = ["report", str(tmp_path / "sim.json"), str(tmp_path / "real.json"), "-o", str(out)]
    assert CliRunner().invoke(cli.main, args).exit_code == 0
    assert "the kernel of the measured side is not recorded" not in out.read_text()


def test_the_trace_of_a_curve_is_the_one_that_was_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in (("right", "a"), ("wrong", "b")):
        (tmp_path / f"{name}.parquet").write_text(content)
    made = {"inputs": {"right.parquet": provenance.digest("right.parquet")}}
    for name, about in (("r.json", made), ("none.json", {})):
        Result(about, [Run("ext4", paging="p", calls=1)]).write(tmp_path / name)
    for result, trace, message in (
        (
            "r.json",
            "wrong.parquet",
            "'r.json' was replayed from 'right.parquet', but 'wrong.parquet' has different contents",
        ),
        ("r.json", "no.parquet", "no trace 'no.parquet'"),
        ("none.json", "right.parquet", "'none.json' does not record which trace was replayed"),
    ):
        done = CliRunner().invoke(cli.main, ["report", result, "-o", "r.html", "--trace", trace])
        assert (done.exit_code, message in done.stderr) == (2, True) and not (tmp_path / "r.html").exists()
    done = CliRunner().invoke(cli.main, ["report", "r.json", "-o", "r.html", "--trace", "right.parquet"])
    assert "different contents" not in done.stderr  # the next obstacle: it is not a trace


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-o", "r.pdf"], "must end in .html"),
        (["-o", "no/such/r.html"], "no folder"),
        (["-o", "r.html", "--fs", "xfs"], "no file system in these results named 'xfs'"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, result, args, message):
    monkeypatch.chdir(tmp_path)
    result.write(tmp_path / "r.json")
    done = CliRunner().invoke(cli.main, ["report", "r.json", *args])
    assert done.exit_code == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_results_without_runs_and_with_too_many_are_refused():
    for runs, message in (([], "no runs"), ([Run("ext4")] * 10_001, "10001 runs are too many")):
        with pytest.raises(scmsim.core.errors.UsageError, match=message):
            page.page(Result({}, runs))


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_figures_for_a_paper(tmp_path, result, suffix, magic):
    path = result.write(tmp_path / "r.json")
    out = tmp_path / "figures"
    args = ["report", str(path), "-o", str(tmp_path / "r.html"), "--figures", str(out), "--format", suffix]
    assert CliRunner().invoke(cli.main, args).exit_code == 0
    drawn = sorted(out.iterdir())
    assert len(drawn) == len(charts.charts(result.runs)) and all(p.read_bytes().startswith(magic) for p in drawn)


def in_browser(out, width):
    line = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=10000",
        "--enable-logging=stderr",
    ]
    line += [f"--window-size={width},2000", f"--user-data-dir={out.parent / 'profile'}", "--dump-dom", f"file://{out}"]
    return subprocess.run(line, capture_output=True, text=True, timeout=120)


# Lists the texts whose box leaves that of their chart by more than a rounding.
CUT = """<script>
function cut(svg) {
  const b = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
  return texts.filter((text) => {
    const t = text.getBoundingClientRect();
    return t.left < b.left - 0.5 || t.right > b.right + 0.5 || t.top < b.top - 0.5 || t.bottom > b.bottom + 0.5;
  }).map((text) => text.textContent);
}
new MutationObserver(() => {
  document.documentElement.dataset.cut = JSON.stringify([...document.querySelectorAll("svg")].flatMap(cut));
}).observe(document.documentElement, { attributeFilter: ["data-drawn"] });
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("names", ["plain", "long"])
def test_no_text_leaves_its_chart_on_a_phone(tmp_path, result, names):
    if names == "long":  # names of bars that take all the room that they may
        where = [("i7-8700k", "linux"), ("sapphire-rapids", "linux"), ("sapphire-rapids", "directmap-2m")]
        runs = [replace(run, machine=machine, paging=paging) for run in result.runs for machine, paging in where]
        result = replace(result, runs=runs)
    out = tmp_path / "page.html"
    page.write(result, out)
    # a window is at least 500 px wide
    narrow = "<style>html { width: 390px; }</style>" + CUT
    out.write_text(out.read_text(encoding="utf-8").replace("</head>", f"{narrow}</head>", 1), encoding="utf-8")
    done = in_browser(out, 500)
    assert 'data-drawn="' in done.stdout and re.findall('data-cut="([^"]*)"', done.stdout) == ["[]"]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1400, 390])
def test_a_browser_draws_every_chart_without_a_word(tmp_path, result, width):
    out = tmp_path / "page.html"
    page.write(result, out)
    done = in_browser(out, width)
    assert "CONSOLE" not in done.stderr
    assert f'data-drawn="{len(charts.charts(result.runs))}"' in done.stdout
    assert done.stdout.count('class="chart-wrapper') + done.stdout.count("<svg") >= len(charts.charts(result.runs))
    assert "<title>scmsim: nova-cow, ext4-dax</title>" in done.stdout


@pytest.mark.parametrize(
    ("sizes", "mark"), [([(i, i) for i in range(8)], "point"), ([(i, j) for i in range(8) for j in range(6)], "line")]
)
def test_a_caption_says_line_only_where_a_line_is_drawn(sizes, mark):
    cells = [{"unit_bytes": 1024 << unit, "file_bytes": 1 << 20 + file} for unit, file in sizes]
    runs = [Run("a", cell=cell, calls=1, counters={"page_faults": 5}) for cell in cells]
    captions = [chart.caption for chart in lines.charts(runs)]
    assert captions and all(f"; a {mark} for each " in caption for caption in captions)
