"""Lengths that fallocate and clones change, requests of io_submit, descriptors and names that come from elsewhere."""

from pathlib import Path

import pytest

from scmsim.core.records import APPENDS, CONTINUES, DATA_ONLY, OFFSET_UNKNOWN
from scmsim.trace.syscalls.importer import LOST_FD, NO_MODEL
from tests.trace.strace_helper import convert, convert_lines, first_sizes

OPEN = 'openat(AT_FDCWD, "/d/f", O_RDWR) = 3'
NEW = 'openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3'
SIZE = "fstat(3, {st_mode=S_IFREG|0644, st_size=1000000, ...}) = 0"
END = 'write(4, "", 1) = 1'
APPEND = 'openat(AT_FDCWD, "/d/f", O_WRONLY|O_APPEND) = 4'
CASES = Path(__file__).parents[2] / "data" / "strace" / "calls"


@pytest.mark.parametrize(
    ("call", "length"),
    [
        ("fallocate(3, 0, 900000, 200000) = 0", 1100000),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE, 900000, 200000) = 0", 1000000),
        ("fallocate(3, FALLOC_FL_ZERO_RANGE, 0, 65536) = 0", 1000000),
        ("fallocate(3, FALLOC_FL_ZERO_RANGE, 999424, 65536) = 0", 1064960),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_ZERO_RANGE, 999424, 65536) = 0", 1000000),
        ("fallocate(3, FALLOC_FL_COLLAPSE_RANGE, 0, 65536) = 0", 934464),
        ("fallocate(3, FALLOC_FL_INSERT_RANGE, 0, 65536) = 0", 1065536),
        ("fallocate(3, FALLOC_FL_UNSHARE_RANGE, 0, 65536) = 0", 1000000),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 65536) = 0", 1000000),
        ("ftruncate(3, 2000000) = 0", 2000000),
        ("ioctl(3, FIDEDUPERANGE, {src_offset=0}) = 0", 1000000),
    ],
)
def test_the_length_after_a_call_is_where_an_append_goes(tmp_path: Path, call: str, length: int) -> None:
    case = convert_lines(tmp_path, OPEN, SIZE, call, APPEND, END)
    assert case.rows[-1][2:] == (length, 1, APPENDS) and first_sizes(case)["/d/f"] == 1000000
    sets = [row for row in case.rows if row.op == "truncate"]
    assert not sets or sets[-1].offset == length


def test_an_fallocate_shows_nothing_about_the_length_before(tmp_path: Path) -> None:
    case = convert(CASES / "fallocate_existing.strace", tmp_path)
    assert first_sizes(case) == {"/d/f": 1000000} and case.report.blind_spots == []
    case = convert(CASES / "insert_range.strace", tmp_path)
    assert [row[0::2][:2] for row in case.rows if row.op == "truncate"] == [("truncate", 1065536)]
    assert case.report.blind_spots == ["fallocate INSERT_RANGE: 1 calls; what they change is not in the trace"]


CLONES = [
    ("BTRFS_IOC_CLONE or FICLONE, 4", 1000000), ("FICLONE, 4</d/g>", 1000000),
    ("BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=4, src_offset=0, src_length=0, dest_offset=0}", 1000000),
    ("FICLONERANGE, {src_fd=4</d/g>, src_offset=4096, src_length=8192, dest_offset=65536}", 73728),
    ("FICLONERANGE, {src_fd=4, src_offset=4096, src_length=0, dest_offset=65536}", 1061440),
]  # fmt: skip


@pytest.mark.parametrize(("clone", "length"), CLONES)
def test_a_clone_makes_its_file_as_long_as_its_end(tmp_path: Path, clone: str, length: int) -> None:
    source = ['openat(AT_FDCWD, "/d/g", O_RDONLY) = 4', "fstat(4, {st_mode=S_IFREG|0644, st_size=1000000, ...}) = 0"]
    case = convert_lines(tmp_path, NEW, *source, f"ioctl(3, {clone}) = 0", f"lseek(3, 0, SEEK_END) = {length}")
    assert case.rows[-1][:4] == ("truncate", "/d/f", length, 0)
    assert len(case.report.blind_spots) == 1 and "FICLONE" in case.report.blind_spots[0]
    case = convert_lines(tmp_path, NEW, *source, f"ioctl(3, {clone}) = 0", APPEND, END)
    assert case.rows[-1].offset == length


def test_the_clone_of_a_file_of_unknown_length(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, NEW, 'open("/d/g", O_RDONLY) = 4', "ioctl(3, FICLONE, 4) = 0", 'open("/d/f", O_APPEND) = 5',
                         'write(5, "", 1) = 1')  # fmt: skip
    assert case.rows[-1].flag == APPENDS | OFFSET_UNKNOWN and case.report.left_out[NO_MODEL] == 1
    assert len(case.report.blind_spots) == 1


def test_requests_of_io_submit_are_rows(tmp_path: Path) -> None:
    case = convert(CASES / "io_submit.strace", tmp_path)
    assert [row[:1] + row[2:] for row in case.rows if row.op in ("write", "fsync")] == [
        ("write", 0, 16384, 0), ("write", 65536, 16384, CONTINUES), ("fsync", -1, 0, 0),
    ]  # fmt: skip
    iocbs = [
        'aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_buf=0x1, aio_nbytes=4096, aio_offset=999000',
        'aio_lio_opcode=IOCB_CMD_PWRITEV, aio_fildes=3, aio_buf=[{iov_base="a}", iov_len=10}, {iov_len=5}], aio_offset=7',
        'aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=3', "aio_lio_opcode=IOCB_CMD_POLL, aio_fildes=3",
        'pwrite, fildes=3, str="xyz", nbytes=3, offset=1',
    ]  # fmt: skip
    text = ", ".join(f"{{aio_data=0, {iocb}}}" for iocb in iocbs)
    case = convert_lines(tmp_path, OPEN, SIZE, f"io_submit(0x1, 5, [{text}]) = 5")
    assert [row[:1] + row[2:] for row in case.rows[2:]] == [
        ("read", 999000, 1000, 0), ("write", 7, 15, CONTINUES), ("fsync", -1, 0, CONTINUES | DATA_ONLY),
        ("write", 1, 3, CONTINUES),
    ]  # fmt: skip
    assert case.report.bad == 0
    assert case.report.blind_spots == [
        "io_submit: 2 requests taken as complete; their results are not in the trace"  # the two writes
    ]
    assert convert_lines(tmp_path, OPEN, "io_submit(0x1, 9, 0x7f) = 9").report.blind_spots == [
        "io_submit: 1 calls; what they change is not in the trace"
    ]
    vector = "io_submit(0x1, 1, [{aio_lio_opcode=IOCB_CMD_PREADV, aio_fildes=3, aio_buf=0x1, aio_nbytes=2, aio_offset=0}]) = 1"
    assert len(convert_lines(tmp_path, OPEN, vector).report.blind_spots) == 1
    no_length = "io_submit(0x1, 1, [{aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3, aio_buf=0x1, aio_offset=0}]) = 1"
    assert len(convert_lines(tmp_path, OPEN, no_length).report.blind_spots) == 1


def test_a_path_relative_to_a_directory_of_sys_is_no_file(tmp_path: Path) -> None:
    assert {row.path for row in convert(CASES / "dirfd_special.strace", tmp_path).rows} == {"/data/x"}
    for shown in ("", "</sys/fs>"):
        for how in ("O_PATH", "O_RDONLY|O_DIRECTORY"):
            lines = [
                f'openat(AT_FDCWD, "/sys/fs", {how}) = 5{shown}',
                'openat(5, "x", O_RDWR) = 6',
                'write(6, "", 9) = 9',
            ]
            assert len(convert_lines(tmp_path, OPEN, *lines).rows) == 1


def test_a_seek_of_32_bits(tmp_path: Path) -> None:
    case = convert(CASES / "llseek.strace", tmp_path)
    assert [row[2:] for row in case.rows if row.op == "read"] == [(999978, 22, 0)] and case.report.bad == 0
    assert first_sizes(case)["/data/lib.jar"] == 1000000


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ("recvmsg(8, {msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[9]}]}, 0) = 1", 1),
        ("recvmsg(8, {msg_control=[{cmsg_type=SCM_RIGHTS, cmsg_data=[9</d/g>]}]}, MSG_CMSG_CLOEXEC) = 1", 0),
        ("pidfd_getfd(8, 5, 0) = 9", 1), ("pidfd_getfd(8, 5, 0) = 9</d/g>", 0),
        ("open_by_handle_at(8, {handle_bytes=8}, O_RDONLY) = 9", 1),
        ("open_by_handle_at(8, {handle_bytes=8}, O_RDWR) = 9</d/g>", 0),
    ],
)  # fmt: skip
def test_descriptors_from_elsewhere(tmp_path: Path, call: str, lost: int) -> None:
    report = convert_lines(tmp_path, OPEN, call, 'pwrite64(9, "", 70, 0) = 70').report
    assert (report.left_out[LOST_FD], report.lost_bytes, report.bytes) == (lost, 70 * lost, 70 * (1 - lost))


def test_what_changes_the_meaning_of_names(tmp_path: Path) -> None:
    lines = ['open("/d/f", O_RDONLY) = 4', 'read(4, "", 9) = 9']
    for call, files, uncertain in (
        ('mount("a", "/d", "ext4", 0, NULL) = 0', 2, 0), ('umount2("/d", MNT_DETACH) = 0', 2, 0),
        ('mount("a", "/e", "ext4", 0, NULL) = 0', 1, 0),
        ('chroot("/x") = 0', 1, 2), ('pivot_root(".", ".") = 0', 1, 2), ("setns(8, CLONE_NEWNS) = 0", 1, 2),
        ("setns(8, CLONE_NEWNET) = 0", 1, 0),
    ):  # fmt: skip
        case = convert_lines(tmp_path, OPEN, call, *lines)
        assert (case.report.files, case.report.uncertain_rows) == (files, uncertain), call


def test_an_exchange_of_directories_takes_what_is_below(tmp_path: Path) -> None:
    lines = ['mkdir("/a", 0755) = 0', 'mkdir("/b", 0755) = 0', 'creat("/a/x", 0644) = 3',
             'creat("/b/y", 0644) = 4',
             'renameat2(AT_FDCWD, "/a", AT_FDCWD, "/b", RENAME_EXCHANGE) = 0', 'unlink("/b/x") = 0',
             'unlink("/a/y") = 0']  # fmt: skip
    case = convert_lines(tmp_path, *lines)
    assert [row.path for row in case.rows if row.op == "unlink"] == ["/a/x", "/b/y"]


def test_flags_of_transfers_and_of_close_range(tmp_path: Path) -> None:
    lines = ['open("/d/f", O_WRONLY|O_APPEND) = 3', SIZE]
    case = convert_lines(tmp_path, *lines, 'pwritev2(3, "", 1, 7, RWF_NOAPPEND) = 5', 'pwritev2(3, "", 1, -1, 0) = 5')
    assert [row.offset for row in case.rows if row.op == "write"] == [] or case.report.bad == 2
    case = convert_lines(tmp_path, *lines, "pwritev2(3, 0x1, 1, 7, RWF_NOAPPEND) = 5", "pwritev2(3, 0x1, 1, -1, 0) = 5")
    assert [row.offset for row in case.rows if row.op == "write"] == [7, 1000000]
    case = convert_lines(tmp_path, OPEN, "clone(flags=CLONE_FILES) = 101", "close_range(3, 9, CLOSE_RANGE_UNSHARE) = 0",
                         '101 1700000000.0 write(3, "", 9) = 9')  # fmt: skip
    assert [row.op for row in case.rows] == ["open", "close", "write"]
