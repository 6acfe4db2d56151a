"""Read the points of a sweep from TOML; report every mistake at once, with file, line, dotted key and rule.

Keys: `summary`; `mode` = grid (every combination of the axes, the default), random (`points` combinations, drawn with `seed`) or
list (the `[[point]]` tables); `[fixed]`, the settings of all points; `[axes]`, for each parameter that varies a list of values,
{from, to, times} or {from, to, step}.  Parameters are those of `point.SETTINGS`.
"""

import itertools
import pathlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scmsim.config import SWEEP_PREFIX, find
from scmsim.core import toml
from scmsim.core.errors import UsageError
from scmsim.core.positions import Path
from scmsim.core.schema import Broken, Mistakes, Rule, listed, one_of, table, text, whole
from scmsim.core.units import parse_bytes
from scmsim.sweep.point import Settings, check_setting, in_words, normal, varying

MODES = ("grid", "random", "list")
MOST = 1_000_000
_RANGE = {"from", "to", "times", "step"}


@dataclass(frozen=True)
class Sweep:
    """A checked sweep; `points` are distinct and in the order of the file."""

    path: pathlib.Path
    summary: str
    points: list[Settings]


def resolve(text: str) -> pathlib.Path:
    """Return the path of a sweep: an existing file, else the bundled sweep of this name (sweep-*)."""
    path = pathlib.Path(text)
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        raise UsageError(f"no file {str(path)!r}; give the path of a TOML file or the name of a bundled sweep")
    return find(text, prefix=SWEEP_PREFIX)


def check(path: str | pathlib.Path) -> None:
    """Read a sweep and build the models of its points; raise ConfigError for points that cannot be run, or as `load` does."""
    from scmsim.sweep import trial

    sweep = load(path)
    by_reason: dict[str, list[Settings]] = {}
    for settings, reason in trial.failures(sweep.points):
        by_reason.setdefault("; ".join(reason.splitlines()), []).append(settings)
    keys, total = varying(sweep.points), len(sweep.points)
    rules = [
        f"{len(failed):,} of {total:,} points cannot be run: {reason}; the first: {in_words(failed[0], keys)}"
        for reason, failed in by_reason.items()
    ]
    if rules:
        content, given = toml.read(sweep.path)
        place: Path = ("axes",) if "axes" in given else ("point", 0)
        raise toml.mistaken(sweep.path, content, Broken([(place, rule) for rule in rules]))


def load(path: str | pathlib.Path) -> Sweep:
    """Read and check a sweep; raise ConfigError with every mistake, UsageError if the file cannot be read."""
    path = pathlib.Path(path)
    summary, points = toml.load(path, lambda given: (str(given.get("summary", "")), _Reader(path.parent).points(given)))
    return Sweep(path, summary, points)


class _Reader:
    """A reader of tables that collects mistakes instead of stopping at the first."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.mistakes = Mistakes()

    def points(self, given: Mapping[str, Any]) -> list[Settings]:
        take = self.mistakes.take
        known = take((), table(_KEYS), given) or {}
        mode = known.get("mode", "grid")
        if (mode == "list") != ("point" in given) or (mode == "list" and "axes" in given):
            self.mistakes.note(("mode",), 'mode = "list" takes [[point]] tables, not [axes]; others take only [axes]')
        fixed = self._settings(given.get("fixed", {}), ("fixed",))
        axes = self._axes(given.get("axes", {}))
        listed = [self._settings(one, ("point", i)) for i, one in enumerate(known.get("point", []))]
        self.mistakes.done()
        raw = listed if mode == "list" else _drawn(known, axes) if mode == "random" else _grid(axes)
        return _different({**fixed, **one} for one in raw)

    def _settings(self, given: Any, at: Path) -> Settings:
        return {key: self._checked(key, value, (*at, key)) for key, value in self._flat(given, at)}

    def _axes(self, given: Any) -> dict[str, list[Any]]:
        found = {}
        for key, value in self._flat(given, ("axes",)):
            at: Path = ("axes", key)
            values = self.mistakes.take(at, _range, value) if isinstance(value, dict) else value
            if isinstance(values, list) and values:
                found[key] = [self._checked(key, one, at) for one in values]
            elif not isinstance(value, dict):
                self.mistakes.note(at, "must be a list of values, or {from, to, times} or {from, to, step}")
        return found

    def _flat(self, given: Any, at: Path) -> Iterator[tuple[str, Any]]:
        """Yield (dotted key, value) of nested tables; a table that is a range counts as a value."""
        if not isinstance(given, dict):
            self.mistakes.note(at, "must be a table")
            return
        for key, value in given.items():
            if isinstance(value, dict) and not (set(value) <= _RANGE and "from" in value):
                yield from ((f"{key}.{below}", inner) for below, inner in self._flat(value, (*at, key)))
            else:
                yield key, value

    def _checked(self, key: str, value: Any, at: Path) -> Any:
        return self.mistakes.take(at, lambda given: check_setting(key, given, self.folder), value)


def _range(given: Mapping[str, Any]) -> list[Any]:
    if "to" not in given:
        raise UsageError("the range has no 'to'; give from, to and either times or step")
    try:
        low, high = parse_bytes(given["from"]), parse_bytes(given["to"])
        times, step = given.get("times"), parse_bytes(given.get("step", 0))
        if times is not None and type(times) is not int:
            raise UsageError(f"times is {times!r}; give a whole number of at least 2")
        if (times is None) == (step == 0) or not 0 < low <= high or (times or 2) < 2:
            raise UsageError("give from, to and either times (2 or more) or step (1 or more), with 1 <= from <= to")
        values: list[Any] = []
        value = low
        while value <= high and len(values) <= MOST:
            values.append(value)
            value = value * times if times else value + step
        return values
    except (UsageError, TypeError) as error:
        raise UsageError(f"not a valid range: {error}") from None


def _grid(axes: dict[str, list[Any]]) -> Iterator[Settings]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _drawn(given: Mapping[str, Any], axes: dict[str, list[Any]]) -> Iterator[Settings]:
    """Yield random combinations without duplicates, up to `points`."""
    count, draw, seen = given.get("points", 100), random.Random(given.get("seed", 1)), set()
    for _ in range(20 * count):
        chosen = {key: draw.randrange(len(values)) for key, values in axes.items()}
        if tuple(chosen.values()) not in seen:
            seen.add(tuple(chosen.values()))
            yield {key: axes[key][i] for key, i in chosen.items()}
        if len(seen) == count:
            return


def _different(raw: Iterator[Settings]) -> list[Settings]:
    """Return the normalised points, without duplicates."""
    found: dict[tuple, Settings] = {}
    for i, one in enumerate(raw):
        if i >= MOST:
            raise Broken([(("axes",), f'more than {MOST:,} points; use mode = "random"')])
        settings = normal(one)
        found.setdefault(tuple(sorted(settings.items())), settings)
    return list(found.values())


def _anything(value: Any) -> Any:
    return value  # checked later, with the settings that it contains


_KEYS: dict[str, Rule] = {
    "summary": text,
    "mode": one_of("mode", MODES),
    "points": whole(1, MOST),
    "seed": whole(-(1 << 62), 1 << 62),
    "fixed": _anything,
    "axes": _anything,
    "point": listed(_anything, "must be written as [[point]] tables"),
}
