"""Import binary logs of Darshan with PyDarshan: the segments of its extended tracing (DXT_POSIX).

A log without extended tracing has only sums by file, not operations: set DXT_ENABLE_IO_TRACE=1 for the traced program.
"""

import os
from typing import Any

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.extras import install
from scmsim.trace.formats.files._dxt import NOTES, OPS, Segments
from scmsim.trace.reading.builder import FAR, TraceBuilder
from scmsim.trace.reading.input import STDIN, Input
from scmsim.trace.reading.lines import Progress
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter

SUMMARY = "binary log of Darshan with extended tracing (needs the package darshan: pip install darshan)"
_TOOL = "a Darshan log with extended tracing"
_MAGIC = (6567223).to_bytes(8, "little"), (6567223).to_bytes(8, "big")  # DARSHAN_MAGIC_NR, after 8 bytes of version


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a binary log."""
    return head[8:16] in _MAGIC


def convert(
    path: str | os.PathLike[str] | Input,
    writer: TraceWriter,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    under: str | None = None,
) -> Report:
    """Convert a log and close the writer (see `scmsim.trace.formats`).

    Raises
    ------
    EnvironmentProblem
        If PyDarshan is not installed.
    """
    with Input.of(path) as given:
        if given.path == STDIN or not sniff(given.head, given.path):
            raise UsageError(f"{given.path!r} is not {_TOOL}; a log must be an uncompressed file on disk")
        log = _open(given.path)
        builder = TraceBuilder(given, writer, strict=strict, under=under)
        segments = Segments(builder)
        for record in log.records["DXT_POSIX"].to_df():
            _add(builder, segments, log.name_records.get(record["id"], f"/file/{record['id']}"), record)
        segments.finish()
        return builder.finish("darshan", _TOOL, clock="seconds since the program's start", notes=NOTES)


def _open(path: str) -> Any:
    try:
        import darshan
    except ImportError as error:
        raise EnvironmentProblem(
            f"{path!r} is a Darshan log, and the package 'darshan' cannot be imported ({error}); "
            f"install it {install('darshan')}, or convert the text of darshan-dxt-parser"
        ) from None
    try:
        log = darshan.DarshanReport(path, read_all=False)
        if "DXT_POSIX" not in log.modules:
            raise UsageError(f"{path!r} has no extended tracing, only sums; set DXT_ENABLE_IO_TRACE=1 and run again")
        log.mod_read_all_dxt_records("DXT_POSIX")
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        raise UsageError(f"{path!r} cannot be read as a Darshan log ({error}); make it again") from None
    return log


def _add(builder: TraceBuilder, segments: Segments, name: str, record: Any) -> None:
    file, thread = builder.file(name), builder.thread(int(record["rank"]))
    for kind, op in OPS.items():
        frame = record[f"{kind}_segments"]
        if not len(frame):
            continue
        columns = (frame[column].tolist() for column in ("offset", "length", "start_time"))
        for offset, length, start in zip(*columns, strict=True):
            if not (0 <= offset < FAR and 0 <= length < FAR and 0 <= start < 1e9):
                builder.report.lines += 1
                builder.bad(f"{kind} of {length} bytes at {offset} at {start} s", builder.report.lines)
                continue
            segments.add(round(start * 1e9), op, file, int(offset), int(length), thread)
