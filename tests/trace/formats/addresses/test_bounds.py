"""The bounds of what a record of an access may say: the last value that is taken, and the first that is a bad line."""

from pathlib import Path

import pytest

from scmsim.trace.formats.addresses import _joined
from tests.trace.formats_helper import DATA, convert_text

SEGMENT = "  9  9:  700 {} {} byte(s) @ {} by PC 0x1\n"
MARKER = "  9  9:  700 <marker: timestamp {}>\n"


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (SEGMENT.format("read", 1 << 20, "0x1000"), 0), (SEGMENT.format("read", (1 << 20) + 1, "0x1000"), 1),
        (SEGMENT.format("read", 1, "0x7fffffffffff"), 0), (SEGMENT.format("read", 1, "0x800000000000"), 1),
        (MARKER.format(11_644_473_600 * 10**6), 0), (MARKER.format(11_644_473_600 * 10**6 - 1), 1),
        (MARKER.format(11_644_473_600 * 10**6 + (1 << 54) - 1), 0), (MARKER.format(11_644_473_600 * 10**6 + (1 << 54)), 1),
    ],
)  # fmt: skip
def test_records_of_drmemtrace(tmp_path: Path, line: str, bad: int) -> None:
    text = (DATA / "drmemtrace.txt").read_text() + line
    assert convert_text(tmp_path, text, calls=str(DATA / "drmemtrace.strace")).report.bad == bad


MAPPED = "SYSCALL[7,1](257) sys_openat ( 4294967196, 0x1(/a), 2 )[sync] --> Success(0x3) \n"
MAPPED += "SYSCALL[7,1](9) sys_mmap ( 0x0, 4096, 3, 1, 3, 0 ) --> [pre-success] Success(0x10000) \n L 00010000,4\n"


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (" L ffffffffffff,8", 0), (" L 1000000000000,8", 1), (" L 10000,1048576", 0), (" L 10000,1048577", 1), (" L 10000,0", 1),
        (" L 10000,1a", 1), (" L 10000,:", 1), (" L 10000,", 1), (" L 5,4", 0), (" L ,4", 1), ("I  10000,4", 0), ("IX 10000,4", 1),
        ("I X10000,4", 1), ("X  10000,4", 1), (" X 10000,4", 1), ("XL 10000,4", 1), (" LX10000,4", 1), (" L 1000g,4", 1),
        (" L 10000;4", 1), (" L 10000,4 ", 1), (" L 00000000000010000,4", 1), (" L 0000000000010000,4", 0),
    ],
)  # fmt: skip
def test_accesses_of_lackey(tmp_path: Path, line: str, bad: int) -> None:
    case = convert_text(tmp_path, MAPPED + line + "\n", "lackey")
    assert case.report.bad == bad


def test_how_many_files_the_header_has_page_sizes_of(tmp_path: Path) -> None:
    text = ""
    for k in range(_joined._SHOWN + 1):
        at = 0x10000 + (k << 12)
        text += f"x 7/7 1.{2 * k:06}: PERF_RECORD_MMAP2 7/7: [{at:#x}(0x1000) @ 0 fe:01 {k} 0]: rw-s /d/{k}\n"
        text += "".join(f"x 7/7 1.{2 * k + 1:06}: mem-loads: {at:x} 5 |OP LOAD| 4K\n" for _ in range(2 - k // 20))
    case = convert_text(tmp_path, text, "perf-mem")
    assert sorted(case.trace.header["page_sizes"]) == sorted(f"/d/{k}" for k in range(20))


@pytest.mark.parametrize(
    ("start", "offset", "mapped"),
    [
        (0x7FFFFFFFE000, 0, True),
        (0x7FFFFFFFF000, 0, False),
        (0x10000, 1 << 56, False),
        (0x10000, (1 << 44) - 4096, False),
        (0x10000, (1 << 44) - 8192, True),
    ],
)
def test_where_a_mapping_may_lie(tmp_path: Path, start: int, offset: int, mapped: bool) -> None:
    line = "x 7/7 1.{}: PERF_RECORD_MMAP2 7/7: [{:#x}(0x2000) @ {:#x} fe:01 5 0]: rw-s /d/{}\n"
    line += "x 7/7 1.{}: mem-loads: {:x} 5 |OP LOAD|\n"
    text = line.format("000001", 0x1000000, 0, "a", "000002", 0x1000000)
    text += line.format("000003", start, offset, "b", "000004", start)
    case = convert_text(tmp_path, text, "perf-mem")
    assert [row[0] for row in case.rows if row[1] == "/d/b"] == (["mmap", "load"] if mapped else [])


def test_strace_may_begin_at_1970(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(
        "7 000000000.000000 mmap(NULL, 8192, PROT_READ, MAP_SHARED, 3</data/f>, 0) = 0x7f0000000000\n"
    )
    text = "p 7/7 100.000000: 1 mem-loads: 7f0000000005 5080022 |OP LOAD|LVL L1 hit| 4K\n"
    assert len(convert_text(tmp_path, text, "perf-mem", calls=str(tmp_path / "s")).rows) == 2


def test_page_faults_and_loads_need_no_kind(tmp_path: Path) -> None:
    head = "x 7/7 1.000000: PERF_RECORD_MMAP2 7/7: [0x10000(0x4000) @ 0 fe:01 5 0]: rw-s /d/a\n"
    for name, op in (("page-faults", "load"), ("mem-loads", "load"), ("mem-stores", "store")):
        case = convert_text(tmp_path, head + f"x 7/7 1.000006: 3 {name}: 10005\n", "perf-mem")
        assert [row[0] for row in case.rows] == ["mmap", op]
