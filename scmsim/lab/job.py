"""A job: which file systems run what, how often; and its file."""

import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown
from scmsim.core.units import parse_bytes, parse_time
from scmsim.lab import plan
from scmsim.lab.plan import PASSES, Plan

_JOBS = pathlib.Path(__file__).parent / "jobs"
_MAX_UNIT, _MAX_TOTAL = 1 << 26, 1 << 30
_MAX_NAMES = 100_000


@dataclass(frozen=True)
class Job:
    """A checked job; sizes in bytes.

    Attributes
    ----------
    units, total, passes, names
        Of the microbenchmark (see `plan.microbench`); `units` is empty if a trace is run.
    erms : bool
        Whether the guest's CPU says that rep movsb is fast.
    """

    fs: tuple[str, ...]
    trace: str = ""
    units: tuple[int, ...] = ()
    total: int = 16 << 20
    passes: tuple[str, ...] = PASSES
    names: int = 0
    repeats: int = 1
    timeout_s: float = 1800.0
    erms: bool = True
    summary: str = ""

    def plan(self) -> Plan:
        """What each guest does."""
        if self.trace:
            from scmsim.trace import open_trace

            return plan.from_trace(open_trace(self.trace))
        return plan.microbench(self.units, self.total, self.passes, self.names)


def names() -> list[str]:
    """Names of the jobs that come with the package."""
    return sorted(path.stem for path in _JOBS.glob("*.toml"))


def load(text: str, given: Mapping[str, Any]) -> Job:
    """A job from a file, the name of a shipped job, or a stored trace.

    Parameters
    ----------
    text : str
        Path of a .toml file or of a trace, or one of `names()`.
    given : mapping
        Fields of the command line, over the file's; None: not given.

    Raises
    ------
    UsageError
        For a file that cannot be read, an unknown key or a value that its rule does not allow.
    """
    values = {key: value for key, value in given.items() if value is not None}
    path = pathlib.Path(text)
    if text in names() and not path.exists():
        path = _JOBS / f"{text}.toml"
    if path.suffix != ".toml":
        if not path.exists() and not path.suffix and len(path.parts) == 1:
            raise unknown("job", text, names())
        return Job(**{"fs": ("ext4-dax",), **values, "trace": text})
    return Job(**{**_read(path), **values})


def _read(path: pathlib.Path) -> dict[str, Any]:
    _, table = toml.read(path)
    problems: list[str] = []
    values = _fields(table, "", {**_TOP, **dict.fromkeys(_TABLES, dict)}, problems)
    for name, rules in _TABLES.items():
        inner = values.pop(name, {})
        values |= _fields(inner, f"{name}.", rules, problems) if isinstance(inner, dict) else {}
    if "timeout" in values:
        values["timeout_s"] = values.pop("timeout")
    if values.get("trace"):
        values["trace"] = str(path.parent / values["trace"])
    if not problems and bool(values.get("trace")) == bool(values.get("units")):
        problems.append("give either trace, or units in [microbench]")
    if not problems and "fs" not in values:
        problems.append(f'fs is missing; give a list like ["ext4-dax"], see {_JOBS.name}/transfers.toml')
    if problems:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems))
    return values


def _fields(
    table: Mapping[str, Any], prefix: str, rules: Mapping[str, Callable], problems: list[str]
) -> dict[str, Any]:
    """The values that their rules allow; what is wrong with the others is added to `problems`."""
    found = {}
    for key, value in table.items():
        if key not in rules:
            problems.append(f"{prefix}{key}: {unknown('key', key, rules)}")
            continue
        try:
            found[key] = rules[key](value)
        except (UsageError, TypeError, ValueError) as error:
            problems.append(f"{prefix}{key}: {error}")
    return found


def systems_of(value: Any) -> tuple[str, ...]:
    """Names of file systems, from a list or from "ext4-dax,tmpfs"."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name.strip() for name in found):
        raise UsageError('must be a list of file systems like ["ext4-dax", "tmpfs"]')
    found = [name.strip() for name in found]
    if len(set(found)) < len(found):
        raise UsageError(f"names a file system twice: {', '.join(found)}")
    return tuple(found)


def units_of(value: Any) -> tuple[int, ...]:
    """Bytes of a call, from a list or from "1KiB,4KiB"."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not found:
        raise UsageError('must be a list of sizes like ["1KiB", "64KiB"]')
    sizes = tuple(_between(parse_bytes(size), 1, _MAX_UNIT) for size in found)
    if len(set(sizes)) < len(sizes):
        raise UsageError("names a unit twice")
    return sizes


def _passes(value: Any) -> tuple[str, ...]:
    for name in value if isinstance(value, list) else [value]:
        if name not in PASSES:
            raise unknown("pass", str(name), PASSES)
    return tuple(value)


def _between(value: int, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"must be from {least} to {most}, not {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise UsageError(f"must be text, not {value!r}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"must be true or false, not {value!r}")
    return value


_TOP: dict[str, Callable] = {"summary": _text, "fs": systems_of, "trace": _text}
_TABLES: dict[str, dict[str, Callable]] = {
    "microbench": {
        "units": units_of,
        "total": lambda value: _between(parse_bytes(value), 1, _MAX_TOTAL),
        "passes": _passes,
        "names": lambda value: _between(value, 0, _MAX_NAMES),
    },
    "run": {
        "repeats": lambda value: _between(value, 1, 1000),
        "timeout": lambda value: parse_time(value) / 1e9,
        "erms": _flag,
    },
}
