"""The name of a trace to write.  Apart from the store, so that a capture can ask before NumPy is loaded."""

import os
import pathlib

from scmsim.core.atomic import writable
from scmsim.core.errors import UsageError

SUFFIX = ".parquet"
MAGIC = b"PAR1"


def trace_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """The path of a trace that may be written there, links followed.

    Raises
    ------
    UsageError
        What `writable` refuses; a name that ends like another kind of file, or that of another kind of file.
    """
    target = writable(path)
    if target.suffix.lower() not in ("", SUFFIX):
        raise UsageError(f"{os.fspath(path)!r}: a trace is a Parquet file; end its name in {SUFFIX}")
    if not target.suffix and target.exists() and target.stat().st_size and not _is_parquet(target):
        raise UsageError(
            f"{os.fspath(path)!r} is there and is no trace; give the trace another name, like {path}{SUFFIX}"
        )
    return target


def _is_parquet(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
