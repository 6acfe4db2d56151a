"""Declares what a table may hold, and finds all that breaks it at once, each mistake with its place.

A rule takes a value and returns what is kept of it, or raises UsageError that says what it must be.  `table`, `named`, `listed`
and `several` make a rule out of those of the parts.  `scmsim.core.toml.load` reads a file by a rule and adds the lines.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scmsim.core.errors import UsageError, unknown
from scmsim.core.positions import Path
from scmsim.core.units import is_whole, parse_bytes

Rule = Callable[[Any], Any]


class Broken(UsageError):
    """All mistakes of a value: the place of each within it and the rule that it breaks."""

    def __init__(self, mistakes: list[tuple[Path, str]]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(located(at, rule) for at, rule in mistakes))


def unknown_key(what: str, key: str, known: Iterable[str]) -> UsageError:
    """The error for a key that a table does not have."""
    known = list(known)
    return unknown(what, key, known) if known else UsageError(f"no {what}: it takes none; drop this key")


def located(at: Path, rule: str) -> str:
    """A mistake with its place, `tlb.0.ways: ...`; one of the whole value has none."""
    return f"{'.'.join(map(str, at))}: {rule}" if at else rule


class Mistakes:
    """Collects the mistakes of a value while its parts are checked."""

    def __init__(self) -> None:
        self.found: list[tuple[Path, str]] = []

    def note(self, at: Path, rule: str | UsageError) -> None:
        """Note a mistake."""
        self.found.append((at, str(rule)))

    def take(self, at: Path, rule: Rule, value: Any) -> Any:
        """What the rule keeps of a part; None, with its mistakes noted, where it is broken."""
        try:
            return rule(value)
        except Broken as broken:
            self.found += [((*at, *inner), text) for inner, text in broken.mistakes]
        except UsageError as error:
            self.note(at, error)
        return None

    def done(self) -> None:
        """Raise Broken if there were any."""
        if self.found:
            raise Broken(self.found)


def table(
    fields: Mapping[str, Rule],
    needed: Mapping[str, str] | Iterable[str] = (),
    form: str = "must be a table",
    what: str = "key",
) -> Rule:
    """A table of these keys.

    Parameters
    ----------
    needed : mapping or names
        Keys that must be there, each with what to do where it is not.
    form : str
        What is said of a value that is no table.
    what : str
        What a key is called.
    """
    hints = dict(needed) if isinstance(needed, Mapping) else dict.fromkeys(needed, "")

    def checked(value: Any) -> dict[str, Any]:
        _expect(value, dict, form)
        mistakes = Mistakes()
        for key in value:
            if key not in fields:
                mistakes.note((key,), unknown_key(what, key, fields))
        for key, hint in hints.items():
            if key not in value:
                mistakes.note((key,), f"is missing{f'; {hint}' if hint else ''}")
        kept = {key: mistakes.take((key,), rule, value[key]) for key, rule in fields.items() if key in value}
        mistakes.done()
        return kept

    return checked


def named(rule: Rule, name: Rule | None = None, form: str = "must be a table") -> Rule:
    """A table whose keys are names of the user's choice."""

    def checked(value: Any) -> dict[str, Any]:
        _expect(value, dict, form)
        mistakes = Mistakes()
        for key in value if name else ():
            mistakes.take((key,), name, key)  # type: ignore[arg-type]
        kept = {key: mistakes.take((key,), rule, inner) for key, inner in value.items()}
        mistakes.done()
        return kept

    return checked


def listed(rule: Rule, form: str = "must be a list") -> Rule:
    """A list, each element checked."""

    def checked(value: Any) -> list[Any]:
        _expect(value, list, form)
        return _elements(value, rule)

    return checked


def several(rule: Rule, form: str = "must be a list with at least one element") -> Rule:
    """A list, as a tuple: each element checked, at least one, none twice."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise UsageError(form)
        found = tuple(_elements(value, rule))
        twice = [element for i, element in enumerate(value) if found[i] in found[:i]]
        if twice:
            raise UsageError(f"{quoted(twice[0])} is listed twice; keep one")
        return found

    return checked


def one_or_several(rule: Rule) -> Rule:
    """One value or a list of values, as a tuple."""
    of_list = several(rule, "must name at least one")
    return lambda value: of_list(value) if isinstance(value, list) else (rule(value),)


def both(first: Rule, *others: Rule) -> Rule:
    """What the first keeps, where all rules hold; the mistakes of all."""

    def checked(value: Any) -> Any:
        mistakes = Mistakes()
        kept = mistakes.take((), first, value)
        for rule in others:
            mistakes.take((), rule, value)
        mistakes.done()
        return kept

    return checked


def then(first: Rule, second: Rule) -> Rule:
    """The second rule for what the first keeps: it may rely on it."""
    return lambda value: second(first(value))


def text(value: Any) -> str:
    """Text in quotes."""
    _expect(value, str, "must be text in quotes")
    return str(value)


def flag(value: Any) -> bool:
    """True or false."""
    _expect(value, bool, "must be true or false")
    return bool(value)


def whole(least: int, most: int) -> Rule:
    """A whole number of a range."""

    def checked(value: Any) -> int:
        if not is_whole(value) or not least <= value <= most:
            raise UsageError(f"must be a whole number from {least} to {most}, not {quoted(value)}")
        return value

    return checked


def number(least: float, most: float) -> Rule:
    """A number of a range."""

    def checked(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise UsageError(f"must be a number from {least:g} to {most:g}, not {quoted(value)}")
        return value

    return checked


def size(least: int, most: int) -> Rule:
    """Bytes of a range, as a number or with a suffix."""

    def checked(value: Any) -> int:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UsageError(f'must be a number of bytes like 4096 or "4KiB", not {quoted(value)}')
        found = parse_bytes(value)
        if not least <= found <= most:
            raise UsageError(f"{quoted(value)} is not between {least} and {most} bytes")
        return found

    return checked


def one_of(what: str, names: Callable[[], Iterable[str]] | Iterable[str]) -> Rule:
    """One of these names; `what` they are."""

    def checked(value: Any) -> str:
        allowed = list(names() if callable(names) else names)
        if value not in allowed:
            raise unknown(what, value, allowed)
        return str(value)

    return checked


def quoted(value: Any) -> str:
    """A value of TOML as the user wrote it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        said = repr(value)
    except ValueError:  # a number of more digits than Python converts
        return "a number that is too large to show"
    return said if len(said) <= 40 else f"{said[:37]}..."


def _elements(values: list[Any], rule: Rule) -> list[Any]:
    mistakes = Mistakes()
    kept = [mistakes.take((i,), rule, value) for i, value in enumerate(values)]
    mistakes.done()
    return kept


def _expect(value: Any, kind: type, form: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(form if kind in (dict, list) else f"{form}, not {quoted(value)}")
