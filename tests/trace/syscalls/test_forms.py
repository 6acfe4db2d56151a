"""Forms of strace's text: the cases of tests/data/strace/forms with their right rows, and lines that tell about others."""

from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from tests.trace.strace_helper import DATA, convert, convert_lines

FORMS = DATA / "forms"
# name -> (operation, offset, length) of the rows that move or map data
RIGHT = {
    "first_pid_unknown": [("write", 0, 3), ("write", 3, 4), ("write", 7, 5)],
    "message_inside_vfork": [("read", 0, 131072), ("write", 0, 131072), ("write", 131072, 4)],
    "message_inside_clone_4x": [("write", 0, 3), ("write", 3, 4), ("write", 7, 5)],
    "deleted_inside": [("write", 0, 4096), ("write", 4096, 4096), ("read", 0, 8192)],
    "raw_numbers": [("write", 0, 100), ("write", 100, 100), ("mmap", 0, 4096), ("msync", 0, 4096)],
    "socket_addresses": [("read", 0, 4096), ("read", 4096, 4096)],
    "whole_seconds": [("write", 0, 4096), ("write", 4096, 4096)],
    "pid_namespace": [("write", 0, 4096), ("write", 4096, 4)],
}


@pytest.mark.parametrize("name", RIGHT)
def test_case_has_its_right_rows(name: str, tmp_path: Path) -> None:
    case = convert(FORMS / f"{name}.strace", tmp_path)
    assert [(row.op, row.offset, row.length) for row in case.rows if row.length] == RIGHT[name]
    assert case.report.bad == 0 and case.report.lost_rows == 0
    assert len({row.path for row in case.rows if row.op == "write"}) <= 1


OPEN = 'openat(AT_FDCWD, "/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3'


def test_a_real_name_that_ends_in_deleted_stays(tmp_path: Path) -> None:
    name = "/f (deleted)"
    case = convert_lines(
        tmp_path, f'openat(AT_FDCWD, "{name}", O_RDWR|O_CREAT, 0644) = 3<{name}>', f'write(3<{name}>, "x", 1) = 1'
    )
    assert {row.path for row in case.rows} == {name}


def test_a_result_that_strace_made_up_does_nothing(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path, OPEN, 'write(3, "x", 9) = 9 (INJECTED)', 'write(3, "x", 1) = 1', 'write(3, "x", 5) = 5 (DELAYED)'
    )
    assert [(row.offset, row.length) for row in case.rows if row.op == "write"] == [(0, 1), (1, 5)]


def test_a_pid_namespace_with_its_comment(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        "100 fork() = 2 /* 101 in strace's PID NS */",
        '101 write(3, "x", 4) = 4',
        '100 write(3, "x", 2) = 2',
    )
    assert [(row.offset, row.length) for row in case.rows if row.op == "write"] == [(0, 4), (4, 2)]


def test_a_thread_that_executes_takes_the_number_of_its_process(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        "100 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FILES|CLONE_FS|CLONE_THREAD|CLONE_SIGHAND) = 101",
        '101 execve("/bin/x", ["x"], 0x7ff /* 1 var */ <unfinished ...>',
        "100 +++ superseded by execve in pid 101 +++",
        "100 <... execve resumed>) = 0",
        '100 write(3, "x", 2) = 2',
    )
    assert [row.offset for row in case.rows if row.op == "write"] == [0] and case.report.lost_rows == 0


@pytest.mark.parametrize(
    "line", [" > /lib/libc.so(write+0x1) [0x2]", " | 00000  61 62  ab |", " * 4 bytes in buffer 0",
             "strace: Process 7 detached", "[ Process PID=100 runs in 32 bit mode. ]", "100 read(3,  <detached ...>"]
)  # fmt: skip
def test_lines_about_others_cost_nothing(tmp_path: Path, line: str) -> None:
    case = convert_lines(tmp_path, OPEN, line, 'write(3, "strace: Process 5 attached", 26) = 26')
    assert [row.op for row in case.rows] == ["create", "write"] and case.report.bad == 0 and case.report.lost_rows == 0


def test_a_summary_alone_is_refused_by_its_option(tmp_path: Path) -> None:
    text = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- ----\n"
    (tmp_path / "in").write_text(text + " 50.00    0.000010           1         9           read\n")
    with pytest.raises(UsageError, match="summary of 'strace -c'"):
        convert(tmp_path / "in", tmp_path)
