"""Registry of plug-ins: each kind is a folder, and each plug-in a file in it, of which listing reads only literals.

A file system may also be a row of its family's `models.toml` (see `scmsim.core.family`).  Besides the bundled folders, the
registry searches the folder that the environment variable SCMSIM_PLUGINS names: there, a file `fs/mine.py` is the file system
`mine`, and each row of `fs/mine/models.toml` is a file system.  A user's plug-in cannot replace a bundled one.  A user's file
with a mistake is left out of the lists with a warning; using its name raises an error with the line of the mistake.
"""

import ast
import fnmatch
import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from scmsim.core import family, syntax, toml, user_plugins
from scmsim.core.errors import ScmsimError, UnknownName, UsageError, unknown
from scmsim.core.file_cache import per_file

_ROOT = pathlib.Path(__file__).parents[1]
OWN_FOLDER = user_plugins.FOLDER
_SOURCES = (".py", ".toml", ".csv", ".npz")  # .npz files are footprints
_WHEEL_ONLY = ("_configs", "traces")  # experiments and traces: in a wheel inside the package, in a checkout beside it

# kind -> (folder, suffix of a plug-in, names that a module must define)
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "fs": ("fs", ".py", ("SUMMARY", "SITES", "PARAMS", "start", "emit", "space")),
    "machine": ("mmu/machines", ".toml", ()),
    "paging": ("paging", ".py", ("SUMMARY", "PARAMS", "start", "place")),
    "policy": ("alloc/policies", ".py", ("SUMMARY", "SOURCE", "PARAMS", "rules")),
    "medium": ("medium", ".toml", ()),
    "system": ("system", ".toml", ()),
    "workload": ("workload", ".py", ("SUMMARY", "PARAMS", "Workload")),
    "format": ("trace/formats", ".py", ("SUMMARY", "sniff", "convert")),
    "capture": ("trace/capture", ".py", ("SUMMARY", "capture")),
    "events": ("perf/events", ".toml", ()),
    "sites": ("perf/sites", ".toml", ()),
    "crash": ("crash", ".py", ("SUMMARY", "MODELS")),
    "backend": ("perf/backends", ".py", ("SUMMARY", "PARAMS", "start")),
}
_SAID = {"fs": "file system", "format": "trace format", "events": "event table", "policy": "page-size policy"}

# Where bundled plug-ins are that are not in their kind's folder: a recovery model is in the folder of its file-system family, a
# trace format in a subfolder.
_PLACES = {"crash": "fs/*/crash*.py", "format": "trace/formats/*/*.py"}
_ROWS = {"fs": f"fs/*/{family.TABLE}"}
_OWN = "scmsim_plugins"  # the package that the user's folder becomes


def names(kind: str) -> list[str]:
    """Return the names of all plug-ins of a kind, sorted; a file `redo_log.py` is the plug-in `redo-log`."""
    return sorted(_files(kind))


def _files(kind: str) -> dict[str, pathlib.Path]:
    """Return name -> file of every plug-in of a kind that has no mistakes: the bundled ones, then the user's."""
    found = _bundled(kind)
    return found | {name: file for name, (file, problem) in _users(kind).items() if problem is None}


def _bundled(kind: str) -> dict[str, pathlib.Path]:
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return dict(_own(kind, _ROOT))


def _users(kind: str) -> dict[str, tuple[pathlib.Path, str | None]]:
    """Return name -> (file, what is wrong with it or None) of the plug-ins in the user's folder."""
    bundled, found = _bundled(kind), {}
    for root in _roots()[1:]:
        for name, file in _named(kind, root):
            if name in bundled:
                problem: str | None = f"{str(file)!r} has the name of the bundled {kind} {name!r}; choose another name"
            else:
                problem = user_plugins.problem(file, KINDS[kind][2])
            if problem is not None:
                _warn(problem)
            found[name] = file, problem
    return found


@functools.cache
def _warn(problem: str) -> None:
    """Log a mistake in a user's file once."""
    logging.getLogger("scmsim").warning("left out: %s", problem)


@functools.cache
def _own(kind: str, root: pathlib.Path) -> list[tuple[str, pathlib.Path]]:
    """Return the bundled plug-ins; cached because bundled plug-ins do not change and reading the folders takes 1 ms."""
    return list(_named(kind, root))


def _named(kind: str, root: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    """Yield (name, file) of every plug-in of a kind below a folder."""
    folder, suffix, _ = KINDS[kind]
    place = f"{folder}/*{suffix}" if root != _ROOT else _PLACES.get(kind, f"{folder}/*{suffix}")
    for file in sorted(root.glob(place)):
        if not file.stem.startswith("_"):
            yield _name(file, with_room=kind == "crash" and root == _ROOT), file
    for file in sorted(root.glob(_ROWS[kind])) if kind in _ROWS else ():
        try:
            rows = family.names(file)
        # a user's broken file; `path` reports the mistake when its name is asked for
        except (OSError, UnicodeDecodeError):
            rows = [file.parent.name]
        for name in rows:
            yield name, file


def _name(file: pathlib.Path, with_room: bool) -> str:
    """Return the name of the plug-in in a file; `ext4/crash_dax.py` is the recovery model `ext4-dax`."""
    stem = file.parent.name + file.stem.removeprefix("crash") if with_room else file.stem
    return stem.replace("_", "-")


def _roots() -> list[pathlib.Path]:
    own = os.environ.get(OWN_FOLDER)
    if not own:
        return [_ROOT]
    if not pathlib.Path(own).is_dir():
        raise UsageError(
            f"{OWN_FOLDER} = {own!r} is not a folder; make it, with a folder such as fs in it, or unset the variable"
        )
    return [_ROOT, pathlib.Path(own).absolute()]


def select(kind: str, text: str) -> list[str]:
    """Return the names in a comma-separated list; "all" and patterns ("nova*") expand to the names that match.

    A name without a pattern is returned unchecked.

    Raises
    ------
    UnknownName
        For a pattern that matches nothing.
    """
    chosen: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        pattern = "*" if part == "all" else part
        found = fnmatch.filter(names(kind), pattern) if set(pattern) & set("*?[") else [part]
        if not found:
            raise UnknownName(f"no {_SAID.get(kind, kind)} matches {part!r}; 'scmsim list {kind}' shows all")
        chosen += found
    return list(dict.fromkeys(chosen))


@functools.cache
def sources() -> str:
    """Return a digest of the code and tables that results depend on, bundled and the user's; takes 25 ms.

    The digest depends on names and contents alone, so every installation of a version has the same digest.
    """
    digest = hashlib.blake2b(digest_size=12)
    for name, file in source_files():
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def source_files() -> Iterator[tuple[str, pathlib.Path]]:
    """Yield (name, file) of the code and tables that results depend on, in a fixed order."""
    kinds = {folder for folder, _, _ in KINDS.values()}
    for root in _roots():
        for folder in [root] if root == _ROOT else [root / kind for kind in sorted(kinds)]:
            for file in sorted(file for file in folder.rglob("*.*") if file.suffix in _SOURCES):
                name = file.relative_to(root)
                if name.parts[0] not in _WHEEL_ONLY:
                    yield str(name), file


def path(kind: str, name: str) -> pathlib.Path:
    """Return the file of one plug-in.

    Raises UnknownName with the nearest match, UsageError for a user's file with a mistake.
    """
    _, problem = _users(kind).get(name, (None, None))
    if problem is not None:
        raise UsageError(problem)
    known = _files(kind)
    if name not in known:
        raise unknown(_SAID.get(kind, kind), name, sorted(known), f"scmsim list {kind}")
    return known[name]


def literals(kind: str, name: str) -> dict[str, Any]:
    """Return a plug-in's top-level literals (SUMMARY, PARAMS, SITES, ... or its TOML table) without importing the plug-in."""
    return _literals(path(kind, name), name)


@per_file()
def _literals(file: pathlib.Path, name: str) -> dict[str, Any]:
    if file.name == family.TABLE:
        return family.literals(file, name)
    if file.suffix == ".toml":
        table = toml.read(file)[1]
        return {"SUMMARY": table.get("summary", ""), **table}
    return _assigned(file)


def _assigned(file: pathlib.Path) -> dict[str, Any]:
    """Return the literals that a file assigns to names in capitals."""
    found: dict[str, Any] = {}
    for node in syntax.parsed(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id.isupper() and getattr(node, "value", None) is not None:
            try:
                found[target.id] = _literal(node.value, file)  # type: ignore[attr-defined]
            except (ValueError, TypeError, KeyError, OSError):
                continue
    return found


def _literal(node: ast.expr, file: pathlib.Path) -> Any:
    """Return the value of a literal; a table may include a table of a file in the same folder: {**_linear.PARAMS, ...}."""
    if not isinstance(node, ast.Dict) or None not in node.keys:
        return ast.literal_eval(node)
    found: dict[str, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            found[ast.literal_eval(key)] = ast.literal_eval(value)
        elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
            beside = file.with_name(f"{value.value.id}.py")
            found |= _assigned(beside if beside.exists() else _ROOT / file.parent.name / beside.name)[value.attr]
        else:
            raise ValueError("not a literal")
    return found


def load(kind: str, name: str) -> Any:
    """Import one plug-in and check that it defines what its kind requires."""
    file = path(kind, name)
    module = _row(file, name) if file.name == family.TABLE else _imported(file)
    missing = [attribute for attribute in KINDS[kind][2] if not hasattr(module, attribute)]
    if missing:
        raise UsageError(f"{str(file)!r}: a {kind} plug-in must define {', '.join(missing)}")
    return module


def _row(file: pathlib.Path, name: str) -> types.SimpleNamespace:
    """Return a model of a family's table together with its code in the family's folder or elsewhere in scmsim."""

    def imported(place: str) -> Any:
        return importlib.import_module(place) if "." in place else _imported(file.with_name(f"{place}.py"))

    return family.bind(file, name, imported)


def _imported(file: pathlib.Path) -> Any:
    """Return the module of a file in the package or in the user's folder."""
    root = next(root for root in _roots() if file.is_relative_to(root))
    if root == _ROOT:
        return importlib.import_module(".".join(("scmsim", *file.relative_to(root).with_suffix("").parts)))
    sys.modules.setdefault(_OWN, types.ModuleType(_OWN)).__path__ = [str(root)]
    importlib.invalidate_caches()  # the file may be new
    try:
        return importlib.import_module(".".join((_OWN, *file.relative_to(root).with_suffix("").parts)))
    except ScmsimError:
        raise
    except Exception as error:
        raise UsageError(user_plugins.mistake(error) or f"{str(file)!r}: {error}") from error
