"""Parser of numbers as the C library's locales write them.

Plain `perf stat` prints counts with `%'.0f` or `%'.2f` (the oldest versions: `%.1f` and `%.6f`).  It never prints three or
four decimals, so the number of digits after the last separator decides whether that separator is a decimal point.
Source: abs_printout() of util/stat-display.c, and the LC_NUMERIC sections of glibc 2.36
(`tests/data/perf/numeric_locales.csv`).
"""

import re

from scmsim.core.errors import UsageError

DECIMAL_POINTS = ".,\u066b"
SEPARATORS = ".,'\u2019 \u00a0\u202f\u066c"  # separators of groups of digits; the blank is for glibc before 2.28
SIGNS = f"{SEPARATORS}\u066b"
NUMBER = rf"\d+(?:[{re.escape(SIGNS)}]\d+)*"  # anything that may be a number; `grouped` decides
PLAIN = r"\d+(?:[.,\u066b]\d+)?"  # a number without groups of digits, as in CSV and JSON
_DECIMALS = (1, 2, 6)
# Sizes of groups of digits from the right (the last size repeats), and the separators of the locales that have these groups.
_GROUPINGS = (((3,), SEPARATORS), ((3, 2), ","), ((4,), ","), ((2, 2, 2, 3), "\u202f"))
_MAX = 40  # maximum characters of a number; 10^18 with groups has 25


def grouped(text: str) -> int | float:
    """Return a number that may have groups of digits; raise UsageError if no locale writes a number this way."""
    parts = re.split(rf"[{re.escape(SIGNS)}]", text)
    signs = [sign for sign in text if not sign.isdigit()]
    fraction = ""
    if signs and signs[-1] in DECIMAL_POINTS and signs.count(signs[-1]) == 1 and len(parts[-1]) in _DECIMALS:
        fraction = parts.pop()
        signs.pop()
    if len(text) > _MAX or not all(part.isdecimal() for part in parts) or (signs and not _is_grouped(parts, signs)):
        raise UsageError(f"{text[:_MAX]!r} can be read as more than one number, or as none; run perf with LC_ALL=C")
    return _joined("".join(parts), fraction)


def ungrouped(text: str) -> int | float:
    """Return a number without groups, with any decimal point; raise UsageError for anything else."""
    if len(text) > _MAX or not re.fullmatch(PLAIN, text):
        raise UsageError(f"{text[:_MAX]!r} is not a number; give digits without groups, such as 12345.6")
    whole, _, fraction = re.sub(rf"[{DECIMAL_POINTS}]", ".", text).partition(".")
    return _joined(whole, fraction)


def _is_grouped(parts: list[str], signs: list[str]) -> bool:
    """Return whether a locale groups digits in this way."""
    if len(set(signs)) != 1 or parts[0].startswith("0"):
        return False
    sizes = [len(part) for part in reversed(parts)]
    for grouping, separators in _GROUPINGS:
        expected = [*grouping, *[grouping[-1]] * len(sizes)][: len(sizes)]
        if signs[0] in separators and sizes[:-1] == expected[:-1] and 1 <= sizes[-1] <= expected[-1]:
            return True
    return False


def _joined(whole: str, fraction: str) -> int | float:
    return int(whole) if not fraction.strip("0") else float(f"{whole}.{fraction}")
