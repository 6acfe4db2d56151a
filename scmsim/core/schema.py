"""Validate the content of tables by rules; all mistakes are reported at once, each with its place.

A rule takes a value and returns the checked value, or raises UsageError, which states what the value must be.  `table`, `named`,
`listed` and `several` build a rule from rules for the parts.  `scmsim.core.toml.load` checks a file by a rule and adds the line
numbers of mistakes.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scmsim.core.errors import UsageError, unknown
from scmsim.core.positions import Path
from scmsim.core.units import is_whole, parse_bytes

Rule = Callable[[Any], Any]


class Broken(UsageError):
    """Error with all mistakes of a value: each mistake's place within the value, and the rule that it breaks."""

    def __init__(self, mistakes: list[tuple[Path, str]]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(located(at, rule) for at, rule in mistakes))


def unknown_key(what: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error for a key that a table does not allow."""
    known = list(known)
    return unknown(what, key, known) if known else UsageError(f"no {what} is allowed here; remove this key")


def located(at: Path, rule: str) -> str:
    """Return the text of a mistake with its place in front (`tlb.0.ways: ...`), unless it concerns the whole value."""
    return f"{'.'.join(map(str, at))}: {rule}" if at else rule


class Mistakes:
    """Collector of a value's mistakes while its parts are checked."""

    def __init__(self) -> None:
        self.found: list[tuple[Path, str]] = []

    def note(self, at: Path, rule: str | UsageError) -> None:
        """Note a mistake."""
        self.found.append((at, str(rule)))

    def take(self, at: Path, rule: Rule, value: Any) -> Any:
        """Return the checked value of a part; if the part breaks the rule, note the mistakes and return None."""
        try:
            return rule(value)
        except Broken as broken:
            self.found += [((*at, *inner), text) for inner, text in broken.mistakes]
        except UsageError as error:
            self.note(at, error)
        return None

    def done(self) -> None:
        """Raise Broken if a mistake was noted."""
        if self.found:
            raise Broken(self.found)


def table(
    fields: Mapping[str, Rule],
    needed: Mapping[str, str] | Iterable[str] = (),
    form: str = "must be a table",
    what: str = "key",
) -> Rule:
    """Return the rule for a table with a fixed set of keys.

    Parameters
    ----------
    needed : mapping or names
        Required keys, each with what to do if it is missing.
    form : str
        Error text for a value that is not a table.
    what : str
        Word for a key in errors.
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
    """Return the rule for a table whose keys are names of the user's choice."""

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
    """Return the rule for a list; `rule` checks each element."""

    def checked(value: Any) -> list[Any]:
        _expect(value, list, form)
        return _elements(value, rule)

    return checked


def several(rule: Rule, form: str = "must be a list with at least one element") -> Rule:
    """Return the rule for a list with at least one element and no duplicates; the checked value is a tuple."""

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
    """Return the rule for one value or a list of values; the checked value is a tuple."""
    of_list = several(rule, "must name at least one")
    return lambda value: of_list(value) if isinstance(value, list) else (rule(value),)


def both(first: Rule, *others: Rule) -> Rule:
    """Return the rule that checks a value by several rules, reports all their mistakes, and returns the value of `first`."""

    def checked(value: Any) -> Any:
        mistakes = Mistakes()
        kept = mistakes.take((), first, value)
        for rule in others:
            mistakes.take((), rule, value)
        mistakes.done()
        return kept

    return checked


def then(first: Rule, second: Rule) -> Rule:
    """Return the rule that applies `second` to the value that `first` returns, so that `second` can rely on that check."""
    return lambda value: second(first(value))


def text(value: Any) -> str:
    """Return the value if it is text, else raise UsageError."""
    _expect(value, str, "must be text in quotes")
    return str(value)


def flag(value: Any) -> bool:
    """Return the value if it is true or false, else raise UsageError."""
    _expect(value, bool, "must be true or false")
    return bool(value)


def whole(least: int, most: int) -> Rule:
    """Return the rule for a whole number in [least, most]."""

    def checked(value: Any) -> int:
        if not is_whole(value) or not least <= value <= most:
            raise UsageError(f"must be a whole number from {least} to {most}, not {quoted(value)}")
        return value

    return checked


def number(least: float, most: float) -> Rule:
    """Return the rule for a number in [least, most]."""

    def checked(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
            raise UsageError(f"must be a number from {least:g} to {most:g}, not {quoted(value)}")
        return value

    return checked


def size(least: int, most: int) -> Rule:
    """Return the rule for a number of bytes in [least, most], as a number or with a suffix."""

    def checked(value: Any) -> int:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UsageError(f'must be a number of bytes like 4096 or "4KiB", not {quoted(value)}')
        found = parse_bytes(value)
        if not least <= found <= most:
            raise UsageError(f"{quoted(value)} is not between {least} and {most} bytes")
        return found

    return checked


def one_of(what: str, names: Callable[[], Iterable[str]] | Iterable[str]) -> Rule:
    """Return the rule for one of `names`; `what` is the word for a name in errors."""

    def checked(value: Any) -> str:
        allowed = list(names() if callable(names) else names)
        if value not in allowed:
            raise unknown(what, value, allowed)
        return str(value)

    return checked


def quoted(value: Any) -> str:
    """Return a TOML value as the user wrote it, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        said = repr(value)
    except ValueError:  # an int with more digits than Python converts
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
