"""Finished cells on disk: one file each, written atomically, so that a killed run can be resumed.

`matrix` says what the cells depend on; a folder holds cells of one matrix.  A lock keeps a second run out; the kernel
drops it with the process, however that ends.
"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.perf.matrix import Cell
from scmsim.perf.stat import TEMPORARY
from scmsim.perf.workload import NAME

FORMAT = 1
_MAX_CELL = 1 << 20  # bytes; a real one is about 2 KiB


class Store:
    """The folder of one matrix; make it with `opened`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.cells = folder / "cells"

    def finished(self) -> set[str]:
        """Keys of the finished cells."""
        return {name.removesuffix(".json") for name in os.listdir(self.cells) if name.endswith(".json")}

    def save(self, cell: Cell, record: dict[str, Any]) -> None:
        """Store a finished cell atomically; raises EnvironmentProblem where the disk does not take it."""
        write_whole(self.cells / f"{cell.key}.json", json.dumps({"cell": cell._asdict(), **record}))

    def load(self, key: str) -> dict[str, Any]:
        """A finished cell; raises UsageError if the file is not one of ours."""
        path = self.cells / f"{key}.json"
        try:
            with path.open("rb") as file:
                record = json.loads(file.read(_MAX_CELL))
            if Cell(**record["cell"]).key != key:
                raise ValueError("it is another cell's")
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(f"{str(path)!r} is not a finished cell ({error}); remove it and run again") from None
        found: dict[str, Any] = record
        return found


@contextlib.contextmanager
def opened(folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> Iterator[Store]:
    """Make or continue the folder of a matrix, locked.

    Parameters
    ----------
    identity : mapping
        What the cells depend on; a folder holds cells of one identity.

    Raises
    ------
    UsageError
        If the folder holds something else, or another matrix.
    EnvironmentProblem
        If it cannot be written, or another run uses it.
    """
    path = pathlib.Path(folder)
    check(path, identity)
    store, fresh = Store(path), not path.exists()
    try:
        store.cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    with locked(path):
        _sweep(store)
        if not (path / "matrix").exists():
            write_whole(path / "matrix", json.dumps({"format": FORMAT, "matrix": identity}, indent=2))
        try:
            yield store
        except BaseException:
            if fresh and not store.finished():
                shutil.rmtree(path, ignore_errors=True)  # a run that failed at the start leaves nothing
            raise


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Hold the lock of an output folder; raises EnvironmentProblem if another run does."""
    try:
        lock = open(path / "lock", "wb")  # noqa: SIM115 - held until the end
    except OSError as error:
        raise unwritable(path, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentProblem(f"another run uses {str(path)!r}; wait for it, or choose another -o") from None
        yield


def _sweep(store: Store) -> None:
    """Remove what a run that was killed left."""
    for part in [*store.cells.glob(".*.part"), *store.folder.glob(".*.part"), store.folder / NAME]:
        part.unlink(missing_ok=True)
    for folder in store.folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(folder, ignore_errors=True)


def check(path: pathlib.Path, identity: Mapping[str, Any]) -> None:
    """Raise UsageError if the folder cannot be that of the matrix."""
    if not path.exists():
        if not path.absolute().parent.is_dir():
            raise UsageError(f"no folder {str(path.absolute().parent)!r} to make {path.name!r} in; make it first")
        return
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder; give -o the name of a new folder")
    try:
        stored = json.loads((path / "matrix").read_bytes())
    except FileNotFoundError:
        if any(name not in ("cells", "lock") for name in os.listdir(path)):
            raise UsageError(f"{str(path)!r} is not empty; give -o the name of a new folder") from None
        return
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path / 'matrix.json')!r} cannot be read: {error}; choose another -o") from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or not isinstance(stored.get("matrix"), dict):
        raise UsageError(f"{str(path)!r} was made by another version of scmsim; choose another -o")
    mine = json.loads(json.dumps(identity))
    changed = [key for key in mine if stored["matrix"].get(key) != mine[key]]
    if changed:
        raise UsageError(
            f"{str(path)!r} holds another matrix ({', '.join(changed)} differ); choose another -o, or go on with the old file"
        )


def check_space(path: pathlib.Path, needed: int) -> None:
    """Raise EnvironmentProblem unless the output folder (or where it will be) has `needed` bytes free."""
    at = path if path.is_dir() else path.absolute().parent
    if not at.is_dir():
        return  # `check` says so
    about = os.statvfs(at)
    free = about.f_bavail * about.f_frsize
    if free < needed:
        unit, shift = ("KiB", 10) if needed < 10 << 20 else ("MiB", 20)
        raise EnvironmentProblem(
            f"{str(path)!r} has {free >> shift:,} {unit} free, the results need {-(-needed >> shift):,} {unit}; "
            "choose another -o, or free some"
        )


def write_whole(path: pathlib.Path, text: str) -> None:
    """Write a file atomically; raises EnvironmentProblem."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise unwritable(path.parent, error) from None


def unwritable(path: pathlib.Path, error: OSError) -> EnvironmentProblem:
    """The output folder failed: full, read-only, not ours."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space and run the same command again" if full else "choose another -o"
    return EnvironmentProblem(f"cannot write {str(path)!r}: {(error.strerror or str(error)).lower()}; {hint}")
