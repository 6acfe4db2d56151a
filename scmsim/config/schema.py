"""Define the rules by which an experiment file is checked."""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from scmsim import cache
from scmsim.core import params, registry
from scmsim.core.atomic import protect
from scmsim.core.errors import UsageError
from scmsim.core.schema import Mistakes, Rule, both, flag, one_of, one_or_several, table, text
from scmsim.paging._choice import wanted
from scmsim.result import SUFFIXES, is_result

_WITH_PARAMS = ("fs", "paging")  # kinds of model whose parameters [set.NAME] can set
_SET = "file system or paging policy"


def rule(folder: pathlib.Path) -> Rule:
    """Return the rule for an experiment whose paths are relative to `folder`."""
    return both(table(keys(folder), {"fs": f"choose from {', '.join(registry.names('fs'))}"}), _together)


def keys(folder: pathlib.Path) -> dict[str, Rule]:
    """Return the keys of an experiment, each with its rule."""
    existing = functools.partial(_existing, folder)
    return {
        "fs": one_or_several(plugin("fs")),
        "machine": one_or_several(lambda value: _name_or_file("machine", value, existing)),
        "paging": one_or_several(plugin("paging")),
        "medium": one_or_several(plugin("medium")),
        "kernel": functools.partial(version, "kernel"),
        "footprints": functools.partial(version, "footprints"),
        "meminfo": lambda value: str(existing(value)),
        "system": lambda value: _name_or_file("system", value, existing),
        "caches": one_of("setting of caches", cache.SETTINGS),
        "trace": existing,
        "workload": functools.partial(_workload, folder),
        "by": one_of("breakdown", ("site", "op", "file")),
        "sync_at_end": flag,
        "set": _settings,
        "out": functools.partial(_output, folder),
        "summary": text,
    }


def plugin(kind: str) -> Rule:
    """Return the rule for the name of a plug-in of this kind."""

    def checked(value: Any) -> str:
        registry.path(kind, text(value))
        return str(value)

    return checked


def _existing(folder: pathlib.Path, value: Any) -> pathlib.Path:
    path = pathlib.Path(os.path.normpath(folder / text(value)))
    if not os.path.isfile(path):  # False for a name that is too long, where Path.is_file raises OSError
        raise UsageError(f"no file {value!r} relative to the experiment (looked at {str(path)!r}); correct the path")
    protect(path)
    return path


def version(key: str, value: Any) -> str:
    """Check that costs (key "kernel") or footprints exist for `value`, a version of Linux; return `value`."""
    from scmsim.pipeline import arguments, kernels

    (kernels.check if key == "kernel" else arguments.check_footprints)(text(value))
    return str(value)


def _name_or_file(kind: str, value: Any, existing: Callable[[Any], pathlib.Path]) -> str:
    """Return the name of a machine or system, or the path of the user's TOML file."""
    return str(existing(value)) if str(value).endswith(".toml") else str(plugin(kind)(value))


def _output(folder: pathlib.Path, value: Any) -> pathlib.Path:
    """Return the path of a result, which must be in the experiment's or the current folder and may only replace a result.

    An experiment may come from a stranger, so it must not write to any other place.
    """
    path = pathlib.Path(os.path.normpath(folder / text(value)))
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{value!r} must end in {', '.join(SUFFIXES)}")
    real = pathlib.Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(place)) for place in (folder, ".")):
        raise UsageError(
            f"{value!r} is neither below the experiment's folder nor below the current folder; name a file there, or "
            "leave this key out and give -o"
        )
    if os.path.lexists(path) and not is_result(path):
        raise UsageError(f"{str(path)!r} exists and is not a result of scmsim; name another file, or remove this file")
    return path


def _workload(folder: pathlib.Path, value: Any) -> dict[str, Any]:
    """Check the [workload] table, `kind` and its parameters, and return it; files are relative to the experiment."""
    kinds = ", ".join(registry.names("workload"))
    if not isinstance(value, dict):
        raise UsageError(f"must be a table: [workload] with kind = one of {kinds}")
    if "kind" not in value:
        raise UsageError(f"needs kind = one of {kinds}")
    kind = plugin("workload")(value["kind"])
    found = params.table("workload", kind)({key: inner for key, inner in value.items() if key != "kind"})
    for name, (_, unit, _) in params.declared("workload", kind).items():
        if unit == "file" and found.get(name):
            found[name] = str(folder / found[name])
    return {"kind": kind, **found}


def _settings(value: Any) -> dict[str, dict[str, int | str]]:
    """Check the [set.NAME] tables and return them."""
    if not isinstance(value, dict):
        raise UsageError(f"must be tables: [set.NAME] with parameters of the {_SET} NAME")
    mistakes = Mistakes()
    found = {name: mistakes.take((name,), functools.partial(_set, name), given) for name, given in value.items()}
    mistakes.done()
    return found


def _set(name: str, given: Any) -> Any:
    return params.table(params.owner(name, _WITH_PARAMS, _SET), name)(given)


def _together(given: Mapping[str, Any]) -> None:
    """Check the rules that involve several keys."""
    mistakes = Mistakes()
    if ("trace" in given) == ("workload" in given):
        rule = 'give either trace = "FILE" or [workload] with a kind, and not both'
        mistakes.note(("workload",) if "workload" in given else (), rule)
    used = [name for kind in _WITH_PARAMS for name in _as_list(given.get(kind))]
    used += [wanted(name) for name in _as_list(given.get("fs")) if name in registry.names("fs")]  # default paging
    for name in given["set"] if isinstance(given.get("set"), dict) else ():
        if name not in used and any(name in registry.names(kind) for kind in _WITH_PARAMS):
            rule = f"{name!r} is not used here; add it to fs or paging, or drop this table"
            mistakes.note(("set", name), rule)
    mistakes.done()


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
