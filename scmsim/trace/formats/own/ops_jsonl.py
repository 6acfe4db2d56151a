"""Read and write operations as lines of JSON: like `ops-csv`, with the trace's header in the first line.

`_operations.py` defines the keys.  The line `{"op": "header", "header": {...}}` has the provenance of the written trace.  An
import stores it as an input in the header of the new trace, and copies its blind spots, notes and lost events.
"""

import json
import os
import re
from typing import Any

from scmsim.trace.formats.own import _operations
from scmsim.trace.reading.builder import BLANK, TraceBuilder
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, Progress, clip, json_object
from scmsim.trace.reading.report import Report

SUMMARY = 'operations as lines of JSON ({"op": "write", "path": "/a", ...}); any trace can be written in this format and read back'
WRITES = True
ENDING = ".jsonl"
PARAMS: dict[str, tuple[str | int, str, str]] = {}
EXPORT_PARAMS: dict[str, tuple[str | int, str, str]] = {}
_TOOL = "operations as lines of JSON"
_HEADER = "header"
_LINE = re.compile(
    rb'\s*\{(?=[^\n]*"op"\s*:\s*"(?:%s)")' % "|".join((_HEADER, _operations.FILE, *_operations.OPS)).encode()
)


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line of a file is an operation, a file or a header."""
    return _LINE.match(head) is not None


@importer
def convert(job: Import) -> Report:
    """Convert lines of JSON and close the writer (see `scmsim.trace.formats`)."""
    return _operations.convert(job, "ops-jsonl", _TOOL, _cells)


def _cells(line: str, builder: TraceBuilder) -> _operations.Cells | str:
    if not line.strip():
        return BLANK
    cells = json_object(line)
    if cells.get("op") == _HEADER:
        return _inherit(cells.get(_HEADER), builder)
    if wrong := sorted(set(cells) - set(_operations.CELLS)):
        raise BadLine(f"unknown key {clip(wrong[0])!r}; known: {', '.join(_operations.CELLS)}")
    return cells


def _inherit(header: Any, builder: TraceBuilder) -> str:
    """Copy the blind spots, notes and lost events of the written trace's header."""
    if not isinstance(header, dict):
        raise BadLine("the header is not a JSON object")
    builder.writer.header["inputs"] = [header]
    for name in ("blind_spots", "notes"):
        texts = header.get(name)
        if isinstance(texts, list):
            getattr(builder.report, name).extend(text for text in texts if isinstance(text, str))
    if isinstance(lost := header.get("lost_events"), int):
        builder.writer.header["lost_events"] = lost
    return "header of the trace"


def export(trace: Any, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Write a trace as lines of JSON: the header, files, rows (see `scmsim.trace.formats`)."""
    begin = _line({"op": _HEADER, _HEADER: trace.header})
    return _operations.export(trace, path, begin, _line, progress)


def _line(cells: _operations.Cells) -> str:
    return json.dumps(cells, ensure_ascii=False, separators=(",", ":")) + "\n"
