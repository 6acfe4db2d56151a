"""Importers of other tracers' calls and of public data sets: rows worked out by hand, and the same calls by several tracers."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import DATA_ONLY
from scmsim.trace.formats.blocks import vscsi
from scmsim.trace.formats.caches import lcs
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.syscalls import as_strace
from tests.trace.formats_helper import convert, convert_text


def test_trace_cmd_and_perf_tell_the_same_calls(tmp_path: Path) -> None:
    mine, perf = convert("trace_cmd.txt", tmp_path), convert("perf_raw.txt", tmp_path)
    assert mine.rows == perf.rows and mine.records["time_ns"].tolist() == perf.records["time_ns"].tolist()
    assert mine.trace.header["tool"] == "trace-cmd" and mine.report.bad == 0


def test_trace_cmd_counts_what_was_dropped(tmp_path: Path) -> None:
    text = "cpus=1\nCPU 3 is empty\n a-7 [000] 1.000001: sys_enter_close:   fd: 0x00000003\nCPU:0 [12 EVENTS DROPPED]\n"
    text += " a-7 [000] 1.000002: sys_exit_close: 0x0\n b c-9 [001] d..1. 1.000003: sched_switch: prev_pid=9\n"
    text += " a-7 [000] .... 1.1: sys_enter_openat: dfd: 0xffffff9c, filename: 0x7f, flags: 0x00000000, mode: 0x0\n"
    text += " a-7 [000] .... 1.2: sys_exit_openat: 0x3\n"
    case = convert_text(tmp_path, text)
    assert case.report.lost_events == 12 and case.report.left_out["title"] == 2
    assert [row[0] for row in case.rows] == ["open"]


CALLS = [  # what lttng.txt holds, as lines of strace
    '100 1.0 mkdir("/data/t", 0) = 0', '100 1.1 openat(AT_FDCWD, "/data/t/log", O_WRONLY|O_CREAT|O_EXCL, 0644) = 3',
    '100 1.2 write(3, ""..., 8192) = 8192', '100 1.3 pwrite64(3, ""..., 100, 8192) = 100', "100 1.4 fdatasync(3) = 0",
    "100 1.5 close(3) = 0", '100 1.6 renameat2(AT_FDCWD, "/data/t/log", AT_FDCWD, "/data/t/log.1", 0) = 0',
    '200 2.1 open("/data/base", O_RDONLY) = 4', "200 2.2 lseek(4, 4096, SEEK_SET) = 4096", '200 2.3 read(4, ""..., 4096) = 1000',
    '100 2.4 openat(AT_FDCWD, "/data/none", O_RDONLY) = -1 ENOENT (No such file or directory)',
    '100 2.5 unlinkat(AT_FDCWD, "/data/t/log.1", 0) = 0',
]  # fmt: skip


def test_lttng_and_strace_tell_the_same_calls(tmp_path: Path) -> None:
    mine, strace = convert("lttng.txt", tmp_path), convert_text(tmp_path, "\n".join(CALLS) + "\n", "strace")
    assert mine.rows == strace.rows and mine.records["flag"].tolist() == strace.records["flag"].tolist()
    assert mine.records["file2"].tolist() == strace.records["file2"].tolist() and mine.report.failed == {"openat": 1}
    assert mine.trace.files.path == strace.trace.files.path
    assert mine.trace.header["format"] == "lttng"


def test_lttng_needs_the_thread_and_knows_midnight(tmp_path: Path) -> None:
    line = "[23:59:59.999999999] (+0.1) host syscall_{}: {{ cpu_id = 0 }}, {{ {} }}, {{ {} }}\n"
    entry, leave = (
        line.format("entry_close", "pid = 7, tid = 7", "fd = 3"),
        line.format("exit_close", "pid = 7, tid = 7", "ret = 0"),
    )
    text = line.format("entry_open", "vpid = 7, vtid = 7", 'filename = "/a \\"b", flags = 0') + line.format(
        "exit_open", "vpid = 7, vtid = 7", "ret = 3"
    )
    text += (entry + leave).replace("23:59:59.999999999", "00:00:00.000000001")
    case = convert_text(tmp_path, text, "lttng")
    assert case.rows == [("open", '/a "b', -1, 0), ("close", '/a "b', -1, 0)] and case.records["time_ns"].tolist() == [
        0,
        2,
    ]
    bad = convert_text(tmp_path, text + line.format("entry_close", 'procname = "x"', "fd = 3"), "lttng")
    assert "lttng add-context" in bad.report.bad_lines[0][1]


def test_dftracer(tmp_path: Path) -> None:
    case = convert("dftracer.pfw", tmp_path)
    data, saved = "/data/train/é.npz", "/data/ckpt"
    assert case.rows == [
        ("open", data, -1, 0), ("read", data, 0, 65536), ("read", data, 1 << 20, 4096), ("read", data, 5, 10),
        ("close", data, -1, 0), ("create", saved, -1, 0), ("write", saved, 0, 100000), ("fsync", saved, -1, 0),
        ("close", saved, -1, 0), ("unlink", saved, -1, 0),
    ]  # fmt: skip
    assert case.report.failed == {"open": 1} and case.report.left_out["not a POSIX call"] == 1
    assert case.records["time_ns"][:2].tolist() == [0, 100_000]


def test_dio(tmp_path: Path) -> None:
    case = convert("dio.json", tmp_path)
    assert [row[:2] for row in case.rows] == [
        ("create", "/data/a"), ("write", "/data/a"), ("write", "/data/a"), ("fsync", "/data/a"), ("close", "/data/a"),
        ("rename", "/data/a"), ("open", "/dio/8|13|200"), ("read", "/dio/8|13|200"),
    ]  # fmt: skip
    assert case.rows[2][2:] == (4096, 10) and case.report.failed == {"unlink": 1}


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("read", {"count": 1}, "read with fd 'None'"),
        ("read", {"fd": 3, "count": -1}, "count '-1'"),
        ("read", {"fd": 3, "count": 10**18}, "count"),
        ("open", {"flags": 0}, "open without a path"),
        ("open", {"path": '"/a"', "flags": "O_RDONLY); rm"}, "flags"),
        ("lseek", {"fd": 3, "offset": 1.5, "whence": 0}, "offset '1.5'"),
    ],
)
def test_a_call_without_its_arguments_is_a_bad_line(name: str, args: dict, message: str) -> None:
    with pytest.raises(BadLine, match=message.replace("(", r"\(")):
        as_strace.call(1, 0, name, args, 0)


def test_a_path_cannot_end_its_quotes(tmp_path: Path) -> None:
    for path in ('/a", O_RDONLY) = 3', "/tab\t\\\n\x7f", "/é\ud800"):
        line = as_strace.call(1, 0, "open", {"path": as_strace.quoted(path), "flags": 0}, 3)
        case = convert_text(tmp_path, line + "\n", "strace")
        assert case.trace.files.path == [path.encode("utf-8", "backslashreplace").decode()]


def test_nfs_server(tmp_path: Path) -> None:
    case = convert("nfsd.txt", tmp_path)
    a, b = "/nfs/0x6ef2a1b0", "/nfs/0x0a11ce00"
    assert case.rows == [("read", a, 0, 131072), ("write", b, 8192, 4096), ("fsync", b, -1, 0), ("read", b, 8192, 100)]
    assert case.records["thread"].tolist() == [0, 1, 1, 1] and case.records["time_ns"].tolist()[1] == 1_499_100_000
    assert case.trace.files.first_size.tolist() == [131072, 0]
    assert case.trace.header["blind_spots"] == ["requests that make no row: LOOKUP 1, PUTFH 1"]
    with pytest.raises(
        UsageError, match="by name only, without files and offsets; record these, too: trace-cmd record -e nfsd"
    ):
        convert_text(tmp_path, "n-1 [0] ..... 1.0: svc_process: addr=a:1 xid=0x1 service=nfsd vers=3 proc=READ\n")


def test_alibaba_and_thesios(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "419,R,4096,512,1577808000000100\n7,W,0,8192,1577808000000101\n")
    assert case.rows == [("read", "/device/419", 4096, 512), ("write", "/device/7", 0, 8192)]
    assert case.records["time_ns"].tolist() == [0, 1000] and case.trace.header["granularity"] == "block"
    head = "filename,service_class,file_offset,op_type,request_io_size_bytes,start_time\n"
    case = convert_text(tmp_path, head + "ab,OTHER,100,WRITE,50,1705276800.5\nab,OTHER,0,READ,20,1705276801\n")
    assert case.rows == [("write", "ab", 100, 50), ("read", "ab", 0, 20)] and case.trace.header["format"] == "thesios"
    assert case.records["time_ns"].tolist() == [0, 500_000_000]


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi(tmp_path: Path, version: int) -> None:
    records = np.zeros(4, vscsi._RECORDS[version])
    records["ver"], records["cmd"] = version << 8 | 3, [0x28, 0x2A, 0x35, 0x8A]
    records["len"], records["lbn"], records["ts"] = (
        [4096, 512, 0, 8192],
        [8, 1, 0, 1 << 20],
        [10**15, 10**15 + 3, 10**15 + 4, 10**15 + 5],
    )
    case = convert_text(tmp_path, records.tobytes() + b"cut", "vscsi")
    assert case.rows == [
        ("read", "/device", 4096, 4096),
        ("write", "/device", 512, 512),
        ("write", "/device", 1 << 29, 8192),
    ]
    assert case.records["time_ns"].tolist() == [0, 3000, 5000]
    assert case.report.left_out == {"another SCSI command": 1} and case.report.bad == 1
    with pytest.raises(UsageError, match="is not a vscsi trace"):
        convert_text(tmp_path, bytes(400), "vscsi")


@pytest.mark.parametrize("version", range(1, 9))
def test_lcs(tmp_path: Path, version: int) -> None:
    record = lcs._record(version, "")
    assert (
        record.itemsize == {1: 24, 2: 28, 3: 36, 4: 40, 5: 44, 6: 52, 7: 68, 8: 100}[version]
    )  # libCacheSim's static assertions
    records = np.zeros(4, record)
    records["time"], records["ident"], records["length"], records["next"] = (
        [5, 5, 6, 7],
        [9, 2, 9, 9],
        [100, 7, 100, 100],
        -1,
    )
    if version > 1:
        records["op"] = [1 | 77 << 8, 3, 9, 0]
    head = bytearray(8192)
    head[:8] = head[-8:] = (0x123456789ABCDEF0).to_bytes(8, "little")
    head[8] = version
    case = convert_text(tmp_path, bytes(head) + records.tobytes(), op="write")
    told = [("write", "/object/9", 0, 100), ("write", "/object/2", 0, 7), ("write", "/object/9", 0, 100)]
    assert case.rows == (
        [*told, ("write", "/object/9", 0, 100)] if version == 1 else [("read", "/object/9", 0, 100), told[1], told[2]]
    )
    head[8] = 9
    with pytest.raises(UsageError, match="version 9; 1 to 8 can be read"):
        convert_text(tmp_path, bytes(head) + records.tobytes())


def test_a_key_value_trace(tmp_path: Path) -> None:
    text = "0,nz:a,5,100,1,get,0\n1,nz:a,5,40,2,set,60\n1,k,1,300,1,set,60\n2,k,1,50,1,append,60\n3,k,1,350,1,gets,0\n"
    text += "3,k,1,8,1,incr,0\n4,k,1,0,1,delete,0\n4,k,1,0,1,delete,0\n5,k,1,0,1,get,0\n6,k,1,10,3,add,9\n"
    case = convert_text(tmp_path, text)
    assert case.rows == [
        ("read", "/nz:a", 0, 100), ("truncate", "/nz:a", 0, 0), ("write", "/nz:a", 0, 40), ("create", "/k", -1, 0),
        ("write", "/k", 0, 300), ("write", "/k", 300, 50), ("read", "/k", 0, 350), ("write", "/k", 0, 8), ("unlink", "/k", -1, 0),
        ("create", "/k", -1, 0), ("write", "/k", 0, 10),
    ]  # fmt: skip
    assert case.report.left_out == {"delete of an object that is not there": 1, "transfer of no bytes": 1}
    assert case.records["thread"].tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 2, 2]
    assert case.records["file"][3] != case.records["file"][-1]  # another object of the same name
    assert not (case.records["flag"] & DATA_ONLY).any()
