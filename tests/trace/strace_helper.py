"""Run the strace importer on text or on a file of tests/data, and show rows as plain tuples."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scmsim.core.records import OPS, joined
from scmsim.trace.formats.tracers import strace
from scmsim.trace.reading.report import Report
from scmsim.trace.store import StoredTrace, TraceWriter, open_trace
from scmsim.trace.summary import all_problems

DATA = Path(__file__).parents[1] / "data" / "strace"
STAMP = "100 1700000000.000000 "
OPEN = 'openat(AT_FDCWD</d>, "f", O_RDWR) = 3</d/f>'
NEW = 'openat(AT_FDCWD</d>, "f", O_RDWR|O_CREAT|O_EXCL, 0644) = 3</d/f>'


class Row(NamedTuple):
    """One row with the names of its operation and file."""

    op: str
    path: str
    offset: int
    length: int
    flag: int


class Case(NamedTuple):
    """A finished conversion."""

    rows: list[Row]
    trace: StoredTrace
    report: Report
    records: np.ndarray


def convert(source: Path, folder: Path, **options: Any) -> Case:
    """Convert a file; checks on the way that the trace has no problems and that its header agrees with the report."""
    out = folder / "out.parquet"
    with TraceWriter(out, {}) as writer:
        report = strace.convert(source, writer, **options)
    trace = open_trace(out)
    assert all_problems(trace) == []
    assert trace.rows == report.rows and trace.header["counts"]["rows"] == report.rows
    assert report.lines == report.calls + sum(report.left_out.values()) + report.bad
    assert report.rows == report.calls + report.extra_rows
    batches = list(trace.batches())
    records = joined(batches) if batches else np.empty(0)
    rows = [
        Row(
            OPS[r["op"]],
            trace.files.path[r["file"]] if r["file"] >= 0 else "",
            *map(int, (r["offset"], r["length"], r["flag"])),
        )
        for r in records
    ]
    return Case(rows, trace, report, records)


def convert_lines(folder: Path, *lines: str, **options: Any) -> Case:
    """Convert lines; a bare call gets the process and the time of a single process."""
    text = folder / "in.strace"
    stamped = (STAMP + line if re.match(r"[a-z_]\w*\(", line) else line for line in lines)
    text.write_text("".join(f"{line}\n" for line in stamped), encoding="latin-1")
    return convert(text, folder, **options)


def first_sizes(case: Case) -> dict[str, int]:
    """First size by path (the last object of a path wins)."""
    return dict(zip(case.trace.files.path, map(int, case.trace.files.first_size), strict=True))


def ops(case: Case) -> list[tuple]:
    """Return operation, offset, length and flag of each row."""
    return [(row.op, row.offset, row.length, row.flag) for row in case.rows]
