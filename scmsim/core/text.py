"""Text from files as it may be shown: a name may hold line ends and terminal commands, and a file is hostile."""

from typing import Any


def printable(text: str, keep: str = "") -> str:
    r"""The text with every character that does not print as an escape (`\n`, `\x1b`); those in `keep` stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def words(value: Any) -> str:
    """A value of a header or a manifest as a person reads it: tables as names with values, lists with blanks."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_inner(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_inner, value))
    return str(value)


def _inner(value: Any) -> str:
    return f"({words(value)})" if isinstance(value, dict) else words(value) or "-"
