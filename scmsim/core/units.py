"""Text to bytes, pages and nanoseconds and back: the only place that knows suffixes.

Decimal and binary suffixes both mean powers of two here ("4K" = "4KiB" = 4096), as in the memory tools of Linux.
"""

import re

from scmsim.errors import UsageError, unknown

_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_TIMES = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}


def parse_bytes(text: str | int) -> int:
    """Bytes from "4KiB", "4K", "4096", "2MiB", 4096; raises UsageError for anything else or a fraction of a byte."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"{text!r} is not a number of bytes; write it like 4096, 4KiB, 2MiB or 1GiB")
    whole, _, decimals = match[1].partition(".")
    value, rest = divmod(int(whole + decimals) * _BYTES[match[2].upper()], 10 ** len(decimals))
    if rest or value >= 1 << 62:
        raise UsageError(f"{text!r} is not a whole number of bytes below 4 EiB; write it like 4096, 4KiB or 2MiB")
    return value


def format_bytes(value: int) -> str:
    """Shortest exact text: 4096 -> "4KiB", 2097152 -> "2MiB", 1000 -> "1000"."""
    for suffix in ("P", "T", "G", "M", "K"):
        if value and value % _BYTES[suffix] == 0:
            return f"{value // _BYTES[suffix]}{suffix}iB"
    return str(value)


def parse_time(text: str | int) -> int:
    """Nanoseconds from "300ns", "5s", "1.5ms"; a plain integer is nanoseconds already."""
    if isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min)\s*", text)
    if not match:
        raise UsageError(f"{text!r} is not a time; write it like 300ns, 5ms or 5s")
    return round(float(match[1]) * _TIMES[match[2]])


PARSERS = {"bytes": parse_bytes, "time": parse_time}


def parse_param(text: str | int, unit: str) -> int | str:
    """A parameter's value by its unit: "bytes", "time", "bool", "text", "file" (a path), a choice "a|b|c", or a whole
    number (any other)."""
    if "|" in unit:
        choices = unit.split("|")
        if text not in choices:
            raise unknown("choice", str(text), choices)
        return str(text)
    if unit in ("text", "file"):
        return str(text)
    if unit in PARSERS:
        return PARSERS[unit](text)
    if unit == "bool":
        if str(text).lower() in ("1", "true", "yes", "on"):
            return 1
        if str(text).lower() in ("0", "false", "no", "off"):
            return 0
        raise UsageError(f"{text!r} is not true or false")
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a whole number") from None
    if abs(number) >= 1 << 62 or unit == "seed" and number < 0:
        least = "0" if unit == "seed" else "-2^62"
        raise UsageError(f"{text} is out of range; give a whole number from {least} to 2^62")
    return number
