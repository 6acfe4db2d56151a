"""A kind of plug-in is a folder; a plug-in is one file in it.  Listing reads the files' literals and imports nothing.

Besides the package's own folders, those of the folder that the environment variable SCMSIM_PLUGINS names are looked at: a file
`fs/mine.py` there is the file system `mine`.  A name of the package's own cannot be taken.
"""

import ast
import fnmatch
import functools
import hashlib
import importlib
import importlib.util
import os
import pathlib
import sys
from typing import Any

from scmsim.core import toml
from scmsim.core.errors import UnknownName, UsageError, unknown

_ROOT = pathlib.Path(__file__).parents[1]
OWN_FOLDER = "SCMSIM_PLUGINS"
_SOURCES = (".py", ".toml", ".csv")

# kind -> (folder, suffix of a plug-in, names that a module must define)
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "fs": ("fs", ".py", ("SUMMARY", "SITES", "PARAMS", "start", "emit", "space")),
    "machine": ("mmu/machines", ".toml", ()),
    "paging": ("paging", ".py", ("SUMMARY", "PARAMS", "start", "place")),
    "policy": ("alloc/policies", ".py", ("SUMMARY", "SOURCE", "PARAMS", "rules")),
    "medium": ("medium", ".toml", ()),
    "workload": ("workload", ".py", ("SUMMARY", "PARAMS", "source")),
    "format": ("trace/formats", ".py", ("SUMMARY", "sniff", "convert")),
    "capture": ("trace/capture", ".py", ("SUMMARY", "capture")),
    "events": ("perf/events", ".toml", ()),
    "sites": ("perf/sites", ".toml", ()),
    "crash": ("crash", ".py", ("SUMMARY", "MODELS")),
    "backend": ("perf/backends", ".py", ("SUMMARY", "PARAMS", "start")),
}
_SAID = {"fs": "file system", "format": "trace format", "events": "event table", "policy": "page-size policy"}

# where the package's own are that stand with the family of file systems that they belong to
_PLACES = {"fs": "fs/models/*.py", "crash": "fs/*/crash*.py"}


def names(kind: str) -> list[str]:
    """Names of all plug-ins of a kind, sorted; a file `nova_cow.py` is the plug-in `nova-cow`."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    return sorted(_files(kind))


def _files(kind: str) -> dict[str, pathlib.Path]:
    """Name -> file of every plug-in of a kind; the user's own come after the package's and never replace one."""
    folder, suffix, _ = KINDS[kind]
    found: dict[str, pathlib.Path] = {}
    for root in _roots():
        own = root == _ROOT
        for file in sorted(root.glob(_PLACES.get(kind, f"{folder}/*{suffix}") if own else f"{folder}/*{suffix}")):
            name = _name(file, with_room=own and kind == "crash")
            if file.stem.startswith("_"):
                continue
            if name in found:
                raise UsageError(f"{str(file)!r} has the name of the package's own {kind} {name!r}; choose another")
            found[name] = file
    return found


def _name(file: pathlib.Path, with_room: bool) -> str:
    """Name of the plug-in in a file; `ext4/crash_dax.py` is the adapter `ext4-dax`."""
    stem = file.parent.name + file.stem.removeprefix("crash") if with_room else file.stem
    return stem.replace("_", "-")


def _roots() -> list[pathlib.Path]:
    own = os.environ.get(OWN_FOLDER)
    if not own:
        return [_ROOT]
    if not pathlib.Path(own).is_dir():
        raise UsageError(
            f"{OWN_FOLDER} = {own!r} is no folder; make it, with a folder such as fs in it, or unset the variable"
        )
    return [_ROOT, pathlib.Path(own).absolute()]


def select(kind: str, text: str) -> list[str]:
    """Names of a list separated by commas; "all" and patterns ("nova*") stand for those that match.  Other names stay as they are.

    Raises
    ------
    UnknownName
        For a pattern that matches none.
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
    """Digest of the code and tables that results come from: the package's and those of the user's own folder (15 ms).

    It depends on names and contents alone, so that every installation of a version has the same.
    """
    digest = hashlib.blake2b(digest_size=12)
    kinds = {folder for folder, _, _ in KINDS.values()}
    for root in _roots():
        for folder in [root] if root == _ROOT else [root / kind for kind in sorted(kinds)]:
            for file in sorted(file for file in folder.rglob("*.*") if file.suffix in _SOURCES):
                content = file.read_bytes()
                digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def path(kind: str, name: str) -> pathlib.Path:
    """File of one plug-in; raises UnknownName with the nearest match."""
    names(kind)  # refuses a kind that is none
    known = _files(kind)
    if name not in known:
        raise unknown(_SAID.get(kind, kind), name, sorted(known), f"scmsim list {kind}")
    return known[name]


@functools.cache
def literals(kind: str, name: str) -> dict[str, Any]:
    """Top-level literal assignments of a plug-in (SUMMARY, PARAMS, SITES, ... or the TOML table), without importing it."""
    file = path(kind, name)
    if file.suffix == ".toml":
        table = toml.read(file)[1]
        return {"SUMMARY": table.get("summary", ""), **table}
    found: dict[str, Any] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id.isupper() and getattr(node, "value", None) is not None:
            try:
                found[target.id] = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            except ValueError:
                continue
    return found


def load(kind: str, name: str) -> Any:
    """Import one plug-in and check that it defines what its kind requires."""
    file = path(kind, name)
    module = _imported(file)
    missing = [attribute for attribute in KINDS[kind][2] if not hasattr(module, attribute)]
    if missing:
        raise TypeError(f"{file.name}: a {kind} plug-in must define {', '.join(missing)}")
    return module


def _imported(file: pathlib.Path) -> Any:
    if file.is_relative_to(_ROOT):
        return importlib.import_module("scmsim." + ".".join(file.relative_to(_ROOT).with_suffix("").parts))
    name = f"scmsim_plugins.{file.parent.name}.{file.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None  # a .py file always has both
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
