"""Store and load the finished cells of a matrix (see `scmsim.core.resumable`)."""

import os
import pathlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from scmsim.core import resumable
from scmsim.core.errors import EnvironmentProblem
from scmsim.core.resumable import Folder, Kind
from scmsim.perf.matrix import Cell
from scmsim.perf.stat import TEMPORARY
from scmsim.perf.workload import NAME

MATRIX = Kind("matrix", "cell", (NAME, f"{TEMPORARY}*"))


def opened(folder: str | os.PathLike[str], identity: Mapping[str, Any]) -> AbstractContextManager[Folder]:
    """Create or resume the folder of a matrix, and lock it; raises the same errors as `resumable.opened`."""
    return resumable.opened(folder, MATRIX, identity)


def save(folder: Folder, cell: Cell, record: Mapping[str, Any]) -> None:
    """Store a finished cell."""
    folder.save(cell.key, {"cell": cell._asdict(), **record})


def load(folder: Folder, key: str) -> dict[str, Any]:
    """Return a finished cell; raises UsageError if the file is not a finished cell."""

    def of(record: dict[str, Any]) -> dict[str, Any]:
        if Cell(**record["cell"]).key != key:
            raise ValueError("the record is of another cell")
        return record

    return folder.load(key, of)


def check(path: pathlib.Path, identity: Mapping[str, Any]) -> None:
    """Raise UsageError if the folder cannot be the matrix's folder."""
    resumable.check(path, MATRIX, identity)


def check_space(path: pathlib.Path, needed: int) -> None:
    """Raise EnvironmentProblem unless the output folder, or the folder in which it will be made, has `needed` bytes free."""
    at = path if path.is_dir() else path.absolute().parent
    if not at.is_dir():
        return  # `check` reports a missing folder
    about = os.statvfs(at)
    free = about.f_bavail * about.f_frsize
    if free < needed:
        unit, shift = ("KiB", 10) if needed < 10 << 20 else ("MiB", 20)
        raise EnvironmentProblem(
            f"{str(path)!r} has {free >> shift:,} {unit} free, the results need {-(-needed >> shift):,} {unit}; "
            "give -o the name of a folder on another device, or free some space"
        )
