"""Importers: a file each, in the folder of its subject.

An importer has SUMMARY, `sniff(head, path)` and `convert(path, writer, *, strict, progress, under)`.
`convert` reads a file (a path or an opened `Input`) in one pass, appends batches to a `TraceWriter`, closes it with the
side table and returns a `Report`; `under` (a directory, or None) limits it to the files there.  What a format can be
told besides is in its PARAMS, as for a workload: name -> (default, unit, meaning), given to `convert` by name.
A format that can be written has `export(trace, path, *, progress, **params)` too, which returns a `Report`.
Names that begin with `_` are shared parts.
"""

import os
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.trace.reading.input import Input


def sniff_name(head: bytes, path: str | os.PathLike[str]) -> str | None:
    """Name of the format that recognises the first bytes of a file (decompressed), or None."""
    return next((name for name in registry.names("format") if registry.load("format", name).sniff(head, path)), None)


def sniff_file(path: str | os.PathLike[str]) -> str | None:
    """Name of the format that recognises a file, or None."""
    try:
        with Input(path) as given:
            return sniff_name(given.head, path)
    except UsageError:
        return None


def find(path: "str | os.PathLike[str] | Input", name: str | None = None) -> tuple[str, Any]:
    """The importer for a file: the named one, or the one that recognises the content."""
    if name is not None:
        return name, registry.load("format", name)
    if not isinstance(path, Input):
        with Input(path) as given:
            return find(given)
    if path.head[:4] == b"PAR1":
        raise UsageError(
            f"{path.path!r} is a Parquet file; if it is a trace, there is nothing to convert, unless --to names a format"
        )
    found = sniff_name(path.head, path.path)
    if not path.head:
        raise UsageError(f"{path.path!r} is empty; run the tracer again")
    if found is None:
        known = ", ".join(registry.names("format"))
        raise UsageError(
            f"{path.path!r} has none of the formats {known}; force one with --format NAME, "
            "or name the columns of a table with --columns"
        )
    return found, registry.load("format", found)


def writable() -> list[str]:
    """Names of the formats that can be written."""
    return [name for name in registry.names("format") if registry.literals("format", name).get("WRITES")]
