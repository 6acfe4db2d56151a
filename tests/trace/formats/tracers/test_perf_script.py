"""The importer of perf's system-call tracepoints: pairing, descriptors, processes, forms of lines."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import APPENDS, DIRECTORY, KEEP_SIZE, OFFSET_UNKNOWN, PUNCH_HOLE, SYNCHRONOUS, WRITABLE_SHARED
from tests.trace.formats_helper import Case, convert, convert_text

NR = {"read": 0, "write": 1, "close": 3, "lseek": 8, "pwrite64": 18, "pread64": 17, "dup": 32, "clone": 56, "fsync": 74,
      "openat": 257, "ftruncate": 77, "clone3": 435, "mmap": 9, "munmap": 11, "msync": 26, "getdents64": 217,
      "fallocate": 285, "preadv2": 327, "pwritev2": 328}  # fmt: skip


class Text:
    """Lines of perf script, a microsecond apart."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def enter(self, who: str, name: str, *args: int) -> "Text":
        words = ", ".join(f"{a & (1 << 64) - 1:x}" for a in (*args, *[0] * (6 - len(args))))
        return self._add(who, f"raw_syscalls:sys_enter: NR {NR[name]} ({words})")

    def exit(self, who: str, name: str, result: int) -> "Text":
        return self._add(who, f" raw_syscalls:sys_exit: NR {NR[name]} = {result}")

    def call(self, who: str, name: str, *args: int, result: int) -> "Text":
        return self.enter(who, name, *args).exit(who, name, result)

    def _add(self, who: str, text: str) -> "Text":
        self.lines.append(f"{who:>12}  100.{len(self.lines):06}000: {text}\n")
        return self

    def convert(self, folder: Path) -> Case:
        return convert_text(folder, "".join(self.lines))


def data(case: Case) -> list[tuple[str, int, int]]:
    return [(op, offset, length) for op, _, offset, length in case.rows if op in ("read", "write")]


def test_raw_sample(tmp_path: Path) -> None:
    case = convert("perf_raw.txt", tmp_path)
    first = [row[0] for row in case.rows][:9]
    assert first == ["open", "mmap", "close", "open", "read", "read", "read", "mmap", "mmap"]
    assert [row[2:] for row in case.rows if row[0] == "read"][:3] == [(0, 832), (64, 784), (64, 784)]
    assert case.report.left_out["second half of a call from before the trace"] == 1
    assert case.report.failed == {"access": 1}
    assert "no file names" in case.report.blind_spots[0]
    assert case.records["time_ns"][0] == 14_043  # the exit of the first row's call after the first file call's exit


def test_named_sample_in_perf_s_default_form(tmp_path: Path) -> None:
    case = convert("perf_named.txt", tmp_path)
    assert [row[0] for row in case.rows] == ["open", "open", "create", *["write"] * 17]
    assert case.rows[3][2:] == (0x15B0000, 4096) and case.report.bad == 0


def test_positions_follow_dup_append_and_seek(tmp_path: Path) -> None:
    text = Text().call("7/7", "openat", -100, 1, 0o2 | 0o100 | 0o200, result=3)
    text.call("7/7", "write", 3, 1, 100, result=100).call("7/7", "dup", 3, result=4)
    text.call("7/7", "write", 4, 1, 100, result=50).call("7/7", "lseek", 3, 10, 0, result=10)
    text.call("7/7", "read", 4, 1, 5, result=5).call("7/7", "close", 3, result=0)
    text.call("7/7", "openat", -100, 1, 0o2001 | 0o100 | 0o200, result=3)
    text.call("7/7", "pwrite64", 3, 1, 9, 4096, result=9).call("7/7", "write", 3, 1, 9, result=-28)
    case = text.convert(tmp_path)
    assert data(case) == [("write", 0, 100), ("write", 100, 50), ("read", 10, 5), ("write", 0, 9)]
    assert case.records["flag"][-1] == APPENDS and not (case.records["flag"] & OFFSET_UNKNOWN).any()
    assert case.report.failed == {"write": 1}


def test_threads_share_descriptors_and_processes_inherit_them(tmp_path: Path) -> None:
    text = Text().call("7/7", "openat", -100, 1, 0o2 | 0o100 | 0o200, result=3)
    text.enter("7/7", "clone3", 1, 88).call("7/8", "write", 3, 1, 10, result=10).exit("7/7", "clone3", 8)
    text.enter("7/7", "clone", 0x1200011).call("9/9", "close", 3, result=0).exit("7/7", "clone", 9)
    text.call("7/7", "write", 3, 1, 10, result=10).call("7/7", "clone", 0x1200011, result=10)
    text.call("7/7", "close", 3, result=0).call("10/10", "write", 3, 1, 10, result=10)
    text.call("7/8", "write", 3, 1, 10, result=10)
    case = text.convert(tmp_path)
    assert data(case) == [("write", 0, 10), ("write", 10, 10), ("write", 20, 10)]
    assert case.report.left_out["descriptor from before the trace"] == 1


def test_calls_of_threads_interleave(tmp_path: Path) -> None:
    text = Text().call("7/7", "openat", -100, 1, 0o2, result=3)
    text.enter("7/7", "pread64", 3, 1, 512, 0).enter("7/8", "pwrite64", 3, 1, 512, 512)
    text.exit("7/7", "pread64", 512).exit("7/8", "pwrite64", 512).enter("7/7", "fsync", 3)
    text.lines.insert(4, "7/7 100.1: PERF_RECORD_LOST lost 4\n")
    case = text.convert(tmp_path)
    assert data(case) == [("read", 0, 512), ("write", 512, 512)] and case.records["thread"].tolist() == [0, 0, 1]
    assert case.report.left_out["call that never returned"] == 1
    assert case.trace.header["lost_events"] == 4 and "lost 4 events" in case.report.blind_spots[1]


def test_a_file_assumed_new_is_found_to_have_existed(tmp_path: Path) -> None:
    text = Text().call("7/7", "openat", -100, 1, 0o2 | 0o100, result=3)
    text.call("7/7", "pread64", 3, 1, 512, 0, result=512)
    case = text.convert(tmp_path)
    assert case.rows[0][0] == "open" and case.trace.files.first_size.tolist() == [512]


def test_rows_do_not_depend_on_the_size_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scmsim.trace.formats.tracers import perf_script

    whole = convert("perf_raw.txt", tmp_path)
    monkeypatch.setattr(perf_script, "_BLOCK", 150)
    pieces = convert("perf_raw.txt", tmp_path)
    assert pieces.rows == whole.rows and np.array_equal(pieces.records, whole.records)
    assert pieces.report.left_out == whole.report.left_out


@pytest.mark.parametrize("line", ["7/7 100.0: raw_syscalls:sys_enter: NR x (0)", "raw_syscalls:sys_exit: NR 1 = 1",
                                  "7/7 100.0: raw_syscalls:sys_exit: NR 1", "7/7 1e9: syscalls:sys_exit_read: 0x1",
                                  "7/7 100.0: raw_syscalls:sys_enter: NR 1 (0, 1", "words"])  # fmt: skip
def test_lines_that_are_not_complete_are_bad(tmp_path: Path, line: str) -> None:
    text = Text().call("7/7", "openat", -100, 1, 0o2, result=3)
    text.lines.append(line + "\n")
    case = text.convert(tmp_path)
    assert case.report.bad_lines[0][0] == 3 and case.report.rows == 1


def test_a_directory_needs_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--under needs file names"):
        convert("perf_raw.txt", tmp_path, under="/data")


@pytest.mark.parametrize("calls", [1, 100])  # one by one, and many at once
def test_a_seek_from_the_end_in_perf_tells_the_size(tmp_path: Path, calls: int) -> None:
    lines = ["NR 257 (ffffff9c, 7f00, 2, 0, 0, 0)", "NR 257 = 3", *["NR 8 (3, 0, 2, 0, 0, 0)", "NR 8 = 70"] * calls]
    text = "".join(
        f" 1/1 1.{number:09}: raw_syscalls:sys_{'exit' if ' = ' in line else 'enter'}: {line}\n"
        for number, line in enumerate([*lines, "NR 1 (3, 7f00, 5, 0, 0, 0)", "NR 1 = 5"])
    )
    case = convert_text(tmp_path, text)
    assert case.rows[-1][2:] == (70, 5) and case.trace.files.first_size.tolist() == [70]


@pytest.mark.parametrize(
    ("flags", "made", "assumed"),
    [
        (0o2, ["open"], 0), (0o102, ["create"], 1), (0o302, ["create"], 0), (0o1102, ["create"], 0),
        (0o1002, ["open", "truncate"], 0), (0o20200002, ["create"], 0), (0o10000000, [], 0),
    ],
)  # fmt: skip
def test_flags_of_an_open_in_perf(tmp_path: Path, flags: int, made: list[str], assumed: int) -> None:
    """O_RDWR alone, with O_CREAT, O_EXCL, O_TRUNC, O_TMPFILE; O_PATH.  Only O_CREAT alone leaves open whether there was a file."""
    enter, leave = f"sys_enter: NR 257 (ffffff9c, 7f00, {flags:x}, 0, 0, 0)", "sys_exit: NR 257 = 3"
    text = f" 1/1 1.1: raw_syscalls:{enter}\n 1/1 1.2: raw_syscalls:{leave}\n"
    case = convert_text(tmp_path, text, "perf-script")
    assert [row[0] for row in case.rows] == made and case.report.creates["assumed new"] == assumed


@pytest.mark.parametrize(("command", "flag", "kept"), [(2, 1, False), (2, 0, True), (2, 2, True), (1, 1, True)])
def test_a_descriptor_that_an_exec_closes_in_perf(tmp_path: Path, command: int, flag: int, kept: bool) -> None:
    """fcntl(F_SETFD, FD_CLOEXEC): the descriptor is gone after an exec; F_GETFD changes nothing."""
    calls = [
        ("257 (ffffff9c, 7f00, 2, 0, 0, 0)", 3),
        (f"72 (3, {command:x}, {flag:x}, 0, 0, 0)", 0),
        ("59 (7f00, 0, 0, 0, 0, 0)", 0),
    ]
    calls.append(("1 (3, 7f00, 5, 0, 0, 0)", 5))
    text = "".join(
        f" 1/1 1.{2 * n:09}: raw_syscalls:sys_enter: NR {call}\n"
        f" 1/1 1.{2 * n + 1:09}: raw_syscalls:sys_exit: NR {call.split()[0]} = {value}\n"
        for n, (call, value) in enumerate(calls)
    )
    case = convert_text(tmp_path, text, "perf-script")
    assert [row[0] for row in case.rows] == (["open", "write"] if kept else ["open"])


OPEN = ("openat", (-100, 0x7F00, 2), 3)  # O_RDWR


@pytest.mark.parametrize(
    ("calls", "rows"),
    [
        # MS_SYNC (4) writes back what is mapped of a range, MS_ASYNC (1) starts nothing; munmap takes whole pages
        ([("mmap", (0, 0x3000, 3, 1, 3, 0x1000), 0x10000), ("msync", (0x11000, 0x8000, 4), 0), ("msync", (0x11000, 0x1000, 1), 0),
          ("munmap", (0x10000, 0x1001), 0)],
         [("mmap", 0x1000, 0x3000, WRITABLE_SHARED), ("msync", 0x2000, 0x2000, 0), ("munmap", 0x1000, 0x2000, 0)]),
        # FALLOC_FL_KEEP_SIZE (1), PUNCH_HOLE (2), ZERO_RANGE (16)
        ([("fallocate", (3, mode, 0x1000, 0x2000), 0) for mode in (0, 1, 3, 16)],
         [("fallocate", 0x1000, 0x2000, flag) for flag in (0, KEEP_SIZE, KEEP_SIZE | PUNCH_HOLE, 0)]),
        # its length follows an allocation behind its end that does not keep its size, as a write of RWF_APPEND shows
        ([call for mode, end in ((0, 2), (1, 0x3000), (0, 4), (0, 0x3000))
          for call in (("fallocate", (3, mode, 0, end), 0), ("pwritev2", (3, 0x7F00, 1, -1, 0, 16), 5))],
         [row for at, mode, end in ((2, 0, 2), (7, 1, 0x3000), (12, 0, 4), (0x3000, 0, 0x3000))
          for row in (("fallocate", 0, end, KEEP_SIZE * mode), ("write", at, 5, APPENDS | OFFSET_UNKNOWN))]),
        # RWF_DSYNC (2), RWF_SYNC (4), RWF_APPEND (16); an offset of -1 is the position, which the length follows here
        ([("pwritev2", (3, 0x7F00, 1, -1, 0, flags), 5) for flags in (0, 2, 4, 16, 18)],
         [("write", 0, 5, 0), ("write", 5, 5, SYNCHRONOUS), ("write", 10, 5, SYNCHRONOUS),
          ("write", 15, 5, APPENDS | OFFSET_UNKNOWN), ("write", 20, 5, APPENDS | OFFSET_UNKNOWN | SYNCHRONOUS)]),
        ([("preadv2", (3, 0x7F00, 1, at, 0, 0), 5) for at in (-1, 7, -1)],
         [("read", 0, 5, 0), ("read", 7, 5, 0), ("read", 5, 5, 0)]),
        ([("getdents64", (3, 0x7F00, 4096), 48)], [("readdir", -1, 48, DIRECTORY)]),
    ],
)  # fmt: skip
def test_what_numbers_alone_tell(tmp_path: Path, calls: list, rows: list) -> None:
    text = Text()
    for name, args, result in [OPEN, *calls]:
        text.call("1/1", name, *args, result=result)
    case = text.convert(tmp_path)
    flags = case.records["flag"].tolist()
    assert [(row[0], *row[2:], flag) for row, flag in zip(case.rows, flags, strict=True)][1:] == rows
