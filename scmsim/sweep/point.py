"""Check and evaluate a point of a sweep: its settings, their digest, and its row of figures.

A point is a flat mapping with keys `fs` or `policy`, `trace` or `workload.kind`, `machine`, `paging`, `medium`, `kernel`,
`footprints`, `meminfo`, `system`, `caches`, `sync_at_end`, `workload.KEY`, `set.NAME.KEY` and `machine.PART.KEY`, where PART is
the name of a TLB array or `walk` (`machine.stlb.entries`).
"""

import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scmsim import cache
from scmsim.config.schema import version
from scmsim.core import params, registry, schema
from scmsim.core.atomic import protect
from scmsim.core.errors import UsageError, unknown
from scmsim.core.file_cache import per_file
from scmsim.paging._choice import wanted
from scmsim.result.run import CACHES, SURROUNDINGS, SYNC_AT_END

if TYPE_CHECKING:
    from scmsim.core.records import Source

Settings = dict[str, Any]
FORMAT = 1
WARNINGS = "\n"  # separator of a row's warnings, which may contain semicolons
PLAIN = ("fs", "policy", "machine", "paging", "medium", "trace", "workload.kind")
SETTINGS = (*PLAIN, *SURROUNDINGS, SYNC_AT_END, "workload.KEY", "set.NAME.KEY", "machine.PART.KEY")
_OWNERS = ("fs", "policy", "paging")  # kinds whose parameters are given by `set`


def check_setting(key: str, value: Any, folder: pathlib.Path) -> Any:
    """Return the checked value of a setting, with paths made absolute; raise UsageError for a wrong value.

    Parameters of plug-ins are parsed later, by `normal`, which knows the plug-in.
    """
    if isinstance(value, list | dict) or value is None:
        raise UsageError(f"must be one value, not {str(value)[:40]}; put lists into [axes]")
    kind, *rest = key.split(".")
    if key in ("trace", "meminfo") or (key in ("machine", "system") and str(value).endswith(".toml")):
        path = pathlib.Path(os.path.abspath(folder / str(value)))
        if not path.is_file():
            raise UsageError(f"no file {str(value)!r} in the folder of the sweep (expected at {str(path)!r})")
        protect(path)
        return str(path)
    if key == SYNC_AT_END:
        return schema.flag(value)
    if key == "workload.kind":
        registry.path("workload", str(value))
    elif key == CACHES:
        return schema.one_of("setting of caches", cache.SETTINGS)(value)
    elif key in ("kernel", "footprints"):
        version(key, value)
    elif key in PLAIN or key == "system":
        registry.path(key, str(value))
    elif kind == "set" and len(rest) == 2:
        params.parsed(_owner(rest[0]), rest[0], rest[1], value)
    elif not (kind == "workload" and len(rest) == 1) and not (kind == "machine" and len(rest) == 2):
        raise unknown("parameter", key, SETTINGS)
    return value


def _owner(name: str) -> str:
    """Return the kind of a plug-in whose parameters can be set."""
    return params.owner(name, _OWNERS, "file system, policy or paging")


def normal(settings: Settings) -> Settings:
    """Return the settings that affect the point, sorted and with numbers in base units; raise UsageError if it is invalid."""
    if ("fs" in settings) == ("policy" in settings):
        raise UsageError("a point needs fs (a file system) or policy (a page-size policy), not both")
    if ("trace" in settings) == ("workload.kind" in settings):
        raise UsageError("a point needs trace (a stored trace) or workload.kind (a generator), not both")
    if "policy" in settings:
        settings = {
            key: value
            for key, value in settings.items()
            if key.split(".")[0] not in ("machine", "paging", "medium", *SURROUNDINGS, SYNC_AT_END)
        }
    used = {settings.get(kind) for kind in _OWNERS} | ({wanted(settings["fs"])} if "fs" in settings else set())
    found: Settings = {}
    for key, value in sorted(settings.items()):
        kind, *rest = key.split(".")
        if kind == "set":
            if rest[0] in used:
                found[key] = params.parsed(_owner(rest[0]), rest[0], rest[1], value)
        elif kind == "workload" and key != "workload.kind":
            if "workload.kind" in settings:
                found[key] = params.parsed("workload", settings["workload.kind"], rest[0], value)
        else:
            found[key] = value
    return found


def key_of(settings: Settings) -> str:
    """Return a digest of everything that a point's row depends on: settings, contents of files, models and scmsim itself."""
    content = {key: _digest(value) if _is_path(key, value) else value for key, value in settings.items()}
    text = json.dumps({"format": FORMAT, "scmsim": registry.sources(), **content}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _is_path(key: str, value: Any) -> bool:
    return key in ("trace", "meminfo") or str(value).endswith(".toml") or (key == "footprints" and os.path.isdir(value))


@per_file()
def _digest(path: str) -> str:
    """Return a digest of a file, or of the footprints in a folder."""
    if os.path.isdir(path):
        return " ".join(f"{file.name} {_digest(str(file))}" for file in sorted(pathlib.Path(path).glob("*.npz")))
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source(settings: Settings) -> Any:
    """Return the source that a point replays: the path of a trace, or a workload."""
    if "trace" in settings:
        return settings["trace"]
    given = {key.removeprefix("workload."): value for key, value in settings.items() if key.startswith("workload.")}
    return registry.load("workload", given.pop("kind")).Workload(**given)


def varying(points: list[Settings]) -> set[str]:
    """Return the parameters in which points differ."""
    keys = {key for settings in points for key in settings}
    return {key for key in keys if len({str(settings.get(key)) for settings in points}) > 1}


def differing(points: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the parameters that have several values among the points that they affect."""
    keys = {key for settings in points for key in settings}
    return {key for key in keys if len({str(one.get(key)) for one in points if _concerns(key, one)}) > 1}


def _concerns(key: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a parameter affects a point, that is, does not belong to another file system, policy or workload."""
    kind, *rest = key.split(".")
    if kind == "set":
        return key in settings or rest[0] in {settings.get(owner) for owner in _OWNERS}
    if kind == "workload" and rest != ["kind"]:
        return key in settings or settings.get("trace") is None
    return True


def in_words(settings: Settings, keys: set[str]) -> str:
    """Return a point's parameters in `keys`, e.g. "fs=nova-cow, workload.unit=4KiB"; all parameters if none is in `keys`."""
    chosen = [key for key in settings if key in keys] or list(settings)
    return ", ".join(f"{key}={_shown(settings, key)}" for key in chosen)


def _shown(settings: Settings, key: str) -> str:
    kind, *rest = key.split(".")
    known: params.Declared = {}
    if kind == "set":
        known = params.declared(_owner(rest[0]), rest[0])
    elif kind == "workload" and key != "workload.kind" and "workload.kind" in settings:
        known = params.declared(kind, settings["workload.kind"])
    return params.shown(settings[key], known[rest[-1]][1] if rest and rest[-1] in known else "")


def evaluate(settings: Settings, given: "Source | None" = None) -> dict[str, Any]:
    """Return a point's row of figures, which is deterministic; `given` is replayed instead of the point's own trace.

    Raises ScmsimError if the point cannot be run.
    """
    given_params: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        if key.startswith("set."):
            _, name, parameter = key.split(".")
            given_params.setdefault(name, {})[parameter] = value
    if "policy" in settings:
        from scmsim.study import space

        found = space.of_policy(given or source(settings), settings["policy"], given_params.get(settings["policy"]))
        return {f"space_{name}": value for name, value in found.total.items()}
    from scmsim.pipeline import replay
    from scmsim.result import intervals

    chosen = {kind: settings[kind] for kind in ("paging", "medium", *SURROUNDINGS, SYNC_AT_END) if kind in settings}
    result = replay(given or source(settings), settings["fs"], _machine(settings), params=given_params, **chosen)
    row = result.rows()[0] | intervals.columns(result.runs[0])
    row["warnings"] = WARNINGS.join(result.runs[0].warnings)
    told = settings.keys() - {"paging"}  # keep the paging policy that ran, which may differ from the requested one
    return {key: value for key, value in row.items() if key not in told and value is not None}


def _machine(settings: Settings) -> Any:
    """Return the name of the machine, or its table with the point's changes."""
    from scmsim.pipeline import DEFAULTS

    name = settings.get("machine", DEFAULTS["machine"])
    changes = {key: value for key, value in settings.items() if key.startswith("machine.")}
    if not changes:
        return name
    from scmsim.mmu.presets import read

    table = read(name)
    for key, value in changes.items():
        _, part, field = key.split(".")
        arrays = {entry["name"]: entry for entry in table["tlb"]}
        place = table["walk"] if part == "walk" else arrays.get(part)
        if place is None:
            raise unknown(f"TLB array of {name}", part, [*arrays, "walk"])
        place[field] = value
    table["summary"] = " ".join([name, *(f"{key.removeprefix('machine.')}={value}" for key, value in changes.items())])
    return table
