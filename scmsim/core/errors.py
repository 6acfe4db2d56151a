"""Errors that a user can cause; the command line prints the error's one line and exits with the error's exit code."""

import difflib
from collections.abc import Iterable

from scmsim.core.text import printable, shortened

_SHORT = 8  # maximum number of names that a message lists
_LONGEST = 300  # maximum characters of a line of a message
_LEAST = 40  # minimum characters of a list of names that is shown in part


class ScmsimError(Exception):
    """Base of every expected error; `str()` is one line that states what is wrong and what to do next.

    A line of more than 300 characters is cut in the middle, if possible within the list of names to choose from.
    """

    exit_code = 2

    def __init__(self, message: str = "") -> None:
        super().__init__("\n".join(shorten_line(line) for line in message.split("\n")))


def shorten_line(line: str) -> str:
    """Return a line of at most 300 characters, shortened in the list of names after "choose from", else in its middle."""
    if len(line) <= _LONGEST:
        return printable(line)
    said, choose, names = line.rpartition("choose from ")
    left = _LONGEST - len(printable(said + choose))
    return printable(said + choose) + shortened(names, left) if choose and left >= _LEAST else shortened(line, _LONGEST)


class UsageError(ScmsimError):
    """Bad arguments or input (exit code 2)."""


class EnvironmentProblem(ScmsimError):
    """A tool, a permission or free space is missing on this machine (exit code 3)."""

    exit_code = 3


class UnknownName(UsageError):
    """A name that is not among the allowed names of its kind (exit code 2)."""


def expect(what: str, value: object, kinds: type | tuple[type, ...], form: str) -> None:
    """Raise UsageError unless `value` is of one of `kinds`; a bool does not count as a number.

    The error names the argument and states the required form.
    """
    numbers = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in numbers):
        raise UsageError(f"{what} must be {form}, not {shown(value)}")


def shown(value: object) -> str:
    """Return a value as Python writes it, cut to at most 60 characters."""
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # an int with more digits than Python converts; nested too deeply
        return f"a {type(value).__name__} that is too large to show"
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown(what: str, name: str, allowed: Iterable[str], listing: str = "") -> UnknownName:
    """Build the error for an unknown name: it quotes the name, then suggests the nearest match, then lists the allowed names.

    A family's name ("nova") suggests the family's members.  `listing` is the command that shows all allowed names; with it, a
    long list is cut short.
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
    """Return the names that begin with `name`- ("nova-cow" for "nova"), or else the single nearest name."""
    plain = {known.lower(): known for known in allowed}
    family = [known for lower, known in plain.items() if lower.startswith(f"{name.lower()}-")] if name else []
    if name.lower() in plain or not 1 < len(family) <= _SHORT:
        family = [plain[each] for each in difflib.get_close_matches(name.lower(), plain, 1)]
    return family
