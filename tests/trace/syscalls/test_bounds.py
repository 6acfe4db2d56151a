"""The bounds of what a line of strace may say: the last value that is taken, and the first that is a bad line."""

from pathlib import Path

import numpy as np
import pytest

from scmsim.core.records import KEEP_SIZE, OPS, PUNCH_HOLE
from scmsim.trace.syscalls import runs
from tests.trace.formats_helper import convert_text

OPEN = 'openat(AT_FDCWD, "/a", O_RDWR) = 3\n'
CALLS = [
    'read(3, ""..., {n}) = {n}', 'write(3, ""..., {n}) = {n}', 'pread64(3, ""..., {n}, 7) = {n}',
    'pwrite64(3, ""..., {n}, 7) = {n}',
    'readv(3, [{{iov_base="", iov_len={n}}}], 1) = {n}',
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("many", [1, runs.ENOUGH, 2 * runs.ENOUGH])
def test_what_a_call_can_move(tmp_path: Path, call: str, many: int) -> None:
    """By itself, and among as many as are worked on together."""
    for n, bad in ((1 << 31, 0), ((1 << 31) + 1, 1)):
        lines = [call.format(n=5)] * (many - 1) + [call.format(n=n)] + [call.format(n=5)] * (many - 1)
        case = convert_text(tmp_path, OPEN + "\n".join(lines) + "\nclose(3) = 0\n", "strace")
        assert case.report.bad == bad and len(case.rows) == 2 * many + 1 - bad
        assert max(row[3] for row in case.rows) == (5 if bad and many > 1 else n if not bad else 0)


@pytest.mark.parametrize("count", [runs.ENOUGH - 1, runs.ENOUGH, runs.ENOUGH + 1])
def test_a_stretch_of_calls_pays_from_64_on(count: int) -> None:
    plain = np.array([False, *[True] * count, False, *[True] * 3])
    assert list(runs.stretches(plain)) == ([(1, count + 1)] if count >= 64 else [])


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("fallocate(3, 0, 5, 7) = 0", 0), ("fallocate(3, FALLOC_FL_KEEP_SIZE, 5, 7) = 0", 1),
        ("fallocate(3, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 5, 7) = 0", 3),
        ("fallocate(3, FALLOC_FL_PUNCH_HOLE, 5, 7) = 0", 2),
    ],
)  # fmt: skip
def test_how_space_is_allocated(tmp_path: Path, line: str, mode: int) -> None:
    case = convert_text(tmp_path, OPEN + line + "\n", "strace")
    assert case.rows[1] == ("fallocate", "/a", 5, 7) and OPS[case.records["op"][1]] == "fallocate"
    assert int(case.records["flag"][1]) == (KEEP_SIZE if mode & 1 else 0) | (PUNCH_HOLE if mode & 2 else 0)
