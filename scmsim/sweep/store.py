"""Finished points on disk, one atomic file each, and the data set that they make up."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.perf.cells import locked, unwritable, write_whole
from scmsim.sweep.point import FORMAT, Settings

RESULTS, FAILED, MARK = "results.parquet", "failed.json", "sweep"
_MOST = 1 << 24  # bytes of a point's file


class Store:
    """The folder of a sweep; make it with `opened`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.points = folder, folder / "points"

    def finished(self) -> set[str]:
        """Keys of the finished points."""
        return {name.removesuffix(".json") for name in os.listdir(self.points) if name.endswith(".json")}

    def save(self, key: str, settings: Settings, row: Mapping[str, Any]) -> None:
        """Store a finished point atomically."""
        write_whole(self.points / f"{key}.json", json.dumps({"point": settings, "row": row}, default=_plain))

    def load(self, key: str) -> dict[str, Any]:
        """Settings and row of a finished point as one row."""
        path = self.points / f"{key}.json"
        try:
            with path.open("rb") as file:
                found = json.loads(file.read(_MOST))
            return {"point": key, **found["point"], **found["row"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{str(path)!r} is not a finished point ({error}); remove it and run again") from None

    def gather(self, keys: Sequence[str], failed: Mapping[str, str]) -> pathlib.Path:
        """Write the rows of `keys`, in that order, as one Parquet file, and the failures beside it; returns its path."""
        import pyarrow
        import pyarrow.parquet

        done = self.finished()
        rows = [self.load(key) for key in keys if key in done]
        names = list(dict.fromkeys(name for row in rows for name in row))
        columns = {name: _column([row.get(name) for row in rows]) for name in names}
        path, part = self.folder / RESULTS, self.folder / f".{RESULTS}.part"
        try:
            pyarrow.parquet.write_table(pyarrow.table(columns), part, compression="zstd")
            os.replace(part, path)
        except OSError as error:
            raise unwritable(self.folder, error) from None
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        write_whole(self.folder / FAILED, json.dumps(dict(failed), indent=2))
        return path


@contextlib.contextmanager
def opened(folder: str | os.PathLike[str]) -> Iterator[Store]:
    """Make or continue the folder of a sweep, locked; raises UsageError if it holds something else.

    A folder may hold points of several versions of a sweep: each knows its points by their content.
    """
    path = pathlib.Path(folder)
    check(path)
    store = Store(path)
    try:
        store.points.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from None
    with locked(path):
        for part in [*store.points.glob(".*.part"), *path.glob(".*.part")]:
            part.unlink(missing_ok=True)
        if not (path / MARK).exists():
            write_whole(path / MARK, json.dumps({"format": FORMAT}))
        yield store


def check(path: pathlib.Path) -> set[str]:
    """Keys of the points that the folder holds; raises UsageError if it cannot be a sweep's."""
    if not path.exists():
        if not path.absolute().parent.is_dir():
            raise UsageError(f"no folder {str(path.absolute().parent)!r} to make {path.name!r} in; make it first")
        return set()
    if not path.is_dir():
        raise UsageError(f"{str(path)!r} is not a folder; give -o the name of a new folder")
    if not (path / MARK).exists() and any(name not in ("points", "lock") for name in os.listdir(path)):
        raise UsageError(f"{str(path)!r} is not empty and not of a sweep; give -o the name of a new folder")
    return Store(path).finished() if (path / "points").is_dir() else set()


def _column(values: list[Any]) -> Any:
    """A column of one type: text where a parameter is text in some points and a number in others."""
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        values = [None if value is None else str(value) for value in values]
    elif kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    return pyarrow.array(values)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no place in a point")
