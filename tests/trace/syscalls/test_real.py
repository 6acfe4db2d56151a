"""The strace importer on real output; the expected rows were worked out by hand from the text."""

from collections import Counter
from pathlib import Path

import numpy as np

from scmsim.core.records import APPENDS, CONTINUES, DATA_ONLY, DIRECTORY, OFFSET_UNKNOWN, OPS, WRITABLE_SHARED
from tests.trace.strace_helper import DATA, Case, Row, convert, first_sizes

ODD = '/data/a "q" \\ \n\té\x01 -> <x>.txt'
REL = "/data/rel.dat"


def only(case: Case, *ops: str) -> list[Row]:
    return [row for row in case.rows if row.op in ops]


def test_tricky_offsets_follow_dup_append_and_fork(tmp_path: Path) -> None:
    case = convert(DATA / "tricky.strace", tmp_path)
    doubtful = APPENDS | OFFSET_UNKNOWN  # it is only assumed that the file was new when it was opened
    assert [row for row in only(case, "read", "write") if row.path == REL] == [
        ("write", REL, 0, 4096, doubtful),
        ("write", REL, 4096, 512, doubtful),  # pwrite at 0 of an O_APPEND descriptor
        ("read", REL, 0, 10, 0),  # after lseek on a duplicate
        ("read", REL, 0, 1000, 0),  # copy_file_range
        ("read", REL, 0, 512, 0),  # sendfile
        ("write", REL, 4608, 11, doubtful),  # after the rename
        ("write", REL, 4619, 5, doubtful),  # by the forked child
        ("write", REL, 4624, 12, doubtful),  # by the parent: the file ended at 4636
    ]


def test_tricky_inherited_descriptor_and_deleted_file(tmp_path: Path) -> None:
    case = convert(DATA / "tricky.strace", tmp_path)
    assert [row[:1] + row[2:] for row in case.rows if row.path == ODD] == [
        ("write", 0, 111, OFFSET_UNKNOWN),
        ("write", 8192, 300, 0),
        ("read", 0, 128, 0),
        ("write", 100000, 1000, CONTINUES),
        ("write", 111, 512, OFFSET_UNKNOWN | CONTINUES),
        ("fallocate", 0, 65536, 0),
        ("truncate", 20000, 0, 0),
        ("fsync", -1, 0, 0),
        ("stat", -1, 0, 0),
        ("mmap", 0, 8192, WRITABLE_SHARED),
        ("close", -1, 0, 0),
        ("unlink", -1, 0, 0),
        ("write", 623, 12, OFFSET_UNKNOWN),
    ]
    assert len(case.report.blind_spots) == 1 and "8192 bytes" in case.report.blind_spots[0]


def test_tricky_threads_split_calls_and_counts(tmp_path: Path) -> None:
    case = convert(DATA / "tricky.strace", tmp_path)
    for name in ("/data/t0", "/data/t1", "/data/t2"):
        mine = [row for row in case.rows if row.path == name]
        assert [row.op for row in mine] == ["create", *["write", "fsync"] * 3, "close"]
        assert [row.offset for row in mine if row.op == "write"] == [0, 1000, 2000]
    assert set(case.records["thread"]) == {0, 1, 2, 3, 4}
    assert (case.report.lines, case.report.calls, case.report.rows, case.report.extra_rows) == (91, 47, 49, 2)
    assert case.report.left_out["first half of a split call"] == 13
    assert case.report.unknown_offsets == 8 and case.report.bad == 0
    rename = case.rows[21]
    assert rename.op == "rename" and rename.path == REL and case.records["file2"][21] == -1


def test_sqlite_wal_frames(tmp_path: Path) -> None:
    case = convert(DATA / "sqlite_wal.strace", tmp_path, under="/data")
    wal = [(row.offset, row.length) for row in only(case, "write") if row.path == "/data/s.db-wal"]
    assert wal[0] == (0, 32)
    assert wal[1::2] == [(32 + frame * 4120, 24) for frame in range(8)]
    assert wal[2::2] == [(56 + frame * 4120, 4096) for frame in range(8)]
    backfill = [row.offset for row in only(case, "read") if row.path == "/data/s.db-wal"]
    assert backfill == [56 + frame * 4120 for frame in (3, 7, 5, 6)]
    assert [row.offset for row in only(case, "truncate")] == [3, 16384]
    assert all(row.flag & DATA_ONLY for row in only(case, "fsync"))
    assert case.report.creates == {"certainly new": 3, "assumed new": 1}  # of -shm no lookup failed before
    assert case.report.blind_spots == [
        "writable shared mapping of '/data/s.db-shm' (32768 bytes): its loads and stores are not in the trace"
    ]


def test_sqlite_rollback_journal(tmp_path: Path) -> None:
    case = convert(DATA / "sqlite_delete.strace", tmp_path, under="/data")
    creates = [row.path for row in only(case, "create")]
    assert creates == ["/data/s.db", *["/data/s.db-journal"] * 4]
    assert len({int(f) for f in case.records["file"][[r.op == "create" for r in case.rows]]}) == 5  # new objects
    second = [row for row in case.rows if row.op == "write" and row.path.endswith("-journal")][2:9]
    assert [(row.offset, row.length) for row in second] == [
        (0, 512), (512, 4), (516, 4096), (4612, 4), (4616, 4), (4620, 4096), (8716, 4),
    ]  # fmt: skip
    directory = [row for row in case.rows if row.path == "/data/w" and row.op == "fsync"]
    assert directory and all(row.flag == DATA_ONLY | DIRECTORY for row in directory)
    assert all(size == -1 for path, size in first_sizes(case).items() if "s.db" in path)
    assert first_sizes(case)["/data/sq.sql"] == 313


def test_postmark_operations_and_appends(tmp_path: Path) -> None:
    case = convert(DATA / "postmark_500.strace.gz", tmp_path)
    ops = Counter(row.op for row in case.rows)
    assert ops == {"create": 764, "open": 503, "read": 479, "write": 1707, "close": 1267, "unlink": 764}
    assert case.report.lines == 5499 and case.report.calls == 5484
    assert case.report.left_out == {"descriptor from before the trace": 14, "signal or process event": 1}
    assert sum(row.length for row in only(case, "write")) == 4662068
    one = [(row.op, row.offset, row.length, row.flag) for row in case.rows if row.path == "/dev/shm/w/pm/261"]
    assert one == [
        ("create", -1, 0, 0), ("write", 0, 4096, 0), ("write", 4096, 2019, 0), ("close", -1, 0, 0),
        ("open", -1, 0, 0), ("write", 6115, 1625, APPENDS), ("close", -1, 0, 0),
        ("open", -1, 0, 0), ("read", 0, 4096, 0), ("read", 4096, 3644, 0), ("close", -1, 0, 0),
        ("open", -1, 0, 0), ("write", 7740, 1708, APPENDS), ("close", -1, 0, 0),
        ("unlink", -1, 0, 0),
    ]  # fmt: skip
    assert "line numbers" in case.trace.header["time"]
    assert np.array_equal(np.unique(case.records["time_ns"]), case.records["time_ns"])  # rises with every line


def test_reads_of_files_that_existed_find_their_data(tmp_path: Path) -> None:
    case = convert(DATA / "iozone_head.strace", tmp_path)
    sizes = first_sizes(case)
    assert sizes["/lib/x86_64-linux-gnu/libc.so.6"] == 64 + 784  # no stat in this text: the furthest byte read
    assert sizes["/etc/localtime"] == 114
    assert [r.offset for r in case.rows if r.path == "/etc/localtime" and r.op == "read"] == [0, 54]  # lseek(-60)


def test_varmail_head_has_no_unexplained_line(tmp_path: Path) -> None:
    case = convert(DATA / "varmail_head.strace", tmp_path)
    assert case.report.bad == 0 and case.report.failed == {"openat": 13, "newfstatat": 10, "access": 2, "ioctl": 1}
    libc = first_sizes(case)["/usr/lib/x86_64-linux-gnu/libc.so.6"]
    assert libc == 1926232
    listed = [row for row in case.rows if row.op == "readdir"]
    assert [(row.path, row.length) for row in listed[:3]] == [("/dev/shm/fb/bigfileset", n) for n in (176, 176, 0)]
    assert {OPS[op] for op in np.unique(case.records["op"])} >= {"mmap", "stat", "open", "read", "close"}
