"""Check the names and times of calls that the strace importer converts many at once."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.trace.formats.tracers import strace
from scmsim.trace.kernels.strace_text import NAMES
from scmsim.trace.reading.lines import byte_blocks
from scmsim.trace.syscalls import conversion
from scmsim.trace.syscalls.importer import BOOKKEEPING, UNKNOWN_FD
from tests.trace.strace_helper import OPEN, convert_lines

DATA_CALLS = {
    "read": '(3</d/f>, ""..., 5) = 5', "write": '(3</d/f>, ""..., 5) = 5', "pread64": '(3</d/f>, ""..., 5, 0) = 5',
    "pwrite64": '(3</d/f>, ""..., 5, 0) = 5', "lseek": "(3</d/f>, 0, SEEK_SET) = 0", "fsync": "(3</d/f>) = 0",
    "fdatasync": "(3</d/f>) = 0", "close": "(3</d/f>) = 0", "open": '("/d/g", O_RDONLY) = 4</d/g>',
    "openat": '(AT_FDCWD</>, "/d/g", O_RDONLY) = 4</d/g>', "creat": '("/d/g", 0644) = 4</d/g>', "unlink": '("/d/g") = 0',
    "unlinkat": '(AT_FDCWD</>, "/d/g", 0) = 0', "fstat": "(3</d/f>, 0x7f) = 0", "ftruncate": "(3</d/f>, 5) = 0",
    "getdents64": "(3</d/f>, 0x7f, 9) = 0", "rmdir": '("/d/g") = 0', "mkdir": '("/d/g", 0755) = 0',
    "mkdirat": '(AT_FDCWD</>, "/d/g", 0755) = 0', "access": '("/d/g", R_OK) = 0', "faccessat": '(AT_FDCWD</>, "/d/g", R_OK) = 0',
    "stat": '("/d/g", 0x7f) = 0', "lstat": '("/d/g", 0x7f) = 0', "newfstatat": '(AT_FDCWD</>, "/d/g", 0x7f, 0) = 0',
    "statx": '(AT_FDCWD</>, "/d/g", 0, STATX_ALL, 0x7f) = 0', "rename": '("/d/g", "/d/h") = 0',
    "renameat": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h") = 0', "renameat2": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h", 0) = 0',
    "link": '("/d/g", "/d/h") = 0', "linkat": '(AT_FDCWD</>, "/d/g", AT_FDCWD</>, "/d/h", 0) = 0',
}  # fmt: skip
COUNTED_ONLY = {"fcntl", "ioctl", ""}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COUNTED_ONLY])
def test_a_call_is_known_by_all_letters_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """`msync` is no `fsync`, also where many lines are worked on at once: in all blocks but the first."""
    monkeypatch.setattr(conversion, "_SHORT", 0)
    monkeypatch.setattr(
        strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 1 << 13)
    )
    known = []
    for call in (name, f"q{name[1:]}", f"{name[:-1]}q"):
        report = convert_lines(tmp_path, OPEN, *[call + DATA_CALLS[name]] * 500).report
        known.append(report.calls + report.left_out[BOOKKEEPING] + report.left_out[UNKNOWN_FD])
    assert known == [501, 1, 1]


@pytest.mark.parametrize("digits", [1, 6, 9])
def test_times_of_many_lines_at_once_are_those_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: int
) -> None:
    monkeypatch.setattr(conversion, "_SHORT", 0)
    monkeypatch.setattr(
        strace, "byte_blocks", lambda path, what, progress, _: byte_blocks(path, what, progress, 1 << 13)
    )
    times = [1_700_000_000 + number for number in range(500)]
    lines = [f"100 {time}.{'5':0<{digits}} fsync(3</d/f>) = 0" for time in times]
    case = convert_lines(tmp_path, f"100 1700000000.000000 {OPEN}", *lines)
    assert np.diff(case.records["time_ns"][1:]).tolist() == [10**9] * 499
    assert case.records["time_ns"][1] - case.records["time_ns"][0] == 500_000_000
