"""Samples of perf joined with mappings: rows by hand, perf's own page faults, and a strace of the same run."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.formats.addresses import _accesses, perf_mem
from tests.trace.formats_helper import DATA, convert, convert_text

DB, LOG, OTHER = "/data/db <1>", "/data/log", "/data/other"
HEAD = "base 500/500 5000.000000"


def test_loads_and_stores_of_a_sample(tmp_path: Path) -> None:
    case = convert("perf_mem.txt", tmp_path, under="/data")
    assert case.rows == [
        ("mmap", DB, 0, 8 << 20), ("mmap", LOG, 4096, 8192), ("load", DB, 16, 2), ("store", DB, 0x201000, 1),
        ("load", LOG, 4104, 1), ("load", DB, 32, 1), ("munmap", DB, 0, 4096), ("mmap", OTHER, 12288, 4096),
        ("load", OTHER, 12320, 1), ("load", DB, 48, 1),
    ]  # fmt: skip
    assert case.records["thread"].tolist() == [0, 0, 0, 0, 1, 2, 0, 0, 0, 2], (
        "a thread, a child with mappings of its own"
    )
    assert case.records["time_ns"][2:5].tolist() == [500, 700, 1000]
    left_out = case.report.left_out
    assert (left_out[_accesses.NO_FILE], left_out[perf_mem.KERNEL], left_out[perf_mem.NEITHER]) == (1, 1, 1)
    assert left_out[perf_mem.PROTECTED] == 1 and case.report.bad == 0
    assert case.trace.header["page_sizes"] == {DB: {"2M": 3, "4K": 1}, LOG: {"4K": 1}, OTHER: {"4K": 1}}


def test_faults_that_perf_recorded(tmp_path: Path) -> None:
    """The program stores a byte in each of 8 pages, then loads one in each of 16; the kernel maps pages around a load's."""
    case = convert("perf_faults.txt", tmp_path, under="/data/data")
    rows = [row for row in case.rows if row[0] != "mmap"]
    assert rows == [*(("store", "/data/data", 4097 * i, 1) for i in range(8)), ("load", "/data/data", 8 * 4096 + 5, 1)]
    assert case.report.bad == 0 and case.report.left_out[perf_mem.FETCH] == 8


@pytest.mark.skipif(shutil.which("perf") is None or shutil.which("gcc") is None, reason="perf or gcc is missing")
def test_faults_of_a_program_here(tmp_path: Path) -> None:
    (tmp_path / "t.c").write_text(
        "#include <fcntl.h>\n#include <sys/mman.h>\n#include <unistd.h>\nint main(int n, char **a) {\n"
        "int fd = open(a[1], O_RDWR | O_CREAT, 0644); if (ftruncate(fd, 65536)) return 1;\n"
        "volatile char *p = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);\n"
        "for (int i = 0; i < 8; i++) p[i * 8192] = i; return 0; }\n"
    )
    subprocess.run(["gcc", "-O1", "t.c", "-o", "t"], cwd=tmp_path, check=True)
    record = ["perf", "record", "-q", "-e", "page-faults:u", "-c", "1", "-d", "-o", "d", "./t", str(tmp_path / "f")]
    if subprocess.run(record, cwd=tmp_path, capture_output=True).returncode:
        pytest.skip("perf may not record page faults here")
    printed = ["perf", "script", "-i", "d", "--ns", "--show-mmap-events", "--show-task-events"]
    text = subprocess.run(
        [*printed, "-F", "comm,pid,tid,time,event,addr"], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    case = convert_text(tmp_path, text, under=str(tmp_path / "f"))
    assert [row[2] for row in case.rows if row[0] == "load"] == [8192 * i for i in range(8)]
    assert case.report.bad == 0


def test_a_strace_of_the_same_run_ends_mappings(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(
        "7 1700000000.000100 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3</data/f>, 0) = 0x7f0000000000\n"
        "7 1700000000.000300 munmap(0x7f0000000000, 8192) = 0\n"
    )
    text = "".join(
        f"p 7/7 100.0{at}: 1 mem-loads: 7f0000000005 5080022 |OP LOAD|LVL L1 hit| 4K\n"
        for at in ("00050", "00200", "00400")
    )
    case = convert_text(tmp_path, text, "perf-mem", calls=str(tmp_path / "s"), shift="1699999900")
    assert case.rows == [("mmap", "/data/f", 0, 8192), ("load", "/data/f", 5, 1), ("munmap", "/data/f", 0, 8192)]
    assert case.report.left_out[_accesses.NO_FILE] == 2
    text = "p 7/7 100.000300: 1 mem-loads: 7f0000000005 5080022 |OP LOAD|LVL L1 hit| 4K\n"
    case = convert_text(tmp_path, text, "perf-mem", calls=str(tmp_path / "s"), shift="1699999900")
    assert [row[0] for row in case.rows] == ["mmap", "munmap"]  # a call of the same moment comes first
    with pytest.raises(UsageError, match="a shift of 'soon' is not a number of seconds"):
        convert_text(tmp_path, text, "perf-mem", calls=str(tmp_path / "s"), shift="soon")
    (tmp_path / "s").write_text("7 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3</data/f>, 0) = 0x7f0000000000\n")
    with pytest.raises(UsageError, match="has no times since 1970; record it with 'strace -f -y -ttt'"):
        convert_text(tmp_path, text, "perf-mem", calls=str(tmp_path / "s"))


def test_samples_without_mappings_say_what_to_print(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has accesses but no calls.*--show-mmap-events"):
        convert_text(tmp_path, f"{HEAD}: 1 mem-loads: 7f0000000005 5080022 |OP LOAD|LVL L1 hit|\n", "perf-mem")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{HEAD}: 1 mem-loads: 5668100842 |OP LOAD|LVL L1 hit|", "without an address"),
        (f"{HEAD}: exceptions:page_fault_user:", "page fault without its address"),
        ("base 500/500 mem-loads: 7f0000000005", "not a line of perf script"),
    ],
)
def test_lines_that_tell_too_little(tmp_path: Path, line: str, reason: str) -> None:
    case = convert_text(tmp_path, (DATA / "perf_mem.txt").read_text() + line + "\n")
    assert case.report.bad == 1 and reason in case.report.bad_lines[0][1]


MAPPED = [
    "x 7/7 1.000000: PERF_RECORD_MMAP2 7/7: [0x10000(0x4000) @ 0x1000 fe:01 5 0]: rw-s /d/a", "# title", "",
    "x 7/7 1.000001: PERF_RECORD_MMAP2 7/7: [0x20000(0x2000) @ 0 fe:01 6 0]: r--p /d/b (deleted)",
    "x 7/7 1.000002: PERF_RECORD_MMAP2 7/7: [0x10000(0x1000) @ 0x1000 fe:01 5 0]: r--s /d/a",  # mprotect of a part
    "x 7/7 1.000003: PERF_RECORD_MMAP 7/7: [0x7fffffffe000(0x3000) @ 0 fe:01 5 0]: r--s /d/a",
    "x 7/7 1.000004: PERF_RECORD_MMAP2 7/7: [0x30000(0) @ 0 fe:01 5 0]: r--s /d/a",
    "x 7/7 1.000005: PERF_RECORD_LOST lost 5", "x 7/7 1.000005: PERF_RECORD_LOST_SAMPLES lost 6",
    "x 7/7 1.000005: PERF_RECORD_COMM: x:7/7",
    "\t    ffff1234 main+0x5 (/bin/x)", "x 7/8 [003] 1.000006: 3 mem-loads: 10005 5080022 |OP LOAD|LVL L1 hit| 4K",
    "x 7/7 1.000007: mem-stores: 13fff 5 |OP STORE|LVL L1 hit| 2M", "x 7/7 1.000008123: page-faults: 14000",
    "x 7/7 1.000009: page-faults: 1ffff",
    "x 7/7 1.000010: 1 cpu/mem-loads/: 10006 5 |OP LOAD STORE|", "x 7/7 1.000011: cycles: 10007",
    "x 7/7 1.000012: mem-loads: ffffffff81000000 5 |OP LOAD|",
    "x 7/7 1.000013: mem-loads: 800000000000 5 |OP LOAD|", "x 7/7 1.000014: mem-loads: 10008 5 |OP EXEC|",
    "x 7/7 1.000015: exceptions:page_fault_user: address=0x11000 ip=0x5 error_code=0x6",
    "x 7/7 1.000016: exceptions:page_fault_user: address=0x20010 ip=0x5 error_code=0x4",
    "x 7/7 1.000017: exceptions:page_fault_user: address=0x20020 ip=0x5 error_code=0x14",
    "x 7/7 1.000018: PERF_RECORD_FORK(9:9):(7:7)",
    "x 9/9 1.000019: page-faults: 10100", "x 9/9 1.000020: PERF_RECORD_COMM exec: y:9/9", "x 9/9 1.000021: page-faults: 10200",
    "x 7/7 1.000022: PERF_RECORD_MMAP2 7/7: [0x11000(0x1000) @ 0 00:00 0 0]: rw-p //anon", "x 7/7 1.000023: page-faults: 11008",
    "x 7/7 1.000024: page-faults: 12008",
]  # fmt: skip


def test_each_line_of_perf(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "\n".join(MAPPED) + "\n", "perf-mem")
    assert case.rows == [
        ("mmap", "/d/a", 4096, 0x4000), ("mmap", "/d/b", 0, 0x2000), ("load", "/d/a", 4101, 1), ("store", "/d/a", 0x4FFF, 1),
        ("load", "/d/a", 4102, 1), ("store", "/d/a", 4102, 1), ("store", "/d/a", 0x2000, 1), ("load", "/d/b", 16, 1),
        ("load", "/d/a", 0x1100, 1), ("munmap", "/d/a", 0x2000, 4096), ("load", "/d/a", 0x3008, 1),
    ]  # fmt: skip
    assert (case.records["time_ns"] - case.records["time_ns"][0]).tolist() == [
        0,
        1000,
        6000,
        7000,
        10000,
        10000,
        15000,
        16000,
        19000,
        22000,
        24000,
    ]
    left_out = case.report.left_out
    assert (
        left_out[perf_mem.KERNEL],
        left_out[perf_mem.PROTECTED],
        left_out[perf_mem.RECORD],
        left_out[perf_mem.CHAIN],
    ) == (4, 1, 1, 1)
    assert (
        left_out[perf_mem.OTHER],
        left_out[perf_mem.NEITHER],
        left_out[perf_mem.FETCH],
        left_out[_accesses.NO_FILE],
    ) == (1, 1, 1, 4)
    assert (
        left_out["lost events"] == 2
        and case.report.lost_events == 11
        and left_out["title"] == left_out["blank line"] == 1
    )
    assert case.trace.header["page_sizes"] == {"/d/a": {"4K": 1, "2M": 1}} and case.report.bad == 0


@pytest.mark.parametrize(
    ("shift", "ns"),
    [("0", 0), ("5", 5 * 10**9), ("-1.5", -1_500_000_000), ("4000000000", 4 * 10**18), ("0.000000001", 1)],
)
def test_shifts(shift: str, ns: int) -> None:
    assert perf_mem._shift(shift) == ns
    with pytest.raises(UsageError, match="is not a number of seconds"):
        perf_mem._shift("4000000001")
