"""The importer of perf's system-call tracepoints: pairing, descriptors, processes, forms of lines."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.errors import UsageError
from scmsim.core.records import (
    APPENDS,
    CONTINUES,
    DATA_ONLY,
    DIRECTORY,
    KEEP_SIZE,
    MAP_SYNC,
    OFFSET_UNKNOWN,
    POPULATE,
    PRIVATE,
    PUNCH_HOLE,
    SYNCHRONOUS,
    WRITABLE_SHARED,
)
from scmsim.trace.syscalls.importer import BOOKKEEPING, NO_MODEL, NOT_A_FILE, NOT_A_FILE_OPERATION, UNKNOWN_FD
from tests.trace.formats_helper import Case, convert, convert_text

# asm/unistd_64.h of Linux
NR = {"read": 0, "write": 1, "open": 2, "close": 3, "lseek": 8, "mmap": 9, "munmap": 11, "pread64": 17, "pwrite64": 18,
      "readv": 19, "writev": 20, "msync": 26, "dup": 32, "dup2": 33, "sendfile": 40, "socket": 41, "clone": 56, "execve": 59,
      "fcntl": 72, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "creat": 85, "sync": 162, "getdents64": 217, "openat": 257,
      "sync_file_range": 277, "fallocate": 285, "dup3": 292, "preadv": 295, "pwritev": 296, "syncfs": 306,
      "copy_file_range": 326, "preadv2": 327, "pwritev2": 328, "clone3": 435, "openat2": 437}  # fmt: skip


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


@pytest.mark.parametrize("first", ["parent", "child"])
def test_a_process_of_clone_files_shares_descriptors(tmp_path: Path, first: str) -> None:
    text = Text().call("7/7", "dup", 0, result=5)
    if first == "parent":
        text.call("7/7", "clone", 0x411, result=8).call("8/8", "openat", -100, 1, 0o2, result=3)
    else:
        text.enter("7/7", "clone", 0x411).call("8/8", "openat", -100, 1, 0o2, result=3).exit("7/7", "clone", 8)
    text.call("7/7", "write", 3, 1, 10, result=10).call("8/8", "write", 3, 1, 10, result=10)
    assert data(text.convert(tmp_path)) == [("write", 0, 10), ("write", 10, 10)]


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


OPEN = ("openat", (-100, 0x7F00, 2), 3)  # O_RDWR


@pytest.mark.parametrize(
    ("calls", "rows"),
    [
        # MS_SYNC (4) writes back what is mapped of a range, MS_ASYNC (1) starts nothing; munmap takes whole pages
        ([("mmap", (0, 0x3000, 3, 1, 3, 0x1000), 0x10000), ("msync", (0x11000, 0x8000, 4), 0), ("msync", (0x11000, 0x1000, 1),
        0),
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


def told(folder: Path, calls: list) -> tuple[list[tuple], Case]:
    """Rows (operation, descriptor of the open that made the object, offset, length, flag) of calls of one thread."""
    text = Text()
    for name, args, result in calls:
        text.call("1/1", name, *args, result=result)
    case = text.convert(folder)
    flags = case.records["flag"].tolist()
    fds = [int(path.split("/")[4]) if path else -1 for _, path, _, _ in case.rows]
    return [(op, fd, *rest, flag) for (op, _, *rest), fd, flag in zip(case.rows, fds, flags, strict=True)], case


BOTH = [OPEN, ("openat", (-100, 0x7F00, 2), 4)]


@pytest.mark.parametrize(
    ("calls", "rows"),
    [
        # bytes go from the position of one descriptor to that of the other
        ([*BOTH, ("lseek", (3, 7, 0), 7), ("sendfile", (4, 3, 0, 10), 10), ("copy_file_range", (4, 0, 3, 0, 9), 2),
          ("write", (3, 1, 1), 1)],
         [("read", 3, 7, 10, 0), ("write", 4, 0, 10, CONTINUES), ("read", 4, 10, 2, 0), ("write", 3, 17, 2, CONTINUES),
          ("write", 3, 19, 1, 0)]),
        # one end of a copy is a socket: its row stands alone
        ([*BOTH, ("socket", (1, 1, 0), 5), ("sendfile", (5, 3, 0, 10), 10), ("copy_file_range", (5, 0, 4, 0, 9), 6)],
         [("read", 3, 0, 10, 0), ("write", 4, 0, 6, 0)]),
        # O_SYNC holds the bit of O_DSYNC
        ([("openat", (-100, 0x7F00, 0o4010001), 3), ("write", (3, 1, 5), 5), ("pwritev", (3, 1, 1, 9), 5),
          ("writev", (3, 1, 1), 2)],
         [("write", 3, 0, 5, SYNCHRONOUS), ("write", 3, 9, 5, SYNCHRONOUS), ("write", 3, 5, 2, SYNCHRONOUS)]),
        ([OPEN, ("readv", (3, 1, 1), 5), ("preadv", (3, 1, 1, 9), 5), ("readv", (3, 1, 1), 2)],
         [("read", 3, 0, 5, 0), ("read", 3, 9, 5, 0), ("read", 3, 5, 2, 0)]),
        # F_GETFL (3) and F_SETFL (4) show and set O_APPEND (0o2000)
        ([OPEN, ("ftruncate", (3, 70), 0), ("fcntl", (3, 4, 0o2002), 0), ("write", (3, 1, 5), 5), ("fcntl", (3, 4, 2), 0),
          ("pwrite64", (3, 1, 5, 1), 5), ("fcntl", (3, 3, 0o2000), 2), ("pwrite64", (3, 1, 5, 2), 5),
          ("fcntl", (3, 3, 0), 0o2002), ("pwrite64", (3, 1, 5, 3), 5)],
         [("truncate", 3, 70, 0, 0), ("write", 3, 70, 5, APPENDS), ("write", 3, 1, 5, 0), ("write", 3, 2, 5, 0),
          ("write", 3, 75, 5, APPENDS)]),
        ([OPEN, ("fsync", (3,), 0), ("fdatasync", (3,), 0), ("sync_file_range", (3, 5, 6, 7), 0), ("syncfs", (3,), 0),
          ("sync", (), 0)],
         [("fsync", 3, -1, 0, 0), ("fsync", 3, -1, 0, DATA_ONLY), ("fsync", 3, 5, 6, DATA_ONLY), ("sync", 3, -1, 0, 0),
          ("sync", -1, -1, 0, 0)]),
        # MAP_PRIVATE 2, MAP_SHARED_VALIDATE 3 with MAP_SYNC 0x80000, MAP_POPULATE 0x8000, MAP_ANONYMOUS 0x20; PROT_WRITE 2
        ([OPEN, ("mmap", (0, 0x1000, 3, 2, 3, 0), 0x10000), ("mmap", (0, 0x1000, 1, 0x80003, 3, 0), 0x20000),
          ("mmap", (0, 0x1000, 2, 0x8001, 3, 0x3000), 0x30000), ("mmap", (0, 0x1000, 3, 0x21, 3, 0), 0x40000),
          ("mmap", (0, 0x1000, 3, 1, -1, 0), 0x50000), ("munmap", (0x40000, 0x2000), 0)],
         [("mmap", 3, 0, 0x1000, PRIVATE), ("mmap", 3, 0, 0x1000, MAP_SYNC),
          ("mmap", 3, 0x3000, 0x1000, POPULATE | WRITABLE_SHARED)]),
        # a mapping over a shared one ends it, over a private one does not
        ([OPEN, ("mmap", (0, 0x2000, 3, 1, 3, 0), 0x10000), ("mmap", (0, 0x2000, 1, 2, 3, 0), 0x20000),
          ("mmap", (0x11000, 0x1000, 3, 0x31, -1, 0), 0x11000), ("mmap", (0x21000, 0x1000, 1, 0x12, 3, 0), 0x21000)],
         [("mmap", 3, 0, 0x2000, WRITABLE_SHARED), ("mmap", 3, 0, 0x2000, 0), ("munmap", 3, 0x1000, 0x1000, 0),
          ("mmap", 3, 0, 0x1000, 0)]),
        # an open of a nameless file with O_TRUNC alone is two rows; creat is O_WRONLY, O_CREAT, O_TRUNC
        ([("open", (1, 0o1001), 3), ("creat", (1, 0o644), 4), ("openat2", (-100, 1, 2, 24), 5)],
         [("truncate", 3, 0, 0, CONTINUES), ("create", 4, -1, 0, 0), ("open", 5, -1, 0, 0)]),
        ([OPEN, ("getdents64", (3, 1, 4096), 48), ("close", (3,), 0)],
         [("readdir", 3, -1, 48, DIRECTORY), ("close", 3, -1, 0, DIRECTORY)]),
    ],
)  # fmt: skip
def test_two_descriptors_and_their_flags(tmp_path: Path, calls: list, rows: list) -> None:
    opens = sum(name in ("open", "openat") for name, _, _ in calls)
    assert told(tmp_path, calls)[0][opens:] == rows


ON_DESCRIPTORS = {
    "read": ((9, 1, 5), 5), "pread64": ((9, 1, 5, 0), 5), "write": ((9, 1, 5), 5), "lseek": ((9, 5, 0), 5), "close": ((9,), 0),
    "fsync": ((9,), 0), "syncfs": ((9,), 0), "ftruncate": ((9, 5), 0), "fallocate": ((9, 0, 0, 5), 0),
    "getdents64": ((9, 1, 5), 5), "mmap": ((0, 0x1000, 1, 1, 9, 0), 0x10000), "sendfile": ((9, 9, 0, 5), 5),
}  # fmt: skip


def by_thread(folder: Path, cases: list[list]) -> tuple[list[list], Case]:
    """Rows (operation, offset, length) of each of some processes, whose calls come one process after the other."""
    text = Text()
    for number, calls in enumerate(cases, 1):
        for name, args, result in calls:
            text.call(f"{number}/{number}", name, *args, result=result)
    case = text.convert(folder)
    rows: list[list] = [[] for _ in cases]
    for (op, path, offset, length), record in zip(case.rows, case.records, strict=True):
        number = int(path.split("/")[2])
        assert record["thread"] <= number
        rows[number - 1].append((op, offset, length))
    return rows, case


@pytest.mark.parametrize("kind", ["unknown", "socket"])
def test_a_call_on_what_is_no_file_makes_no_row(tmp_path: Path, kind: str) -> None:
    socket = [("socket", (1, 1, 0), 9)] if kind == "socket" else []
    calls = [[OPEN, *socket, (name, *call), ("write", (3, 1, 5), 5)] for name, call in ON_DESCRIPTORS.items()]
    rows, case = by_thread(tmp_path, calls)
    assert rows == [[("open", -1, 0), ("write", 0, 5)]] * len(calls)
    expected = (0, 2 * len(calls)) if socket else (len(calls), 0)
    assert (case.report.left_out[UNKNOWN_FD], case.report.left_out[NOT_A_FILE]) == expected


# what makes a copy of descriptor 3 under the number 7, which was another file's before, and whether it outlives an exec
COPIES = [
    ([("dup", (3,), 7)], True), ([("dup2", (3, 7), 7)], True), ([("dup3", (3, 7, 0), 7)], True),
    ([("dup3", (3, 7, 0o2000000), 7)], False), ([("fcntl", (3, 0, 7), 7)], True),  # F_DUPFD
    ([("fcntl", (3, 1030, 7), 7)], False), ([("dup2", (9, 7), 7)], False),  # F_DUPFD_CLOEXEC; of an unknown one
    ([("dup", (3,), 7), ("close", (7,), 0)], False), ([("dup", (3,), 7), ("close", (3,), 0)], True),
    ([("openat", (-100, 1, 0o2000002), 7)], False), ([("openat", (-100, 1, 0o10000000), 7)], False),  # O_CLOEXEC, O_PATH
    ([], True), ([("fcntl", (7, 2, 1), 0)], False), ([("fcntl", (7, 2, 1), 0), ("fcntl", (7, 2, 2), 0)], True),  # F_SETFD
    ([("fcntl", (7, 2, 1), 0), ("fcntl", (7, 1, 0), 1)], False), ([("fcntl", (7, 1, 1), 1)], True),  # F_GETFD
]  # fmt: skip


def test_what_an_exec_leaves_open_in_perf(tmp_path: Path) -> None:
    begun, ended = [OPEN, ("openat", (-100, 1, 2), 7)], [("execve", (1, 0, 0), 0), ("write", (7, 1, 5), 5)]
    rows, case = by_thread(tmp_path, [[*begun, *calls, *ended] for calls, _ in COPIES])
    for found, (calls, stays) in zip(rows, COPIES, strict=True):
        assert [row for row in found if row[0] == "write"] == [("write", 0, 5)] * stays, calls
    assert (
        case.report.left_out[UNKNOWN_FD] == sum(not stays for _, stays in COPIES) - 1
    )  # that of O_PATH is known: no file


def test_why_calls_of_perf_make_no_row(tmp_path: Path) -> None:
    calls = [
        OPEN, ("fallocate", (3, 8, 0, 4096), 0), ("fallocate", (3, 0x20, 0, 4096), 0), ("fallocate", (3, 0x40, 0, 4096), 0),
        ("fcntl", (3, 6, 0), 0), ("munmap", (0x10000, 0x1000), 0), ("msync", (0x10000, 0x1000, 4), 0), ("dup", (3,), 4),
        ("fcntl", (9, 3, 0), 0),
    ]  # fmt: skip
    rows, case = told(tmp_path, calls)
    assert len(rows) == 2 and case.report.left_out[NO_MODEL] == 2  # UNSHARE_RANGE allocates
    assert case.report.left_out[NOT_A_FILE_OPERATION] == 3 and case.report.left_out[BOOKKEEPING] == 2


def test_an_offset_of_perf_is_below_2_to_the_60(tmp_path: Path) -> None:
    names = ("pread64", "pwrite64", "preadv", "ftruncate")
    calls = [
        (name, (3, at) if name == "ftruncate" else (3, 1, 5, at), 0)
        for name in names
        for at in (-1, 1 << 60, (1 << 60) - 1, 0)
    ]
    rows, case = by_thread(tmp_path, [[OPEN, call] for call in calls])
    assert [len(found) for found in rows] == [1, 1, 2, 2] * len(names) and case.report.bad == 2 * len(names)


@pytest.mark.parametrize(
    ("offset", "result", "size"),
    [(0, 70, 70), (-10, 70, 80), (80, 70, 0), (70, 70, 0), (1, 70, 69), (-(1 << 60), 70, 70)],
)
def test_a_seek_from_the_end_of_a_file_in_perf(tmp_path: Path, offset: int, result: int, size: int) -> None:
    """The size is the result less the offset, where both can be; O_APPEND (0o2000) writes there."""
    rows, case = told(
        tmp_path,
        [
            ("openat", (-100, 1, 0o2002), 3),
            ("lseek", (3, offset, 2), result),
            ("read", (3, 1, 5), 0),
            ("write", (3, 1, 5), 5),
        ],
    )
    unknown = OFFSET_UNKNOWN if offset > result else 0
    assert rows[1:] == [("read", 3, result, 0, 0), ("write", 3, size, 5, APPENDS | unknown)]
    assert case.trace.files.first_size.tolist() == [size]


@pytest.mark.parametrize("name", ["read", "write", "pread64", "pwrite64", "getdents64"])
@pytest.mark.parametrize(
    ("moved", "failed", "bad"),
    [(0, 0, 0), (-1, 1, 0), (-4095, 1, 0), (-4096, 0, 1), (1 << 31, 0, 0), ((1 << 31) + 1, 0, 1), (1 << 60, 0, 1)],
)
def test_a_call_moves_what_linux_can_move(tmp_path: Path, name: str, moved: int, failed: int, bad: int) -> None:
    """Errors are -1 to -4095 (include/linux/err.h, MAX_ERRNO); a call moves at most 0x7ffff000 bytes."""
    text = Text().call("1/1", "openat", 0, 1, 2, result=3).call("1/1", name, 3, 1, 1 << 31, 0, result=moved)
    case = text.call("1/1", "fsync", 3, result=0).convert(tmp_path)
    assert (case.report.failed[name], case.report.bad) == (failed, bad)
    assert len(case.rows) == 3 - failed - bad
