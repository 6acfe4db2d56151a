"""The importers of simple records on samples; the expected rows were worked out by hand from the text."""

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from scmsim.core import registry
from scmsim.core.errors import EnvironmentProblem, ScmsimError, UsageError
from scmsim.core.records import APPENDS, CONTINUES, DATA_ONLY, KEEP_SIZE, PUNCH_HOLE, SYNCHRONOUS
from scmsim.trace.formats import find, sniff_name, writable
from scmsim.trace.formats.caches import oracle_general
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
from tests.trace.formats_helper import DATA, convert, convert_text

TABLE = "time=ts,op=type,offset=off,length=len,file=name,thread=cpu"
FORMATS = {
    "fio_iolog_v2.log": "fio-iolog", "fio_iolog_v3.log": "fio-iolog", "fio_randrw.log": "fio-iolog",
    "blk_classic.txt": "blkparse", "blkparse.txt": "blkparse", "darshan_dxt_sample.txt": "darshan-dxt",
    "oracle_general.bin": "oracle-general", "perf_raw.txt": "perf-script", "perf_named.txt": "perf-script",
    "msr.csv": "msr", "tencent.csv": "tencent", "fiu_file.txt": "fiu-file", "fiu_block.txt": "fiu-block",
    "ops.csv": "ops-csv", "ops.jsonl": "ops-jsonl", "alibaba.csv": "alibaba", "dftracer.pfw": "dftracer", "dio.json": "dio",
    "bpftrace.txt": "bpftrace", "lackey.txt": "lackey", "lcs_v3.bin": "lcs", "lttng.txt": "lttng",
    "nfsd.txt": "nfsd", "thesios.csv": "thesios", "trace_cmd.txt": "trace-cmd",
    "twitter_cache.csv": "twitter-cache", "vscsi1.bin": "vscsi", "vscsi2.bin": "vscsi",
}  # fmt: skip


@pytest.mark.parametrize("file", sorted(FORMATS))
def test_each_sample_is_recognised_by_one_importer_only(file: str) -> None:
    head = (DATA / file).read_bytes()
    assert [n for n in registry.names("format") if registry.load("format", n).sniff(head, file)] == [FORMATS[file]]


def test_every_sample_is_listed() -> None:
    assert {path.name for path in DATA.iterdir()} == {*FORMATS, "table.csv"}


@pytest.mark.parametrize(
    "file", ["msr.csv", "fio_iolog_v3.log", "oracle_general.bin", "perf_raw.txt", "../strace/tricky.strace"]
)
@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd", "two zstd frames"])
def test_compressed_input_gives_the_same_rows(tmp_path: Path, file: str, kind: str) -> None:
    data = (DATA / file).read_bytes()
    packed = {
        "gzip": gzip.compress,
        "xz": lzma.compress,
        "zstd": lambda data: pa.compress(data, "zstd", asbytes=True),
        "two zstd frames": lambda d: (
            pa.compress(d[:500], "zstd", asbytes=True) + pa.compress(d[500:], "zstd", asbytes=True)
        ),
    }[kind](data)
    (tmp_path / "in").write_bytes(packed)
    found = convert(tmp_path / "in", tmp_path)
    assert found.rows == convert(file, tmp_path).rows
    (tmp_path / "in").write_bytes(packed[:-7])
    with pytest.raises(UsageError, match="damaged or cut"):
        convert(tmp_path / "in", tmp_path, FORMATS.get(file, "strace"))


def test_a_pipe_and_standard_input_are_read_once(tmp_path: Path) -> None:
    wanted = convert("msr.csv", tmp_path).rows
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(
        [sys.executable, "-c", f"open({str(tmp_path / 'pipe')!r}, 'wb').write({(DATA / 'msr.csv').read_bytes()!r})"]
    )
    with Input(tmp_path / "pipe") as given:
        importer = find(given)[1]
        with TraceWriter(tmp_path / "p.parquet", {}) as out:
            assert importer.convert(given, out).rows == len(wanted)
    assert writer.wait() == 0
    command = [sys.executable, "-m", "scmsim", "trace", "convert", "-", str(tmp_path / "s.parquet")]
    done = subprocess.run(command, input=(DATA / "msr.csv").read_bytes(), capture_output=True)
    assert done.returncode == 0 and b"40 rows from 40 calls (40 lines of msr), 2 files" in done.stdout


def test_iolog_version_3(tmp_path: Path) -> None:
    case = convert("fio_iolog_v3.log", tmp_path)
    a, b = "/data/a.0.0", "/data/a.0.1"
    assert case.rows[:6] == [
        ("open", a, -1, 0), ("read", a, 0, 4096), ("open", b, -1, 0), ("read", b, 20480, 4096),
        ("read", a, 24576, 4096), ("write", b, 8192, 8192),
    ]  # fmt: skip
    assert case.records["time_ns"][:3].tolist() == [114_000, 118_000, 471_000]  # the first line is at 21 us
    assert case.report.left_out == {"title": 1, "file made known": 2}
    assert dict(zip(case.trace.files.path, case.trace.files.first_size.tolist(), strict=True)) == {a: 28672, b: 28672}


def test_iolog_version_2_waits_since_the_start(tmp_path: Path) -> None:
    case = convert("fio_iolog_v2.log", tmp_path)
    assert [row[0] for row in case.rows] == ["open", "write", "read", "fsync", "fsync", "close"]
    assert case.records["flag"].tolist() == [0, 0, 0, 0, DATA_ONLY, 0]
    assert case.report.left_out["wait"] == 1
    assert case.trace.files.first_size.tolist() == [0]  # read after it was written


@pytest.mark.parametrize("line", ["5 /a read 0", "5 /a", "x /a open", "5 /a fly 0 1", "5 /a open 3", "5 /a read -1 4",
                                  "5 /a read 0 9999999999999999999",
                                  "5 /a write 999999999999999999 999999999999999999"])  # fmt: skip
def test_iolog_lines_that_fio_would_refuse(tmp_path: Path, line: str) -> None:
    text = f"fio version 3 iolog\n1 /a open\n{line}\n"
    case = convert_text(tmp_path, text)
    assert case.report.bad == 1 and case.report.bad_lines[0][0] == 3
    with pytest.raises(UsageError, match="line 3: "):
        convert_text(tmp_path, text, strict=True)


def test_blkparse_requests(tmp_path: Path) -> None:
    case = convert("blkparse.txt", tmp_path)
    disk = "/dev/block/8:0"
    assert case.rows == [
        ("write", disk, 1196672 * 512, 4096), ("fsync", disk, -1, 0), ("fsync", disk, -1, 0),
        ("write", disk, 512 * 512, 8192), ("read", disk, 2048 * 512, 131072), ("fallocate", disk, 8192 * 512, 1 << 20),
    ]  # fmt: skip
    assert case.records["flag"].tolist() == [0, 0, 0, CONTINUES | SYNCHRONOUS, 0, PUNCH_HOLE | KEEP_SIZE]
    assert case.trace.files.first_size.tolist() == [1196672 * 512 + 4096]  # the device is there from the start
    assert case.report.left_out["summary at the end"] == 5
    assert case.trace.header["granularity"] == "block" and "block trace" in case.trace.header["notes"][0]
    assert convert("blkparse.txt", tmp_path, action="C").rows == case.rows[:1]


def test_blkparse_without_the_chosen_action_names_those_there(tmp_path: Path) -> None:
    text = "8,0 1 1 0.5 45 D WS 8 + 8 [x]\n"
    with pytest.raises(UsageError, match=r"no line with the action 'Q' \(it has D 1\); choose one with --set action=D"):
        convert_text(tmp_path, text)
    assert convert_text(tmp_path, text, action="D").report.rows == 1


def test_ftrace_classic_has_no_sequence_number(tmp_path: Path) -> None:
    case = convert("blk_classic.txt", tmp_path)
    assert case.rows == [("fallocate", "/dev/block/254:0", 39153664 * 512, 4096 * 512)]


def test_msr_and_tencent(tmp_path: Path) -> None:
    case = convert_text(
        tmp_path, "128166372003061629,hm,0,Write,7014912,4096,26\n128166372003061729,hm,1,Read,0,512,2\n"
    )
    assert case.rows == [("write", "/hm/0", 7014912, 4096), ("read", "/hm/1", 0, 512)]
    assert case.records["time_ns"].tolist() == [0, 10_000]
    assert case.trace.files.first_size.tolist() == [7014912 + 4096, 512]
    case = convert_text(tmp_path, "1538323200,8,2,0,1063\n1538323201,16,1,1,1063\n")
    assert case.rows == [("read", "/volume/1063", 4096, 1024), ("write", "/volume/1063", 8192, 512)]
    assert case.records["time_ns"].tolist() == [0, 10**9]


def test_fiu_files_and_blocks(tmp_path: Path) -> None:
    text = "1 100 OPEN 7 500\n2 150 READ 7 500 0 500 MISS\n3 160 WRITE 7 500 500 12 APPEND\n"
    text += "4 170 FDATASYNC 7 512\n5 180 CLOSE 7 512\n"
    case = convert_text(tmp_path, text)
    assert [row[0] for row in case.rows] == ["open", "read", "write", "fsync", "close"]
    assert case.rows[2] == ("write", "/inode/7", 500, 12)
    assert case.records["flag"].tolist() == [0, 0, APPENDS, DATA_ONLY, 0]
    assert case.trace.files.first_size.tolist() == [500]
    assert convert_text(tmp_path, "3 160 WRITE 7 512 500 12 APPEND\n").trace.files.first_size.tolist() == [500]
    case = convert_text(tmp_path, "89968195792462 20782 gzip 16 8 R 6 0 56f1\n89968195792562 4 cp 8 8 W 6 0 56f1\n")
    assert case.rows == [("read", "/dev/block/6:0", 8192, 4096), ("write", "/dev/block/6:0", 4096, 4096)]
    assert case.records["thread"].tolist() == [0, 1] and case.records["time_ns"].tolist() == [0, 100]


def test_cache_trace_objects_and_blocks(tmp_path: Path) -> None:
    case = convert("oracle_general.bin", tmp_path)
    assert case.report.rows == 100 and case.rows[0] == ("read", "/object/42932745", 0, 512)
    assert case.trace.header["granularity"] == "object" and "does not say" in case.report.notes[0]
    blocks = convert("oracle_general.bin", tmp_path, block=512, op="write")
    assert blocks.rows[0] == ("write", "/device", 42932745 * 512, 512) and len(blocks.trace.files) == 1
    assert blocks.trace.header["granularity"] == "block"
    cut = convert_text(tmp_path, (DATA / "oracle_general.bin").read_bytes()[:-5], "oracle-general")
    assert cut.report.rows == 99 and cut.report.bad_lines == [(100, "the last record has 19 of 24 bytes")]


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
        ("op=type,offset=off,length=off", "gives a column two roles"),
        ("op=type,offst=off,length=len", "did you mean 'offset'"),
        ("op=,offset=off,length=len", "names no column"),
        ("op=1,offset=2,length=99999", "no column '99999'"),
    ],
)
def test_a_bad_map_of_columns_is_one_line(tmp_path: Path, columns: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        convert("table.csv", tmp_path, "csv", columns=columns)


def test_under_keeps_one_device(tmp_path: Path) -> None:
    case = convert("msr.csv", tmp_path, under="/hm/1")
    whole = convert("msr.csv", tmp_path)
    assert case.rows == [row for row in whole.rows if row[1] == "/hm/1"]
    assert case.report.left_out == {"outside of the chosen directory": whole.report.rows - case.report.rows}


def test_names_are_utf_8_where_they_can_be(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "fio version 3 iolog\n1 /é open\n1 /".encode() + b"\xff open\n")
    assert case.trace.files.path == ["/é", "/\\xff"]


def test_a_filebench_file_is_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.f").write_text("set $dir=/tmp\ndefine fileset name=bigfileset,path=$dir,size=16k,entries=10\n")
    assert find(tmp_path / "w.f")[0] == "filebench"
    known = registry.names
    monkeypatch.setattr(registry, "names", lambda kind: ["microbench"] if kind == "workload" else known(kind))
    with pytest.raises(UsageError, match="is a Filebench workload, not a trace"):
        convert(tmp_path / "w.f", tmp_path, "filebench")


def test_each_importer_refuses_foreign_text(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"hello\nworld\n")
    for name in registry.names("format"):
        options = {"columns": "op=1,offset=2,length=3"} if name == "csv" else {}
        with pytest.raises(ScmsimError) as found:
            convert(tmp_path / "in", tmp_path, name, **options)
        assert "\n" not in str(found.value)


def test_formats_that_can_be_written_have_an_export() -> None:
    assert writable() == [n for n in registry.names("format") if hasattr(registry.load("format", n), "export")]
    assert np.isin("fio-iolog", writable())


@pytest.mark.slow
def test_memory_does_not_follow_the_input(tmp_path: Path) -> None:
    program = """
import resource, sys
from scmsim.trace.formats import find
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
with Input("-") as given:
    importer = find(given)[1]
    with TraceWriter(sys.argv[1], {}) as writer:
        importer.convert(given, writer)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks = []
    for copies in (5_000, 50_000):
        feed = f"import sys\nfor _ in range({copies} // 100): sys.stdout.write(open({str(DATA / 'msr.csv')!r}).read() * 100)"
        source = subprocess.Popen([sys.executable, "-c", feed], stdout=subprocess.PIPE)
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "out")], stdin=source.stdout, capture_output=True, check=True
        )
        assert source.wait() == 0
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.25 * peaks[0], peaks


def test_random_bytes_are_no_cache_trace(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).bytes(200_000)
    with pytest.raises(
        UsageError, match=r"is not an oracleGeneral trace: of its first 682 records, 68\d run backwards"
    ):
        convert_text(tmp_path, noise, "oracle-general")
    good = (DATA / "oracle_general.bin").read_bytes() * 10
    case = convert_text(tmp_path, good + noise[:4800], "oracle-general")
    assert case.report.bad > 190 and case.report.is_incomplete()


def test_progress_of_compressed_input_is_that_of_what_is_stored(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(gzip.compress(np.random.default_rng(1).bytes(300_000), 0))
    with Input(tmp_path / "in") as given:
        shares = []
        while given.read(1 << 16):
            shares.append(100 * given.taken // given.total)
    assert shares[0] < 40 and shares[-1] == 100 and len(set(shares)) >= 4


def test_what_is_taken_for_a_cache_trace() -> None:
    """Four records tell it from other data, one does if the name says so; text never is one."""
    head = (DATA / "oracle_general.bin").read_bytes()
    assert [oracle_general.sniff(head[: 24 * count], "x") for count in (0, 3, 4)] == [False, False, True]
    assert [oracle_general.sniff(head[: 24 * count], "x.oracleGeneral") for count in (0, 1)] == [False, True]
    assert not oracle_general.sniff(
        np.full(4, 1, oracle_general.RECORD).tobytes().replace(b"\x00", b"\x01"), "oracleGeneral"
    )


def test_times_of_a_cache_trace_are_seconds(tmp_path: Path) -> None:
    records = np.zeros(4, oracle_general.RECORD)
    records["time"], records["ident"], records["length"], records["next"] = (7, 8, 8, 10), (1, 2, 1, 3), 512, -1
    case = convert_text(tmp_path, records.tobytes())
    assert case.records["time_ns"].tolist() == [0, 10**9, 10**9, 3 * 10**9]


def test_a_read_of_nothing_is_no_write(tmp_path: Path) -> None:
    """Bytes that are read before they were written were there at the start."""
    text = "file,op,offset,length\na,read,0,0\na,read,0,1\nb,write,0,1\nb,read,0,1\n"
    case = convert_text(tmp_path, text, "csv", columns="file=file,op=op,offset=offset,length=length")
    assert case.trace.files.first_size.tolist() == [1, 0]


@pytest.mark.parametrize("calls", [1, 100])  # one by one, and many at once
def test_a_seek_from_the_end_in_perf_tells_the_size(tmp_path: Path, calls: int) -> None:
    lines = ["NR 257 (ffffff9c, 7f00, 2, 0, 0, 0)", "NR 257 = 3", *["NR 8 (3, 0, 2, 0, 0, 0)", "NR 8 = 70"] * calls]
    text = "".join(
        f" 1/1 1.{number:09}: raw_syscalls:sys_{'exit' if ' = ' in line else 'enter'}: {line}\n"
        for number, line in enumerate([*lines, "NR 1 (3, 7f00, 5, 0, 0, 0)", "NR 1 = 5"])
    )
    case = convert_text(tmp_path, text)
    assert case.rows[-1][2:] == (70, 5) and case.trace.files.first_size.tolist() == [70]


def test_what_makes_a_conversion_incomplete() -> None:
    """Lines that were not understood and calls that one of two recorders missed count together."""
    assert not Report(lines=1000, bad=5, unpaired=5).is_incomplete()
    assert Report(lines=1000, bad=5, unpaired=6).is_incomplete() and Report(lines=1000, lost_events=1).is_incomplete()
    some = Report(lines=90, bad=3, unpaired=2, lost_events=10)
    assert some.is_incomplete(0.149) and not some.is_incomplete(0.15)


@pytest.mark.parametrize(
    ("flags", "made", "assumed"),
    [
        (0o2, ["open"], 0), (0o102, ["create"], 1), (0o302, ["create"], 0), (0o1102, ["create"], 0),
        (0o1002, ["open", "truncate"], 0), (0o20200002, ["create"], 0), (0o10000000, [], 0),
    ],
)  # fmt: skip
def test_flags_of_an_open_in_perf(tmp_path: Path, flags: int, made: list[str], assumed: int) -> None:
    """O_RDWR alone, with O_CREAT, O_EXCL, O_TRUNC, O_TMPFILE; O_PATH.  Only O_CREAT alone leaves open whether there was a file."""
    enter, leave = f"sys_enter: NR 257 (ffffff9c, 7f00, {flags:x}, 0, 0, 0)", "sys_exit: NR 257 = 3"
    text = f" 1/1 1.1: raw_syscalls:{enter}\n 1/1 1.2: raw_syscalls:{leave}\n"
    case = convert_text(tmp_path, text, "perf-script")
    assert [row[0] for row in case.rows] == made and case.report.creates["assumed new"] == assumed


@pytest.mark.parametrize(("command", "flag", "kept"), [(2, 1, False), (2, 0, True), (2, 2, True), (1, 1, True)])
def test_a_descriptor_that_an_exec_closes_in_perf(tmp_path: Path, command: int, flag: int, kept: bool) -> None:
    """fcntl(F_SETFD, FD_CLOEXEC): the descriptor is gone after an exec; F_GETFD changes nothing."""
    calls = [
        ("257 (ffffff9c, 7f00, 2, 0, 0, 0)", 3),
        (f"72 (3, {command:x}, {flag:x}, 0, 0, 0)", 0),
        ("59 (7f00, 0, 0, 0, 0, 0)", 0),
    ]
    calls.append(("1 (3, 7f00, 5, 0, 0, 0)", 5))
    text = "".join(
        f" 1/1 1.{2 * n:09}: raw_syscalls:sys_enter: NR {call}\n"
        f" 1/1 1.{2 * n + 1:09}: raw_syscalls:sys_exit: NR {call.split()[0]} = {value}\n"
        for n, (call, value) in enumerate(calls)
    )
    case = convert_text(tmp_path, text, "perf-script")
    assert [row[0] for row in case.rows] == (["open", "write"] if kept else ["open"])


@pytest.mark.parametrize(("length", "sound"), [(40, True), (41, False)])
def test_a_time_of_the_greatest_length(tmp_path: Path, length: int, sound: bool) -> None:
    """A time may have 40 characters, which is far more than any tool writes."""
    time = "1." + "0" * (length - 2)
    case = convert_text(
        tmp_path, f"time,file,op,offset,length\n{time},a,write,0,1\n2,a,write,0,1\n", "csv",
        columns="time=time,file=file,op=op,offset=offset,length=length",
    )  # fmt: skip
    assert len(case.rows) == 1 + sound and case.report.bad == 1 - sound
