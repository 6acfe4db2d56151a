"""Text to bytes and nanoseconds and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scmsim.core.errors import UsageError
from scmsim.core.units import format_bytes, parse_bytes, parse_param, parse_time


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4096", 4096),
        ("4K", 4096),
        ("4KiB", 4096),
        ("4kib", 4096),
        ("4096B", 4096),
        ("2M", 1 << 21),
        ("1.5KiB", 1536),
        (" 1 GiB ", 1 << 30),
        (7, 7),
    ],
)
def test_bytes(text: str | int, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "KiB", "4 giga", "-1", "0.3", "1e3", "4KiBs", "9999999P"])
def test_not_bytes(text: str) -> None:
    with pytest.raises(UsageError, match="write it like 4096"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "hint"), [("16GB", "16GiB"), ("4kb", "4KiB"), ("1.5 MB", "1.5MiB")])
def test_a_unit_of_two_meanings_is_refused(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"could mean powers of two or of ten; write {hint}"):
        parse_bytes(text)


@pytest.mark.parametrize("value", [4096.0, None, True, [1]])
def test_what_is_neither_text_nor_a_whole_number_is_refused(value: object) -> None:
    for parse in (parse_bytes, parse_time, lambda x: parse_param(x, "int")):
        if value is not True or parse in (parse_bytes, parse_time):
            with pytest.raises(UsageError, match="is not a"):
                parse(value)  # type: ignore[arg-type]


@given(st.integers(0, (1 << 62) - 1))
def test_formatted_bytes_read_back(value: int) -> None:
    assert parse_bytes(format_bytes(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("300ns", 300), ("1us", 1000), ("1.5ms", 1_500_000), ("2 s", 2 * 10**9), ("1min", 60 * 10**9), (5, 5)],
)
def test_time(text: str | int, value: int) -> None:
    assert parse_time(text) == value


@pytest.mark.parametrize("text", ["5", "5 sec", "ms", "-1ms"])
def test_not_a_time(text: str) -> None:
    with pytest.raises(UsageError, match="write it like 300ns"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4K", "bytes", 4096),
        ("1us", "time", 1000),
        ("yes", "bool", 1),
        ("off", "bool", 0),
        (True, "bool", 1),
        ("12", "pages", 12),
    ],
)
def test_parameters_by_unit(text: str | int, unit: str, value: int) -> None:
    assert parse_param(text, unit) == value


@pytest.mark.parametrize(("text", "unit"), [("maybe", "bool"), ("4K", "pages"), ("", "entries")])
def test_parameters_that_are_none(text: str, unit: str) -> None:
    with pytest.raises(UsageError, match="is not"):
        parse_param(text, unit)
