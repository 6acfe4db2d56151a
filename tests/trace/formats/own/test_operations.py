"""Rows as text and back: the traces of the repository, drawn traces, and tables that a person writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scmsim import cli
from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, DIRECTORY, FLAGS, OP, OPS, SYNCHRONOUS, WRITABLE_SHARED, Files, joined
from scmsim.trace import TraceWriter, open_trace
from scmsim.trace.rules import MAPS, NEEDS_NO_FILE, NEEDS_OFFSET
from tests.trace.formats_helper import convert, convert_text

TRACES = sorted((Path(__file__).parents[4] / "traces").glob("*.parquet"))
FORMS = {"ops-csv": "t.csv", "ops-jsonl": "t.jsonl"}


def read(path: Path) -> tuple[np.ndarray, list[tuple[str, int, bool]]]:
    """All rows of a stored trace, and its side table."""
    trace = open_trace(path)
    files = zip(trace.files.path, trace.files.first_size.tolist(), trace.files.is_dir.tolist(), strict=True)
    return joined([np.empty(0, OP), *trace.batches()]), list(files)


@pytest.mark.parametrize("name", FORMS.values())
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_trace_of_the_repository_comes_back_row_by_row(path: Path, name: str, tmp_path: Path) -> None:
    for source, out in ((path, tmp_path / name), (tmp_path / name, tmp_path / "back.parquet")):
        done = CliRunner().invoke(cli.main, ["trace", "convert", str(source), str(out)])
        assert done.exit_code == 0, done.output
    before, after = read(path), read(tmp_path / "back.parquet")
    assert before[1] == after[1] and np.array_equal(before[0], after[0])


PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@st.composite
def traces(draw: st.DrawFn) -> tuple[np.ndarray, Files]:
    """Rows that `scmsim trace check` accepts, with any values in each column."""
    count = draw(st.integers(1, 4))
    files = Files(
        draw(st.lists(PATHS, min_size=count, max_size=count)),
        np.array(draw(st.lists(st.integers(-1, 1 << 40), min_size=count, max_size=count)), "i8"),
        np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool),
    )
    rows = np.zeros(draw(st.integers(1, 6)), OP)
    now = 0
    for row in rows:
        now += draw(st.sampled_from((0, 1, 10**9)))
        op = draw(st.integers(0, len(OPS) - 1))
        row["op"], row["time_ns"] = op, now
        row["file"] = draw(st.integers(-1 if op in NEEDS_NO_FILE else 0, count - 1))
        row["file2"] = draw(st.integers(-1, count - 1))
        most = 1 << (43 if op in MAPS else 58)
        row["offset"] = draw(st.integers(0 if op in NEEDS_OFFSET else -1, most))
        row["length"], row["thread"] = draw(st.integers(0, most)), draw(st.integers(0, 1 << 20))
        row["flag"], row["buffer"] = draw(st.integers(0, (1 << len(FLAGS)) - 1)), draw(st.integers(0, (1 << 36) - 1))
    return rows, files


@given(trace=traces(), form=st.sampled_from(sorted(FORMS)))
def test_any_trace_comes_back_row_by_row(tmp_path_factory: Any, trace: tuple[np.ndarray, Files], form: str) -> None:
    folder = tmp_path_factory.mktemp("rows")
    with TraceWriter(folder / "t.parquet", {"notes": ["a note"]}) as writer:
        writer.append(trace[0])
        writer.close(trace[1])
    registry.load("format", form).export(open_trace(folder / "t.parquet"), folder / FORMS[form])
    case = convert(folder / FORMS[form], folder)
    before, after = read(folder / "t.parquet"), read(folder / "out.parquet")
    assert case.report.bad == 0 and before[1] == after[1] and np.array_equal(before[0], after[0])


def test_every_flag_has_its_name() -> None:
    from scmsim.core import records

    assert [getattr(records, name.upper()) for name in FLAGS] == [1 << bit for bit in range(len(FLAGS))]


def test_a_table_by_hand(tmp_path: Path) -> None:
    case = convert("ops.csv", tmp_path)
    assert case.report.bad == 0 and case.report.left_out == {
        "title": 1,
        "comment": 1,
        "file made known": 2,
        "blank line": 1,
    }
    sizes = dict(zip(case.trace.files.path, case.trace.files.first_size.tolist(), strict=True))
    assert sizes["/db/data"] == 1 << 20 and sizes["/db/log.old"] == 4096 and sizes["/db/with, comma"] == 8192
    assert sizes["/db/tmp/log"] == sizes["/db/tmp"] == sizes["/db/moved/new\nline"] == -1 and sizes["/db"] == 0
    paths, rows = case.trace.files.path, case.records
    assert (case.rows[0][0], paths[rows["file2"][0]], int(rows["flag"][0])) == ("mkdir", "/db", DIRECTORY)
    log = paths.index("/db/tmp/log")
    named = rows[rows["op"] == OPS.index("rename")]
    assert named["file"].tolist() == [log, paths.index("/db/tmp")]
    assert named["file2"].tolist() == [paths.index("/db/log.old"), -1]
    assert [row[1] for row in case.rows if row[0] in ("open", "truncate")] == ["/db/tmp/log"] * 2
    assert rows["flag"][3] == APPENDS | SYNCHRONOUS and rows["thread"][3] == 1 and rows["time_ns"][3] == 3000
    assert (rows["flag"][rows["op"] == OPS.index("mmap")] == WRITABLE_SHARED).all()
    gone, made = (rows[rows["op"] == OPS.index(name)][-1] for name in ("unlink", "create"))
    assert gone["file"] == log and paths[made["file"]] == "/db/copy"
    inside = rows[(rows["op"] == OPS.index("create"))][1]
    assert paths[inside["file2"]] == "/db/tmp"  # an object keeps the first name it had
    assert case.rows[-1] == ("sync", "", -1, 0)


def test_lines_of_json_by_hand_keep_the_header(tmp_path: Path) -> None:
    case = convert("ops.jsonl", tmp_path)
    assert case.report.bad == 0 and case.trace.header["inputs"][0]["tool"] == "by hand"
    assert "a line of JSON an operation" in case.trace.header["notes"] and case.trace.header["lost_events"] == 0
    assert case.records["buffer"].tolist()[2] == 4096
    assert [row[1] for row in case.rows if row[0] == "read"] == ["/db/tmp/é"]
    assert case.rows[-2:] == [("mm_to_file", "/object/1", -1, 512), ("sync", "", -1, 0)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fly,/a", "unknown operation 'fly'"),
        ("write,/a,,10", "write needs an offset"),
        ("write,/a,x,10", "offset 'x' is not a whole number"),
        ("write,/a,0,-1", "length '-1' is not a whole number from 0"),
        ("write,/a,0,5,6,setpu", "7 titles"),
        ("stat", "stat needs a path or a file"),
        ("rename,/a", "rename needs a path2"),
        ("create,/there", "'/there' is there already"),
        ("stat,/gone", "'/gone' was removed or renamed before"),
        ("stat,,,,,9", "file 9 was not declared"),
        ("stat,/b,,,,1", "file 1 is '/one', not '/b'"),
        ("stat,/a,,,,,setpu", "unknown flag 'setpu'"),
        ("file,/x,,,,1", "file 1 is known already"),
        ("file,,,,,7", "a file needs a path"),
        ('stat,"/a', "this is not a line of a table"),
        ("write,/a,999999999999999999,999999999999999999", "is beyond 2^60"),
        ("malloc,/object/1,,999999999999999999", "malloc of 999999999999999999 bytes ends beyond 2^44"),
        ("mmap,/a,17592186040320,8192", "mmap of 8192 bytes ends beyond 2^44"),
    ],
)
def test_a_line_that_is_wrong_says_why(tmp_path: Path, line: str, message: str) -> None:
    text = "op,path,offset,length,path2,file,flags\nfile,/one,,,,1\ncreate,/there\ncreate,/gone\nunlink,/gone\n"
    line = line + "," * 7 if message == "7 titles" else line
    case = convert_text(tmp_path, text + line + "\n", "ops-csv")
    assert case.report.bad == 1 and message in case.report.bad_lines[0][1] and case.report.bad_lines[0][0] == 6
    with pytest.raises(UsageError, match="line 6: "):
        convert_text(tmp_path, text + line + "\n", "ops-csv", strict=True)


def test_lines_of_json_that_are_wrong_say_why(tmp_path: Path) -> None:
    lines = ["[]", "{", '{"op": "stat", "paht": "/a"}', '{"op": "stat", "path": 7}', '{"op": "stat", "path": "/a", "thread": true}',
             '{"op": ["stat"]}', '{"op": "header", "header": 1}', "[" * 100_000]  # fmt: skip
    case = convert_text(tmp_path, '{"op": "stat", "path": "/a"}\n' + "\n".join(lines) + "\n")
    assert case.report.rows == 1 and case.report.bad == len(lines)


def test_names_under_a_directory(tmp_path: Path) -> None:
    text = "op,path,path2,offset,length\ncreate,/a/x\nwrite,/a/x,,0,5\ncreate,/b/y\nrename,/b/y,/a/y\nstat,/a/y\n"
    case = convert_text(tmp_path, text, under="/a")
    assert [row[:2] for row in case.rows] == [("create", "/a/x"), ("write", "/a/x")]
    assert case.report.left_out["outside of the chosen directory"] == 3


def test_a_replay_takes_what_a_person_wrote(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("op,path,offset,length\ncreate,/a\nwrite,/a,0,4096\nfsync,/a\n", encoding="utf-8")
    done = CliRunner().invoke(cli.main, ["trace", "convert", str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")])
    assert done.exit_code == 0 and "3 rows from 3 calls" in done.stdout
    done = CliRunner().invoke(cli.main, ["trace", "info", str(tmp_path / "t.parquet"), "--json"])
    assert json.loads(done.stdout)["ops"] == {"create": 1, "write": 1, "fsync": 1}
