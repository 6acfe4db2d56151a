"""Import Google's Thesios traces (2024): requests to files of a storage server with one disk, CSV with a title line.

The columns `filename`, `file_offset`, `op_type` (READ or WRITE), `request_io_size_bytes` and `start_time` (seconds since
1970) make a row; other columns are ignored (github.com/google-research-datasets/thesios).  Names are hashes.  The traces
lack opens, creations, removals, and requests that a flash cache absorbed.
"""

import os

from scmsim.trace.formats.files import csv
from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "file trace of Google's Thesios (CSV with filename, file_offset, op_type, request_io_size_bytes, start_time)"
_COLUMNS = {
    "time": "start_time",
    "op": "op_type",
    "offset": "file_offset",
    "length": "request_io_size_bytes",
    "file": "filename",
}


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the title line has the columns of Thesios."""
    return any({*_COLUMNS.values(), "service_class"} <= set(titles) for titles in csv.titles_of(head, ","))


def convert(
    path: str | os.PathLike[str] | Input,
    writer: TraceWriter,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    under: str | None = None,
) -> Report:
    """Convert a shard and close the writer (see `scmsim.trace.formats`)."""
    columns = ",".join(f"{role}={title}" for role, title in _COLUMNS.items())
    return csv.convert(path, writer, strict=strict, progress=progress, under=under, columns=columns, form="thesios")
