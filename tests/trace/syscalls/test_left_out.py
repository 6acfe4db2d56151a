"""Check what the strace importer leaves out and counts: other objects, failed calls, io_uring, other directories."""

from pathlib import Path

from tests.trace.strace_helper import NEW, convert_lines, first_sizes, ops


def test_what_is_no_file_is_left_out_and_counted(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        "pipe2([4, 5], O_CLOEXEC) = 0",
        "socket(AF_UNIX, SOCK_STREAM, 0) = 6",
        'write(5, "x", 1) = 1',
        'sendto(6, "x", 1, 0, NULL, 0) = 1',
        'write(6, "x", 1) = 1',
        'openat(AT_FDCWD, "/proc/self/maps", O_RDONLY) = 7',
        'read(7, "", 10) = 10',
        'write(1</dev/pts/0<char 136:0>>, "x", 1) = 1',
        'write(9, "x", 1) = 1',
        "close(7) = 0",
        'openat(AT_FDCWD, "/dev/shm/x", O_RDWR|O_CREAT|O_EXCL) = 8',
        "futex(0x7f, FUTEX_WAKE, 1) = 1",
    )
    assert [row.op for row in case.rows] == ["create"]
    assert case.report.left_out["descriptor from before the trace"] == 1
    assert case.report.left_out["not a file (pipe, socket, device, /proc, /sys, memory)"] == 8
    assert case.report.other == {"sendto": 1, "futex": 1}


def test_failed_calls_do_nothing_and_are_counted_by_name(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'write(3, ""..., 100) = -1 ENOSPC (No space left on device)',
        'pread64(3, ""..., 5, -1) = -1 EINVAL (Invalid argument)',
        'newfstatat(AT_FDCWD, "/x", 0x7ffd, 0) = -1 ENOENT (No such file or directory)',
        "close(33) = -1 EBADF (Bad file descriptor)",
        "read(3, 0x7ffe, 10) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
        'write(3, "", 1) = 1',
    )
    assert ops(case)[1:] == [("write", 0, 1, 0)]
    assert case.report.failed == {"write": 1, "pread64": 1, "newfstatat": 1, "close": 1}
    assert case.report.left_out == {"failed call": 4, "call that never returned": 1}


def test_io_uring_is_a_blind_spot(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path, NEW, "io_uring_setup(8, {flags=0, ...}) = 4", *["io_uring_enter(4, 1, 1, 0, NULL, 8) = 1"] * 3
    )
    assert case.report.blind_spots == ["io_uring: 4 calls; the reads and writes that they start are not in the trace"]
    assert case.trace.header["blind_spots"] == case.report.blind_spots


def test_under_keeps_one_directory(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("/in/a", O_RDWR|O_CREAT|O_EXCL, 0600) = 3',
        'open("/inside-not/b", O_RDWR|O_CREAT|O_EXCL, 0600) = 4',
        'write(4, "", 9) = 9',
        'rename("/inside-not/b", "/in/b") = 0',
        'write(4, "", 2) = 2',
        'rename("/in/a", "/out/a") = 0',
        'write(3, "", 2) = 2',
        under="/in/",
    )
    assert [(row.op, row.path, row.offset) for row in case.rows] == [
        ("create", "/in/a", -1), ("rename", "/inside-not/b", -1), ("write", "/inside-not/b", 9),
        ("unlink", "/in/a", -1),
    ]  # fmt: skip
    assert first_sizes(case)["/inside-not/b"] == 9
    assert case.report.left_out["outside of the chosen directory"] == 3
