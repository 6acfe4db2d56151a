"""Calls that other tracers recorded, as strace writes them: rows by hand from the numbers of Linux' headers."""

import pytest

from scmsim.trace.reading.lines import BadLine
from scmsim.trace.syscalls.as_strace import NO_SECOND_NAME, NOT_A_CALL, ORIGIN, call, quoted, told
from scmsim.trace.syscalls.from_numbers import arguments, fd, open_flags, result, signed

MINUS = 1 << 64  # a register holds -1 as this less 1


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("read", (3, 0x7F00, 10), '3, "", 10'), ("write", (MINUS - 1, 0x7F00, 10), '-1, "", 10'),
        ("pread64", (3, 1, 10, 20), '3, "", 10, 20'), ("pwrite64", (1 << 33 | 3, 1, 10, 20), '3, "", 10, 20'),
        ("readv", (3, 0x7F00, 2), "3, 0x7f00, 2"), ("writev", (3, 0x7F00, 2), "3, 0x7f00, 2"),
        ("preadv", (3, 0x7F00, 2, MINUS - 1), "3, 0x7f00, 2, -1"), ("pwritev", (3, 0x7F00, 2, 9), "3, 0x7f00, 2, 9"),
        ("preadv2", (3, 0x7F00, 2, 9, 0, 0), "3, 0x7f00, 2, 9, 0"),
        ("pwritev2", (3, 0x7F00, 2, 9, 0, 31), "3, 0x7f00, 2, 9, RWF_HIPRI|RWF_DSYNC|RWF_SYNC|RWF_NOWAIT|RWF_APPEND"),
        ("pwritev2", (3, 0x7F00, 2, 9, 1, 2), "3, 0x7f00, 2, 9, RWF_DSYNC"),
        ("lseek", (3, MINUS - 7, 1), "3, -7, SEEK_CUR"), ("lseek", (3, 7, 0), "3, 7, SEEK_SET"),
        ("lseek", (3, 7, 2), "3, 7, SEEK_END"), ("lseek", (3, 7, 3), "3, 7, SEEK_DATA"), ("lseek", (3, 7, 4), "3, 7, SEEK_HOLE"),
        ("lseek", (3, 7, 9), "3, 7, SEEK_OTHER"), ("fsync", (3,), "3"), ("fdatasync", (3,), "3"), ("syncfs", (3,), "3"),
        ("sync", (), ""), ("sync_file_range", (3, 4, 5, 6), "3, 4, 5, 0"), ("ftruncate", (3, 5), "3, 5"),
        ("fallocate", (3, 3, 4, 5), "3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 4, 5"), ("fallocate", (3, 0, 4, 5), "3, 0, 4, 5"),
        ("fallocate", (3, 8 | 16 | 32 | 64, 4, 5),
         "3, FALLOC_FL_COLLAPSE_RANGE|FALLOC_FL_ZERO_RANGE|FALLOC_FL_INSERT_RANGE|FALLOC_FL_UNSHARE_RANGE, 4, 5"),
        ("getdents64", (3, 0x7F00, 9), "3, 0x7f00, 9"), ("getdents", (3, 0x7F00, 9), "3, 0x7f00, 9"), ("close", (3,), "3"),
        ("close_range", (3, MINUS - 1, 4), "3, 4294967295, CLOSE_RANGE_CLOEXEC"), ("close_range", (3, 5, 0), "3, 5, 0"),
        ("dup", (3,), "3"), ("dup2", (3, 4), "3, 4"), ("dup3", (3, 4, 0o2000000), "3, 4, O_CLOEXEC"),
        ("dup3", (3, 4, 0), "3, 4, 0"),
        ("fcntl", (3, 0, 9), "3, F_DUPFD, 9"), ("fcntl", (3, 1030, 9), "3, F_DUPFD_CLOEXEC, 9"),
        ("fcntl", (3, 1 << 32 | 1, 9), "3, F_GETFD"), ("fcntl", (3, 2, 1), "3, F_SETFD, FD_CLOEXEC"),
        ("fcntl", (3, 2, 2), "3, F_SETFD, 0"), ("fcntl", (3, 3, 9), "3, F_GETFL"), ("fcntl", (3, 6, 9), "3, F_OTHER"),
        ("fcntl", (3, 4, 0o2001), "3, F_SETFL, O_WRONLY|O_APPEND"), ("fcntl", (3, 4, 0o4000), "3, F_SETFL, O_RDONLY|0"),
        ("mmap", (0, 9, 7, 1, 3, 0x1000), "0x0, 9, PROT_READ|PROT_WRITE|PROT_EXEC, MAP_SHARED, 3, 0x1000"),
        ("mmap", (0, 9, 0, 2, 3, 0), "0x0, 9, 0, MAP_PRIVATE, 3, 0x0"),
        ("mmap", (16, 9, 1, 0x32, MINUS - 1, 0), "0x10, 9, PROT_READ, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0x0"),
        ("mmap", (0, 9, 2, 0x88003, 3, 0), "0x0, 9, PROT_WRITE, MAP_SHARED|MAP_POPULATE|MAP_SYNC, 3, 0x0"),
        ("munmap", (0x1000, 9), "0x1000, 9"), ("msync", (0x1000, 9, 7), "0x1000, 9, MS_ASYNC|MS_INVALIDATE|MS_SYNC"),
        ("mremap", (0x1000, 8, 9, 1), "0x1000, 8, 9, 1"), ("other", (10, 11), "0xa, 0xb"),
    ],
)  # fmt: skip
def test_arguments_of_registers(name: str, args: tuple, text: str) -> None:
    assert arguments(name, args) == text


@pytest.mark.parametrize(
    ("name", "value", "args", "text"),
    [
        ("read", 5, (), "5"), ("read", -2, (), "-1 ENOENT"), ("read", -511, (), "-1 E511"), ("read", -512, (), "? ERESTARTSYS"),
        ("read", -4095, (), "? ERESTARTSYS"), ("lseek", -4096, (), "-4096"), ("read", 0, (), "0"), ("mmap", 4096, (), "0x1000"),
        ("mremap", 255, (), "0xff"), ("fcntl", 0o2001, (3, 3), "0x401 (flags O_WRONLY|O_APPEND)"), ("fcntl", 1, (3, 1), "1"),
        ("fcntl", 0o100000, (3, 3), "0x8000 (flags O_RDONLY|0)"), ("fcntl", 0, (3, 1 << 32 | 3), "0x0 (flags O_RDONLY)"),
    ],
)  # fmt: skip
def test_results(name: str, value: int, args: tuple, text: str) -> None:
    assert result(name, value, args) == text


def test_registers() -> None:
    assert [signed(value) for value in (0, (1 << 63) - 1, 1 << 63, MINUS - 1)] == [0, (1 << 63) - 1, -(1 << 63), -1]
    assert [fd(value) for value in (0, (1 << 31) - 1, 1 << 31, MINUS - 100)] == [0, (1 << 31) - 1, -(1 << 31), -100]
    assert [open_flags(value) for value in (0, 1, 2, 0o101, 0o10300)] == [
        "O_RDONLY", "O_WRONLY", "O_RDWR", "O_WRONLY|O_CREAT", "O_RDONLY|O_CREAT|O_EXCL|O_DSYNC",
    ]  # fmt: skip


AT = {"path": '"a"', "path2": '"b"', "dirfd": 5, "dirfd2": -100}
CALLS = [
    ("read", {"fd": 3, "count": 9}, 5, 'read(3, ""..., 9) = 5'), ("write", {"fd": "3", "count": "9"}, 0, 'write(3, ""..., 9) = 0'),
    ("pread", {"fd": 3, "count": 9, "offset": 7}, 5, 'pread64(3, ""..., 9, 7) = 5'),
    ("pwrite64", {"fd": 3, "count": 9, "offset": 7}, -28, 'pwrite64(3, ""..., 9, 7) = -1 ENOSPC (failed)'),
    ("pwrite64", {"fd": 3, "count": 9, "offset": 7}, -1, 'pwrite64(3, ""..., 9, 7) = -1 EUNKNOWN (failed)'),
    ("close", {"fd": 3}, -999, "close(3) = -1 EUNKNOWN (failed)"),
    ("lseek64", {"fd": 3, "offset": -7, "whence": 1}, 5, "lseek(3, -7, SEEK_CUR) = 5"),
    ("lseek", {"fd": 3, "offset": 7, "whence": "SEEK_END"}, 5, "lseek(3, 7, SEEK_END) = 5"),
    ("lseek", {"fd": 3, "offset": 7, "whence": 9}, 5, "lseek(3, 7, 9) = 5"), ("sync", {}, 0, "sync() = 0"),
    ("ftruncate64", {"fd": 3, "length": 7}, 0, "ftruncate(3, 7) = 0"), ("truncate", AT | {"length": 7}, 0, 'truncate("a", 7) = 0'),
    ("open", AT | {"flags": 0}, 3, 'open("a", O_RDONLY) = 3'), ("open64", AT | {"flags": 3}, 3, 'open("a", O_RDWR) = 3'),
    ("openat", AT | {"flags": 0o4010101}, 3, 'openat(5, "a", O_WRONLY|O_SYNC|O_CREAT) = 3'),
    ("openat", AT | {"flags": 0o10000}, 3, 'openat(5, "a", O_RDONLY|O_DSYNC) = 3'),
    ("openat", AT | {"flags": 0o20200002}, 3, 'openat(5, "a", O_RDWR|O_TMPFILE) = 3'),
    ("openat", {"path": '"a"', "flags": 0o200000}, 3, 'openat(AT_FDCWD, "a", O_RDONLY|O_DIRECTORY) = 3'),
    ("openat", AT | {"flags": 0o12403200}, 3, 'openat(5, "a", O_RDONLY|O_EXCL|O_TRUNC|O_APPEND|O_NOFOLLOW|O_CLOEXEC|O_PATH) = 3'),
    ("open", AT | {"flags": "O_RDWR, O_CREAT"}, 3, 'open("a", O_RDWR|O_CREAT) = 3'), ("creat64", AT, 3, 'creat("a", 0) = 3'),
    ("mkdir", AT, 0, 'mkdir("a", 0) = 0'), ("mkdirat", AT, 0, 'mkdirat(5, "a", 0) = 0'), ("rmdir", AT, 0, 'rmdir("a") = 0'),
    ("unlink", AT, 0, 'unlink("a") = 0'), ("unlinkat", AT, 0, 'unlinkat(5, "a", 0) = 0'),
    ("unlinkat", AT | {"flags": 0x200}, 0, 'unlinkat(5, "a", AT_REMOVEDIR) = 0'),
    ("unlinkat", AT | {"flags": 0x100}, 0, 'unlinkat(5, "a", 0) = 0'),
    ("unlinkat", AT | {"flags": "AT_REMOVEDIR"}, 0, 'unlinkat(5, "a", AT_REMOVEDIR) = 0'),
    ("rename", AT, 0, 'rename("a", "b") = 0'), ("renameat2", AT, 0, 'renameat(5, "a", AT_FDCWD, "b") = 0'),
    ("link", AT, 0, 'link("a", "b") = 0'), ("dup1", {"fd": 3}, 4, "dup(3) = 4"),
    ("fallocate", {"fd": 3, "offset": 1, "length": 2}, 0, "fallocate(3, 0, 1, 2) = 0"),
    ("fallocate", {"fd": 3, "offset": 1, "length": 2, "mode": 3}, 0,
     "fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 1, 2) = 0"),
    ("fallocate", {"fd": 3, "offset": 1, "length": 2, "mode": 1}, 0, "fallocate(3, FALLOC_FL_KEEP_SIZE, 1, 2) = 0"),
    ("stat", AT, 0, 'access("a", 0) = 0'), ("newfstatat", AT, -2, 'faccessat(5, "a", 0, 0) = -1 ENOENT (failed)'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "value", "text"), CALLS)
def test_calls_by_name(name: str, args: dict, value: int, text: str) -> None:
    assert told(name, args, value) == text


@pytest.mark.parametrize(
    ("name", "args", "value", "message"),
    [
        ("read", {"fd": 3, "count": -1}, 0, "read with count '-1'"), ("read", {"fd": 3}, 0, "read with count 'None'"),
        ("read", {"fd": -1, "count": 1}, 0, "read with fd '-1'"), ("read", {"fd": True, "count": 1}, 0, "fd 'True'"),
        ("read", {"fd": 3, "count": 10**18}, 0, "count '1000000000000000000'"), ("read", {"fd": "x", "count": 1}, 0, "fd 'x'"),
        ("read", {"fd": 3, "count": "9" * 20}, 0, "count '9999"), ("open", {"flags": 0}, 3, "open without a path"),
        ("open", AT | {"flags": "O_RDWR|a b"}, 3, "open with flags 'O_RDWR|a b'"),
        ("openat", AT | {"dirfd": -101, "flags": 0}, 3, "-101"),
        ("close", {"fd": 3}, 10**18, "result 1000000000000000000 is out of range"), ("close", {"fd": 3}, -(10**18), "out of range"),
        ("lseek", {"fd": 3, "offset": -(10**18) - 1, "whence": 0}, 3, "lseek with offset"),
        ("pread64", {"fd": 3, "count": 1, "offset": -1}, 3, "pread64 with offset '-1'"),
    ],
)  # fmt: skip
def test_arguments_that_no_call_has(name: str, args: dict, value: int, message: str) -> None:
    with pytest.raises(BadLine) as found:
        told(name, args, value)
    assert message in str(found.value)


def test_the_largest_numbers_of_a_call() -> None:
    most = 10**18 - 1
    assert told("read", {"fd": 3, "count": most}, most) == f'read(3, ""..., {most}) = {most}'
    assert told("lseek", {"fd": 3, "offset": -(10**18), "whence": 0}, 0) == f"lseek(3, {-(10**18)}, SEEK_SET) = 0"


def test_calls_that_are_none() -> None:
    assert told("socket", {}, 0) == NOT_A_CALL
    assert told("rename", {"path": '"a"'}, 0) == told("link", {"path": '"a"', "path2": ""}, 0) == NO_SECOND_NAME
    assert call(7, 5, "socket", {}, 0) == NOT_A_CALL


def test_times_and_paths() -> None:
    assert call(7, 2 * 10**9 + 5, "sync", {}, 0) == f"7 {ORIGIN + 2}.000000005 sync() = 0"
    assert call(7, 0, "sync", {}, 0) == f"7 {ORIGIN}.000000000 sync() = 0"
    assert str(call(7, (1 << 61) - 1, "sync", {}, 0)).startswith(f"7 {ORIGIN + ((1 << 61) - 1) // 10**9}.")
    for ns in (-1, 1 << 61):
        with pytest.raises(BadLine, match="out of range"):
            call(7, ns, "sync", {}, 0)
    assert quoted('a "\\\x1f ~\x7fé') == '"a \\042\\134\\037 ~\\177\\303\\251"'
