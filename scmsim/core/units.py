"""Convert text to bytes, pages and nanoseconds and back; only this module knows the suffixes.

A suffix means a power of two, with or without "iB" ("4K" = "4KiB" = 4096), as in dd, fio and mke2fs.  "4KB" is refused, because
it means 4000 by the standards and 4096 in many tools, so that a silent guess would be wrong for half of the readers.
"""

import numbers
import operator
import re
from typing import TypeGuard

from scmsim.core.errors import UsageError, shown, unknown

_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_TIMES = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}


def parse_bytes(text: str | int) -> int:
    """Return the number of bytes in "4KiB", "4K", "4096", "2MiB", 4096.

    Raises UsageError for anything else or a fraction of a byte.
    """
    if is_whole(text):
        return _in_range(int(text), "a number of bytes")
    match = _matched(r"\s*(\d{1,40}(?:\.\d{1,40})?)\s*([KMGTP]?)(i?B)?\s*", text)
    if not match:
        raise UsageError(f"{shown(text)} is not a number of bytes; write it like 4096, 4KiB, 2MiB or 1GiB")
    if match[2] and (match[3] or "").upper() == "B":
        raise UsageError(
            f"{text!r} could mean powers of two or of ten; write {match[1]}{match[2].upper()}iB for powers of two, or the bytes"
        )
    whole, _, decimals = match[1].partition(".")
    value, rest = divmod(int(whole + decimals) * _BYTES[match[2].upper()], 10 ** len(decimals))
    if rest or value >= 1 << 62:
        raise UsageError(f"{text!r} is not a whole number of bytes below 4 EiB; write it like 4096, 4KiB or 2MiB")
    return value


def format_bytes(value: int) -> str:
    """Return the shortest exact text of a number of bytes: 4096 -> "4KiB", 2097152 -> "2MiB", 1000 -> "1000"."""
    for suffix in ("P", "T", "G", "M", "K"):
        if value and value % _BYTES[suffix] == 0:
            return f"{value // _BYTES[suffix]}{suffix}iB"
    return str(value)


def page_order(page: str | int) -> int:
    """Return log2 of a page size; raises UsageError for a size that is not a power of two from 4 KiB to 1 GiB."""
    size = parse_bytes(page)
    if size < 4096 or size > 1 << 30 or size & (size - 1):
        said = page if isinstance(page, str) else format_bytes(size)
        raise UsageError(f"{said!r} is not the size of a page; use a power of two from 4KiB to 1GiB")
    return size.bit_length() - 1


def parse_time(text: str | int) -> int:
    """Return the nanoseconds in "300ns", "5s", "1.5ms"; a plain integer is in nanoseconds already."""
    if is_whole(text):
        return _in_range(int(text), "a time in nanoseconds")
    match = _matched(r"\s*(\d{1,40}(?:\.\d{1,40})?)\s*(ns|us|µs|ms|s|min)\s*", text, 0)
    if not match:
        raise UsageError(f"{shown(text)} is not a time; write it like 300ns, 5ms or 5s")
    return _in_range(round(float(match[1]) * _TIMES[match[2]]), "a time in nanoseconds")


def _in_range(value: int, what: str) -> int:
    if abs(value) >= 1 << 62:  # the caller decides whether the value may be negative
        raise UsageError(f"{shown(value)} is out of range for {what}; give a whole number from 0 to 2^62")
    return value


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a Python or NumPy integer; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _matched(pattern: str, text: object, flags: int = re.IGNORECASE) -> "re.Match[str] | None":
    return re.fullmatch(pattern, text, flags) if isinstance(text, str) else None


PARSERS = {"bytes": parse_bytes, "time": parse_time}


def parse_param(text: str | int, unit: str) -> int | str:
    """Return a parameter's value, parsed according to its unit.

    Units are "bytes", "time", "bool", "text", "file" (a path), a choice "a|b|c", or any other word for a whole number.
    """
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
        raise UsageError(f"{shown(text)} is not a truth value; give true or false")
    try:
        number = int(text if isinstance(text, str) else operator.index(text))
    except (TypeError, ValueError):
        raise UsageError(f"{shown(text)} is not a whole number") from None
    if abs(number) >= 1 << 62 or unit == "seed" and number < 0:
        least = "0" if unit == "seed" else "-2^62"
        raise UsageError(f"{shown(number)} is out of range; give a whole number from {least} to 2^62")
    return number
