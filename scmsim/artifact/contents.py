"""Write and read an artifact's index (`artifact.json`) of sizes and SHA-256 digests, and find differences from it.

The index has a digest of itself, so that a changed byte in it is found too.  The digests detect accidents and edits of single
files; somebody who writes a new index can claim anything.
"""

import hashlib
import json
import os
import pathlib
from typing import Any, NamedTuple

from scmsim.core.errors import UsageError
from scmsim.result.provenance import digest

FORMAT = 1
INDEX = "artifact.json"
KINDS = ("replay", "sweep", "reproduce")
_MOST = 1 << 26  # maximum bytes of an index
_KEYS = {"format", "kind", "result", "made", "command", "claims", "files", "digest"}


class Changes(NamedTuple):
    """Files of a folder that are changed or missing according to its index, and files that the index does not name."""

    changed: list[str]
    missing: list[str]
    extra: list[str]

    @property
    def lines(self) -> list[str]:
        """Return one line for each changed or missing file."""
        return [*(f"changed: {name}" for name in self.changed), *(f"missing: {name}" for name in self.missing)]


def write_index(folder: pathlib.Path, index: dict[str, Any]) -> None:
    """Write the index of a folder whose other files are complete."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    whole = {"format": FORMAT, **index, "files": {name: digest(folder / name) for name in names}}
    text = json.dumps({**whole, "digest": _digest(whole)}, indent=1)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")


def read_index(folder: pathlib.Path) -> dict[str, Any]:
    """Return the checked index of an artifact; raise UsageError if the folder is not an artifact that this version reads."""
    where = repr(str(folder))
    if not folder.is_dir():
        raise UsageError(f"no folder {where}; give a folder that 'scmsim artifact make' wrote")
    try:
        with (folder / INDEX).open("rb") as file:
            index = json.loads(file.read(_MOST))
    except FileNotFoundError:
        raise UsageError(f"no {INDEX} in {where}; give a folder that 'scmsim artifact make' wrote") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{INDEX} in {where} is damaged ({error}); get the artifact again") from None
    if not isinstance(index, dict) or not isinstance(index.get("format"), int):
        raise UsageError(f"{INDEX} in {where} is not the index of an artifact; get the artifact again")
    if index["format"] != FORMAT:
        raise UsageError(
            f"{where} has format {index['format']}, this scmsim reads {FORMAT}; verify it with the version that its README names"
        )
    _check(index, where)
    return index


def _check(index: dict[str, Any], where: str) -> None:
    """Raise UsageError unless an index has every key, and names only files below its folder."""
    tables = ("made", "command", "claims", "files")
    sound = _KEYS <= index.keys() and index["kind"] in KINDS and all(isinstance(index[key], dict) for key in tables)
    names = [*index["files"], index["result"]] if sound else []
    sound = sound and all(map(_judged, index["claims"].values()))
    if not sound or index["result"] not in index["files"] or not all(map(_inside, names)):
        raise UsageError(f"{INDEX} in {where} is not the index of an artifact; get the artifact again")


def _judged(claim: Any) -> bool:
    """Return whether a claim is [basis, tolerance in percent]."""
    two = isinstance(claim, list) and len(claim) == 2
    return two and isinstance(claim[0], str) and isinstance(claim[1], int | float)


def _inside(name: Any) -> bool:
    """Return whether a name is a plain relative path that cannot leave the folder."""
    if not isinstance(name, str) or "\0" in name or name == INDEX:
        return False
    path = pathlib.PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def changes(folder: pathlib.Path, index: dict[str, Any]) -> Changes:
    """Return the files that differ from the index; a symbolic link in place of a file counts as a change."""
    changed, missing = [], []
    if index["digest"] != _digest({key: value for key, value in index.items() if key != "digest"}):
        changed.append(INDEX)
    for name, expected in index["files"].items():
        path = folder / name
        if not os.path.lexists(path):
            missing.append(name)
        elif _linked(folder, path) or not path.is_file() or digest(path) != expected:
            changed.append(name)
    known = {INDEX, *index["files"]}
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    return Changes(changed, missing, sorted(found - known))


def _linked(folder: pathlib.Path, path: pathlib.Path) -> bool:
    """Return whether the file, or a folder on the way to it, is a symbolic link."""
    return os.path.realpath(path) != os.path.join(os.path.realpath(folder), path.relative_to(folder))


def _digest(index: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()
