"""Numbers and times of a text, by hand at their bounds."""

import pytest

from scmsim.trace.reading.lines import BadLine, clip, nanoseconds, whole


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_whole_numbers(text: str, number: int) -> None:
    assert whole(text, "a count") == number


@pytest.mark.parametrize("text", ["", "-1", "+1", " 1", "1.0", "0x1", "1" * 19, "\u0661"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(BadLine, match="a count '.*' is not a whole number below 10"):
        whole(text, "a count")


@pytest.mark.parametrize(
    ("text", "unit", "ns"),
    [("0", 10**9, 0), ("1", 10**9, 10**9), ("1.5", 10**9, 1_500_000_000), ("1.0000000019", 10**9, 1_000_000_001), ("7.", 1000,
    7000),
     ("7.25", 1000, 7250), ("7.0009", 1000, 7000), ("9", 1, 9), ("9.9", 1, 9), (str((1 << 61) - 1), 1, (1 << 61) - 1)],
)  # fmt: skip
def test_times(text: str, unit: int, ns: int) -> None:
    assert nanoseconds(text, unit) == ns


@pytest.mark.parametrize("text", ["", ".5", "-1", "1e3", "1.5.5", "1 ", "1" * 20, str(1 << 63), "\u0661"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(BadLine, match="a start '.*' is not a time"):
        nanoseconds(text, 1, "a start")


def test_long_texts_are_cut() -> None:
    assert [clip("x" * count) for count in (0, 40, 41)] == ["", "x" * 40, "x" * 40 + "..."]
