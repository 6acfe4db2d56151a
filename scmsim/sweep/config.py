"""A sweep in TOML -> its points; every mistake at once, each with file, line, dotted key and rule.

Keys: `summary`; `mode` = grid (every combination of the axes, the default), random (`points` of them, drawn with `seed`) or list
(the `[[point]]` tables); `[fixed]` what all points share; `[axes]` a list of values, or {from, to, times} or {from, to, step}, for
each parameter that varies.  Parameters are those of `point.SETTINGS`.
"""

import itertools
import pathlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scmsim.config import SWEEP_PREFIX, find
from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.positions import Path, line_of, lines
from scmsim.core.toml import ConfigError, Problem
from scmsim.core.units import parse_bytes
from scmsim.sweep.point import Settings, check_setting, in_words, normal, varying

MODES = ("grid", "random", "list")
MOST = 1_000_000
_RANGE = {"from", "to", "times", "step"}
_KEYS = ("summary", "mode", "points", "seed", "fixed", "axes", "point")


@dataclass(frozen=True)
class Sweep:
    """A checked sweep; `points` are different from each other and in the order of the file."""

    path: pathlib.Path
    summary: str
    points: list[Settings]


def resolve(text: str) -> pathlib.Path:
    """Path of a sweep: a file if there is one, else the name of a shipped one (sweep-*)."""
    path = pathlib.Path(text)
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        raise UsageError(f"no file {str(path)!r}; give the path of a TOML file or the name of a shipped sweep")
    return find(text, prefix=SWEEP_PREFIX)


def check(path: str | pathlib.Path) -> None:
    """Read a sweep, and build the models of its points; raises as `load`, and ConfigError for points that cannot be run."""
    from scmsim.sweep import trial

    sweep = load(path)
    by_reason: dict[str, list[Settings]] = {}
    for settings, reason in trial.failures(sweep.points):
        by_reason.setdefault(reason, []).append(settings)
    keys, total = varying(sweep.points), len(sweep.points)
    rules = [
        f"{len(failed):,} of {total:,} points cannot be run: {reason}; the first: {in_words(failed[0], keys)}"
        for reason, failed in by_reason.items()
    ]
    if rules:
        where = lines(toml.read(sweep.path)[0])
        line = line_of(where, ("axes",)) if ("axes",) in where else line_of(where, ("point", 0))
        raise ConfigError(sweep.path, [Problem(line, "", rule) for rule in rules])


def load(path: str | pathlib.Path) -> Sweep:
    """Read and check a sweep; raises ConfigError with every mistake, UsageError if the file cannot be read."""
    path = pathlib.Path(path)
    text, table = toml.read(path)
    reader = _Reader(path.parent)
    points = reader.points(table)
    if reader.broken:
        where = lines(text)
        found = [Problem(line_of(where, at), ".".join(map(str, at)), rule) for at, rule in reader.broken]
        raise ConfigError(path, sorted(found))
    return Sweep(path, str(table.get("summary", "")), points)


class _Reader:
    """Reads tables key by key and remembers what is wrong instead of stopping."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.broken: list[tuple[Path, str]] = []

    def points(self, table: Mapping[str, Any]) -> list[Settings]:
        for key in table:
            if key not in _KEYS:
                self.broken.append(((key,), str(unknown("key", key, _KEYS))))
        mode = table.get("mode", "grid")
        if mode not in MODES:
            self.broken.append((("mode",), str(unknown("mode", str(mode), MODES))))
        if (mode == "list") != ("point" in table) or (mode == "list" and "axes" in table):
            self.broken.append((("mode",), 'mode = "list" takes [[point]] tables, the other modes take [axes]'))
        fixed = self._settings(table.get("fixed", {}), ("fixed",))
        axes = self._axes(table.get("axes", {}))
        listed = [self._settings(one, ("point", i)) for i, one in enumerate(_tables(table.get("point")))]
        if self.broken:
            return []
        raw = listed if mode == "list" else self._drawn(table, axes) if mode == "random" else _grid(axes)
        return self._different({**fixed, **one} for one in raw)

    def _settings(self, table: Any, at: Path) -> Settings:
        found = {}
        for key, value in self._flat(table, at):
            found[key] = self._checked(key, value, (*at, key))
        return found

    def _axes(self, table: Any) -> dict[str, list[Any]]:
        found = {}
        for key, value in self._flat(table, ("axes",)):
            at: Path = ("axes", key)
            values = self._range(value, at) if isinstance(value, dict) else value
            if not isinstance(values, list) or not values:
                self.broken.append((at, "must be a list of values, or {from, to, times} or {from, to, step}"))
                continue
            found[key] = [self._checked(key, one, at) for one in values]
        return found

    def _flat(self, table: Any, at: Path) -> Iterator[tuple[str, Any]]:
        """Keys of nested tables with dots; a range stays one."""
        if not isinstance(table, dict):
            self.broken.append((at, "must be a table"))
            return
        for key, value in table.items():
            if isinstance(value, dict) and not (set(value) <= _RANGE and "from" in value):
                yield from ((f"{key}.{below}", inner) for below, inner in self._flat(value, (*at, key)))
            else:
                yield key, value

    def _range(self, table: Mapping[str, Any], at: Path) -> list[Any]:
        try:
            low, high = parse_bytes(table["from"]), parse_bytes(table["to"])
            times, step = table.get("times"), parse_bytes(table.get("step", 0))
            if (times is None) == (step == 0) or not 0 < low <= high or (times or 2) < 2:
                raise UsageError("give from, to and either times (2 or more) or step, from 1 up")
            values: list[Any] = []
            value = low
            while value <= high and len(values) <= MOST:
                values.append(value)
                value = value * times if times else value + step
            return values
        except (UsageError, KeyError, TypeError) as error:
            self.broken.append((at, f"not a range: {error}"))
            return []

    def _checked(self, key: str, value: Any, at: Path) -> Any:
        try:
            return check_setting(key, value, self.folder)
        except UsageError as error:
            self.broken.append((at, str(error)))
            return value

    def _drawn(self, table: Mapping[str, Any], axes: dict[str, list[Any]]) -> Iterator[Settings]:
        """Combinations drawn at random, none twice as far as there are so many."""
        count, seed = table.get("points", 100), table.get("seed", 1)
        if not isinstance(count, int) or not isinstance(seed, int) or not 0 < count <= MOST:
            self.broken.append((("points",), f"points and seed must be whole numbers, points from 1 to {MOST:,}"))
            return
        draw, seen = random.Random(seed), set()
        for _ in range(20 * count):
            chosen = {key: draw.randrange(len(values)) for key, values in axes.items()}
            if tuple(chosen.values()) not in seen:
                seen.add(tuple(chosen.values()))
                yield {key: axes[key][i] for key, i in chosen.items()}
            if len(seen) == count:
                return

    def _different(self, raw: Iterator[Settings]) -> list[Settings]:
        """The points without what does not concern them, each once."""
        found: dict[tuple, Settings] = {}
        for i, one in enumerate(raw):
            if i >= MOST:
                self.broken.append((("axes",), f'more than {MOST:,} points; use mode = "random"'))
                return []
            try:
                settings = normal(one)
            except UsageError as error:
                self.broken.append(((), str(error)))
                return []
            found.setdefault(tuple(sorted(settings.items())), settings)
        return list(found.values())


def _tables(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _grid(axes: dict[str, list[Any]]) -> Iterator[Settings]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))
