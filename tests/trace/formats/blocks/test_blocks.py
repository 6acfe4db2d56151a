"""Block traces: rows worked out by hand from the text."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import CONTINUES, KEEP_SIZE, PUNCH_HOLE, SYNCHRONOUS
from scmsim.trace.formats.blocks import vscsi
from tests.trace.formats_helper import convert, convert_text


def test_blkparse_requests(tmp_path: Path) -> None:
    case = convert("blkparse.txt", tmp_path)
    disk = "/dev/block/8:0"
    assert case.rows == [
        ("write", disk, 1196672 * 512, 4096), ("fsync", disk, -1, 0), ("fsync", disk, -1, 0),
        ("write", disk, 512 * 512, 8192), ("read", disk, 2048 * 512, 131072), ("fallocate", disk, 8192 * 512, 1 << 20),
    ]  # fmt: skip
    assert case.records["flag"].tolist() == [0, 0, 0, CONTINUES | SYNCHRONOUS, 0, PUNCH_HOLE | KEEP_SIZE]
    assert case.trace.files.first_size.tolist() == [1196672 * 512 + 4096]  # the device is there from the start
    assert case.report.left_out["summary at the end"] == 5
    assert case.trace.header["granularity"] == "block" and "block trace" in case.trace.header["notes"][0]
    assert convert("blkparse.txt", tmp_path, action="C").rows == case.rows[:1]


def test_blkparse_without_the_chosen_action_names_those_there(tmp_path: Path) -> None:
    text = "8,0 1 1 0.5 45 D WS 8 + 8 [x]\n"
    with pytest.raises(UsageError, match=r"no line with the action 'Q' \(it has D 1\); choose one with --set action=D"):
        convert_text(tmp_path, text)
    assert convert_text(tmp_path, text, action="D").report.rows == 1


def test_ftrace_classic_has_no_sequence_number(tmp_path: Path) -> None:
    case = convert("blk_classic.txt", tmp_path)
    assert case.rows == [("fallocate", "/dev/block/254:0", 39153664 * 512, 4096 * 512)]


def test_msr_and_tencent(tmp_path: Path) -> None:
    case = convert_text(
        tmp_path, "128166372003061629,hm,0,Write,7014912,4096,26\n128166372003061729,hm,1,Read,0,512,2\n"
    )
    assert case.rows == [("write", "/hm/0", 7014912, 4096), ("read", "/hm/1", 0, 512)]
    assert case.records["time_ns"].tolist() == [0, 10_000]
    assert case.trace.files.first_size.tolist() == [7014912 + 4096, 512]
    case = convert_text(tmp_path, "1538323200,8,2,0,1063\n1538323201,16,1,1,1063\n")
    assert case.rows == [("read", "/volume/1063", 4096, 1024), ("write", "/volume/1063", 8192, 512)]
    assert case.records["time_ns"].tolist() == [0, 10**9]


def test_a_damaged_time_moves_no_other_row(tmp_path: Path) -> None:
    """The clock stays where it was at the damaged row, and goes on after it."""
    times = [0, 1000, (1 << 62) - 1, 2000, 3000]
    case = convert_text(tmp_path, "".join(f"{10**17 + t},hm,0,Write,0,4096,26\n" for t in times))
    assert case.records["time_ns"].tolist()[-1] - case.records["time_ns"].tolist()[1] <= 200_000
    records = np.zeros(5, vscsi._RECORDS[2])
    records["ver"], records["cmd"], records["len"], records["ts"] = 2 << 8 | 3, 0x2A, 4096, [10**15 + t for t in times]
    case = convert_text(tmp_path, records.tobytes(), "vscsi")
    assert case.records["time_ns"].tolist()[-1] - case.records["time_ns"].tolist()[1] <= 2_000_000


@pytest.mark.parametrize("version", [1, 2])
def test_vscsi(tmp_path: Path, version: int) -> None:
    records = np.zeros(4, vscsi._RECORDS[version])
    records["ver"], records["cmd"] = version << 8 | 3, [0x28, 0x2A, 0x35, 0x8A]
    records["len"], records["lbn"], records["ts"] = (
        [4096, 512, 0, 8192],
        [8, 1, 0, 1 << 20],
        [10**15, 10**15 + 3, 10**15 + 4, 10**15 + 5],
    )
    case = convert_text(tmp_path, records.tobytes() + b"cut", "vscsi")
    assert case.rows == [
        ("read", "/device", 4096, 4096),
        ("write", "/device", 512, 512),
        ("write", "/device", 1 << 29, 8192),
    ]
    assert case.records["time_ns"].tolist() == [0, 3000, 5000]
    assert case.report.left_out == {"another SCSI command": 1} and case.report.bad == 1
    with pytest.raises(UsageError, match="is not a vscsi trace"):
        convert_text(tmp_path, bytes(400), "vscsi")


def test_fiu_blocks(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "89968195792462 20782 gzip 16 8 R 6 0 56f1\n89968195792562 4 cp 8 8 W 6 0 56f1\n")
    assert case.rows == [("read", "/dev/block/6:0", 8192, 4096), ("write", "/dev/block/6:0", 4096, 4096)]
    assert case.records["thread"].tolist() == [0, 1] and case.records["time_ns"].tolist() == [0, 100]


def test_alibaba(tmp_path: Path) -> None:
    case = convert_text(tmp_path, "419,R,4096,512,1577808000000100\n7,W,0,8192,1577808000000101\n")
    assert case.rows == [("read", "/device/419", 4096, 512), ("write", "/device/7", 0, 8192)]
    assert case.records["time_ns"].tolist() == [0, 1000] and case.trace.header["granularity"] == "block"
