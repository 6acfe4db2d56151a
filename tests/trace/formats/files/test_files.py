"""Requests on files: rows worked out by hand from the text, and tables with named columns."""

import sys
from pathlib import Path

import pytest

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.records import APPENDS, DATA_ONLY
from scmsim.trace.formats import sniff_name
from tests.trace.formats_helper import convert, convert_text

TABLE = "time=ts,op=type,offset=off,length=len,file=name,thread=cpu"


def test_fiu_files(tmp_path: Path) -> None:
    text = "1 100 OPEN 7 500\n2 150 READ 7 500 0 500 MISS\n3 160 WRITE 7 500 500 12 APPEND\n"
    text += "4 170 FDATASYNC 7 512\n5 180 CLOSE 7 512\n"
    case = convert_text(tmp_path, text)
    assert [row[0] for row in case.rows] == ["open", "read", "write", "fsync", "close"]
    assert case.rows[2] == ("write", "/inode/7", 500, 12)
    assert case.records["flag"].tolist() == [0, 0, APPENDS, DATA_ONLY, 0]
    assert case.trace.files.first_size.tolist() == [500]
    assert convert_text(tmp_path, "3 160 WRITE 7 512 500 12 APPEND\n").trace.files.first_size.tolist() == [500]


def test_darshan_segments_are_put_in_order(tmp_path: Path) -> None:
    case = convert("darshan_dxt_sample.txt", tmp_path)
    assert [row[2:] for row in case.rows] == [(0, 40), (0, 4000)]
    assert case.report.left_out["row of X_MPIIO (X_POSIX has the bytes)"] == 1
    head = "# darshan log version: 3.21\n# DXT, file_id: 1, file_name: /b\n"
    rows = " X_POSIX 1 write 0 0 9 0.5 0.6 N/A\n X_POSIX 0 read 0 4 5 0.2 0.3\n X_POSIX 0 dance 0 4 5 0.2 0.3\n"
    case = convert_text(tmp_path, head + rows)
    assert case.rows == [("read", "/b", 4, 5), ("write", "/b", 0, 9)]
    assert case.records["thread"].tolist() == [1, 0] and case.records["time_ns"].tolist() == [0, 300_000_000]
    assert case.report.bad_lines == [(5, "'dance' is not read or write")]
    assert case.trace.files.first_size.tolist() == [9]


def test_darshan_log_without_the_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "x.darshan"
    log.write_bytes(b"3.41\0\0\0\0" + (6567223).to_bytes(8, "little") + bytes(64))
    monkeypatch.setitem(sys.modules, "darshan", None)
    assert sniff_name(log.read_bytes(), log) == "darshan"
    with pytest.raises(EnvironmentProblem, match=r"pip install -e '.\[darshan\]'"):
        convert(log, tmp_path)


def test_darshan_log_through_the_library(tmp_path: Path) -> None:
    darshan = pytest.importorskip("darshan", reason="the optional package darshan is not installed")
    log = Path(darshan.__file__).parent / "examples" / "example_logs" / "dxt.darshan"
    if not log.exists():
        pytest.skip("this version of the package darshan has no example log")
    case = convert(log, tmp_path)
    assert (case.report.rows, case.report.files) == (7613, 169)


def test_a_table_by_names_and_by_numbers(tmp_path: Path) -> None:
    text = "ts,type,off,len,name,cpu\n1700000000.000000001,R,1,8,/a,0\n1700000000.5,W,8,8,/b,1\n1700000001,X,8,8,/b,1\n"
    case = convert_text(tmp_path, text, "csv", columns=TABLE, unit=512)
    assert case.rows == [("read", "/a", 512, 4096), ("write", "/b", 4096, 4096)]
    assert case.records["time_ns"].tolist() == [0, 499_999_999] and case.records["thread"].tolist() == [0, 1]
    assert case.report.bad_lines[0][0] == 4 and case.report.left_out == {"title": 1}
    case = convert_text(
        tmp_path,
        "0;100;7\n1;100;7\n",
        "csv",
        columns="op=1,offset=2,length=3",
        delimiter="semicolon",
        read="0",
        write="1",
    )
    assert case.rows == [("read", "/table", 100, 7), ("write", "/table", 100, 7)]
    assert "line numbers" in case.trace.header["time"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("", "does not name op, offset, length"),
        ("op=type,offset=off", "does not name length"),
        ("op=type,offset=off,length=lne", "did you mean 'len'"),
        ("op=type,offset=off,length=off", "gives one column two roles"),
        ("op=type,offst=off,length=len", "did you mean 'offset'"),
        ("op=,offset=off,length=len", "names no column"),
        ("op=1,offset=2,length=99999", "no column '99999'"),
    ],
)
def test_a_bad_map_of_columns_is_one_line(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        convert("table.csv", tmp_path, "csv", columns=columns)


def test_a_read_of_nothing_is_no_write(tmp_path: Path) -> None:
    """Bytes that are read before they were written were there at the start."""
    text = "file,op,offset,length\na,read,0,0\na,read,0,1\nb,write,0,1\nb,read,0,1\n"
    case = convert_text(tmp_path, text, "csv", columns="file=file,op=op,offset=offset,length=length")
    assert case.trace.files.first_size.tolist() == [1, 0]


@pytest.mark.parametrize(("length", "sound"), [(40, True), (41, False)])
def test_a_time_of_the_greatest_length(tmp_path: Path, length: int, sound: bool) -> None:
    """A time may have 40 characters, which is far more than any tool writes."""
    time = "1." + "0" * (length - 2)
    case = convert_text(
        tmp_path, f"time,file,op,offset,length\n{time},a,write,0,1\n2,a,write,0,1\n", "csv",
        columns="time=time,file=file,op=op,offset=offset,length=length",
    )  # fmt: skip
    assert len(case.rows) == 1 + sound and case.report.bad == 1 - sound


def test_nfs_server(tmp_path: Path) -> None:
    case = convert("nfsd.txt", tmp_path)
    a, b = "/nfs/0x6ef2a1b0", "/nfs/0x0a11ce00"
    assert case.rows == [("read", a, 0, 131072), ("write", b, 8192, 4096), ("fsync", b, -1, 0), ("read", b, 8192, 100)]
    assert case.records["thread"].tolist() == [0, 1, 1, 1] and case.records["time_ns"].tolist()[1] == 1_499_100_000
    assert case.trace.files.first_size.tolist() == [131072, 0]
    assert case.trace.header["blind_spots"] == ["requests that make no row: LOOKUP 1, PUTFH 1"]
    with pytest.raises(
        UsageError, match="by name only, without files and offsets; record these, too: trace-cmd record"
    ):
        convert_text(tmp_path, "n-1 [0] ..... 1.0: svc_process: addr=a:1 xid=0x1 service=nfsd vers=3 proc=READ\n")


def test_thesios(tmp_path: Path) -> None:
    head = "filename,service_class,file_offset,op_type,request_io_size_bytes,start_time\n"
    case = convert_text(tmp_path, head + "ab,OTHER,100,WRITE,50,1705276800.5\nab,OTHER,0,READ,20,1705276801\n")
    assert case.rows == [("write", "ab", 100, 50), ("read", "ab", 0, 20)] and case.trace.header["format"] == "thesios"
    assert case.records["time_ns"].tolist() == [0, 500_000_000]
