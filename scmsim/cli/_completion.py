"""Complete values of parameters in a shell.

Parameters are recognised by their names, so a new command gets completion without code of its own.  No plug-in is imported: names
of plug-ins are names of files, and their parameters are literals in these files.
"""

import os
import pathlib
from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from scmsim.core import registry
from scmsim.core.errors import ScmsimError

_CONFIGS = (pathlib.Path(__file__).parents[1] / "_configs", pathlib.Path(__file__).parents[2] / "configs")
_JOBS = pathlib.Path(__file__).parents[1] / "lab" / "jobs"
_KINDS = (
    "fs",
    "machine",
    "paging",
    "medium",
    "system",
    "policy",
    "backend",
    "format",
)  # options that take names of plug-ins; an option is named after the kind of its plug-ins
_LISTS = ("fs", "machine", "paging", "medium", "policy")  # options that take several names, separated by commas
_SET = ("fs", "paging", "policy")  # kinds whose parameters --set accepts
_PREFIXES = {"perf run": "perf-", "sweep": "sweep-"}  # command -> prefix of its bundled configurations
_CONFIGURED = ("advise", "amplify", "check", "crash", "replay", "space", *_PREFIXES)
Found = Iterable[tuple[str, str]]  # pairs (value, description)


def attach(command: click.Command, path: str) -> click.Command:
    """Add completion to the parameters of a command; `path` is its name after `scmsim`, such as "perf run"."""
    for param in command.params:
        finder = _finder(param, path)
        if finder and isinstance(param.type, click.types.StringParamType | click.Path):
            param.type = _Values(finder)
    for name, child in getattr(command, "commands", {}).items():
        attach(child, f"{path} {name}")
    return command


def _finder(param: click.Parameter, path: str) -> Callable[[str], Found] | None:
    """Return the function that completes a parameter, by the parameter's name on the command line."""
    first = param.opts[0].lstrip("-")
    if isinstance(param, click.Argument):
        if first in ("trace", "config", "file") and path in _CONFIGURED:
            return lambda text: _configurations(_PREFIXES.get(path, ""), text, every=path == "check")
        return {"reproduce": _documents, "lab run": _jobs}.get(path)
    choices = (param.metavar or "").strip("[]").split("|")
    if len(choices) > 1:
        return lambda text: [(each, "") for each in choices if each.startswith(text)]
    if first == "set":
        return _assignments if "." in (param.metavar or "") else None
    if first not in _KINDS or path == "perf setup":  # `perf setup` supports only a few file systems
        return None
    kind = "capture" if (path, first) == ("capture", "backend") else first
    return lambda text: _listed(kind, text)


def _plugins(kind: str, text: str) -> Found:
    return [(name, _summary(kind, name)) for name in registry.names(kind) if name.startswith(text)]


def _summary(kind: str, name: str) -> str:
    return str(registry.literals(kind, name).get("SUMMARY", ""))


def _listed(kind: str, text: str) -> Found:
    """Complete the name after the last comma; leave out names that are already given."""
    front, comma, last = text.rpartition(",") if kind in _LISTS else ("", "", text)
    given = front.split(",")
    return [(f"{front}{comma}{name}", about) for name, about in _plugins(kind, last) if name not in given]


def _assignments(text: str) -> Found:
    """Complete the text of --set: first the model (MODEL.), then its parameter (MODEL.KEY=)."""
    model, dot, key = text.partition(".")
    if not dot:
        return [(f"{name}.", about) for kind in _SET for name, about in _plugins(kind, text)]
    declared = (registry.literals(kind, model).get("PARAMS", {}) for kind in _SET if model in registry.names(kind))
    params = {name: about for table in declared for name, about in table.items()}
    name, equals, value = key.partition("=")
    if equals and name in params:
        choices = params[name][1].split("|") if "|" in params[name][1] else []
        return [(f"{model}.{name}={choice}", "") for choice in choices if choice.startswith(value)]
    return [(f"{model}.{name}=", str(about[2])) for name, about in params.items() if name.startswith(key)]


def _configurations(prefix: str, text: str, every: bool = False) -> Found:
    """Return bundled experiments (or sweeps, matrices), then matching files."""
    shipped = {path.stem for folder in _CONFIGS for path in folder.glob("*.toml")}
    special = tuple(_PREFIXES.values())
    wanted = {
        name for name in shipped if every or (name.startswith(prefix) if prefix else not name.startswith(special))
    }
    return [(name, "") for name in sorted(wanted) if name.startswith(text)] + _files(text)


def _files(text: str) -> list[tuple[str, str]]:
    folder, start = os.path.split(text)
    try:
        found = sorted(entry.name + "/" * entry.is_dir() for entry in os.scandir(folder or "."))
    except OSError:
        return []
    return [(os.path.join(folder, name), "") for name in found if name.startswith(start) and (start or name[0] != ".")]


def _jobs(text: str) -> Found:
    shipped = sorted(path.stem for path in _JOBS.glob("*.toml"))
    return [*((name, "") for name in shipped if name.startswith(text)), *_files(text)]


def _documents(text: str) -> Found:
    from scmsim.reproduce.rows import DOCUMENTS, published

    return [(name, "") for name in [*DOCUMENTS, *(row.id for row in published())] if name.startswith(text)]


class _Values(click.types.StringParamType):
    """A text parameter with values to complete; other text is accepted, too, and checked by the command."""

    def __init__(self, finder: Callable[[str], Found]) -> None:
        self.finder = finder

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(value, help=about or None) for value, about in self.finder(incomplete)]
        except ScmsimError:  # an invalid folder of plug-ins: the command itself reports the error
            return []
