"""What the strace importer makes of single calls: positions, names, existence, sizes, mappings, processes."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.records import (
    APPENDS,
    CONTINUES,
    DATA_ONLY,
    DIRECTORY,
    KEEP_SIZE,
    OFFSET_UNKNOWN,
    PUNCH_HOLE,
    SYNCHRONOUS,
)
from scmsim.trace.formats.tracers import strace
from scmsim.trace.kernels.strace_text import NAMES
from scmsim.trace.reading.lines import byte_blocks
from scmsim.trace.syscalls import conversion, runs
from scmsim.trace.syscalls.importer import BOOKKEEPING, UNKNOWN_FD
from tests.trace.strace_helper import convert_lines, first_sizes

OPEN = 'openat(AT_FDCWD</d>, "f", O_RDWR) = 3</d/f>'
NEW = 'openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</d/f>'


def ops(case) -> list[tuple]:
    return [(row.op, row.offset, row.length, row.flag) for row in case.rows]


def test_position_moves_with_short_results_and_zero_lengths_stay(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        'read(3</d/f>, ""..., 4096) = 100',
        'read(3</d/f>, "", 4096) = 0',
        'write(3</d/f>, ""..., 50) = 20',
        "lseek(3</d/f>, 5, SEEK_SET) = 5",
        "writev(3</d/f>, [...], 2) = 7",
    )
    assert ops(case)[1:] == [("read", 0, 100, 0), ("read", 100, 0, 0), ("write", 100, 20, 0), ("write", 5, 7, 0)]
    assert first_sizes(case)["/d/f"] == 100


def test_pread_does_not_move_and_preadv2_at_minus_one_does(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        'pread64(3</d/f>, ""..., 10, 4096) = 10',
        'preadv2(3</d/f>, [{iov_base="ab)= 5\\"]"..., iov_len=8}], 1, -1, 0) = 8',
        'pwritev2(3</d/f>, [{iov_base="x", iov_len=1}], 1, 77, RWF_DSYNC) = 1',
        "pwritev(3</d/f>, [...], 1, 78) = 2",
        'read(3</d/f>, "a", 1) = 1',
    )
    assert ops(case)[1:] == [
        ("read", 4096, 10, 0), ("read", 0, 8, 0), ("write", 77, 1, SYNCHRONOUS), ("write", 78, 2, 0), ("read", 8, 1, 0),
    ]  # fmt: skip
    assert first_sizes(case)["/d/f"] == 4106


@pytest.mark.parametrize(
    "duplicate", ["dup(3) = 4", "dup2(3, 4) = 4", "dup3(3, 4, O_CLOEXEC) = 4", "fcntl(3, F_DUPFD, 4) = 4"]
)
def test_duplicates_share_the_position(tmp_path: Path, duplicate: str) -> None:
    case = convert_lines(tmp_path, NEW, duplicate, 'write(3, "", 10) = 10', "close(3) = 0", 'write(4, "", 5) = 5')
    assert ops(case)[1:] == [("write", 0, 10, 0), ("close", -1, 0, 0), ("write", 10, 5, 0)]


def test_appending(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'write(3, "", 10) = 10',
        'open("/d/f", O_WRONLY|O_APPEND|O_DSYNC) = 4',
        'pwrite64(4, "", 3, 0) = 3',
        'write(3, "", 1) = 1',
        "fcntl(3, F_SETFL, O_RDWR|O_APPEND) = 0",
        'write(3, "", 2) = 2',
        "ftruncate(3, 4) = 0",
        'write(4, "", 6) = 6',
        "pwritev2(3, [...], 1, 0, RWF_APPEND) = 1",
    )
    sync = APPENDS | SYNCHRONOUS
    assert ops(case)[3:] == [
        ("write", 10, 3, sync), ("write", 10, 1, 0), ("write", 13, 2, APPENDS), ("truncate", 4, 0, 0),
        ("write", 4, 6, sync), ("write", 10, 1, APPENDS),
    ]  # fmt: skip


def test_a_file_in_a_directory_that_the_trace_made_is_certainly_new(tmp_path: Path) -> None:
    lines = (
        'openat(AT_FDCWD</>, "/d/log", O_WRONLY|O_CREAT|O_APPEND, 0644) = 3</d/log>',
        'write(3</d/log>, "", 5) = 5',
        'write(3</d/log>, "", 5) = 5',
    )
    made = convert_lines(tmp_path, 'mkdir("/d", 0777) = 0', *lines)
    assert ops(made)[2:] == [("write", 0, 5, APPENDS), ("write", 5, 5, APPENDS)]
    found = convert_lines(tmp_path, *lines)
    assert ops(found)[1:] == [("write", 0, 5, APPENDS | OFFSET_UNKNOWN), ("write", 5, 5, APPENDS | OFFSET_UNKNOWN)]


def test_appending_to_a_file_of_unknown_length_is_marked_until_a_stat(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</d>, "log", O_WRONLY|O_APPEND) = 3</d/log>',
        'write(3</d/log>, "", 5) = 5',
        "fstat(3</d/log>, {st_mode=S_IFREG|0644, st_size=1005, ...}) = 0",
        'write(3</d/log>, "", 5) = 5',
    )
    assert ops(case)[1] == ("write", 0, 5, APPENDS | OFFSET_UNKNOWN)
    assert ops(case)[3] == ("write", 1005, 5, APPENDS)
    assert case.report.unknown_offsets == 1


@pytest.mark.parametrize(
    ("seek", "size"), [("-60, SEEK_END) = 40", 100), ("10, SEEK_END) = 110", 100), ("5, SEEK_END) = 5", 0)]
)
def test_a_seek_relative_to_the_end_tells_the_size(tmp_path: Path, seek: str, size: int) -> None:
    """The result less the offset; an append to a file of known size has a known offset."""
    case = convert_lines(
        tmp_path, 'openat(AT_FDCWD</d>, "f", O_RDWR|O_APPEND) = 3</d/f>', f"lseek(3</d/f>, {seek}", 'write(3</d/f>, "", 7) = 7'
    )  # fmt: skip
    assert ops(case)[1:] == [("write", size, 7, APPENDS)]
    assert first_sizes(case)["/d/f"] == size


@pytest.mark.parametrize(("asked", "told"), [(20, False), (21, True)])
def test_a_short_read_tells_the_size(tmp_path: Path, asked: int, told: bool) -> None:
    """Fewer bytes than were asked for are the last ones of a file; all of them say only that there are as many."""
    case = convert_lines(
        tmp_path, 'openat(AT_FDCWD</d>, "f", O_RDWR|O_APPEND) = 3</d/f>', f'pread64(3</d/f>, "", {asked}, 100) = 20',
        'write(3</d/f>, "", 7) = 7',
    )  # fmt: skip
    assert ops(case)[1:] == [("read", 100, 20, 0), ("write", 120, 7, APPENDS | (0 if told else OFFSET_UNKNOWN))]


def test_an_lseek_ends_the_doubt_about_an_inherited_descriptor(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path, 'write(1</d/out>, "", 3) = 3', "lseek(1</d/out>, 0, SEEK_END) = 50", 'write(1</d/out>, "", 3) = 3'
    )
    assert ops(case) == [("write", 0, 3, OFFSET_UNKNOWN), ("write", 50, 3, 0)]
    assert first_sizes(case) == {"/d/out": 50}


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


CREATE_CASES = {
    "O_EXCL": (["openat(AT_FDCWD, \"/d/f\", O_RDWR|O_CREAT|O_EXCL, 0600) = 3"], "create", -1, "certainly new"),
    "seen absent": (
        ['stat("/d/f", 0x7f) = -1 ENOENT (No such file or directory)', 'open("/d/f", O_RDWR|O_CREAT, 0600) = 3'],
        "create", -1, "certainly new",
    ),
    "O_TRUNC": (['creat("/d/f", 0600) = 3'], "create", -1, "emptied when opened, taken as new"),
    "nothing known": (['open("/d/f", O_RDWR|O_CREAT, 0600) = 3'], "create", -1, "assumed new"),
    "stat shows it empty": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "fstat(3, {st_mode=S_IFREG|0600, st_size=0, ...}) = 0"],
        "create", -1, "assumed new",
    ),
    "stat shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "fstat(3, {st_mode=S_IFREG|0600, st_size=9, ...}) = 0"],
        "open", 9, "assumed new, then found existing",
    ),
    "read shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', 'read(3, "", 4096) = 70'],
        "open", 70, "assumed new, then found existing",
    ),
    "seek shows data": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', "lseek(3, 0, SEEK_END) = 8"],
        "open", 8, "assumed new, then found existing",
    ),
    "stat shows what the trace wrote": (
        ['open("/d/f", O_RDWR|O_CREAT, 0600) = 3', 'write(3, "", 4) = 4', "fstat(3, {st_size=4, ...}) = 0"],
        "create", -1, "assumed new",
    ),
}  # fmt: skip


@pytest.mark.parametrize("short", [0, 1 << 30], ids=["many at once", "one by one"])
@pytest.mark.parametrize(
    ("error", "kind"), [("ENOENT (No such file)", "certainly new"), ("EACCES (No)", "assumed new")]
)
def test_only_the_error_of_a_failed_call_shows_that_its_name_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int, error: str, kind: str
) -> None:
    monkeypatch.setattr(conversion, "_SHORT", short)
    monkeypatch.setattr(runs, "ENOUGH", 1)
    monkeypatch.setattr(strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 16))
    name = '"/d/a ENOENT b"'
    case = convert_lines(
        tmp_path, "sync() = 0", f"open({name}, O_RDWR) = -1 {error}", f"open({name}, O_RDWR|O_CREAT, 0600) = 3"
    )
    assert +case.report.creates == {kind: 1} and case.report.failed == {"open": 1}


@pytest.mark.parametrize("name", CREATE_CASES)
def test_whether_an_o_creat_made_the_file(tmp_path: Path, name: str) -> None:
    lines, op, first, kind = CREATE_CASES[name]
    case = convert_lines(tmp_path, *lines)
    assert case.rows[0].op == op
    assert first_sizes(case)["/d/f"] == first
    assert +case.report.creates == {kind: 1}
    assert (case.records["file2"][0] >= 0) == (op == "create")
    if op == "create":
        assert case.trace.files.path[case.records["file2"][0]] == "/d"


def test_late_evidence_does_not_change_a_written_row(tmp_path: Path) -> None:
    lines = [
        'open("/d/f", O_RDWR|O_CREAT, 0600) = 3',
        *['pwrite64(3, "", 1, 0) = 1'] * 170_000,
        'pread64(3, "", 9, 8) = 9',
    ]
    case = convert_lines(tmp_path, *lines)
    assert case.rows[0].op == "create" and case.report.creates["found too late to be existing"] == 1


def test_open_of_an_existing_file_with_o_trunc_is_two_rows(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, 'open("/d/f", O_WRONLY|O_TRUNC) = 3', 'write(3, "", 5) = 5')
    assert ops(case) == [("open", -1, 0, 0), ("truncate", 0, 0, CONTINUES), ("write", 0, 5, 0)]
    assert (case.report.calls, case.report.rows, case.report.extra_rows) == (2, 3, 1)


def test_an_unlinked_file_lives_on_and_its_name_is_free(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'write(3</d/f>, "", 9) = 9',
        'unlink("f") = 0',
        'openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT, 0644) = 4</d/f>',
        'write(4</d/f>, "", 5) = 5',
        'write(3</d/f>(deleted), "", 1) = 1',
        "close(3</d/f>(deleted)) = 0",
    )
    files = case.records["file"].tolist()
    assert files == [files[0]] * 3 + [files[3]] * 2 + [files[0]] * 2 and files[0] != files[3]
    assert case.rows[5].offset == 9 and case.report.creates == {"certainly new": 2}


def test_rename_replaces_and_keeps_the_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'openat(AT_FDCWD</d>, "g", O_RDWR|O_CREAT|O_EXCL, 0644) = 4</d/g>',
        'rename("f", "g") = 0',
        'write(3</d/g>, "", 5) = 5',
        'stat("/d/f", 0x7) = -1 ENOENT (No such file or directory)',
        'renameat2(AT_FDCWD</d>, "g", AT_FDCWD</d>, "h", RENAME_NOREPLACE) = 0',
        'unlink("/d/h") = 0',
    )
    first, second = case.records["file"][:2]
    assert [row.op for row in case.rows] == ["create", "create", "rename", "write", "rename", "unlink"]
    assert case.records["file"].tolist() == [first, second, first, first, first, first]
    assert case.records["file2"][2] == second and case.records["file2"][4] == -1


def test_rename_exchange_swaps_names_and_removes_nothing(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'open("/d/g", O_RDWR|O_CREAT|O_EXCL, 0644) = 4',
        'renameat2(AT_FDCWD</d>, "f", AT_FDCWD</d>, "g", RENAME_EXCHANGE) = 0',
        'unlink("/d/f") = 0',
        'write(3</d/g>, "", 5) = 5',
    )
    first, second = case.records["file"][:2]
    assert case.records["file"].tolist() == [first, second, first, second, first]
    assert case.records["file2"][2] == -1


def test_o_path_opens_nothing(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'symlink("f", "/d/l") = 0',
        'openat(AT_FDCWD</d>, "/d/l", O_RDONLY|O_NOFOLLOW|O_PATH) = 3</d/l>',
        "fstat(3</d/l>, {st_mode=S_IFLNK|0777, st_size=1, ...}) = 0",
        "close(3</d/l>) = 0",
        'openat(AT_FDCWD</d>, "/d", O_RDONLY|O_PATH|O_DIRECTORY) = 3</d>',
        'openat(3</d>, "f", O_RDONLY) = 4</d/f>',
        "close(3</d>) = 0",
    )
    assert [(row.op, row.path) for row in case.rows] == [("open", "/d/f")]


def test_rename_of_a_directory_moves_what_is_in_it(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'mkdir("/d/a", 0777) = 0',
        'open("/d/a/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3',
        'rename("/d/a", "/d/b") = 0',
        'open("/d/b/f", O_RDONLY) = 4',
        'unlink("/d/b/f") = 0',
        'unlinkat(AT_FDCWD, "/d/b", AT_REMOVEDIR) = 0',
    )
    assert [row.op for row in case.rows] == ["mkdir", "create", "rename", "open", "unlink", "rmdir"]
    assert case.records["file"].tolist() == [case.records["file"][0], *[case.records["file"][1]]] + [
        case.records["file"][i] for i in (0, 1, 1, 0)
    ]
    assert [row.flag for row in case.rows] == [DIRECTORY, 0, DIRECTORY, 0, 0, DIRECTORY]


def test_hard_links_are_one_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        'link("/d/f", "/d/g") = 0',
        'unlink("/d/f") = 0',
        'open("/d/g", O_RDONLY) = 4',
        'unlink("/d/g") = 0',
    )
    assert [row.op for row in case.rows] == ["create", "link", "unlink", "open", "unlink"]
    assert len(set(case.records["file"].tolist())) == 1


def test_names_through_symbolic_links_lead_to_the_same_object(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</d>, "/link/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</real/f>',
        'stat("/link/f", {st_mode=S_IFREG|0644, st_size=0, ...}) = 0',
        'openat(AT_FDCWD</d>, "/d/current", O_RDONLY) = 4</real/f>',
        'access("/d/current", R_OK) = 0',
        'unlink("/d/current") = 0',
        'unlink("/link/f") = 0',
        'symlink("/real/f", "/d/other") = 0',
    )
    assert [row.op for row in case.rows] == ["create", "stat", "open", "stat", "unlink"]
    assert len(set(case.records["file"].tolist())) == 1
    assert case.report.left_out["symbolic link"] == 2


def test_o_tmpfile_and_its_link(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</d>, "/d", O_RDWR|O_TMPFILE, 0600) = 3</d/#42>(deleted)',
        'write(3</d/#42>(deleted), "", 5) = 5',
        'linkat(AT_FDCWD</d>, "/proc/self/fd/3", AT_FDCWD</d>, "/d/f", AT_SYMLINK_FOLLOW) = 0',
        'stat("/d/f", {st_mode=S_IFREG|0600, st_size=5, ...}) = 0',
    )
    assert [row.op for row in case.rows] == ["create", "write", "link", "stat"]
    assert len(set(case.records["file"].tolist())) == 1


def test_durability_and_space(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        NEW,
        "fsync(3) = 0",
        "fdatasync(3) = 0",
        "sync_file_range(3, 4096, 8192, SYNC_FILE_RANGE_WRITE) = 0",
        "sync() = 0",
        "syncfs(3) = 0",
        "fallocate(3, FALLOC_FL_KEEP_SIZE, 0, 65536) = 0",
        "fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0",
        "fchmod(3, 0644) = 0",
        'openat(AT_FDCWD, "/d/f", O_WRONLY|O_APPEND) = 4',
        'write(4, "", 1) = 1',
        "fallocate(3, 0, 0, 1000) = 0",
        'write(4, "", 1) = 1',
        'truncate("/d/f", 7) = 0',
        'write(4, "", 1) = 1',
    )
    assert ops(case)[1:] == [
        ("fsync", -1, 0, 0), ("fsync", -1, 0, DATA_ONLY), ("fsync", 4096, 8192, DATA_ONLY), ("sync", -1, 0, 0),
        ("sync", -1, 0, 0), ("fallocate", 0, 65536, KEEP_SIZE), ("fallocate", 0, 4096, KEEP_SIZE | PUNCH_HOLE),
        ("open", -1, 0, 0), ("write", 0, 1, APPENDS), ("fallocate", 0, 1000, 0), ("write", 1000, 1, APPENDS),
        ("truncate", 7, 0, 0), ("write", 7, 1, APPENDS),
    ]  # fmt: skip
    assert case.report.left_out["file operation without a model"] == 1
    assert case.records["file"].tolist().count(-1) == 1  # sync has no file


def test_copies_inside_the_kernel_are_a_read_and_a_write(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        'openat(AT_FDCWD</d>, "g", O_WRONLY|O_CREAT|O_EXCL, 0644) = 4</d/g>',
        "copy_file_range(3</d/f>, NULL, 4</d/g>, [500], 100, 0) = 60",
        "sendfile(4</d/g>, 3</d/f>, NULL, 10) = 10",
        "splice(3</d/f>, [0], 5<pipe:[1]>, NULL, 4, 0) = 4",
        "splice(5<pipe:[1]>, NULL, 4</d/g>, NULL, 4, 0) = 4",
    )
    assert ops(case)[2:] == [
        ("read", 0, 60, 0), ("write", 500, 60, CONTINUES), ("read", 60, 10, 0), ("write", 0, 10, CONTINUES),
        ("read", 0, 4, 0), ("write", 10, 4, 0),
    ]  # fmt: skip
    assert case.report.extra_rows == 2


def test_sendfile_to_itself_reads_and_writes_at_one_position(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, 'open("/d/f", O_RDWR) = 3', "sendfile(3, 3, NULL, 9) = 9", 'read(3, "", 1) = 1')
    assert ops(case)[1:] == [("read", 0, 9, 0), ("write", 0, 9, CONTINUES), ("read", 9, 1, 0)]


def test_an_unnamed_file_stays_itself_when_its_directory_is_renamed(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'openat(AT_FDCWD</w>, "d", O_RDWR|O_TMPFILE, 0600) = 3</w/d/#7>(deleted)',
        'rename("/w/d", "/w/g") = 0',
        'write(3</w/g/#7>(deleted), "", 9) = 9',
    )
    assert case.rows[-1][:4] == ("write", case.rows[0].path, 0, 9)


def test_an_empty_append_leaves_the_position(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("/d/f", O_RDWR|O_TRUNC|O_APPEND) = 3',
        'pwrite64(3, "", 9, 0) = 9',
        'write(3, "", 0) = 0',
        'read(3, "", 5) = 5',
    )
    assert ops(case)[-1] == ("read", 0, 5, 0)


def test_an_empty_write_beyond_the_end_leaves_the_length(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("/d/f", O_RDWR|O_CREAT|O_EXCL|O_APPEND, 0644) = 3',
        'open("/d/f", O_RDWR) = 4',
        'pwrite64(4, "", 0, 4096) = 0',
        'write(3, "", 5) = 5',
    )
    assert ops(case)[-1] == ("write", 0, 5, APPENDS)


def test_mappings(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        "mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/f>, 0x1000) = 0x7f0000000000",
        "mmap(0x7f0000001000, 4096, PROT_READ, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0) = 0x7f0000001000",
        "msync(0x7f0000000000, 12288, MS_SYNC) = 0",
        "msync(0x7f0000000000, 12288, MS_ASYNC) = 0",
        "munmap(0x7f0000000000, 4096) = 0",
        "mremap(0x7f0000002000, 4096, 8192, MREMAP_MAYMOVE) = 0x7f1000000000",
        "munmap(0x7f1000000000, 8192) = 0",
        "munmap(0x7f0000001000, 4096) = 0",
    )
    assert [row[:1] + row[2:4] for row in case.rows[1:]] == [
        ("mmap", 4096, 12288), ("munmap", 8192, 4096), ("msync", 4096, 4096), ("msync", 12288, 4096), ("munmap", 4096, 4096),
        ("mmap", 12288, 8192), ("munmap", 12288, 8192),
    ]  # fmt: skip
    assert case.rows[4].flag == CONTINUES
    assert case.report.other == {"munmap": 1}


def test_a_mapping_over_a_shared_one_ends_it(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        "mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/f>, 0) = 0x7f0000000000",
        "mmap(0x7f0000001000, 4096, PROT_READ, MAP_SHARED|MAP_FIXED, 4</d/g>, 0x2000) = 0x7f0000001000",
        "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</d/f>, 0) = 0x7f1000000000",
        "mmap(0x7f1000001000, 4096, PROT_READ, MAP_PRIVATE|MAP_FIXED, 4</d/g>, 0) = 0x7f1000001000",
    )
    assert [(row.op, row.path, *row[2:4], row.flag & CONTINUES) for row in case.rows[2:]] == [
        ("munmap", "/d/f", 4096, 4096, 0), ("mmap", "/d/g", 8192, 4096, CONTINUES), ("mmap", "/d/f", 0, 8192, 0),
        ("mmap", "/d/g", 0, 4096, 0),
    ]  # fmt: skip


def test_a_bad_mapping_over_a_shared_one_ends_it_too(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        OPEN,
        "mmap(NULL, 12288, PROT_READ|PROT_WRITE, MAP_SHARED, 3</d/f>, 0) = 0x7f0000000000",
        f"mmap(0x7f0000000000, {10**17}, PROT_READ, MAP_PRIVATE|MAP_FIXED, 4</d/g>, 0) = 0x7f0000000000",
    )
    assert case.rows[-1].op == "munmap" and case.report.bad == 1 and case.report.extra_rows == 1


def test_io_uring_is_a_blind_spot(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path, NEW, "io_uring_setup(8, {flags=0, ...}) = 4", *["io_uring_enter(4, 1, 1, 0, NULL, 8) = 1"] * 3
    )
    assert case.report.blind_spots == ["io_uring: 4 calls; the reads and writes that they start are not in the trace"]
    assert case.trace.header["blind_spots"] == case.report.blind_spots


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


def test_relative_paths_follow_the_directory(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'open("a", O_RDONLY) = 3',
        'chdir("sub/../other/") = 0',
        'open("./b", O_RDONLY) = 4',
        'open("/top", O_RDONLY|O_DIRECTORY) = 5',
        'openat(5, "c", O_RDONLY) = 6',
        "fchdir(5) = 0",
        'open("d", O_RDONLY) = 7',
        'getcwd("/else", 100) = 6',
        'openat2(AT_FDCWD, "e", {flags=O_RDONLY|O_CLOEXEC, resolve=RESOLVE_BENEATH}, 24) = 8',
        cwd="/home",
    )
    assert [row.path for row in case.rows] == ["/home/a", "/home/other/b", "/top", "/top/c", "/top/d", "/else/e"]


def test_directories_and_stats(tmp_path: Path) -> None:
    case = convert_lines(
        tmp_path,
        'statx(AT_FDCWD, "/d", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mode=S_IFDIR|0755, stx_size=4096, ...}) = 0',
        'statx(AT_FDCWD, "/d/f", 0, STATX_ALL, {stx_mask=STATX_ALL, stx_mode=S_IFREG|0644, stx_size=77, ...}) = 0',
        'lstat("/d/l", {st_mode=S_IFLNK|0777, st_size=9, ...}) = 0',
        'stat("/d/fifo", {st_mode=S_IFIFO|0644, st_size=0, ...}) = 0',
        'access("/d/f", R_OK) = 0',
        'faccessat2(AT_FDCWD, "/d/f", R_OK, AT_EACCESS) = 0',
        'openat(AT_FDCWD, "/d", O_RDONLY|O_DIRECTORY) = 3',
        "getdents64(3, 0x55 /* 6 entries */, 32768) = 176",
        "close(3) = 0",
    )
    stats = [("stat", -1, 0, DIRECTORY), *[("stat", -1, 0, 0)] * 3]
    assert ops(case) == [
        *stats, ("open", -1, 0, DIRECTORY), ("readdir", -1, 176, DIRECTORY), ("close", -1, 0, DIRECTORY),
    ]  # fmt: skip
    assert first_sizes(case) == {"/d": 0, "/d/f": 77}
    assert case.trace.files.is_dir.tolist() == [True, False]


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


def test_parents_at_the_root_and_in_the_working_directory(tmp_path: Path) -> None:
    for name, parent in (("/f", "/"), ("/d/f", "/d"), ("f", ".")):
        case = convert_lines(tmp_path, f'open("{name}", O_RDWR|O_CREAT|O_EXCL, 0644) = 3')
        assert case.trace.files.path[case.records["file2"][0]] == parent, name


def test_what_rmdir_removes_is_a_directory_and_what_unlink_removes_is_none(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, 'unlink("/d/f") = 0', 'rmdir("/d/e") = 0')
    assert [(row.op, row.flag) for row in case.rows] == [("unlink", 0), ("rmdir", DIRECTORY)]
    assert [bool(case.trace.files.is_dir[row["file"]]) for row in case.records] == [False, True]


DATA_CALLS = {
    "read": '(3</d/f>, ""..., 5) = 5', "write": '(3</d/f>, ""..., 5) = 5', "pread64": '(3</d/f>, ""..., 5, 0) = 5',
    "pwrite64": '(3</d/f>, ""..., 5, 0) = 5', "lseek": "(3</d/f>, 0, SEEK_SET) = 0", "fsync": "(3</d/f>) = 0",
    "fdatasync": "(3</d/f>) = 0", "close": "(3</d/f>) = 0", "open": '("/d/g", O_RDONLY) = 4</d/g>',
    "openat": '(AT_FDCWD</>, "/d/g", O_RDONLY) = 4</d/g>', "creat": '("/d/g", 0644) = 4</d/g>', "unlink": '("/d/g") = 0',
    "unlinkat": '(AT_FDCWD</>, "/d/g", 0) = 0', "fstat": "(3</d/f>, 0x7f) = 0", "ftruncate": "(3</d/f>, 5) = 0",
    "getdents64": "(3</d/f>, 0x7f, 9) = 0", "rmdir": '("/d/g") = 0', "mkdir": '("/d/g", 0755) = 0',
    "mkdirat": '(AT_FDCWD</>, "/d/g", 0755) = 0', "access": '("/d/g", R_OK) = 0', "faccessat": '(AT_FDCWD</>, "/d/g", R_OK) = 0',
    "stat": '("/d/g", 0x7f) = 0', "lstat": '("/d/g", 0x7f) = 0', "newfstatat": '(AT_FDCWD</>, "/d/g", 0x7f, 0) = 0',
    "statx": '(AT_FDCWD</>, "/d/g", 0, STATX_ALL, 0x7f) = 0', "rename": '("/d/g", "/d/h") = 0',
    "renameat": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h") = 0', "renameat2": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h", 0) = 0',
    "link": '("/d/g", "/d/h") = 0', "linkat": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h", 0) = 0',
}  # fmt: skip
COUNTED_ONLY = {"fcntl", "ioctl", ""}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTED_ONLY])
def test_a_call_is_known_by_all_letters_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`msync` is no `fsync`, also where many lines are worked on at once: in all blocks but the first."""
    monkeypatch.setattr(conversion, "_SHORT", 0)
    monkeypatch.setattr(
        strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 1 << 13)
    )
    known = []
    for call in (name, f"q{name[1:]}", f"{name[:-1]}q"):
        report = convert_lines(tmp_path, OPEN, *[call + DATA_CALLS[name]] * 500).report
        known.append(report.calls + report.left_out[BOOKKEEPING] + report.left_out[UNKNOWN_FD])
    assert known == [501, 1, 1]


@pytest.mark.parametrize("digits", [1, 6, 9])
def test_times_of_many_lines_at_once_are_those_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: int
) -> None:
    monkeypatch.setattr(conversion, "_SHORT", 0)
    monkeypatch.setattr(
        strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 1 << 13)
    )
    times = [1_700_000_000 + number for number in range(500)]
    lines = [f"100 {time}.{'5':0<{digits}} fsync(3</d/f>) = 0" for time in times]
    case = convert_lines(tmp_path, f"100 1700000000.000000 {OPEN}", *lines)
    assert np.diff(case.records["time_ns"][1:]).tolist() == [10**9] * 499
    assert case.records["time_ns"][1] - case.records["time_ns"][0] == 500_000_000
