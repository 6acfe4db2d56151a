"""The errors that a user can cause.  The command line prints their one line and leaves with their exit code."""

import difflib
from collections.abc import Iterable

_SHORT = 8  # names that a message may list


class ScmsimError(Exception):
    """Base of every expected error; `str()` is one line that says what is wrong and what to do next."""

    exit_code = 2


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
    text = ascii(value)
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
        return UnknownName(f"no {what} named {name!r}; {hint}choose from {', '.join(allowed)}")
    some = "" if near else f"choose from {', '.join(allowed[:_SHORT])}, ...; "
    return UnknownName(f"no {what} named {name!r}; {hint}{some}{listing!r} shows all {len(allowed)}")


def _near(name: str, allowed: list[str]) -> list[str]:
    """The members of the family that a name stands for ("nova"), or the one name that is nearest."""
    plain = {known.lower(): known for known in allowed}
    family = [known for lower, known in plain.items() if lower.startswith(f"{name.lower()}-")] if name else []
    if name.lower() in plain or not 1 < len(family) <= _SHORT:
        family = [plain[each] for each in difflib.get_close_matches(name.lower(), plain, 1)]
    return family
