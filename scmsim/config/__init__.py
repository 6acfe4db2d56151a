"""An experiment in TOML -> checked values; every mistake at once, each with file, line, dotted key and rule.

Keys: `trace` (a path, relative to the file's folder) or `[workload]` (`kind` and its parameters); `fs`, `machine`,
`paging`, `medium` (a name or a list of names: every combination is run); `by`, `out`, `summary`; `[set.NAME]`
parameters of the file system or paging policy NAME.  Parameters may carry units ("4KiB", "5ms"); they are checked
against the plug-in's PARAMS.
"""

import itertools
import os
import pathlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scmsim.config_lines import Path, line_of, lines
from scmsim.errors import UsageError, unknown
from scmsim.printable import printable

_FOLDERS = (pathlib.Path(__file__).parent / "_configs", pathlib.Path(__file__).parent.parent / "configs")
MATRIX_PREFIX = "perf-"  # shipped files for `scmsim perf run`, which are no experiments
SWEEP_PREFIX = "sweep-"  # and for `scmsim sweep`
_PREFIXES = {MATRIX_PREFIX: "matrix", SWEEP_PREFIX: "sweep", "": "experiment"}
_TABLES = {MATRIX_PREFIX: r"\[\s*matrix\s*\]", SWEEP_PREFIX: r"\[\s*axes\s*\]|\[\s*fixed\b|\[\[\s*point\s*\]\]"}
_MOST = 1 << 20


@dataclass(frozen=True)
class Experiment:
    """A checked experiment.  Empty `machine`, `paging` or `medium` means the default of the pipeline.

    `params` and `workload_params` hold whole numbers in the unit that the plug-in declares (bytes, nanoseconds,
    counts), or the word chosen.
    """

    path: pathlib.Path
    fs: tuple[str, ...]
    trace: pathlib.Path | None = None
    workload: str | None = None
    workload_params: dict[str, int | str] = field(default_factory=dict)
    machine: tuple[str, ...] = ()
    paging: tuple[str, ...] = ()
    medium: tuple[str, ...] = ()
    by: str | None = None
    params: dict[str, dict[str, int | str]] = field(default_factory=dict)
    out: pathlib.Path | None = None
    summary: str = ""

    def combinations(self) -> Iterator[dict[str, str]]:
        """Each machine with each paging policy and medium, as keyword arguments of `scmsim.replay`; defaults left
        out."""
        chosen = {"machine": self.machine, "paging": self.paging, "medium": self.medium}
        named = {kind: names for kind, names in chosen.items() if names}
        for names in itertools.product(*named.values()):
            yield dict(zip(named, names, strict=True))


class Problem(NamedTuple):
    """One mistake: line (from 1), dotted key ("" for the whole file) and the rule that it breaks."""

    line: int
    key: str
    rule: str


class ConfigError(UsageError):
    """All mistakes of one file; `str()` has one line for each."""

    def __init__(self, path: pathlib.Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        said = (f"{path}:{p.line}: {p.key + ': ' if p.key else ''}{p.rule}" for p in problems)
        super().__init__("\n".join(map(printable, said)))


def find(name: str, prefix: str = "") -> pathlib.Path:
    """File of a shipped experiment, e.g. "quickstart", of a matrix ("perf-*") or a sweep ("sweep-*"); raises UnknownName."""
    found = {path.stem: path for folder in reversed(_FOLDERS) for path in sorted(folder.glob("*.toml"))}
    shipped = {stem: path for stem, path in found.items() if prefix == next(p for p in _PREFIXES if stem.startswith(p))}
    if name not in shipped:
        raise unknown(_PREFIXES[prefix], name, sorted(shipped))
    return shipped[name]


def resolve(text: str | pathlib.Path, matrix: bool = False) -> pathlib.Path:
    """Path of an experiment or a matrix: a file if there is one, else the name of a shipped one."""
    path = pathlib.Path(text)
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        raise UsageError(f"no file {str(path)!r}; give the path of a TOML file or the name of a shipped experiment")
    return find(str(text), MATRIX_PREFIX if matrix else "")


def meant_as(path: pathlib.Path) -> str:
    """What a file is meant to be, right or wrong: MATRIX_PREFIX, SWEEP_PREFIX or "" (an experiment), by its name or tables."""
    for prefix in _TABLES:
        if path.name.startswith(prefix):
            return prefix
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST)
    except OSError:
        return ""  # the experiment's reader says why
    return next(
        (prefix for prefix, table in _TABLES.items() if re.search(rf"^[ \t]*(?:{table})", text, re.MULTILINE)), ""
    )


def read_toml(path: pathlib.Path) -> tuple[str, dict[str, Any]]:
    """Text and table of a TOML file; raises ConfigError where it is none, UsageError if it cannot be read."""
    text = read_text(path)
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path, [syntax_problem(str(error), text)]) from None


def load(path: str | pathlib.Path) -> Experiment:
    """Read and check an experiment; raises ConfigError with every mistake."""
    path = pathlib.Path(path)
    text, table = read_toml(path)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plug-ins reads every package's metadata
    from scmsim.config_model import check  # pydantic: only a command that reads an experiment pays for it

    values, broken = check(table, path.parent)
    if broken:
        where = lines(text)
        raise ConfigError(path, sorted(_problem(where, at, rule) for at, rule in broken))
    return Experiment(path=path, **values)


def read_text(path: pathlib.Path) -> str:
    """Text of a TOML file; raises UsageError if it cannot be read, ConfigError if it is no UTF-8."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {str(path)!r}: {(error.strerror or str(error)).lower()}") from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(path, [Problem(line, "", "not UTF-8 text; save the file as UTF-8")]) from None


def _problem(where: dict[Path, int], at: Path, rule: str) -> Problem:
    """`at` ends in an index where a list was expected; a single name in its place has no index."""
    key = at[:-1] if at and isinstance(at[-1], int) and at not in where else at
    return Problem(line_of(where, at), ".".join(map(str, key)), rule)


def syntax_problem(message: str, text: str) -> Problem:
    """What tomllib says, with its line."""
    match = re.fullmatch(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)", message, re.DOTALL)
    rule, line = (match[1], match[2]) if match else (message, None)
    return Problem(int(line) if line else max(1, len(text.splitlines())), "", f"not TOML: {rule[:1].lower()}{rule[1:]}")
