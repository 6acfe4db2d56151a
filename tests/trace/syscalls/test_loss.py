"""Losses measured by their consequences: what a line that was not understood puts in doubt."""

import time
from pathlib import Path

import pytest

from scmsim.core.errors import UsageError
from scmsim.trace.syscalls.importer import LOST_FD, UNKNOWN_FD
from tests.trace.strace_helper import convert_lines

F = 'openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3'
G = 'openat(AT_FDCWD, "/d/g", O_RDWR|O_CREAT|O_EXCL, 0644) = 4'
W = 'write(3, "", 100) = 100'
P = 'pwrite64(3, "", 100, 0) = 100'

# name -> (lines after the open of /d/f as 3, rows in doubt, calls lost, bytes in doubt, bytes lost)
CASES = {
    "nothing": ([W, W], 0, 0, 0, 0),
    "a call that does nothing to files": ([W, "futex(0x1, garbage", "rt_sigprocmask() = ", W], 0, 0, 0, 0),
    "attributes": (["fchmod(3, garbage", W], 0, 0, 0, 0),
    "a seek: until the next seek": (["lseek(3, garbage", W, W, P, "lseek(3, 0, SEEK_SET) = 0", W], 2, 1, 200, 0),
    "a 32-bit seek": (["_llseek(3, garbage", W, "_llseek(3, 0, [7], SEEK_SET) = 0", W], 1, 1, 100, 0),
    "a seek of another file": ([G, "lseek(4, garbage", W], 0, 1, 0, 0),
    "a write: its bytes, and the position after it": (["write(3, garbage) = 4096", W], 1, 1, 100, 4096),
    "a truncate: until the length is known": (
        ["ftruncate(3, garbage) = 0", P, "fstat(3, {st_mode=S_IFREG|0644, st_size=9}) = 0", P], 1, 1, 100, 0),
    "an open: its descriptor": (['openat(AT_FDCWD, "/d/g", O_RDWR, garbage) = 4', "write(4, \"\", 70) = 70", W], 0, 2, 0, 70),
    "an open without a result: new descriptors": (["openat(AT_FDCWD, garbage", 'write(9, "", 70) = 70', W], 0, 2, 0, 70),
    "an open of that descriptor ends it": (['open("/d/g", O_RDWR, garbage) = 4', G, 'write(4, "", 70) = 70'], 0, 1, 0, 0),
    "a close": (["close(3 garbage", W], 0, 2, 0, 100),
    "a dup": (["dup(3 garbage) = 5", 'write(5, "", 70) = 70', W], 0, 2, 0, 70),
    "an unlink": (['unlink("/d/f", garbage', 'open("/d/f", O_RDONLY) = 5', P], 2, 1, 100, 0),
    "a rename to a name that is not read": (['rename("/d/x", garbage', 'stat("/d/y", {st_mode=S_IFREG}) = 0'], 1, 1, 0, 0),
    "a chdir": (['chdir(garbage) = 0', 'open("g", O_RDONLY) = 5', 'read(5, "", 9) = 9', W], 2, 1, 9, 0),
    "a call that the table lacks": (["frobnicate(3) = 0", P, 'write(9, "", 70) = 70'], 1, 2, 100, 70),
    "a failed one": (["frobnicate(3) = -1 ENOSYS (Function not implemented)", P], 0, 0, 0, 0),
    "a number of the table": (["syscall_0x14e(0x1, 0x2) = 0", P], 0, 0, 0, 0),
    "a line of something else": (["Hello, world!", W, "lseek(3, 0, SEEK_SET) = 0"], 1, 1, 100, 0),
    "a table that -y shows": (["Hello, world!", 'pwrite64(3</d/f>, "", 100, 0) = 100', P], 0, 1, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_line_puts_in_doubt(tmp_path: Path, name: str) -> None:
    lines, uncertain, lost, uncertain_bytes, lost_bytes = CASES[name]
    case = convert_lines(tmp_path, F, *lines)
    report = case.report
    assert (report.uncertain_rows, report.lost_rows) == (uncertain, lost)
    assert (report.uncertain_bytes, report.lost_bytes) == (uncertain_bytes, lost_bytes)
    assert report.left_out[UNKNOWN_FD] == 0 and report.is_incomplete() == bool(uncertain or lost)
    assert case.trace.header["counts"]["uncertain_rows"] == uncertain
    assert not (case.records["flag"] >> 40).any()


@pytest.mark.parametrize("piece", ["1234567890", 'openat(AT_FDCWD<UNIX:[12, "a"', ") = 1 (", "read(3</d<f, ", '"a\\" '])
def test_a_long_damaged_line_takes_time_in_proportion(tmp_path: Path, piece: str) -> None:
    """200,000 characters took 20 s to hours; the limit leaves room for a busy machine."""
    start = time.process_time()
    case = convert_lines(tmp_path, F, 'rename("/d/x", ' + piece * (200_000 // len(piece)), W)
    assert time.process_time() - start < 10
    assert case.report.lost_rows > 0


def test_a_small_share_of_the_lines_can_be_most_of_the_bytes(tmp_path: Path) -> None:
    """One vfork in a thousand lines: the descriptors of its child."""
    child = [f'101 1700000000.{i:06} write(3, "", 4096) = 4096' for i in range(1000)]
    for fork, incomplete in (("vfork() = 101", False), ("clone(garbage) = 101", True), ("clone(garbage", True)):
        case = convert_lines(tmp_path, F, fork, *child)
        assert case.report.is_incomplete() == incomplete, fork
        assert case.report.left_out[UNKNOWN_FD] == 0
        assert case.report.uncertain_rows + case.report.left_out[LOST_FD] == (1000 if incomplete else 0)
        assert sum(case.records["length"]) + case.report.lost_bytes == 4096 * 1000


def test_a_split_call_that_lost_a_half(tmp_path: Path) -> None:
    lines = [F, "101 1700000000.0 openat(AT_FDCWD, <unfinished ...>", "101 1700000000.0 read(9, <unfinished ...>"]
    assert convert_lines(tmp_path, *lines).report.lost_rows == 1
    lines = [F, G, "100 1700000000.0 <... dup resumed>) = 5", 'write(5, "", 70) = 70']
    report = convert_lines(tmp_path, *lines).report
    assert report.left_out[LOST_FD] == 1 and report.lost_bytes == 70


def test_a_descriptor_from_before_the_trace_is_called_so(tmp_path: Path) -> None:
    assert convert_lines(tmp_path, F, 'write(9, "", 70) = 70').report.left_out[UNKNOWN_FD] == 1


def test_a_trace_without_opens_and_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="strace -y"):
        convert_lines(tmp_path, 'read(3, "xxxx"..., 4096) = 4096', 'write(4, "xxxx"..., 4096) = 4096')
