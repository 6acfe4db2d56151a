"""Read a `Matrix` from TOML and check it; report every mistake at once, with file, line, dotted key and rule."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from scmsim.core import params, registry, toml
from scmsim.core.errors import UsageError
from scmsim.core.schema import Rule, flag, named, one_of, several, size, table, text, then, whole
from scmsim.perf.matrix import COUNTS, MAX_UNIT, OPERATIONS, Matrix, Target

_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_MAX_BYTES = 1 << 44  # 16 TiB; a larger size is probably a mistake in the unit
_MAX_CELLS = 1_000_000


def load(path: str | pathlib.Path, backend: str | None = None) -> Matrix:
    """Read and check the file of a matrix; `backend` replaces the back end that the file names.

    Raises ConfigError with every mistake in the file; UsageError if the file cannot be read.
    """
    if backend is not None:
        registry.path("backend", backend)

    def rule(given: dict[str, Any]) -> Matrix:
        run = given.get("run", {})
        if backend is not None:
            run = {**(run if isinstance(run, dict) else {}), "backend": backend}
        return _matrix({"fs": {}, "matrix": {}, **given, "run": run})

    matrix: Matrix = toml.load(path, rule)
    return matrix


def _matrix(given: dict[str, Any]) -> Matrix:
    """Check a file's content and return its matrix; tables of back ends that are not chosen are not checked."""
    names = registry.names("backend")
    backend = given["run"].get("backend", "perf") if isinstance(given["run"], dict) else "perf"
    own = {name: params.table("backend", name) if name == backend else named(lambda value: value) for name in names}
    found = table({"summary": text, "fs": _TARGETS, "matrix": _MATRIX, "run": _RUN, **own})(given)
    matrix = Matrix(
        targets=found["fs"],
        summary=found.get("summary", ""),
        backend_params=found.get(backend, {}),
        **found["matrix"],
        **found["run"],
    )
    cells = len(matrix.targets) * len(matrix.operations) * len(matrix.file_sizes) * len(matrix.units)
    if cells * matrix.repeats > _MAX_CELLS:
        raise UsageError(f"matrix asks for {cells * matrix.repeats:,} measurements; at most {_MAX_CELLS:,}")
    return matrix


def _targets(given: Mapping[str, Mapping[str, Any]]) -> tuple[Target, ...]:
    if not given:
        raise UsageError('no file system to measure; add [fs.ext4] with dir = "/mnt/..."')
    targets = tuple(Target(label, keys["dir"], keys.get("create", False)) for label, keys in given.items())
    paths = [target.path for target in targets]
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"{path!r} is named twice; every file system needs a directory of its own")
    return targets


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise UsageError(f"{value!r} is not a label; use lower-case letters, digits and dashes, like nova-cow")
    return value


def _directory(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise UsageError(f"must be an absolute path in quotes, not {value!r}")
    return value


def _counter(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9_]{0,79}", value):
        raise UsageError(f"{value!r} is not the name of a counter; see 'scmsim perf check'")
    return value


def _total(value: Any) -> int:
    return 0 if value == "file" else int(size(1, _MAX_BYTES)(value))


_TARGET = table(
    {"dir": _directory, "create": flag},
    {"dir": 'give dir = "DIRECTORY", where the file system is mounted'},
    form='must be a table: [fs.NAME] with dir = "/mnt/..."',
)
_TARGETS: Rule = then(named(_TARGET, _label), _targets)
_MATRIX = table(
    {
        "file_sizes": several(size(1, _MAX_BYTES)),
        "units": several(size(1, MAX_UNIT)),
        "operations": several(one_of("operation", OPERATIONS)),
        "repeats": whole(1, 1000),
        "total": _total,
        "seed": whole(0, 1 << 62),
    },
    dict.fromkeys(("file_sizes", "units", "operations"), "see configs/perf-smoke.toml"),
)
_RUN = table(
    {
        "backend": one_of("back end", lambda: registry.names("backend")),
        "count": one_of("mode of counting", COUNTS),
        "counters": several(_counter),
        "cpu": whole(-1, 1 << 16),
        "warm_up": whole(0, 1000),
        "drop_caches": flag,
        "allow_multiplexing": flag,
        "allow_other_files": flag,
    }
)
