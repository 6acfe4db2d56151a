"""Check the offsets and file sizes that the strace importer derives from positions, seeks and appends."""

from pathlib import Path

import pytest

from scmsim.core.records import APPENDS, OFFSET_UNKNOWN, SYNCHRONOUS
from tests.trace.strace_helper import NEW, OPEN, convert_lines, first_sizes, ops


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
