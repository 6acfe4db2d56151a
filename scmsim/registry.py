"""A kind of plug-in is a folder; a plug-in is one file in it.  Listing reads the files' literals and imports nothing."""

import ast
import functools
import importlib
import pathlib
import tomllib
from typing import Any

from scmsim.errors import unknown

_ROOT = pathlib.Path(__file__).parent

# kind -> (folder, suffix of a plug-in, names that a module must define)
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "fs": ("fs", ".py", ("SUMMARY", "SITES", "PARAMS", "start", "emit", "space")),
    "machine": ("mmu/machines", ".toml", ()),
    "paging": ("paging", ".py", ("SUMMARY", "PARAMS", "start", "place")),
    "medium": ("medium", ".toml", ()),
    "workload": ("workload", ".py", ("SUMMARY", "PARAMS", "source")),
    "format": ("trace/formats", ".py", ("SUMMARY", "sniff", "convert")),
    "capture": ("trace/capture", ".py", ("SUMMARY", "capture")),
    "events": ("perf/events", ".toml", ()),
    "sites": ("perf/sites", ".toml", ()),
    "backend": ("perf/backends", ".py", ("SUMMARY", "PARAMS", "start")),
}


def names(kind: str) -> list[str]:
    """Names of all plug-ins of a kind, sorted; a file `nova_cow.py` is the plug-in `nova-cow`."""
    if kind not in KINDS:
        raise unknown("kind", kind, KINDS)
    folder, suffix, _ = KINDS[kind]
    paths = (_ROOT / folder).glob(f"*{suffix}")
    return sorted(p.stem.replace("_", "-") for p in paths if not p.stem.startswith("_"))


def path(kind: str, name: str) -> pathlib.Path:
    """File of one plug-in; raises UnknownName with the nearest match."""
    known = names(kind)
    if name not in known:
        raise unknown(
            {"fs": "file system", "format": "trace format", "events": "event table"}.get(kind, kind), name, known
        )
    folder, suffix, _ = KINDS[kind]
    stem = name if suffix == ".toml" and (_ROOT / folder / f"{name}.toml").exists() else name.replace("-", "_")
    return _ROOT / folder / f"{stem}{suffix}"


@functools.cache
def literals(kind: str, name: str) -> dict[str, Any]:
    """Top-level literal assignments of a plug-in (SUMMARY, PARAMS, SITES, ... or the TOML table), without importing it."""
    file = path(kind, name)
    if file.suffix == ".toml":
        table = tomllib.loads(file.read_text(encoding="utf-8"))
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
    module = importlib.import_module("scmsim." + ".".join(file.relative_to(_ROOT).with_suffix("").parts))
    missing = [attribute for attribute in KINDS[kind][2] if not hasattr(module, attribute)]
    if missing:
        raise TypeError(f"{file.name}: a {kind} plug-in must define {', '.join(missing)}")
    return module
