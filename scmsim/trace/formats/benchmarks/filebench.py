"""Import Filebench's workload files (.f), which are not traces: the workload `filebench` generates the operations."""

import os
import re
from typing import Any

from scmsim.core import registry
from scmsim.core.errors import UsageError
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import STDIN, Input
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "Filebench workload (.f); its operations are generated"
_WML = re.compile(rb"^\s*define\s+(?:fileset|file|process)\s+name\s*=", re.MULTILINE)
_WORKLOAD = "filebench"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the beginning of a file defines a file set or a process in Filebench's language."""
    return b"\0" not in head and _WML.search(head) is not None


@importer
def convert(job: Import) -> Report:
    """Write the operations of a workload file and close the writer (see `scmsim.trace.formats`)."""
    if job.under is not None:
        raise UsageError(f"--under {job.under!r} cannot choose among generated operations; leave it out")
    return _generate(_source(job.given), job.writer, job.progress)


def _source(given: Input) -> Any:
    if _WORKLOAD not in registry.names("workload"):
        raise UsageError(
            f"{given.path!r} is a Filebench workload, not a trace, and this version has no workload {_WORKLOAD!r} "
            f"to generate it (there are: {', '.join(registry.names('workload'))})"
        )
    if given.path == STDIN:
        raise UsageError("a Filebench workload cannot come from standard input; name its file")
    return registry.load("workload", _WORKLOAD).Workload(given.path)


def _generate(source: Any, writer: TraceWriter, progress: Progress | None) -> Report:
    writer.header.update(source.header)
    report = Report()
    for batch in source.batches():
        writer.append(batch)
        report.rows += len(batch)
        if progress is not None:
            progress(report.rows, source.rows)
    report.lines = report.calls = report.rows
    report.files = len(source.files)
    writer.close(source.files)
    return report
