"""Importers of other tracers' calls: rows worked out by hand, and the same calls by several tracers."""

from pathlib import Path

import pytest

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


def event(name: str, ts: int, **args: int | str) -> str:
    """Return an event of 2023: numbers as texts, the path in each call, process 0."""
    words = ", ".join(f'"{key}": "{value}"' for key, value in args.items())
    return f'{{"id":"0","name":"{name}","cat":"POSIX","pid":"0","tid":"7","ts":"{ts}","dur":"1","ph":"X","args":{{{words}}}}}\n'


def test_dftracer_of_2023_and_calls_without_a_result(tmp_path: Path) -> None:
    a = "/data/<a>"
    text = "[\n" + event("open64", 10, ret=3, flags=66, fname=a) + event("__fxstat64", 12, fd=3, fname=a)
    text += event("write", 14, ret=4096, count=4096, fd=3, fname=a) + event("ftruncate", 16, fd=3, length=100, fname=a)
    text += event("write", 17, ret=5, count=5, fd=4, fname="/data/b") + event(
        "write", 17, ret=5, count=5, fd=5, fname="rel"
    )
    text += event("__xstat64", 18, fname="/data/c") + event("opendir", 20, fname="/data")
    case = convert_text(tmp_path, text, "dftracer")
    assert case.rows == [
        ("create", a, -1, 0), ("stat", a, -1, 0), ("write", a, 0, 4096), ("truncate", a, 100, 0), ("write", "/data/b", 0, 5)
    ]  # fmt: skip
    assert (case.report.bad, case.report.lost_rows, case.report.left_out[as_strace.NO_RESULT]) == (0, 0, 1)
    assert case.report.left_out[as_strace.NOT_A_CALL] == 1 and case.report.unknown_offsets == 1
    assert case.records["time_ns"].tolist() == [0, 2000, 4000, 6000, 7000]
    gone = event("remove", 22, fname=a) + event("write", 24, ret=1, count=1, fd=3, fname=a)
    doubtful = convert_text(tmp_path, text + gone + event("rename", 26, fname=a), "dftracer").report
    assert (doubtful.bad, doubtful.lost_rows, doubtful.uncertain_rows) == (0, 1, 1)
    region = text.replace("POSIX", "ai_framework", 1).replace('"ret": "3"', '"hostname":"a"', 1)
    assert convert_text(tmp_path, region).report.left_out["not a POSIX call"] == 1  # found by its content
    assert doubtful.left_out[as_strace.NO_RESULT] == 2 and doubtful.left_out[as_strace.NO_SECOND_NAME] == 1


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
