"""`scmsim trace`: info, head, check, convert."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from scmsim import cli
from scmsim.core.records import OP, WRITE, Files
from scmsim.trace import TraceWriter, open_trace
from tests.trace.strace_helper import DATA

TRICKY = str(DATA / "tricky.strace")


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.main, ["trace", *map(str, args)])


def write(path: Path, rows: np.ndarray, **header: object) -> Path:
    with TraceWriter(path, {"tool": "test", **header}) as writer:
        writer.append(rows)
        writer.close(Files(["/a"], np.zeros(1, "i8"), np.zeros(1, bool)))
    return path


@pytest.fixture
def tricky(tmp_path: Path) -> Path:
    result = run("convert", TRICKY, tmp_path / "t.parquet")
    assert result.exit_code == 0, result.output
    return tmp_path / "t.parquet"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    rows = np.zeros(3, OP)
    rows["op"], rows["file2"], rows["offset"][1], rows["file"][2] = WRITE, -1, -7, 9
    return write(tmp_path / "broken.parquet", rows)


def test_convert_says_what_it_kept_and_left_out(tmp_path: Path) -> None:
    result = run("convert", TRICKY, tmp_path / "t.parquet")
    assert "49 rows from 47 calls (91 lines of strace), 7 files" in result.stdout
    assert "13  first half of a split call" in result.stdout
    assert "not a file operation: mmap 9, exit 3" in result.stdout
    assert "blind spot: writable shared mapping" in result.stdout


def test_convert_json_balances(tmp_path: Path) -> None:
    found = json.loads(run("convert", TRICKY, tmp_path / "t.parquet", "--json").stdout)
    assert found["format"] == "strace"
    assert found["lines"] == found["calls"] + sum(found["left_out"].values()) + found["bad"]
    assert open_trace(tmp_path / "t.parquet").rows == found["rows"]


def test_convert_shows_bad_lines_and_strict_refuses_them(tmp_path: Path) -> None:
    text = tmp_path / "in"
    text.write_text('1 1.0 write(3</f>, "", 5) = 5\nrubbish\n')
    result = run("convert", text, tmp_path / "t.parquet", "--format", "strace")
    assert result.exit_code == 4 and "line 2: this is not a line of strace" in result.stdout
    result = run("convert", text, tmp_path / "s.parquet", "--format", "strace", "--strict")
    assert result.exit_code == 2 and "line 2: this is not a line of strace" in result.stderr
    assert not (tmp_path / "s.parquet").exists()


def test_convert_refuses_what_it_cannot_do(tmp_path: Path, tricky: Path) -> None:
    (tmp_path / "foreign").write_text("hello\n")
    copy = tmp_path / "copy.strace"
    copy.write_bytes(Path(TRICKY).read_bytes())
    (tmp_path / "alias").symlink_to(copy)
    for args, message in (
        ((copy, copy), "is an input of this command"),
        ((copy, tmp_path / "alias"), "is an input of this command"),
        ((tmp_path / "foreign", "x"), "is in no known format"),
        ((tmp_path / "foreign", "x", "--format", "strce"), "did you mean 'strace'"),
        ((tmp_path / "missing", "x"), "no file"),
        ((tmp_path, "x"), "is a directory"),
        ((tricky, tmp_path / "x"), "is a Parquet file; if it is a trace, there is nothing to convert"),
        ((copy, tmp_path), "is a folder; give the name of a file"),
        ((copy, tmp_path / "x", "--under", "relative"), "is not an absolute path"),
    ):
        result = run("convert", *args)
        assert result.exit_code == 2 and message in result.stderr, result.output
        assert result.stderr.count("\n") == 1 and result.stdout == ""
    assert copy.read_bytes() == Path(TRICKY).read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_a_filebench_file_converts_and_refuses_what_only_synth_can(tmp_path: Path) -> None:
    text = "define file name=f,path=/d,size=4k,prealloc\n"
    text += "define process name=p { thread name=t { flowop write name=w,filename=f,iosize=1k } }\n"
    (tmp_path / "w.f").write_text(text)
    for more, message in (
        (("--under", "/d"), "--under '/d' cannot choose among generated operations"),
        (("--set", "flowops=3"), "'scmsim synth filebench' generates the same"),
    ):
        result = run("convert", tmp_path / "w.f", tmp_path / "w.parquet", *more)
        assert result.exit_code == 2 and message in result.stderr
        assert not (tmp_path / "w.parquet").exists()
    assert run("convert", tmp_path / "w.f", tmp_path / "w.parquet").exit_code == 0
    assert open_trace(tmp_path / "w.parquet").rows > 1


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "e").touch()
    assert "is empty; run the tracer again" in run("convert", tmp_path / "e", tmp_path / "o.parquet").stderr


def test_convert_under_a_directory(tmp_path: Path) -> None:
    found = json.loads(
        run("convert", DATA / "sqlite_wal.strace", tmp_path / "t.parquet", "--under", "/data", "--json").stdout
    )
    assert found["left_out"]["outside of the chosen directory"] == 67
    assert open_trace(tmp_path / "t.parquet").header["under"] == "/data"


def test_convert_a_table_with_columns_and_options(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("7,R,0,8,100\n7,W,8,8,200\n")
    columns = ("--columns", "file=1,op=2,offset=3,length=4,time=5", "--set", "time_unit=us", "--set", "unit=512")
    result = run("convert", tmp_path / "in", tmp_path / "t.parquet", *columns, "--set", "granularity=block")
    assert result.exit_code == 0, result.output
    assert "2 rows from 2 calls (2 lines of csv), 1 files" in result.stdout and "note: block trace" in result.stdout
    trace = open_trace(tmp_path / "t.parquet")
    assert trace.header["granularity"] == "block" and trace.files.first_size.tolist() == [8192]
    shown = run("info", tmp_path / "t.parquet").stdout
    assert "granularity" in shown and "note: block trace: each device is one big file" in shown


def test_convert_to_an_io_log_and_back(tmp_path: Path, tricky: Path) -> None:
    result = run("convert", tricky, tmp_path / "t.log", "--to", "fio-iolog")
    assert result.exit_code == 0, result.output
    assert "lines of fio-iolog from" in result.stdout and "not expressible in an I/O log: unlink" in result.stdout
    found = json.loads(run("convert", tricky, tmp_path / "t2.log", "--to", "fio-iolog", "--json").stdout)
    assert found["lines"] == open_trace(tricky).rows == found["calls"] + sum(found["left_out"].values())
    back = run("convert", tmp_path / "t.log", tmp_path / "back.parquet")
    assert back.exit_code == 0 and "lines of fio-iolog" in back.stdout


def test_options_that_do_not_fit_are_one_line(tmp_path: Path, tricky: Path) -> None:
    for args, message in (
        ((TRICKY, "x", "--set", "unit=512"), "strace has no options"),
        ((DATA.parent / "formats/blkparse.txt", "x", "--set", "actoin=D"), "did you mean 'action'"),
        ((DATA.parent / "formats/blkparse.txt", "x", "--set", "action=Z"), "blkparse.action: no choice named 'Z'"),
        ((DATA.parent / "formats/blkparse.txt", "x", "--set", "action"), "is not NAME=VALUE"),
        ((tricky, "x", "--to", "strace"), "no format that can be written named 'strace'"),
        ((tricky, "x", "--to", "fio-iolog", "--under", "/data"), "--under is for reading"),
        ((tricky, "x", "--to", "fio-iolog", "--set", "version=4"), "fio-iolog.version: no choice named '4'"),
        ((tricky, tmp_path / "none" / "x", "--to", "fio-iolog"), "no folder"),
        ((TRICKY, "x", "--to", "fio-iolog"), "is strace output; convert it first"),
        ((tricky, tmp_path / "y.parquet", "--format", "strace"), "is not strace output"),
    ):
        result = run("convert", *args)
        assert result.exit_code == 2 and message in result.stderr, (args, result.output)
        assert result.stderr.count("\n") == 1


def test_info(tricky: Path) -> None:
    result = run("info", tricky)
    assert result.exit_code == 0
    assert "blind spot: writable shared mapping" in result.stdout and "wall clock (-ttt)" in result.stdout
    found = json.loads(run("info", tricky, "--json").stdout)
    assert found["rows"] == 49 and found["calls"] == 47 and found["ops"]["write"] == 19
    assert found["header"]["counts"]["lines"] == 91


def test_info_is_made_for_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"command": ["x" * 500], "wall_ns": 11_325_187_434, "duration_ns": 7, "lost_events": 12_345}
    write(tmp_path / "t.parquet", np.zeros(1, OP), **facts)
    monkeypatch.setenv("COLUMNS", "60")
    lines = run("info", tmp_path / "t.parquet").stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("duration")] == [["duration", "0", "s"]]
    assert "wall             11.3252 s" in lines and "lost events      12,345" in lines
    assert "incomplete: 12,345 events lost by the recorder" in lines
    (command,) = (line for line in lines if line.startswith("command"))
    assert len(command) == 60 and command.endswith("xxx...")
    assert json.loads(run("info", tmp_path / "t.parquet", "--json").stdout)["header"]["command"] == ["x" * 500]


def test_a_trace_is_not_written_over_another_kind_of_file(tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text('1 1.0 write(3</f>, "", 5) = 5\n')
    for name, told in (("o.json", "end its name in .parquet"), ("Makefile", "exists and is not a trace; give")):
        (tmp_path / name).write_text("all:\n")
        result = run("convert", text, tmp_path / name)
        assert result.exit_code == 2 and told in result.stderr and (tmp_path / name).read_text() == "all:\n"
    (tmp_path / "plain").touch()
    assert run("convert", text, tmp_path / "plain").exit_code == 0
    assert run("convert", text, tmp_path / "plain").exit_code == 0  # a trace replaces a trace


def test_head(tricky: Path) -> None:
    assert len(run("head", tricky, "-n", 3).stdout.splitlines()) >= 4
    found = json.loads(run("head", tricky, "-n", 5, "--json").stdout)
    assert len(found) == 5 and found[3]["op"] == "write" and found[3]["path"] == "/data/rel.dat"
    assert found[3]["flags"] == ["offset_unknown", "appends"]
    assert json.loads(run("head", tricky, "-n", 1000, "--json").stdout)[-1]["offset"] == 4624
    assert json.loads(run("head", tricky, "-n", 0, "--json").stdout) == []


def test_check_lists_every_problem(tricky: Path, broken: Path) -> None:
    assert (run("check", tricky).exit_code, run("check", tricky).stdout) == (0, f"{tricky}: 49 rows, no problems\n")
    result = run("check", broken)
    assert result.exit_code == 2
    assert [line.split(": ", 1)[1] for line in result.stdout.splitlines()] == [
        "row 1: offset -7, which must be 0 or more",
        "row 2: file 9, but the side table has the rows 0 to 0",
    ]
    found = json.loads(run("check", broken, "--json").stdout)
    assert not found["ok"] and len(found["problems"]) == 2


def test_check_of_an_unreadable_file(tmp_path: Path, tricky: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(tricky.read_bytes()[:-9])
    assert run("check", cut).exit_code == 2
    result = run("check", cut, "--json")
    assert result.exit_code == 2 and "damaged or cut short" in json.loads(result.stdout)["problems"][0]


def test_commands_on_a_broken_trace_name_the_row(broken: Path) -> None:
    for name in ("info", "head"):
        result = run(name, broken)
        assert result.exit_code == 2 and "row 1: offset -7" in result.stderr and result.stdout == ""


def test_the_checked_in_trace_is_sound_and_shows_no_private_path() -> None:
    path = Path(__file__).parents[2] / "traces" / "sqlite-load.parquet"
    assert run("check", path).exit_code == 0
    trace = open_trace(path)
    assert all(name.startswith("/var/tmp") for name in trace.files.path)
    assert trace.header["command"] == ["python3", "make_sqlite.py", "/var/tmp/sqlite-load"]
    assert trace.header["bad_lines"]["count"] == 0 and trace.header["lost_events"] == 0
    assert path.stat().st_size < 300 * 1024
    assert pq.ParquetFile(path).metadata.num_rows == trace.rows > 1000


def test_the_group_says_whole_sentences_and_the_nearest_name() -> None:
    assert "merge    Merge traces into one, ordered by time; each keeps its own files and\n" in run("--help").output
    assert run("stat").stderr.startswith("scmsim: error: no command named 'stat'; did you mean 'stats'? choose from ")
