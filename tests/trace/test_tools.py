"""`scmsim trace stats, filter, merge, cut, scale, plot`: what they write, say and refuse."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from scmsim import cli, replay
from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import CREATE, FSYNC, OP, READ, SETUP, SYNC, WRITE, Files, joined
from scmsim.plot.trace import plot_trace
from scmsim.trace import open_trace
from scmsim.trace._rewrite import write
from scmsim.trace.cut import cut_trace
from scmsim.trace.filter import filter_trace
from scmsim.trace.merge import merge_traces
from scmsim.trace.scale import scale_trace
from scmsim.trace.store import TraceWriter
from scmsim.trace.summary import all_problems


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["trace", *map(str, args)])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two files in a directory: a create, three writes, a read, a sync, an fsync; times 0, 10, ..., 60."""
    rows = np.zeros(7, OP)
    rows["op"] = [CREATE, WRITE, WRITE, READ, SYNC, WRITE, FSYNC]
    rows["file"] = [1, 1, 1, 2, -1, 1, 2]
    rows["file2"] = [0, -1, -1, -1, -1, -1, -1]
    rows["offset"] = [-1, 0, 4096, 100, -1, 0, -1]
    rows["length"] = [0, 4096, 4096, 50, 0, 1000, 0]
    rows["thread"] = [0, 0, 0, 1, 0, 0, 1]
    rows["flag"][0] = SETUP
    rows["time_ns"] = np.arange(7) * 10
    header = {"tool": "test", "notes": ["a note"], "blind_spots": ["a spot"]}
    files = Files(["/d", "/d/new", "/e/old"], np.array([0, -1, 500]), np.array([True, False, False]))
    write(tmp_path / "small.parquet", header, [rows], files)
    return tmp_path / "small.parquet"


def read(path: Path) -> np.ndarray:
    trace = open_trace(path)
    assert all_problems(trace) == []
    return joined(list(trace.batches()))


def test_stats_prints_and_gives_json(small: Path) -> None:
    text = run("stats", small).stdout
    assert "overwritten bytes        10.9 %" in text and "/d/new" in text and "\nwrite calls by size\n  from " in text
    assert "\nfiles with the most bytes read and written\n           9,192 bytes  /d/new\n" in text
    found = json.loads(run("stats", small, "--json").stdout)
    assert (found["rows"], found["setup_rows"], found["threads"], found["duration_ns"]) == (6, 1, 2, 50)
    assert found["overwritten"] == pytest.approx(1000 / 9192) and found["appends"] == pytest.approx(2 / 3)
    assert found["write"]["sequential"] == 0.5 and found["read"]["sequential"] is None
    assert found["files"] == {"known": 3, "touched": 2, "with_data": 2, "created": 0, "removed": 0}
    assert json.loads(run("stats", small, "--setup", "--json").stdout)["files"]["created"] == 1


def test_filter_drops_rows_and_the_names_nobody_needs(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert filter_trace(small, out, under="/e") == 2
    assert open_trace(out).files.path == ["/e/old"] and read(out)["file"].tolist() == [0, 0]
    assert filter_trace(small, out, ops=["write"], match="*new") == 3
    assert filter_trace(small, out, threads=[0], setup=False) == 4
    assert open_trace(out).files.path == ["/d/new"] and read(out)["op"].tolist() == [WRITE, WRITE, SYNC, WRITE]
    assert filter_trace(small, out, ops=["create"]) == 1 and open_trace(out).files.path == ["/d", "/d/new"]
    header = open_trace(out).header
    assert header["tool"] == "scmsim trace filter" and header["step"]["ops"] == ["create"]
    assert (
        header["inputs"][0]["tool"] == "test" and header["notes"] == ["a note"] and header["blind_spots"] == ["a spot"]
    )


def test_cut_says_what_files_were(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert cut_trace(small, out, start=25, stop=60) == 3
    trace = open_trace(out)
    assert trace.files.path == ["/d/new", "/e/old"] and trace.files.first_size.tolist() == [8192, 500]
    assert read(out)["time_ns"].tolist() == [5, 15, 25]
    assert cut_trace(small, out, start=25, prepare=True) == 7
    assert open_trace(out).files.first_size.tolist() == [0, -1, 500]
    assert (read(out)["flag"] & SETUP != 0).tolist() == [True] * 3 + [False] * 4
    assert "3 rows" in run("cut", small, "-o", out, "--from", "25ns", "--to", "60ns").stdout


def test_a_negative_time_of_a_cut_is_named(small: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="^the start of the span is -1 ns, a negative time; give 0 or more$"):
        cut_trace(small, tmp_path / "out.parquet", start=-1)
    with pytest.raises(UsageError, match="^the end of the span is -5 ns, a negative time; give 0 or more$"):
        cut_trace(small, tmp_path / "out.parquet", stop=-5)


def test_merge_keeps_files_and_threads_apart(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert merge_traces([small, small], out) == 14
    rows = read(out)
    assert rows["time_ns"].tolist() == sorted([*range(0, 70, 10)] * 2)
    assert len(open_trace(out).files) == 6 and set(rows["thread"]) == {0, 1, 2, 3}
    assert rows["file"].max() == 5 and rows["file2"].tolist()[:2] == [0, 3]
    assert json.loads(run("merge", small, small, small, "-o", out, "--json").stdout)["rows"] == 21


def test_merge_runs_a_preparation_first_and_uncounted(small: Path, tmp_path: Path) -> None:
    out, more = tmp_path / "out.parquet", tmp_path / "more.parquet"
    assert merge_traces([small], out, prepare=small) == 14
    rows = read(out)
    assert rows["time_ns"].tolist() == [*range(0, 70, 10), *range(60, 130, 10)]
    assert (rows["flag"][:7] & SETUP != 0).all() and (rows["flag"][7:] == read(small)["flag"]).all()
    assert rows["file"].max() == 5 and (rows["op"][:7] == rows["op"][7:]).all()
    assert "21 rows" in run("merge", small, small, "--prepare", small, "-o", more).stdout
    assert run("merge", small, "-o", more).exit_code == 2
    aged, fresh = (replay(each, "ramfs").runs[0] for each in (out, small))
    assert aged.operations == fresh.operations and aged.space["file_bytes"] > fresh.space["file_bytes"]


def test_merge_refuses_times_that_go_back(small: Path, tmp_path: Path) -> None:
    rows = read(small)[::-1]
    write(tmp_path / "back.parquet", {}, [rows], open_trace(small).files)
    with pytest.raises(UsageError, match="row 1: time 50 ns is before that of the row above; see all"):
        merge_traces([small, tmp_path / "back.parquet"], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_scale_in_turn_and_together(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert scale_trace(small, out, times=3) == 21
    rows, files = read(out), open_trace(out).files
    assert files.path[:5] == ["/d", "/d/new", "/e/old", "/d.1", "/d/new.1"] and len(files) == 9
    assert rows["time_ns"][[0, 6, 7, 20]].tolist() == [0, 60, 61, 182] and set(rows["thread"]) == {0, 1}
    assert rows["file"][7] == 4 and rows["file2"][7] == 3 and (files.first_size[3:6] == files.first_size[:3]).all()
    assert scale_trace(small, out, times=3, together=True) == 21
    rows = read(out)
    assert rows["time_ns"].tolist() == sorted([*range(0, 70, 10)] * 3) and set(rows["thread"]) == set(range(6))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("filter", "IN", "-o", "OUT", "--op", "wirte"), "did you mean 'write'"),
        (("filter", "IN", "-o", "OUT", "--under", "/nowhere"), "no row of"),
        (("filter", "IN", "-o", "IN"), "is an input of this command"),
        (("cut", "IN", "-o", "OUT", "--from", "2s"), "no row of"),
        (("cut", "IN", "-o", "OUT", "--from", "2s", "--to", "1s"), "is empty"),
        (("cut", "IN", "-o", "OUT", "--to", "0s"), "the span from 0 ns to 0 ns is empty"),
        (("cut", "IN", "-o", "OUT", "--from", "soon"), "'soon' is not a time"),
        (("merge", "IN", "-o", "OUT"), "at least two traces"),
        (("scale", "IN", "-o", "OUT", "--times", "0"), "0 copies is not a valid number"),
        (("scale", "IN", "-o", "OUT", "--times", "999999999"), "give fewer copies"),
        (("plot", "IN", "-o", "OUT"), "must end in one of .svg, .png, .pdf, .html"),
        (("stats", "nothing.parquet"), "no trace file"),
    ],
)
def test_what_cannot_be_done_is_one_line(small: Path, tmp_path: Path, args: tuple[str, ...], text: str) -> None:
    out = tmp_path / "out.parquet"
    result = run(*({"IN": small, "OUT": out}.get(arg, arg) for arg in args))
    assert result.exit_code == 2 and text in result.stderr and result.stderr.count("\n") == 1
    assert not out.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["small.parquet"]


def test_help_is_light() -> None:
    """The tools' modules are imported when they run."""
    code = (
        "import sys; from scmsim import cli; cli.main(['trace', '--help'], standalone_mode=False);"
        "print([m for m in sys.modules if m in ('numpy', 'pyarrow', 'pandas', 'altair') or m.startswith('scmsim.trace')])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.rstrip().endswith("[]") and "stats" in done.stdout, done.stderr


HOSTILE = ["</script><script>alert(1)</script>&amp;", "/a\nb\x1b[31m\"'é日本", "x" * 300]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    rows = np.zeros(300, OP)
    rows["op"], rows["file2"] = np.where(np.arange(300) % 2, READ, WRITE), -1
    rows["file"], rows["time_ns"] = np.arange(300) % 3, np.arange(300) * 1_000_000
    rows["offset"], rows["length"] = np.arange(300) // 3 * 8192, 8192
    write(tmp_path / "hostile.parquet", {}, [rows], Files(HOSTILE, np.zeros(3, "i8"), np.zeros(3, bool)))
    return tmp_path / "hostile.parquet"


def test_plot_draws_every_transfer_and_escapes_names(hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    import xml.etree.ElementTree as tree

    result = run("plot", hostile, "-o", tmp_path / "p.svg")
    assert result.exit_code == 0 and "300 of 300 transfers of 3 files" in result.stdout
    svg = tree.parse(tmp_path / "p.svg").getroot()
    lines = [
        node for node in svg.iter("{http://www.w3.org/2000/svg}line") if node.get("aria-roledescription") == "rule mark"
    ]
    assert len(lines) == 300
    texts = "".join(svg.itertext())
    assert "time (ms)" in texts and "offset (KiB)" in texts and r"\x3cscript\x3ealert(1)" in texts
    assert r"/a\x0ab\x1b[31m" in texts and "…" + "x" * 59 in texts and "x" * 60 not in texts
    assert not list(svg.iter("{http://www.w3.org/2000/svg}script"))


def test_plot_of_more_transfers_than_points(hostile: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    drawn = plot_trace(hostile, tmp_path / "p.html", points=10, files=2)
    assert drawn["files"] == 2 and drawn["of"] == 200 and 20 <= drawn["transfers"] <= 60
    page = (tmp_path / "p.html").read_text()
    assert "alert(1)" in page and "<script>alert(1)" not in page and "about 1 in 5 writes" in page
    assert plot_trace(hostile, tmp_path / "p.png")["transfers"] == 300
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hostile.parquet", "p.html", "p.png"]


def test_plot_without_its_extra(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install -e '.\[report\]'"):
        plot_trace(small, tmp_path / "p.svg")
    assert run("plot", small, "-o", tmp_path / "p.svg").exit_code == 3


def test_plot_of_nothing(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    rows = np.zeros(1, OP)
    rows["op"], rows["file2"] = FSYNC, -1
    write(tmp_path / "t.parquet", {}, [rows], Files(["/a"], np.zeros(1, "i8"), np.zeros(1, bool)))
    with pytest.raises(UsageError, match="nothing to draw"):
        plot_trace(tmp_path / "t.parquet", tmp_path / "p.svg")


def test_a_heat_map_counts_each_byte_once(tmp_path: Path) -> None:
    from scmsim.plot.trace import _ROWS, heat

    rows = np.zeros(3, OP)
    rows["op"], rows["file2"] = [WRITE, READ, WRITE], -1
    rows["time_ns"], rows["offset"], rows["length"] = [0, 1199, 1199], [0, 1000, 7], [4000, 3001, 1]
    with TraceWriter(tmp_path / "t.parquet", {}) as writer:
        writer.append(rows)
        writer.close(Files(["/a"], np.zeros(1, "i8"), np.zeros(1, bool)))
    sums = heat(open_trace(tmp_path / "t.parquet"), 0, 1199, 4001)
    assert sums.sum(axis=1)[[0, -1]].tolist() == [4000, 3002] and sums.sum() == 7002
    first, second = sums[0], sums[-1]
    assert first.sum() == 4000 and abs(first[:-1] - 4001 / _ROWS).max() < 1  # spread evenly over the parts
    assert second[: _ROWS // 5].sum() == 1 and second[-1] > 0
