"""Write the file that an artifact's command runs: an experiment from a replay's manifest, a sweep from its points.

Every file that the run reads is copied into the artifact, under a name without folders.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scmsim.core import params
from scmsim.core.errors import UsageError
from scmsim.result.provenance import digest
from scmsim.result.run import SURROUNDINGS

EXPERIMENT, SWEEP, INPUTS, COSTS = "experiment.toml", "sweep.toml", "inputs", "costs"
_COMBINED = ("machine", "paging", "medium")


class Inputs:
    """Files that a run reads, each of which is copied once into a folder of the artifact.

    `root` is the artifact's folder.  `known` has the digests of files at the time of the run (the manifest's `inputs`); a file
    that has changed since then is refused.
    """

    def __init__(self, root: pathlib.Path, known: Mapping[str, Any]) -> None:
        self.root, self.known = root, known
        self.copies: dict[str, str] = {}

    def take(self, path: str, folder: str = INPUTS) -> str:
        """Copy a file unless it was copied before; return its name in the artifact."""
        source = os.path.abspath(path)
        if source not in self.copies:
            if not os.path.isfile(source):
                raise UsageError(
                    f"no file {path!r}, which the result was computed from; go to the folder where its command ran, or run it again"
                )
            if path in self.known and digest(source) != self.known[path]:
                raise UsageError(f"{path!r} has changed since the result was computed; run the command again")
            name = pathlib.PurePosixPath(folder, self._free(folder, os.path.basename(source)))
            (self.root / folder).mkdir(exist_ok=True)
            shutil.copyfile(source, self.root / name)
            self.copies[source] = str(name)
        return self.copies[source]

    def _free(self, folder: str, name: str) -> str:
        """Return the name, with a number added if another file has the name."""
        stem, suffix = os.path.splitext(name)
        others = set(self.copies.values())
        numbered = (f"{stem}-{i}{suffix}" for i in itertools.count(2))
        return next(one for one in itertools.chain([name], numbered) if f"{folder}/{one}" not in others)


def experiment(replays: Sequence[Mapping[str, Any]], inputs: Inputs) -> str:
    """Return the experiment that repeats the replays of one command (a manifest's `replays`).

    Raises UsageError for replays that one experiment cannot express.
    """
    first = replays[0]
    chosen = {kind: list(dict.fromkeys(_name(one[kind], kind) for one in replays)) for kind in _COMBINED}
    common = [{key: value for key, value in one.items() if key not in (*_COMBINED, "params")} for one in replays]
    wanted = [dict(zip(_COMBINED, names, strict=True)) for names in itertools.product(*chosen.values())]
    if any(one != common[0] for one in common) or [{k: one[k] for k in _COMBINED} for one in replays] != wanted:
        raise UsageError(
            "this result joins several replays that one experiment cannot express; make an artifact of each"
        )
    table: dict[str, Any] = {"fs": list(first["fs"])}
    if first.get("trace"):
        table["trace"] = inputs.take(first["trace"])
    chosen["machine"] = [_file(name, inputs) for name in chosen["machine"]]
    table |= {kind: names if len(names) > 1 else names[0] for kind, names in chosen.items() if names != [None]}
    around = {key: first[key] for key in SURROUNDINGS if first.get(key) is not None}
    if "system" in around:
        around["system"] = _file(around["system"], inputs)
    if "meminfo" in around:
        around["meminfo"] = inputs.take(os.fspath(around["meminfo"]))
    table |= {**around, "by": first["by"], "sync_at_end": first["sync_at_end"]}
    parts = [toml(table)]
    if not first.get("trace"):
        parts.append("[workload]\n" + toml(_workload(first.get("workload"), inputs)))
    settings: dict[str, Any] = {}
    for one in replays:
        settings |= one["params"]
    parts += [f"[set.{_key(name)}]\n" + toml(given) for name, given in settings.items() if given]
    return "\n".join(parts)


def sweep(points: Sequence[Mapping[str, Any]], inputs: Inputs) -> str:
    """Return the sweep of these points, as a list."""
    packed = [{key: _setting(key, value, inputs) for key, value in one.items()} for one in points]
    same = {key: value for key, value in packed[0].items() if all(one.get(key) == value for one in packed)}
    parts = ['mode = "list"\n', "[fixed]\n" + toml(same)]
    return "\n".join(
        [*parts, *("[[point]]\n" + toml({k: v for k, v in one.items() if k not in same}) for one in packed)]
    )


def toml(table: Mapping[str, Any]) -> str:
    """Return the lines of a TOML table whose values are plain values or lists of plain values."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _value(value: Any) -> str:
    """Return a value as TOML text; TOML writes strings, integers and booleans as JSON does."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _name(value: Any, kind: str) -> Any:
    if isinstance(value, Mapping):
        raise UsageError(f"the result's {kind} was a table of Python; write it to a .toml file, and replay with that")
    return value


def _file(name: str, inputs: Inputs) -> str:
    """Return a plug-in's name; a user's TOML file is copied."""
    return inputs.take(name) if str(name).endswith(".toml") else name


def _workload(header: Any, inputs: Inputs) -> dict[str, Any]:
    """Return the [workload] table of a workload's header, with its files copied."""
    if not isinstance(header, Mapping) or "kind" not in header:
        raise UsageError(
            "the result does not record its trace or workload; replay a stored trace or a bundled workload"
        )
    units = {name: unit for name, (_, unit, _) in params.declared("workload", header["kind"]).items()}
    given = {key: value for key, value in header.items() if key == "kind" or key in units}
    return {key: inputs.take(value) if value and units.get(key) == "file" else value for key, value in given.items()}


def _setting(key: str, value: Any, inputs: Inputs) -> Any:
    """Return a setting of a sweep's point; files are copied."""
    if key in ("trace", "meminfo") or (key in ("machine", "system") and str(value).endswith(".toml")):
        return inputs.take(value)
    return value
