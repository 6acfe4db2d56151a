"""Manage the folder that a long job fills with results, one atomic file per piece, so that the same command resumes the job.

A marker file records what the pieces depend on.  A lock excludes a second run; the kernel releases it when the process ends.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from scmsim.core.atomic import unwritten, whole
from scmsim.core.errors import EnvironmentProblem, UsageError

FORMAT = 1
_MOST = 1 << 28  # maximum bytes of a piece
_LOCK = "lock"
Kept = TypeVar("Kept")


class Kind(NamedTuple):
    """Kind of job that fills a folder.

    Attributes
    ----------
    name : str
        Name of the job and of its marker file.
    piece : str
        Name of a piece; its plural is the folder of all pieces: "cell", "cells".
    leftovers : tuple of str
        Patterns of files that a killed run may leave.
    """

    name: str
    piece: str
    leftovers: tuple[str, ...] = ()


class Folder:
    """Folder of one job; create it with `opened`."""

    def __init__(self, path: pathlib.Path, kind: Kind) -> None:
        self.path, self.kind, self.pieces = path, kind, path / f"{kind.piece}s"

    def finished(self) -> set[str]:
        """Return the keys of the finished pieces."""
        names = os.listdir(self.pieces) if self.pieces.is_dir() else []
        return {name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")}

    def save(self, key: str, record: Mapping[str, Any]) -> None:
        """Store a finished piece; raises EnvironmentProblem if the disk is full or broken."""
        write(self.pieces / f"{key}.json", json.dumps(record, default=_plain))

    def load(self, key: str, of: Callable[[dict[str, Any]], Kept]) -> Kept:
        """Load a finished piece and return `of(piece)`; raises UsageError if the file is not a finished piece."""
        path = self.pieces / f"{key}.json"
        try:
            with path.open("rb") as file:
                return of(json.loads(file.read(_MOST)))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{str(path)!r} is not a finished {self.kind.piece} ({error}); remove it and run again"
            ) from None

    def sweep(self) -> None:
        """Remove the leftovers of a run that was killed."""
        for pattern in (".[0-9]*", *self.kind.leftovers):
            for left in [*self.pieces.glob(pattern), *self.path.glob(pattern)]:
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], kind: Kind, identity: Mapping[str, Any]) -> Iterator[Folder]:
    """Create or resume the folder of a job, and keep it locked while the block runs.

    Parameters
    ----------
    identity : mapping
        Settings that the pieces depend on; all pieces of a folder have the same identity.

    Raises
    ------
    UsageError
        If the folder holds something else, belongs to another identity, or cannot be written.
    EnvironmentProblem
        If the disk is full or broken, or another run uses the folder.
    """
    folder = Folder(pathlib.Path(path), kind)
    check(folder.path, kind, identity)
    fresh = not folder.path.exists()
    try:
        folder.pieces.mkdir(parents=True, exist_ok=True)
        lock = open(folder.path / _LOCK, "wb")  # noqa: SIM115 - held until the end
    except OSError as error:
        raise unwritten(path, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentProblem(
                f"another run uses {str(path)!r}; wait for it, or give -o the name of another folder"
            ) from None
        folder.sweep()
        if not (folder.path / kind.name).exists():
            write(folder.path / kind.name, json.dumps({"format": FORMAT, kind.name: identity}, indent=2))
        try:
            yield folder
        except BaseException:
            if fresh and not folder.finished():
                shutil.rmtree(folder.path, ignore_errors=True)  # a run that failed at the start leaves nothing
            raise


def check(path: pathlib.Path, kind: Kind, identity: Mapping[str, Any]) -> None:
    """Raise UsageError if the folder cannot be the job's folder."""
    if not path.exists():
        if not path.absolute().parent.is_dir():
            raise UsageError(f"no folder {str(path.absolute().parent)!r} to make {path.name!r} in; make it first")
        return
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder; give -o the name of a new folder")
    try:
        stored = json.loads((path / kind.name).read_bytes())
    except FileNotFoundError:
        if any(name not in (f"{kind.piece}s", _LOCK) for name in os.listdir(path)):
            raise UsageError(
                f"{str(path)!r} is not empty and is not the folder of a {kind.name}; give -o the name of a new folder"
            ) from None
        return
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{str(path / kind.name)!r} cannot be read: {error}; give -o the name of a new folder"
        ) from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise UsageError(f"{str(path)!r} was made by another version of scmsim; give -o the name of a new folder")
    theirs, mine = stored.get(kind.name, {}), json.loads(json.dumps(identity))
    changed = [key for key in mine if not isinstance(theirs, dict) or theirs.get(key) != mine[key]]
    if changed:
        raise UsageError(
            f"{str(path)!r} holds another {kind.name} ({', '.join(changed)} differ); "
            "give -o the name of a new folder, or go on with the old file"
        )


def write(path: pathlib.Path, content: str) -> None:
    """Write a text atomically."""
    with whole(path) as draft:
        draft.write_text(content, encoding="utf-8")


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON in a piece of a result")
