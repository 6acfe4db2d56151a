"""Time stamps of strace by hand: each form, steps back and far ahead, and the short way for a second that comes again."""

import numpy as np
import pytest

from scmsim.trace.syscalls.clock import FAR, Clock

SECOND = 10**9


@pytest.mark.parametrize(
    ("stamps", "times", "jumps"),
    [
        ([("1700000000", "5"), ("1700000000", "6"), ("1700000001", "000001")], [0, SECOND // 10, SECOND // 2 + 1000], 0),
        ([("1700000000", "000005"), ("1700000000", "000005"), ("1700000000", "000007"), ("1700000000", "000006")], [0, 0,
        2000, 2000], 1),
        ([("1700000000", "000005"), ("1700000000", "000009"), ("1700000000", "00001")], [0, 4000, 5000], 0),
        ([("1700000005", "0"), ("1700000004", "9"), ("1700000006", "0"), ("1700000005", "500000")], [0, 0, SECOND, SECOND], 2),
        ([("1700000000", "0"), (str(1700000000 + FAR // SECOND + 1), "0"), ("1700000001", "0")], [0, 0, SECOND], 1),
        ([("100000000", "0"), ("100000001", "0")], [0, SECOND], 0), ([("99999999", "0"), ("1", "0"), ("0", "5")], [0, SECOND,
        SECOND * 3 // 2], 0),
        ([("0", "000010"), ("0", "000010"), ("0", "000003")], [0, 10_000, 13_000], 0),
    ],
)  # fmt: skip
def test_seconds(stamps: list[tuple[str, str]], times: list[int], jumps: int) -> None:
    clock = Clock()
    assert [clock.seconds(*stamp) for stamp in stamps] == times and clock.jumps == jumps and clock.now == times[-1]
    assert clock.is_absolute == (int(stamps[0][0]) >= 10**8) and not clock.is_counted


@pytest.mark.parametrize(
    ("stamps", "times", "jumps"),
    [
        ([("00:00:00", "0"), ("01:02:03", "5")], [0, 3723 * SECOND + SECOND // 2], 0),
        ([("23:59:59", "0"), ("00:00:00", "0"), ("00:00:01", "0")], [0, SECOND, 2 * SECOND], 0),
        ([("12:00:00", "0"), ("11:59:59", "0")], [0, 0], 1), ([("12:00:00", "0"), ("00:00:00", "0")], [0, 0], 1),
        ([("12:00:01", "0"), ("00:00:00", "0")], [0, 12 * 3600 * SECOND - SECOND], 0),
        ([("22:00:00", "0"), ("02:00:00", "0"), ("22:00:00", "0"), ("02:00:00", "0")], [h * 3600 * SECOND for h in (0, 4, 24,
        28)], 0),
    ],
)  # fmt: skip
def test_time_of_day(stamps: list[tuple[str, str]], times: list[int], jumps: int) -> None:
    clock = Clock()
    assert [clock.any(None, None, *stamp, 7) for stamp in stamps] == times and clock.jumps == jumps
    assert not clock.is_absolute and not clock.is_counted


def test_lines_without_a_time() -> None:
    clock = Clock()
    assert [clock.any(None, None, None, None, number) for number in (3, 5)] == [3, 5] and clock.is_counted
    clock.seconds("1700000000", "0")
    assert clock.count(9) == clock.now and not clock.is_counted


def test_many_stamps_at_once() -> None:
    clock = Clock()
    clock.count(1)
    assert list(clock.many(np.zeros(3, np.int64), 7)) == [7, 8, 9]
    clock = Clock()
    clock.seconds("1700000000", "0")
    start = 1700000000 * SECOND
    assert list(clock.many(start + np.array([0, 5, 5]), 7)) == [0, 5, 5]
    for bad in ([-1, 5], [0, 5, 4], [0, FAR]):
        assert clock.many(start + np.array(bad), 7) is None
    assert list(clock.many(start + np.array([0, FAR - 1]), 7)) == [0, FAR - 1]
    clock.seconds("1700000001", "0")
    assert clock.many(start + np.array([SECOND - 1]), 7) is None and list(
        clock.many(start + np.array([SECOND]), 7)
    ) == [SECOND]
