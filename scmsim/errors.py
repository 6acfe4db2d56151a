"""The errors that a user can cause.  The command line prints their one line and leaves with their exit code."""

import difflib
from collections.abc import Iterable


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


def unknown(what: str, name: str, allowed: Iterable[str]) -> UnknownName:
    """Build the error for an unknown name: quotes it, then the nearest match or the whole set."""
    allowed = list(allowed)
    plain = {known.lower(): known for known in allowed}
    near = difflib.get_close_matches(name.lower(), plain, 1)
    hint = f"did you mean {plain[near[0]]!r}? " if near else ""
    return UnknownName(f"no {what} named {name!r}; {hint}choose from {', '.join(allowed)}")
