"""Check which descriptors a process has in the strace importer: inherited, shared, closed by exec or by an exit."""

from pathlib import Path

import pytest

from scmsim.trace.syscalls.importer import UNKNOWN_FD
from tests.trace.strace_helper import convert_lines


def test_close_range_and_execve_close_descriptors(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("/d/a", O_RDONLY|O_CLOEXEC) = 3',
        'open("/d/b", O_RDONLY) = 4',
        'open("/d/c", O_RDONLY) = 5',
        "fcntl(5, F_SETFD, FD_CLOEXEC) = 0",
        'execve("/bin/x", ["x", ") = 5"], 0x7ff /* 3 vars */) = 0',
        'read(3, "", 5) = 5',
        'read(4, "", 5) = 5',
        'read(5, "", 5) = 5',
        "close_range(3, 4294967295, 0) = 0",
        'read(4, "", 5) = 5',
    )
    assert [(row.op, row.path) for row in case.rows[3:]] == [("read", "/d/b"), ("close", "/d/b")]
    assert case.report.left_out["descriptor from before the trace"] == 3
    assert case.trace.header["program"] == "/bin/x"


def test_processes_inherit_and_threads_share(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        '1 1.000001 open("/d/f", O_RDWR|O_CREAT|O_EXCL, 0600) = 3',
        "1 1.000002 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD <unfinished ...>",
        '2 1.000003 write(3, "", 10) = 10',
        "2 1.000004 close(3) = 0",
        "1 1.000005 <... clone resumed>) = 2",
        '1 1.000006 write(3, "", 5) = 5',
        "1 1.000007 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD} => {parent_tid=[3]}, 88) = 3",
        "3 1.000008 close(3) = 0",
        '1 1.000009 write(3, "", 5) = 5',
    )
    assert [(row.op, row.offset) for row in case.rows] == [
        ("create", -1), ("write", 0), ("close", -1), ("write", 10), ("close", -1),
    ]  # fmt: skip
    assert case.records["thread"].tolist() == [0, 1, 1, 0, 2]
    assert case.report.left_out["descriptor from before the trace"] == 1


@pytest.mark.parametrize("prefix", ["7 ", "[pid     7] "])
def test_a_process_that_has_ended_leaves_its_number_to_another(tmp_path: Path, prefix: str) -> None:
    """The next process of that number has no descriptor of the one before."""
    lines = ['open("/d/f", O_RDWR) = 3', 'write(3, "", 5) = 5', "+++ exited with 0 +++", 'write(3, "", 5) = 5']
    case = convert_lines(tmp_path, *(f"{prefix}1700000000.000001 {line}" for line in lines))
    assert [row.op for row in case.rows] == ["open", "write"] and case.report.left_out[UNKNOWN_FD] == 1


def test_a_close_that_is_split_frees_its_number_at_once(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        '1 1.000001 open("/d/f", O_RDWR|O_CREAT|O_EXCL, 0600) = 3',
        "1 1.000002 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD}, 88) = 2",
        "1 1.000003 close(3 <unfinished ...>",
        '2 1.000004 open("/d/g", O_RDWR|O_CREAT|O_EXCL, 0600) = 3',
        "1 1.000005 <... close resumed>) = 0",
        '2 1.000006 write(3, "", 5) = 5',
    )
    assert [(row.op, row.path) for row in case.rows] == [
        ("create", "/d/f"), ("create", "/d/g"), ("close", "/d/f"), ("write", "/d/g"),
    ]  # fmt: skip
