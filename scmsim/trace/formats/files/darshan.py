"""Import binary logs of Darshan with PyDarshan: the segments of its extended tracing (DXT_POSIX), or counters of whole files.

Without extended tracing (DXT_ENABLE_IO_TRACE=1 for the traced program), a log has only sums by file, which make a rough
trace (`_rough.py`).
"""

import os
from typing import Any

from scmsim.core.errors import EnvironmentProblem, UsageError
from scmsim.core.extras import install
from scmsim.trace.formats.files._darshan_counters import MODULES, Records
from scmsim.trace.formats.files._darshan_counters import NOTES as ROUGH_NOTES
from scmsim.trace.formats.files._dxt import NOTES, OPS, Segments
from scmsim.trace.reading.builder import FAR, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.input import STDIN
from scmsim.trace.reading.report import Report

SUMMARY = (
    "binary log of Darshan: segments of its extended tracing, else counters of whole files (needs the package darshan)"
)
PARAMS: dict[str, tuple[str | int, str, str]] = {
    "rows": ("auto", "auto|segments|counters", "source of the rows; auto: segments if the log has any, else counters"),
    "stdio_buffer": (0, "bytes", "join calls of the C library into system calls of this size (0: each call is a row)"),
}
_TOOL = "a Darshan log"
_SEGMENTS = "DXT_POSIX"
_CLOCK = "seconds since the program's start"
_MAGIC = (6567223).to_bytes(8, "little"), (6567223).to_bytes(8, "big")  # DARSHAN_MAGIC_NR, after 8 bytes of version


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a binary log."""
    return head[8:16] in _MAGIC


@importer
def convert(job: Import, rows: str = "auto", stdio_buffer: int = 0) -> Report:
    """Convert a log and close the writer (see `scmsim.trace.formats`, and PARAMS).

    Raises EnvironmentProblem if PyDarshan is not installed.
    """
    if job.given.path == STDIN or not sniff(job.given.head, job.given.path):
        raise UsageError(f"{job.given.path!r} is not {_TOOL}; a log must be an uncompressed file on disk")
    builder = job.builder()
    try:
        log = _open(job.given.path)
        if rows == "segments" or (rows == "auto" and _SEGMENTS in log.modules):
            return _segments(builder, log)
        return _counters(builder, log, stdio_buffer)
    except (RuntimeError, ValueError, KeyError, OSError) as error:
        raise UsageError(
            f"{job.given.path!r} cannot be read as a Darshan log ({error}); record the log again"
        ) from None


def _open(path: str) -> Any:
    try:
        import darshan
    except ImportError as error:
        raise EnvironmentProblem(
            f"{path!r} is a Darshan log, and the package 'darshan' cannot be imported ({error}); "
            f"install it {install('darshan')}, or convert the text of darshan-parser or darshan-dxt-parser"
        ) from None
    return darshan.DarshanReport(path, read_all=False)


def _segments(builder: TraceBuilder, log: Any) -> Report:
    if _SEGMENTS not in log.modules:
        raise UsageError(
            f"{builder.given.path!r} has no extended tracing, only sums; set DXT_ENABLE_IO_TRACE=1 and run the "
            "program again, or leave out --set rows=segments"
        )
    log.mod_read_all_dxt_records(_SEGMENTS)
    segments = Segments(builder)
    for record in log.records[_SEGMENTS].to_df():
        _add(builder, segments, _name(log, record["id"]), record)
    segments.finish()
    return builder.finish("darshan", _TOOL, clock=_CLOCK, notes=NOTES)


def _counters(builder: TraceBuilder, log: Any, stdio_buffer: int) -> Report:
    records = Records(builder, stdio_buffer)
    for module in MODULES:
        if module in log.modules:
            log.mod_read_all_records(module)
            tables = log.records[module].to_df()
            for whole, timed in zip(
                *(tables[name].to_dict("records") for name in ("counters", "fcounters")), strict=True
            ):
                values = {str(name).removeprefix(MODULES[module]): value for name, value in {**timed, **whole}.items()}
                records.add(module, str(whole["id"]), _name(log, whole["id"]), int(whole["rank"]), values)
            if log.modules[module].get("partial_flag"):
                builder.report.blind_spots.append(f"files beyond the memory of Darshan's module {module}")
    records.finish()
    return builder.finish("darshan", _TOOL, clock=_CLOCK, notes=ROUGH_NOTES, nprocs=log.metadata["job"]["nprocs"])


def _name(log: Any, ident: Any) -> str:
    return str(log.name_records.get(ident, f"/file/{ident}"))


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
