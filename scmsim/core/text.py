"""Make text from files safe to display, because a name in a malicious file may contain line ends and terminal commands."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with unprintable characters as escapes (`\n`, `\x1b`); characters in `keep` are left alone."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, width: int) -> str:
    """Return a printable text of at most `width` characters; a longer text loses its middle, since names differ at their ends."""
    text = printable(text)
    if len(text) <= width:
        return text
    end = 2 * (width - 3) // 3
    return f"{text[: width - 3 - end]}...{text[len(text) - end :]}"


def distinct(names: Sequence[str], width: int) -> list[str]:
    """Return names shortened to about `width` characters, or to more (at most 120) if different names would become equal."""
    whole = len({printable(name) for name in names})
    for wide in range(width, 121, 8):
        short = [shortened(name, wide) for name in names]
        if len(set(short)) == whole:
            return short
    return [f"{shortened(name, width)} [{i}]" for i, name in enumerate(names, 1)]


def words(value: Any) -> str:
    """Return a value of a header or manifest as readable text: a table as "name value, ...", a list joined by blanks."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_inner(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_inner, value))
    return str(value)


def _inner(value: Any) -> str:
    return f"({words(value)})" if isinstance(value, dict) else words(value) or "-"


def percent(share: float) -> str:
    """Return a fraction of 1 as a percentage, "12.3 %".

    The text has three digits, or more if three would round a share below 1 to 100 %, and never an exponent.
    """
    digits = 3
    while 0 < share < 1 and digits < 17 and float(f"{100 * share:.{digits}g}") == 100:
        digits += 1
    return f"{_plain(100 * share, digits)} %"


def times(ratio: float) -> str:
    """Return a ratio as "4.5 times", "10 times" or "4,885 times": one decimal below 100, never an exponent."""
    if ratio >= 99.95:
        return f"{ratio:,.0f} times"
    if ratio >= 10:
        return f"{f'{ratio:.1f}'.removesuffix('.0')} times"
    return f"{ratio:.1f} times" if ratio >= 1 else f"{_plain(ratio, 2)} times"


def _plain(value: float, digits: int) -> str:
    """Return a number with `digits` significant digits and separated thousands."""
    return f"{Decimal(f'{value:.{digits}g}'):,f}"
