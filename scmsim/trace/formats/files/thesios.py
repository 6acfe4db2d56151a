"""Import Google's Thesios traces (2024): requests to files of a storage server with one disk, CSV with a title line.

The columns `filename`, `file_offset`, `op_type` (READ or WRITE), `request_io_size_bytes` and `start_time` (seconds since
1970) make a row; other columns are ignored (github.com/google-research-datasets/thesios).  Names are hashes.  The traces
lack opens, creations, removals, and requests that a flash cache absorbed.
"""

import os

from scmsim.trace.formats.files import csv
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.report import Report

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


@importer
def convert(job: Import) -> Report:
    """Convert a shard and close the writer (see `scmsim.trace.formats`)."""
    columns = ",".join(f"{role}={title}" for role, title in _COLUMNS.items())
    return csv.table(job, columns=columns, form="thesios")
