"""The errors that a user can cause.  The command line prints their one line and leaves with their exit code."""

import difflib
from collections.abc import Iterable

from scmsim.core.text import printable, shortened

_SHORT = 8  # names that a message may list
_LONGEST = 300  # characters of a line of a message


class ScmsimError(Exception):
    """Base of every expected error; `str()` is one line that says what is wrong and what to do next.

    A line that quotes something long loses its middle, so that it has at most 300 characters.
    """

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        super().__init__("\n".join(shorten_line(line) for line in message.split("\n")))


def shorten_line(line: str) -> str:
    """Return a line of a message without its middle if it is longer than a line may be."""
    return printable(line) if len(line) <= _LONGEST else shortened(line, _LONGEST)


class UsageError(ScmsimError):
    """Bad arguments or input (exit code 2)."""


class EnvironmentProblem(ScmsimError):
    """Something is missing on this machine: a tool, a permission, space (exit code 3)."""

    exit_code = 3


class UnknownName(UsageError):
    """A name that is not in its list."""


def expect(what: str, value: object, kinds: type | tuple[type, ...], form: str) -> None:
    """Refuse an argument that is none of `kinds` (a bool is no number): UsageError names it and says what it must be."""
    numbers = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in numbers):
        raise UsageError(f"{what} must be {form}, not {shown(value)}")


def shown(value: object) -> str:
    """A value as Python writes it, cut to what fits into an error."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number of more digits than Python converts; nested too deeply
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown(what: str, name: str, allowed: Iterable[str], listing: str = "") -> UnknownName:
    """Build the error for an unknown name: quotes it, then the nearest match or the family it names, then the whole set.

    `listing` is the command that shows the set; with it, a long one is not written out.
    """
    allowed = list(allowed)
    if not isinstance(name, str):
        return UnknownName(f"{what} must be a name in quotes, not {shown(name)}; choose from {', '.join(allowed)}")
    near = [repr(known) for known in _near(name, allowed)]
    hint = f"did you mean {' or '.join(filter(None, [', '.join(near[:-1]), near[-1]]))}? " if near else ""
    if not listing or len(allowed) <= _SHORT:
        return UnknownName(f"no {what} named {_quoted(name)}; {hint}choose from {', '.join(allowed)}")
    some = "" if near else f"choose from {', '.join(allowed[:_SHORT])}, ...; "
    return UnknownName(f"no {what} named {_quoted(name)}; {hint}{some}{listing!r} shows all {len(allowed)}")


def _quoted(name: str) -> str:
    return repr(name) if len(name) <= 60 else repr(f"{name[:57]}...")


def _near(name: str, allowed: list[str]) -> list[str]:
    """The members of the family that a name stands for ("nova"), or the one name that is nearest."""
    plain = {known.lower(): known for known in allowed}
    family = [known for lower, known in plain.items() if lower.startswith(f"{name.lower()}-")] if name else []
    if name.lower() in plain or not 1 < len(family) <= _SHORT:
        family = [plain[each] for each in difflib.get_close_matches(name.lower(), plain, 1)]
    return family
