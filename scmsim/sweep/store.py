"""Store finished points on disk (see `scmsim.core.resumable`), and gather them in a data set."""

import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from scmsim.core import resumable
from scmsim.core.atomic import whole
from scmsim.core.resumable import Folder, Kind
from scmsim.sweep.point import Settings

RESULTS, FAILED = "results.parquet", "failed.json"
SWEEP = Kind("sweep", "point")


def opened(folder: str | os.PathLike[str]) -> AbstractContextManager[Folder]:
    """Create or resume the folder of a sweep, and lock it; raises the same errors as `resumable.opened`.

    A folder may hold points of several versions of a sweep, because points are identified by their content.
    """
    return resumable.opened(folder, SWEEP, {})


def check(path: pathlib.Path) -> set[str]:
    """Return the keys of the points in the folder; raise UsageError if it is not a sweep's folder."""
    resumable.check(path, SWEEP, {})
    return Folder(path, SWEEP).finished()


def save(folder: Folder, key: str, settings: Settings, row: Mapping[str, Any]) -> None:
    """Store a finished point."""
    folder.save(key, {"point": settings, "row": row})


def gather(folder: Folder, keys: Sequence[str], failed: Mapping[str, str]) -> tuple[pathlib.Path, int]:
    """Write the rows of `keys`, in that order, as one Parquet file, and the failures as JSON in the same folder.

    Returns (path of the table, number of rows with warnings).
    """
    import pyarrow
    import pyarrow.parquet

    done = folder.finished()
    rows = [{"point": key, **folder.load(key, _row)} for key in keys if key in done]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    with whole(folder.path / RESULTS) as draft:
        pyarrow.parquet.write_table(pyarrow.table(columns), draft, compression="zstd")
    resumable.write(folder.path / FAILED, json.dumps(dict(failed), indent=2))
    return folder.path / RESULTS, sum(bool(row.get("warnings")) for row in rows)


def _row(found: dict[str, Any]) -> dict[str, Any]:
    return {**found["point"], **found["row"]}


def _column(values: list[Any]) -> Any:
    """Return a column of one type: text if a parameter is text in some points and a number in others."""
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        values = [None if value is None else str(value) for value in values]
    elif kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    return pyarrow.array(values)
