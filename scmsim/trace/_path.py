"""Check the name of a trace to write; separate from the store, so that a capture can check before NumPy is loaded."""

import os
import pathlib

from scmsim.core.atomic import writable
from scmsim.core.errors import UsageError

SUFFIX = ".parquet"
MAGIC = b"PAR1"


def trace_path(path: str | os.PathLike[str]) -> pathlib.Path:
    """Return the path, with links followed, after checking that a trace may be written to it.

    Raises UsageError if `writable` refuses the path, if its suffix belongs to another kind of file, or if an existing
    file at the path is not a trace.
    """
    target = writable(path)
    if target.suffix.lower() not in ("", SUFFIX):
        raise UsageError(f"{os.fspath(path)!r}: a trace is a Parquet file; end its name in {SUFFIX}")
    if not target.suffix and target.exists() and target.stat().st_size and not _is_parquet(target):
        raise UsageError(
            f"{os.fspath(path)!r} exists and is not a trace; give the trace another name, such as {path}{SUFFIX}"
        )
    return target


def _is_parquet(path: pathlib.Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC
