"""Tabulate the extents of a model's files (file offset -> device offset), and of the free space.

Unit: bytes.  A row's `file` is the object id in the trace's table of files; -1 for free space, which has no path.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scmsim.core.atomic import whole
from scmsim.core.errors import UsageError

if TYPE_CHECKING:
    import pandas

    from scmsim.fs.engine.model import Model

COLUMNS = ("file", "path", "logical", "physical", "length", "unwritten")
SUFFIXES = (".csv", ".parquet")


def extents(model: "Model") -> "pandas.DataFrame":
    """Return the extents of every file of a model, then its free extents, one per row, with the columns COLUMNS.

    Raises UsageError if the model does not keep the places of pages on the device.
    """
    found = model.extents()
    if found is None:
        raise UsageError(without(model.fs))
    return frame(found, model.paths)


def without(fs: str) -> str:
    """Return the error text for a file system without extents."""
    return f"{fs}: the model does not keep the places of its files' pages on the device, so it has no extents; leave it out"


def frame(found: Any, paths: Any) -> "pandas.DataFrame":
    """Return extents (`scmsim.fs.engine.extents.EXTENT`) as a table, with the paths of the files."""
    import pandas as pd

    table = pd.DataFrame({name: found[name] for name in found.dtype.names})
    table.insert(1, "path", [paths[file] if file >= 0 else "" for file in found["file"].tolist()])
    return table[list(COLUMNS)]


def write(tables: "Mapping[str, pandas.DataFrame]", path: str | os.PathLike[str]) -> None:
    """Write tables of extents by model as CSV or Parquet, by suffix; several tables get a column `model`."""
    import pandas as pd

    if len(tables) > 1:
        named = [table.assign(model=name)[["model", *COLUMNS]] for name, table in tables.items()]
        table = pd.concat(named, ignore_index=True)
    else:
        table = next(iter(tables.values()))
    with whole(path) as draft:
        if draft.suffix == ".csv":
            table.to_csv(draft, index=False)
        else:
            table.to_parquet(draft, index=False)
