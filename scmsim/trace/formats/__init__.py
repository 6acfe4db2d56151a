"""Import traces: each importer is a module in the folder of its subject.

An importer has SUMMARY, `sniff(head, path)` and `convert(path, writer, *, strict, progress, under)`.
`convert` reads a file (a path or an opened `Input`) in one pass, appends batches to a `TraceWriter`, closes the writer
with the side table and returns a `Report`; `under` (a directory, or None) limits the import to files in it.  The
decorator `reading.importing.importer` builds `convert` from a function of one `Import` object.  Further
parameters are in the format's PARAMS, as for a workload: name -> (default, unit, meaning), passed to `convert` by name.
A format that can be written also has `export(trace, path, *, progress, **params)`, which returns a `Report`; only a
complete file replaces the file at `path`, and `progress` is called with (rows done, rows).
Modules whose names begin with `_` are shared parts.
"""

import os
import re
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.trace.reading.input import Input

# files that only other programs read: pattern of the first bytes, kind of file, and advice
_OTHERS = (
    (re.compile(rb"^ *(?:\d+\.\d+|\?) \( *(?:[\d.]+ ms|\.\.\.)? *\): ", re.MULTILINE),
     "text of 'perf trace', which shortens arguments",
     "record with 'perf record -e raw_syscalls:*' and give the text of 'perf script', or use strace"),
    (re.compile(rb"PERFILE2|2ELIFREP"), "a perf.data file", "give the text of 'perf script' on it"),
    (re.compile(rb"\x17\x08\x44tracing"), "a trace.dat file", "give the text of 'trace-cmd report' on it"),
    (re.compile(rb"\x07\x41\x61\x65|\x65\x61\x41\x07"), "binary output of blktrace", "give the text of 'blkparse' on it"),
    (re.compile(rb"\xc1\x1f\xfc\xc1|\xc1\xfc\x1f\xc1"), "a CTF stream of LTTng", "give the text of 'babeltrace2' on its folder"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "text in UTF-16", "convert it to UTF-8 with 'iconv -f UTF-16 -t UTF-8'"),
)  # fmt: skip


def sniff_name(head: bytes, path: str | os.PathLike[str]) -> str | None:
    """Return the name of the format that recognises the first bytes of a file (decompressed), or None."""
    return next((name for name in registry.names("format") if registry.load("format", name).sniff(head, path)), None)


def sniff_file(path: str | os.PathLike[str]) -> str | None:
    """Return the name of the format that recognises a file, or None."""
    try:
        with Input(path) as given:
            return sniff_name(given.head, path)
    except UsageError:
        return None


def find(path: "str | os.PathLike[str] | Input", name: str | None = None) -> tuple[str, Any]:
    """Return name and importer for a file: the named format, or the format that recognises the content."""
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
        for pattern, what, advice in _OTHERS:
            if pattern.match(path.head) or (pattern.flags & re.MULTILINE and pattern.search(path.head)):
                raise UsageError(f"{path.path!r} is {what}; {advice}")
        raise UsageError(
            f"{path.path!r} is in no known format ('scmsim list format' shows them); "
            "force one with --format NAME, or name the columns of a table with --columns"
        )
    return found, registry.load("format", found)


def writable() -> list[str]:
    """Return the names of the formats that can be written."""
    return [name for name in registry.names("format") if registry.literals("format", name).get("WRITES")]
