"""Rows of single calls of strace, by hand from the manual pages: the branches that longer traces seldom take."""

from collections import Counter
from pathlib import Path

import pytest

from scmsim.core.records import (
    APPENDS,
    CONTINUES,
    DIRECTORY,
    OFFSET_UNKNOWN,
    POPULATE,
    PRIVATE,
    REMAPPED,
    SYNCHRONOUS,
    WRITABLE_SHARED,
)
from scmsim.trace.syscalls.importer import (
    BOOKKEEPING,
    NEVER_RETURNED,
    NOT_A_FILE,
    NOT_A_FILE_OPERATION,
    OUTSIDE,
    SYMLINK,
    UNKNOWN_FD,
)
from tests.trace.strace_helper import convert_lines, first_sizes

A = 'open("/d/a", O_RDWR) = 3</d/a>'
DIR = 'open("/d", O_RDONLY|O_DIRECTORY) = 9</d>'
REG = "{st_mode=S_IFREG|0644, st_size=7, ...}"
LNK = "{st_mode=S_IFLNK|0777, st_size=1, ...}"
R, W = 'read(%s, "", 9) = 4', 'write(%s, "", 4) = 4'

# lines -> rows (operation, path, offset, length, flag); every file was there before
ROWS = {
    "vectors": (
        [A, "readv(3, [...], 2) = 7", "preadv(3, [...], 2, 90) = 5", "preadv2(3, [...], 2, 90, 0) = 5",
        "preadv2(3, [...], 2, -1, 0) = 5",
         "pwritev2(3, [...], 2, 50, RWF_SYNC|RWF_HIPRI) = 5", "pwritev2(3, [...], 2, -1, 0) = 5", "writev(3, [...], 1) = 1"],
        [("open", "/d/a", -1, 0, 0), ("read", "/d/a", 0, 7, 0), ("read", "/d/a", 90, 5, 0), ("read", "/d/a", 90, 5, 0),
        ("read", "/d/a", 7, 5, 0),
         ("write", "/d/a", 50, 5, SYNCHRONOUS), ("write", "/d/a", 12, 5, 0), ("write", "/d/a", 17, 1, 0)],
    ),
    "a range of descriptors": (
        [A, 'open("/d/b", O_RDWR) = 4', DIR, "socket(AF_UNIX, SOCK_STREAM, 0) = 10", 'open("/d/c", O_RDWR) = 11',
        "close_range(4, 10, 0) = 0",
         R % 3, R % 4, R % 9, R % 11],
        [("open", "/d/a", -1, 0, 0), ("open", "/d/b", -1, 0, 0), ("open", "/d", -1, 0, DIRECTORY), ("open", "/d/c", -1, 0, 0),
         ("close", "/d/b", -1, 0, 0), ("close", "/d", -1, 0, DIRECTORY | CONTINUES), ("read", "/d/a", 0, 4, 0), ("read",
         "/d/c", 0, 4, 0)],
    ),
    "a range that an exec closes": (
        [A, 'open("/d/b", O_RDWR) = 4', 'open("/d/c", O_RDWR) = 5', 'open("/d/e", O_RDWR) = 6',
        "close_range(4, 5, CLOSE_RANGE_CLOEXEC) = 0",
         R % 4, 'execve("/bin/x", [], 0x0) = 0', R % 3, R % 4, R % 5, R % 6],
        [*(("open", f"/d/{name}", -1, 0, 0) for name in "abce"), ("read", "/d/b", 0, 4, 0), ("read", "/d/a", 0, 4, 0),
        ("read", "/d/e", 0, 4, 0)],
    ),
    "an exec by a descriptor": (
        ['open("/d/a", O_RDWR|O_CLOEXEC) = 3', 'open("/d/b", O_RDWR) = 4', 'execveat(7, "x", [], 0x0, 0) = 0', R % 3, R % 4],
        [("open", "/d/a", -1, 0, 0), ("open", "/d/b", -1, 0, 0), ("read", "/d/b", 0, 4, 0)],
    ),
    "flags of a descriptor": (
        [A, "fcntl(3, F_SETFD, FD_CLOEXEC) = 0", "fcntl(3, F_SETFD, 0) = 0", "fcntl(3, F_GETFD) = 0x1 (flags FD_CLOEXEC)",
        "dup(3) = 4",
         "dup3(3, 5, O_CLOEXEC) = 5", "fcntl(3, F_DUPFD_CLOEXEC, 6) = 6", "fcntl(3, F_DUPFD, 7) = 7",
         'execve("/bin/x", [], 0x0) = 0',
         R % 3, R % 4, R % 5, R % 6, R % 7],
        [("open", "/d/a", -1, 0, 0), ("read", "/d/a", 0, 4, 0), ("read", "/d/a", 4, 4, 0), ("read", "/d/a", 8, 4, 0)],
    ),
    "F_GETFL shows O_APPEND": (
        [A, "ftruncate(3, 70) = 0", "fcntl(3, F_GETFL) = 0x402 (flags O_RDWR|O_APPEND)", W % 3,
        "fcntl(3, F_SETFL, O_RDWR) = 0", W % 3,
         "fcntl(3, F_GETFL) = 0x2 (flags O_RDWR)", W % 3, "fcntl(3, F_SETLK, {...}) = 0"],
        [("open", "/d/a", -1, 0, 0), ("truncate", "/d/a", 70, 0, 0), ("write", "/d/a", 70, 4, APPENDS), ("write", "/d/a", 74,
        4, 0),
         ("write", "/d/a", 78, 4, 0)],
    ),
    "a duplicate that -y names": (
        ["dup2(3, 5) = 5</d/a>", W % "5", "dup2(8, 5) = 5", W % "5"], [("write", "/d/a", 0, 4, OFFSET_UNKNOWN)],
    ),
    "pairs": (
        [A, "pipe([4, 5]) = 0", W % 4, W % 5, "socketpair(AF_UNIX, SOCK_STREAM, 0, [6, 7]) = 0", W % 6, W % 7,
        "pipe2([3, 8], O_CLOEXEC) = 0", W % 3,
         'execve("/bin/x", [], 0x0) = 0', W % 3, W % 4],
        [("open", "/d/a", -1, 0, 0)],
    ),
    "links": (
        ['symlink("/d/a", "/d/l") = 0', A, 'link("/d/l", "/d/m") = 0', f'stat("/d/m", {REG}) = 0',
        f'lstat("/d/m", {LNK}) = 0',
         'rename("/d/m", "/d/n") = 0', f'stat("/d/n", {REG}) = 0', 'unlink("/d/n") = 0', f'lstat("/d/x", {LNK}) = 0',
         'unlink("/d/x") = 0',
         'symlinkat("a", 9</d>, "k") = 0', 'open("/d/k", O_RDONLY) = 5', R % 5, 'linkat(9</d>, "a", AT_FDCWD, "/d/o", 0) = 0',
         'truncate("/d/l", 5) = 0'],
        [("open", "/d/a", -1, 0, 0), ("stat", "/d/a", -1, 0, 0), ("stat", "/d/a", -1, 0, 0), ("open", "/d/a", -1, 0, 0),
        ("read", "/d/a", 0, 4, 0),
         ("link", "/d/a", -1, 0, 0), ("truncate", "/d/a", 5, 0, 0)],
    ),
    "descriptors by their names": (
        [A, f'stat("/proc/self/fd/3", {REG}) = 0', 'open("/proc/self/fd/3", O_RDONLY) = 4', R % 4,
        f'lstat("/proc/self/fd/3", {LNK}) = 0',
         'linkat(AT_FDCWD, "/proc/self/fd/3", AT_FDCWD, "/d/b", AT_SYMLINK_FOLLOW) = 0',
         'linkat(3, "", AT_FDCWD, "/d/c", AT_EMPTY_PATH) = 0',
         'open("/d/c", O_RDONLY) = 5', f'newfstatat(3, "", {REG}, AT_EMPTY_PATH) = 0',
         f'stat("/proc/self/fd/77", {REG}) = 0'],
        [("open", "/d/a", -1, 0, 0), ("stat", "/d/a", -1, 0, 0), ("open", "/d/a", -1, 0, 0), ("read", "/d/a", 0, 4, 0),
        ("link", "/d/a", -1, 0, 0),
         ("link", "/d/a", -1, 0, 0), ("open", "/d/a", -1, 0, 0), ("stat", "/d/a", -1, 0, 0)],
    ),
    "directories": (
        ['mkdirat(AT_FDCWD</d>, "e", 0777) = 0', 'mkdirat(9</d>, "e/f", 0777) = 0', 'rename("/d/e", "/d/g") = 0',
        'rmdir("/d/g/f") = 0',
         'unlinkat(9</d>, "g", AT_REMOVEDIR) = 0', DIR, "fsync(9) = 0", "getdents(9, 0x5, 100) = 40",
         "lseek(9, 0, SEEK_END) = 77", "close(9) = 0"],
        [("mkdir", "/d/e", -1, 0, DIRECTORY), ("mkdir", "/d/e/f", -1, 0, DIRECTORY), ("rename", "/d/e", -1, 0, DIRECTORY),
         ("rmdir", "/d/e/f", -1, 0, DIRECTORY), ("rmdir", "/d/e", -1, 0, DIRECTORY), ("open", "/d", -1, 0, DIRECTORY),
         ("fsync", "/d", -1, 0, DIRECTORY),
         ("readdir", "/d", -1, 40, DIRECTORY), ("close", "/d", -1, 0, DIRECTORY)],
    ),
    "kinds of files": (
        [A, "fstat(3, {st_mode=S_IFCHR|0620, st_rdev=makedev(0x88, 0), ...}) = 0", W % 3,
        'stat("/d/b", {st_mode=S_IFSOCK|0777, st_size=0}) = 0',
         f'stat("/proc/cpuinfo", {REG}) = 0', 'truncate("/dev/null", 5) = 0', 'unlink("/dev/x") = 0',
         'mkdir("/proc/x", 0777) = 0',
         'unlink("/dev/shm/x") = 0'],
        [("open", "/d/a", -1, 0, 0), ("unlink", "/dev/shm/x", -1, 0, 0)],
    ),
    "remapping": (
        [A, "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_POPULATE, 3, 0x1000) = 0x10000",
        "mremap(0x10000, 8192, 8192, 0) = 0x10000",
         "mremap(0x10000, 8192, 4096, 0) = 0x10000", "mremap(0x10000, 4096, 12288, MREMAP_MAYMOVE) = 0x10000",
         "mremap(0x10000, 12288, 12288, MREMAP_MAYMOVE, 0x90000) = 0x90000",
         "mremap(0x70000, 4096, 8192, MREMAP_MAYMOVE) = 0x80000",
         "msync(0x91000, 1, MS_SYNC) = 0", "munmap(0x90000, 1) = 0", "munmap(0x10000, 4096) = 0"],
        [("open", "/d/a", -1, 0, 0), ("mmap", "/d/a", 0x1000, 8192, WRITABLE_SHARED | POPULATE), ("munmap", "/d/a", 0x2000,
        4096, 0),
         ("mmap", "/d/a", 0x1000, 12288, REMAPPED), ("mmap", "/d/a", 0x1000, 12288, REMAPPED), ("msync", "/d/a", 0x2000, 1, 0),
         ("munmap", "/d/a", 0x1000, 4096, 0)],
    ),
    "page faults": (
        [A, "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x10000",
        "mmap(NULL, 8192, PROT_WRITE, MAP_PRIVATE, 3, 0) = 0x20000",
         "page_fault(0x11005, FAULT_WRITE) = 0", "page_fault(0x11fff, FAULT_READ) = 0", "page_fault(0x20007, FAULT_WRITE) = 0",
         "page_fault(0x12000, FAULT_WRITE) = 0", "page_fault(0xffff, FAULT_READ) = 0"],
        [("open", "/d/a", -1, 0, 0), ("mmap", "/d/a", 0, 8192, WRITABLE_SHARED), ("mmap", "/d/a", 0, 8192, PRIVATE), ("store",
        "/d/a", 4101, 1, 0),
         ("load", "/d/a", 8191, 1, 0), ("load", "/d/a", 7, 1, 0)],
    ),
    "a mapping of what is not a file": (
        ["mmap(NULL, 8192, PROT_READ, MAP_SHARED, 77, 0) = 0x10000", "socket(AF_UNIX, SOCK_STREAM, 0) = 6",
         "mmap(NULL, 8192, PROT_READ, MAP_SHARED, 6, 0) = 0x20000", A,
         "mmap(NULL, 8192, PROT_READ, MAP_SHARED|MAP_ANONYMOUS, 3, 0) = 0x30000",
         "mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3, 0) = 0x30000"],
        [("open", "/d/a", -1, 0, 0), ("mmap", "/d/a", 0, 8192, 0)],
    ),
    "a seek within a directory or before the offset": (
        [A, "lseek(3, 9, SEEK_END) = 5", W % 3, "lseek(3, 2, SEEK_DATA) = 4", W % 3],
        [("open", "/d/a", -1, 0, 0), ("write", "/d/a", 5, 4, 0), ("write", "/d/a", 4, 4, 0)],
    ),
    "space by numbers": (
        [A, "fallocate(3, 0, 5, 10) = 0", "fallocate(3, FALLOC_FL_INSERT_RANGE, 0, 4096) = 0",
        "fallocate(3, FALLOC_FL_UNSHARE_RANGE, 0, 4096) = 0",
         "fallocate(3, FALLOC_FL_ZERO_RANGE, 5, 9) = 0", 'open("/d/a", O_WRONLY|O_APPEND) = 4', W % 4],
        [("open", "/d/a", -1, 0, 0), ("fallocate", "/d/a", 5, 10, 0), ("fallocate", "/d/a", 0, 4096, 0),
         ("fallocate", "/d/a", 5, 9, 0), ("open", "/d/a", -1, 0, 0), ("write", "/d/a", 4111, 4, APPENDS | OFFSET_UNKNOWN)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_rows(tmp_path: Path, name: str) -> None:
    lines, rows = ROWS[name]
    case = convert_lines(tmp_path, *lines)
    assert [tuple(row) for row in case.rows] == rows and case.report.bad == 0


ON_DESCRIPTORS = [
    'read(%s, "", 9) = 4', "readv(%s, [...], 2) = 7", 'pread64(%s, "", 9, 0) = 4', 'write(%s, "", 4) = 4',
    "lseek(%s, 0, SEEK_SET) = 0",
    "fsync(%s) = 0", "fdatasync(%s) = 0", "sync_file_range(%s, 0, 9, 0) = 0", "syncfs(%s) = 0", "ftruncate(%s, 9) = 0",
    "fallocate(%s, 0, 0, 9) = 0", "getdents64(%s, 0x5, 9) = 9", "close(%s) = 0", "fstat(%s, 0x5) = 0",
    "mmap(NULL, 8192, PROT_READ, MAP_SHARED, %s, 0) = 0x10000",
]  # fmt: skip


@pytest.mark.parametrize(
    ("fd", "why"), [("7", UNKNOWN_FD), ("6", NOT_A_FILE), ("8<pipe:[1]>", NOT_A_FILE), ("8</dev/null>", NOT_A_FILE)]
)
def test_a_call_on_what_is_no_file_makes_no_row(tmp_path: Path, fd: str, why: str) -> None:
    lines = [f"{pid} 1.000001 {line % fd}" for pid, line in enumerate(ON_DESCRIPTORS, 10)]
    sockets = [f"{pid} 1.000001 socket(AF_UNIX, SOCK_STREAM, 0) = 6" for pid in range(10, 10 + len(lines))]
    case = convert_lines(tmp_path, A, *sockets, *lines)
    assert len(case.rows) == 1 and case.report.bad == 0
    assert case.report.left_out == Counter({NOT_A_FILE: len(lines)}) + Counter({why: len(lines)})


LEFT_OUT = [
    ("dup(3) = 4", BOOKKEEPING), ("fcntl(3, F_GETFD) = 0", NOT_A_FILE_OPERATION), ("fcntl(3, F_SETFD, 0) = 0", BOOKKEEPING),
    ("fcntl(3, F_SETFL, O_RDWR) = 0", BOOKKEEPING), ("lseek(3, 0, SEEK_SET) = 0", BOOKKEEPING), ("chdir(\"/d\") = 0",
    BOOKKEEPING),
    ("unshare(CLONE_FILES) = 0", BOOKKEEPING), ("unshare(CLONE_FS) = 0", BOOKKEEPING), ("close_range(50, 60, 0) = 0",
    BOOKKEEPING),
    ("msync(0x10000, 9, MS_ASYNC) = 0", BOOKKEEPING), ("msync(0x10000, 9, MS_SYNC) = 0", NOT_A_FILE_OPERATION),
    ("munmap(0x10000, 9) = 0", NOT_A_FILE_OPERATION), ("mremap(0x10000, 9, 9, 0) = 0x10000", NOT_A_FILE_OPERATION),
    ('unlink("/dev/null") = 0', NOT_A_FILE), ('mkdir("/sys/x", 0777) = 0', NOT_A_FILE), ('truncate("/proc/x", 5) = 0',
    NOT_A_FILE),
    ('stat("/proc", 0x5) = 0', NOT_A_FILE), ('symlink("a", "/d/l") = 0', SYMLINK),
    ('lstat("/d/l", {st_mode=S_IFLNK|0777}) = 0', SYMLINK),
    ("exit_group(0) = ?", NOT_A_FILE_OPERATION), ("read(3, 0x7f, 9) = ?", NEVER_RETURNED), ("read(3,  <unfinished ...>) = ?",
    NEVER_RETURNED),
    ('open("/dev/null", O_RDWR) = 5', NOT_A_FILE), ("pause( <unfinished ...>", NOT_A_FILE_OPERATION),
    ("pause(", None), ("<... pause resumed>) = 0", NOT_A_FILE_OPERATION), ('open("/proc/self/fd/77", O_RDONLY) = 5',
    NOT_A_FILE),
]  # fmt: skip


@pytest.mark.parametrize("prefix", ["", "12:59:59 "])
def test_why_a_line_makes_no_row(tmp_path: Path, prefix: str) -> None:
    """None: the line is bad.  A time of day is read by other patterns than a process and seconds."""
    case = convert_lines(tmp_path, f"{prefix}{A}", *(f"{prefix}{line}" for line, _ in LEFT_OUT))
    assert len(case.rows) == 1 and case.report.left_out == Counter(why for _, why in LEFT_OUT if why)
    assert case.report.other == {"fcntl": 1, "msync": 1, "munmap": 1, "mremap": 1, "exit_group": 1, "pause": 2}
    assert [number for number, _ in case.report.bad_lines] == [k for k, (_, why) in enumerate(LEFT_OUT, 2) if not why]


def test_under_a_directory_renames_and_links_cross_its_border(tmp_path: Path) -> None:
    lines = [
        'open("/out/a", O_RDWR) = 3', 'rename("/out/a", "/out/b") = 0', 'open("/in/c", O_RDWR) = 4',
        'rename("/out/b", "/in/c") = 0', W % 3,
        'rename("/in/c", "/out/e") = 0', W % 3, 'stat("/in", {st_mode=S_IFDIR|0755, st_size=0}) = 0',
        'open("/input", O_RDWR) = 5',
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x10000",
        "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 4, 0) = 0x20000",
    ]  # fmt: skip
    case = convert_lines(tmp_path, *lines, under="/in")
    assert [(row.op, row.path) for row in case.rows] == [
        ("open", "/in/c"), ("rename", "/out/a"), ("write", "/out/a"), ("unlink", "/out/a"), ("stat", "/in"), ("mmap", "/in/c"),
    ]  # fmt: skip
    assert case.records["file2"].tolist()[1] == case.records["file"].tolist()[0] and case.report.left_out[OUTSIDE] == 5
    assert case.report.blind_spots == [
        "writable shared mapping of '/in/c' (8192 bytes): its loads and stores are not in the trace"
    ]
    assert convert_lines(tmp_path, *lines, under="/").report.left_out[OUTSIDE] == 0


def test_the_first_twenty_mappings_are_named(tmp_path: Path) -> None:
    for count in (20, 21, 23):
        lines = [f'open("/d/{i}", O_RDWR) = {i + 3}' for i in range(count)]
        lines += [
            f"mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, {i + 3}, 0) = {0x10000 * (i + 1):#x}" for i in range(count)
        ]
        spots = convert_lines(tmp_path, *lines).report.blind_spots
        assert spots[20:] == ([f"writable shared mappings of {count - 20} more files"] if count > 20 else [])
        assert spots[19].startswith("writable shared mapping of '/d/19' (4096 bytes)")


def test_two_forks_at_once_may_mistake_a_child(tmp_path: Path) -> None:
    """The first child seen takes the descriptors of the first fork that is pending."""
    lines = [
        f"1 1.000001 {A}", "2 1.000002 sync() = 0", "1 1.000003 fork( <unfinished ...>", "2 1.000004 fork( <unfinished ...>",
        "8 1.000005 sync() = 0", "9 1.000006 sync() = 0", "2 1.000007 <... fork resumed>) = 8",
        "1 1.000008 <... fork resumed>) = 9",
    ]  # fmt: skip
    case = convert_lines(tmp_path, *lines)
    assert case.report.notes == ["2 child processes may have inherited the descriptors of another process"]
    lines[6:] = ["1 1.000007 <... fork resumed>) = 8", "2 1.000008 <... fork resumed>) = 9"]
    assert convert_lines(tmp_path, *lines).report.notes == []


def test_a_table_of_descriptors_is_shared_until_it_is_unshared(tmp_path: Path) -> None:
    head = [f"1 1.000001 {A}", "1 1.000002 clone(child_stack=NULL, flags=CLONE_FILES|SIGCHLD) = 2"]
    tail = ["2 1.000004 close(3) = 0", f"1 1.000005 {W % 3}"]
    for what, ops in (("CLONE_FILES", ["open", "close", "write"]), ("CLONE_FS", ["open", "close"])):
        case = convert_lines(tmp_path, *head, f"2 1.000003 unshare({what}) = 0", *tail)
        assert [row.op for row in case.rows] == ops


def test_what_a_capture_saw_of_a_file_is_its_size(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path, 'open("/d/a", O_WRONLY|O_APPEND) = 3', 'file_size("/d/a", 77) = 0', 'file_size("/d/b", 5) = 0', W % 3
    )
    assert tuple(case.rows[-1]) == ("write", "/d/a", 77, 4, APPENDS) and first_sizes(case) == {"/d/a": 77}
