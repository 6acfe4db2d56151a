"""Inputs that were once read wrong or refused, each with the rows that are right."""

from pathlib import Path

import pytest

from scmsim.core.records import OFFSET_UNKNOWN
from tests.trace.formats_helper import convert, convert_text


def test_requests_of_a_device_mapper_count_once(tmp_path: Path) -> None:
    case = convert("blkparse_dm.txt", tmp_path)
    assert case.rows == [("write", "/dev/block/253:0", 376832, 16384)]
    assert (
        "253:0 is on top of 8:0: the rows are those of 253:0; 1 requests on the devices below are left out"
        in case.report.notes[-1]
    )
    assert convert("blkparse_dm.txt", tmp_path, action="C").rows == case.rows
    assert convert("blkparse_dm.txt", tmp_path, action="D").rows == [("write", "/dev/block/8:0", 3781344 * 512, 16384)]


def test_a_stripe_splits_a_request(tmp_path: Path) -> None:
    text = """253,0 1 1 0.1 4 Q W 0 + 256 [a]
  8,0 1 2 0.2 4 A W 1000 + 128 <- (253,0) 0
  8,0 1 3 0.3 4 Q W 1000 + 128 [a]
  8,16 1 4 0.4 4 A W 3000 + 128 <- (253,0) 128
  8,16 1 5 0.5 4 Q W 3000 + 128 [a]
253,0 1 6 0.6 4 Q FWS [a]
  8,0 1 7 0.7 4 Q FWS [a]
  8,16 1 8 0.7 4 Q FWS [a]
  8,0 1 9 0.8 4 Q R 8 + 8 [direct]
"""
    rows = [
        ("write", "/dev/block/253:0", 0, 131072),
        ("fsync", "/dev/block/253:0", -1, 0),
        ("read", "/dev/block/8:0", 4096, 4096),
    ]
    assert convert_text(tmp_path, text).rows == rows


def test_devices_without_remaps_are_named(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "253,0 1 1 0.1 4 Q W 0 + 8 [a]\n8,0 1 2 0.2 4 Q W 64 + 8 [a]\n")
    assert len(case.rows) == 2 and "2 devices and no request passed" in case.report.notes[-1]


def test_first_lines_of_blkparse_and_a_partition(tmp_path: Path) -> None:
    case = convert("blkparse_input_file.txt", tmp_path)
    disk = "/dev/block/65:112"
    assert case.rows == [
        ("write", disk, 3909638064 * 512, 16384),
        ("fsync", disk, -1, 0),
        ("read", disk, 2048 * 512, 4096),
    ]
    assert case.report.bad == 0


def test_copies_at_offsets_behind_pointers(tmp_path: Path) -> None:
    case = convert("perf_copies.txt", tmp_path)
    rows = [(op, offset, length) for op, _, offset, length in case.rows[2:]]
    assert rows == [
        ("read", 0, 1000), ("write", 0, 1000), ("read", 0, 100), ("read", 100, 500), ("write", 1000, 500), ("write", 1000, 10)
    ]  # fmt: skip
    unknown = [bool(row["flag"] & OFFSET_UNKNOWN) for row in case.records[2:]]
    assert unknown == [True, False, False, True, True, False]
    assert case.report.unknown_offsets == 3


_ENDS = ["", " "]


@pytest.mark.parametrize("end", _ENDS)
@pytest.mark.parametrize("fork", ["vfork", "fork"])
def test_tracepoints_without_arguments_are_calls(tmp_path: Path, end: str, fork: str) -> None:
    lines = [
        "1 1 1.1: syscalls:sys_enter_creat: pathname: 0x7f00, mode: 0x1a4", "1 1 1.2: syscalls:sys_exit_creat: 0x3",
        f"1 1 1.3: syscalls:sys_enter_{fork}:{end}", f"1 1 1.35: syscalls:sys_enter_getpid:{end}".replace("1 1 ", "9 9 "),
        "2 2 1.4: syscalls:sys_enter_write: fd: 0x3, buf: 0x7f00, count: 0x10", "2 2 1.5: syscalls:sys_exit_write: 0x10",
        f"1 1 1.6: syscalls:sys_exit_{fork}: 0x2", f"1 1 1.7: syscalls:sys_enter_sync:{end}",
        "1 1 1.8: syscalls:sys_exit_sync: 0x0", "1 1 1.9: syscalls:sys_enter_write: fd: 0x3, buf: 0x7f00, count: 0x4",
        "1 1 2.0: syscalls:sys_exit_write: 0x4",
    ]  # fmt: skip
    case = convert_text(tmp_path, "\n".join(line.replace(" ", "/", 1) for line in lines) + "\n", "perf-script")
    assert [(op, offset, length) for op, _, offset, length in case.rows if op == "write"] == [
        ("write", 0, 16),
        ("write", 16, 4),
    ]
    assert [op for op, *_ in case.rows].count("sync") >= 1 and case.report.bad == 0


def test_ftrace_prints_calls_in_its_own_way(tmp_path: Path) -> None:
    case = convert("ftrace_syscalls.txt", tmp_path)
    assert [row[2:] for row in case.rows if row[0] == "write"] == [(0, 0x20000), (0x20000, 4)]
    plain = (Path(__file__).parents[2] / "data/formats/ftrace_syscalls.txt").read_text()
    for text in (plain.replace("fd: 3", "fd: 0x3"), plain.replace("app-100 ", "app-100 (    100) ")):
        assert convert_text(tmp_path, text).rows == case.rows


def test_segments_on_lustre_name_their_servers(tmp_path: Path) -> None:
    case = convert("dxt_lustre.txt", tmp_path)
    assert case.rows == [
        ("write", "/lus/u/t.bin", 0, 262144), ("write", "/lus/u/t.bin", 1048576, 2097152), ("read", "/lus/u/t.bin", 0, 100),
        ("write", "/home/u/c.txt", 0, 100),
    ]  # fmt: skip
    assert case.report.bad == 0
