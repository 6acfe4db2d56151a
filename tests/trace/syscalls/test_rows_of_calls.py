"""Check the rows that the strace importer writes for calls: durability, space, copies, mappings and directories."""

from pathlib import Path

from scmsim.core.records import APPENDS, CONTINUES, DATA_ONLY, DIRECTORY, KEEP_SIZE, PUNCH_HOLE
from tests.trace.strace_helper import NEW, OPEN, convert_lines, first_sizes, ops


def test_open_of_an_existing_file_with_o_trunc_is_two_rows(tmp_path: Path) -> None:
    case = convert_lines(tmp_path, 'open("/d/f", O_WRONLY|O_TRUNC) = 3', 'write(3, "", 5) = 5')
    assert ops(case) == [("open", -1, 0, 0), ("truncate", 0, 0, CONTINUES), ("write", 0, 5, 0)]
    assert (case.report.calls, case.report.rows, case.report.extra_rows) == (2, 3, 1)


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
