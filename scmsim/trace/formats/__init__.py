"""Importers: a file each, with SUMMARY, `sniff(head, path)` and `convert(path, writer, *, strict, progress, under)`.

`convert` reads the file in one pass, appends batches to a `TraceWriter`, closes it with the side table and returns a
`Report`; `under` (a directory, or None) limits it to the files there.  Names that begin with `_` are shared parts.
"""

import os
import pathlib
import zlib
from typing import Any

from scmsim import registry
from scmsim.errors import UsageError

HEAD = 1 << 14  # bytes that a sniffer gets to see


def sniff_name(head: bytes, path: str | os.PathLike[str]) -> str | None:
    """Name of the format that recognises the first bytes of a file (gzip undone), or None."""
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD)
        except zlib.error:
            return None
    return next((name for name in registry.names("format") if registry.load("format", name).sniff(head, path)), None)


def find(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, Any]:
    """The importer for a file: the named one, or the one that recognises the content."""
    if name is not None:
        return name, registry.load("format", name)
    if pathlib.Path(path).is_dir():
        raise UsageError(f"{str(path)!r} is a directory; name a trace file in it")
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r} to convert") from None
    if head[:4] == b"PAR1":
        raise UsageError(f"{str(path)!r} is a Parquet file; if it is a trace, there is nothing to convert")
    found = sniff_name(head, path)
    if found is None:
        known = ", ".join(registry.names("format"))
        raise UsageError(f"{str(path)!r} has none of the formats {known}; force one with --format NAME")
    return found, registry.load("format", found)
