"""Convert a sample by any importer and show rows as plain tuples; checks the account and the trace on the way."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scmsim.core import registry
from scmsim.core.records import OPS, joined
from scmsim.trace.formats import find
from scmsim.trace.reading.report import Report
from scmsim.trace.store import StoredTrace, TraceWriter, open_trace
from scmsim.trace.summary import all_problems

DATA = Path(__file__).parents[1] / "data" / "formats"
Row = tuple[str, str, int, int]


class Case(NamedTuple):
    """A finished conversion; a row is (operation, path, offset, length)."""

    rows: list[Row]
    records: np.ndarray
    trace: StoredTrace
    report: Report

    def sizes(self) -> dict[str, int]:
        """Size of each file at the end."""
        out = dict(zip(self.trace.files.path, self.trace.files.first_size.clip(0).tolist(), strict=True))
        for op, path, offset, length in self.rows:
            if op == "write" or op == "fallocate":
                out[path] = max(out[path], offset + length)
            elif op in ("create", "truncate"):
                out[path] = max(offset, 0)
        return out


def convert(source: Path | str, folder: Path, name: str | None = None, **options: Any) -> Case:
    """Convert a file (a name: of tests/data/formats) with the importer that recognises it, or the one named."""
    source = DATA / source if isinstance(source, str) else source
    importer = find(source)[1] if name is None else registry.load("format", name)
    out = folder / "out.parquet"
    with TraceWriter(out, {}) as writer:
        report = importer.convert(source, writer, **options)
    trace = open_trace(out)
    assert all_problems(trace) == []
    assert trace.rows == report.rows == report.calls + report.extra_rows
    assert report.lines == report.calls + sum(report.left_out.values()) + report.bad
    assert trace.header["counts"]["rows"] == report.rows and trace.header["granularity"]
    batches = list(trace.batches())
    records = joined(batches) if batches else np.empty(0)
    rows = [
        (OPS[r["op"]], trace.files.path[r["file"]] if r["file"] >= 0 else "", int(r["offset"]), int(r["length"]))
        for r in records
    ]
    return Case(rows, records, trace, report)


def convert_text(folder: Path, text: str | bytes, name: str | None = None, **options: Any) -> Case:
    """The same for text."""
    (folder / "in").write_bytes(text if isinstance(text, bytes) else text.encode())
    return convert(folder / "in", folder, name, **options)
