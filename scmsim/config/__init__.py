"""Read an experiment from TOML and check it; report every mistake at once, with file, line, dotted key and rule.

Keys: `trace` (a path, relative to the file's folder) or `[workload]` (`kind` and its parameters); `fs`, `machine`,
`paging`, `medium` (a name or a list of names; every combination is run); `kernel`, `footprints`, `meminfo`, `system`, `caches` (one
value each, for all runs); `by`, `sync_at_end`, `out`, `summary`;
`[set.NAME]`, the parameters of the file system or paging policy NAME.  Parameters may have units ("4KiB", "5ms"); they are checked
against the plug-in's PARAMS.
"""

import itertools
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from scmsim.config import schema
from scmsim.core import toml
from scmsim.core.errors import UsageError, unknown
from scmsim.result.run import SURROUNDINGS

_FOLDERS = (pathlib.Path(__file__).parents[1] / "_configs", pathlib.Path(__file__).parents[2] / "configs")
MATRIX_PREFIX = "perf-"  # prefix of bundled files for `scmsim perf run`, which are not experiments
SWEEP_PREFIX = "sweep-"  # prefix of bundled files for `scmsim sweep`
_PREFIXES = {MATRIX_PREFIX: "matrix", SWEEP_PREFIX: "sweep", "": "experiment"}
_TABLES = {MATRIX_PREFIX: r"\[\s*matrix\s*\]", SWEEP_PREFIX: r"\[\s*axes\s*\]|\[\s*fixed\b|\[\[\s*point\s*\]\]"}
_MOST = 1 << 20


@dataclass(frozen=True)
class Experiment:
    """A checked experiment, where an empty `machine`, `paging` or `medium` means the default of the pipeline.

    `params` and `workload_params` hold whole numbers in the unit that the plug-in declares (bytes, nanoseconds,
    counts), or the chosen string.
    """

    path: pathlib.Path
    fs: tuple[str, ...]
    trace: pathlib.Path | None = None
    workload: str | None = None
    workload_params: dict[str, int | str] = field(default_factory=dict)
    machine: tuple[str, ...] = ()
    paging: tuple[str, ...] = ()
    medium: tuple[str, ...] = ()
    kernel: str | None = None
    footprints: str | None = None
    meminfo: str | None = None
    system: str | None = None
    caches: str | None = None
    by: str | None = None
    sync_at_end: bool = False
    params: dict[str, dict[str, int | str]] = field(default_factory=dict)
    out: pathlib.Path | None = None
    summary: str = ""

    def surroundings(self) -> dict[str, str]:
        """Return the settings common to all runs (kernel, system, ...), as keyword arguments of `scmsim.replay`."""
        return {key: value for key in SURROUNDINGS if (value := getattr(self, key)) is not None}

    def combinations(self) -> Iterator[dict[str, str]]:
        """Yield each combination of machine, paging policy and medium, as keyword arguments of `scmsim.replay`.

        Defaults are left out.
        """
        chosen = {"machine": self.machine, "paging": self.paging, "medium": self.medium}
        named = {kind: names for kind, names in chosen.items() if names}
        for names in itertools.product(*named.values()):
            yield {**dict(zip(named, names, strict=True)), **self.surroundings()}


def find(name: str, prefix: str = "") -> pathlib.Path:
    """Return the file of a bundled experiment ("quickstart"), matrix ("perf-*") or sweep ("sweep-*").

    Raises UnknownName for any other name.
    """
    found = {path.stem: path for folder in reversed(_FOLDERS) for path in sorted(folder.glob("*.toml"))}
    shipped = {stem: path for stem, path in found.items() if prefix == next(p for p in _PREFIXES if stem.startswith(p))}
    if name not in shipped:
        raise unknown(_PREFIXES[prefix], name, sorted(shipped))
    return shipped[name]


def resolve(text: str | pathlib.Path, matrix: bool = False) -> pathlib.Path:
    """Return the path of an experiment or a matrix: an existing file, else the bundled file with this name."""
    path = pathlib.Path(text)
    if path.is_file():
        return path
    if path.suffix or len(path.parts) > 1:
        raise UsageError(f"no file {str(path)!r}; give the path of a TOML file or the name of a shipped experiment")
    return find(str(text), MATRIX_PREFIX if matrix else "")


def meant_as(path: pathlib.Path) -> str:
    """Return the intended kind of a file, by its name or tables: MATRIX_PREFIX, SWEEP_PREFIX or "" (an experiment).

    The file need not be valid.
    """
    for prefix in _TABLES:
        if path.name.startswith(prefix):
            return prefix
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST)
    except OSError:
        return ""  # reading the experiment then reports the error
    return next(
        (prefix for prefix, table in _TABLES.items() if re.search(rf"^[ \t]*(?:{table})", text, re.MULTILINE)), ""
    )


def load(path: str | pathlib.Path) -> Experiment:
    """Read and check an experiment; raise ConfigError with every mistake."""
    path = pathlib.Path(path)
    values = toml.load(path, schema.rule(path.parent))
    workload = values.pop("workload", {})
    if workload:
        values |= {"workload": workload.pop("kind"), "workload_params": workload}
    return Experiment(path=path, params=values.pop("set", {}), **values)
