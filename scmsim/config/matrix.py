"""A matrix in TOML -> a checked `Matrix`; every mistake at once, each with file, line, dotted key and rule."""

import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from scmsim.core import registry, toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.positions import Path, line_of, lines
from scmsim.core.toml import ConfigError, Problem
from scmsim.core.units import parse_bytes, parse_param
from scmsim.perf.matrix import COUNTS, MAX_UNIT, OPERATIONS, Matrix, Target

_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_MAX_BYTES = 1 << 44  # 16 TiB: a slip of a unit, not a wish
_MAX_CELLS = 1_000_000
_TABLES = ("summary", "fs", "matrix", "run")


def load(path: str | pathlib.Path, backend: str | None = None) -> Matrix:
    """Read and check the file of a matrix.

    Parameters
    ----------
    backend : str, optional
        Back end to use instead of the file's.

    Raises
    ------
    ConfigError
        With every mistake.
    UsageError
        If the file cannot be read.
    """
    path = pathlib.Path(path)
    text, table = toml.read(path)
    if backend is not None:
        registry.path("backend", backend)
        given = table.get("run")
        table["run"] = {**(given if isinstance(given, dict) else {}), "backend": backend}
    reader = _Reader()
    matrix = reader.matrix(table)
    if matrix is None:
        where = lines(text)
        broken = [Problem(line_of(where, at), ".".join(map(str, at)), rule) for at, rule in reader.broken]
        raise ConfigError(path, sorted(broken))
    return matrix


class _Reader:
    """Reads tables key by key and remembers what is wrong instead of stopping."""

    def __init__(self) -> None:
        self.broken: list[tuple[Path, str]] = []

    def matrix(self, table: Mapping[str, Any]) -> Matrix | None:
        backend = str(self._table(table, "run").get("backend", "perf"))
        known = (*_TABLES, *(registry.names("backend")))
        self._known((), table, known)
        values = {
            **self._fields(self._table(table, "matrix"), ("matrix",), _MATRIX),
            **self._fields(self._table(table, "run"), ("run",), _RUN),
            "targets": self._targets(self._table(table, "fs")),
            "backend_params": self._params(table, backend),
            "summary": str(table.get("summary", "")),
        }
        for key in ("file_sizes", "units", "operations"):
            if key not in self._table(table, "matrix"):
                self._note(("matrix", key), "is missing; see configs/perf-smoke.toml")
        if self.broken:
            return None
        matrix = Matrix(**values)
        cells = len(matrix.targets) * len(matrix.operations) * len(matrix.file_sizes) * len(matrix.units)
        if cells * matrix.repeats > _MAX_CELLS:
            self._note(("matrix",), f"asks for {cells * matrix.repeats:,} measurements; at most {_MAX_CELLS:,}")
            return None
        return matrix

    def _note(self, at: Path, rule: str) -> None:
        self.broken.append((at, rule))

    def _table(self, table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = table.get(name, {})
        return found if isinstance(found, dict) else {}

    def _known(self, at: Path, table: Mapping[str, Any], names: tuple[str, ...]) -> None:
        for name, value in table.items():
            if name not in names:
                self._note((*at, name), str(unknown("key", name, names)))
            elif not at and name != "summary" and not isinstance(value, dict):
                self._note((name,), f"must be a table: [{name}]")

    def _fields(self, table: Mapping[str, Any], at: Path, checks: Mapping[str, Callable[[Any], Any]]) -> dict:
        self._known(at, table, tuple(checks))
        values = {}
        for key, check in checks.items():
            if key in table:
                try:
                    values[key] = check(table[key])
                except UsageError as error:
                    self._note((*at, key), str(error))
        return values

    def _targets(self, table: Mapping[str, Any]) -> tuple[Target, ...]:
        targets = []
        for label, keys in table.items():
            if not _LABEL.fullmatch(label):
                self._note(
                    ("fs", label), f"{label!r} is no label; use lower-case letters, digits and dashes, like nova-cow"
                )
            if not isinstance(keys, dict):
                self._note(("fs", label), f'must be a table: [fs.{label}] with dir = "/mnt/..."')
                continue
            if "dir" not in keys:
                self._note(("fs", label), 'needs dir = "DIRECTORY", where the file system is mounted')
            values = self._fields(keys, ("fs", label), {"dir": _directory, "create": _flag})
            targets.append(Target(label, values.get("dir", ""), values.get("create", False)))
        if not table:
            self._note(("fs",), 'no file system to measure; add [fs.ext4] with dir = "/mnt/..."')
        paths = [target.path for target in targets]
        for path in {path for path in paths if paths.count(path) > 1}:
            self._note(("fs",), f"{path!r} is named twice; every file system needs a directory of its own")
        return tuple(targets)

    def _params(self, table: Mapping[str, Any], backend: str) -> dict[str, int | str]:
        """The table of the chosen back end, by its PARAMS."""
        if backend not in registry.names("backend"):
            return {}
        declared = registry.literals("backend", backend).get("PARAMS", {})
        given = self._table(table, backend)
        checks = {key: _param(unit) for key, (_, unit, _) in declared.items()}
        return self._fields(given, (backend,), checks)


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise UsageError(f"must be a whole number from {least} to {most}, not {value!r}")
        return value

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"must be true or false, not {value!r}")
    return value


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise UsageError(f"must be an absolute path in quotes, not {value!r}")
    return value


def _size(least: int, most: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UsageError(f'must be a number of bytes like 4096 or "4KiB", not {value!r}')
        size = parse_bytes(value)
        if not least <= size <= most:
            raise UsageError(f"{value!r} is not between {least} and {most} bytes")
        return size

    return check


def _several(check: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A list, each element checked, none twice."""

    def checked(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise UsageError("must be a list with at least one element")
        found = tuple(check(element) for element in value)
        twice = [element for i, element in enumerate(value) if found[i] in found[:i]]
        if twice:
            raise UsageError(f"{twice[0]!r} is listed twice; keep one")
        return found

    return checked


def _one_of(what: str, names: Callable[[], tuple[str, ...] | list[str]]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in names():
            raise unknown(what, str(value), names())
        return str(value)

    return check


def _counter(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,79}", value):
        raise UsageError(f"{value!r} is not the name of a counter; see 'scmsim perf check'")
    return value


def _total(value: Any) -> int:
    return 0 if value == "file" else _size(1, _MAX_BYTES)(value)


def _param(unit: str) -> Callable[[Any], int | str]:
    def check(value: Any) -> int | str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise UsageError(f"must be a whole number or text ({unit}), not {value!r}")
        return parse_param(value, unit)

    return check


_MATRIX: dict[str, Callable[[Any], Any]] = {
    "file_sizes": _several(_size(1, _MAX_BYTES)),
    "units": _several(_size(1, MAX_UNIT)),
    "operations": _several(_one_of("operation", lambda: OPERATIONS)),
    "repeats": _whole(1, 1000),
    "total": _total,
    "seed": _whole(0, 1 << 62),
}
_RUN: dict[str, Callable[[Any], Any]] = {
    "backend": _one_of("back end", lambda: registry.names("backend")),
    "count": _one_of("mode of counting", lambda: COUNTS),
    "counters": _several(_counter),
    "cpu": _whole(-1, 1 << 16),
    "warm_up": _whole(0, 1000),
    "drop_caches": _flag,
    "allow_multiplexing": _flag,
    "allow_other_files": _flag,
}
