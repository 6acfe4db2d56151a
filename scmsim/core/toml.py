"""Read TOML; only this module parses TOML, so that every mistake in a file is reported in one line with its place."""

import functools
import os
import pathlib
import re
import tomllib
from collections.abc import Callable
from typing import Any, NamedTuple

from scmsim.core.errors import UsageError
from scmsim.core.file_cache import per_file
from scmsim.core.positions import Path, line_of, lines
from scmsim.core.schema import Broken, Mistakes, Rule, located
from scmsim.core.text import printable

_MOST = 1 << 20  # maximum bytes of a file
_DEEPEST = 32  # maximum levels of nested tables and lists


class Problem(NamedTuple):
    """One mistake: line (from 1), dotted key ("" for the whole file) and the broken rule."""

    line: int
    key: str
    rule: str


class ConfigError(UsageError):
    """All mistakes of one file; `str()` has one line for each mistake."""

    def __init__(self, path: str | os.PathLike[str], problems: list[Problem]) -> None:
        self.path = pathlib.Path(path)
        self.problems = problems
        said = (f"{path}:{p.line}: {located((p.key,) if p.key else (), p.rule)}" for p in problems)
        super().__init__("\n".join(map(printable, said)))


@per_file()
def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Return (text, table) of a file.

    Raises
    ------
    ConfigError
        If it is not UTF-8 text, not TOML, nested too deeply, or holds a number beyond 64 bits or a NUL character.
    UsageError
        If the file cannot be read, or is too large for a hand-written table.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST + 1)
    except OSError as error:
        raise UsageError(f"cannot read {os.fspath(path)!r}: {(error.strerror or str(error)).lower()}") from None
    if len(content) > _MOST:
        raise UsageError(f"{os.fspath(path)!r} is larger than {_MOST >> 10} KiB; is it the right file?")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [Problem(line, "", "not UTF-8 text; save the file as UTF-8")]) from None
    try:
        table: dict[str, Any] | None = tomllib.loads(text)
    except ValueError as error:  # a number with thousands of digits raises ValueError, not TOMLDecodeError
        raise ConfigError(path, [_syntax(str(error), text)]) from None
    except RecursionError:
        table = None
    if table is None or _too_deep(table):
        raise ConfigError(path, [Problem(_deepest(text), "", f"nested more than {_DEEPEST} deep; flatten it")])
    mistakes = Mistakes()
    _check_values((), table, mistakes)
    if mistakes.found:
        raise mistaken(path, text, Broken(mistakes.found))
    return text, table


def _check_values(at: Path, value: Any, mistakes: Mistakes) -> None:
    """Note values that Python parses but programs cannot use: whole numbers beyond 64 bits, NUL in text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if "\0" in key:
                mistakes.note((*at, key), "has a NUL character in its name; remove it")
            _check_values((*at, key), inner, mistakes)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check_values((*at, i), inner, mistakes)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        mistakes.note(at, "must be a whole number of at most 64 bits")
    elif isinstance(value, str) and "\0" in value:
        mistakes.note(at, "must be text without a NUL character")


def load(path: str | os.PathLike[str], rule: Rule) -> Any:
    """Return the table of a file, checked and converted by the rule.

    Raises
    ------
    ConfigError
        If the table breaks the rule (the error has every mistake and its line), or in the cases of `read`.
    """
    content, given = read(path)
    try:
        return rule(given)
    except Broken as broken:
        raise mistaken(path, content, broken) from None
    except UsageError as error:
        raise mistaken(path, content, Broken([((), str(error))])) from None


def reader(rule: Rule) -> Callable[[pathlib.Path], dict[str, Any]]:
    """Return a function that loads a file by this rule, cached until the file changes."""
    return per_file()(functools.partial(load, rule=rule))


def mistaken(path: str | os.PathLike[str], content: str, broken: Broken) -> ConfigError:
    """Return the error with the mistakes of a file and their lines, sorted by line."""
    where = lines(content)
    return ConfigError(
        path, sorted(Problem(line_of(where, at), ".".join(map(str, at)), rule) for at, rule in broken.mistakes)
    )


def _syntax(message: str, text: str) -> Problem:
    """Return tomllib's message with its line."""
    match = re.fullmatch(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)", message, re.DOTALL)
    rule, line = (match[1], match[2]) if match else (message, None)
    return Problem(int(line) if line else max(1, len(text.splitlines())), "", f"not TOML: {rule[:1].lower()}{rule[1:]}")


def _too_deep(table: dict[str, Any]) -> bool:
    level: list[Any] = [table]
    for _ in range(_DEEPEST):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [value for values in inner for value in values if isinstance(value, dict | list)]
    return bool(level)


def _deepest(text: str) -> int:
    """Return the line that is probably nested the deepest: the line with the most brackets and dots."""
    counts = [line.count("[") + line.count("{") + line.count(".") for line in text.splitlines()]
    return counts.index(max(counts)) + 1
