r"""Read and write tables of operations, which people, spreadsheets and other tools can write too.

The first line has titles: any of `op time_ns thread file path offset length flags file2 path2 buffer`; `op` and `path` (or
`file`) are required.  `_operations.py` defines them.  A line may have fewer cells than titles; lines that are empty or
begin with `#` are left out.  A cell may be in double quotes; in a path, `\n`, `\r` and `\\` mean a line break, a carriage
return and a backslash.
"""

import csv
import io
import os
import re
from typing import Any

from scmsim.core.errors import UsageError
from scmsim.trace.formats.own import _operations
from scmsim.trace.reading.builder import BLANK, TraceBuilder, decoded
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, Progress, clip
from scmsim.trace.reading.report import Report

SUMMARY = "operations as a table: op,path,offset,length and more; any trace can be written in this format and read back"
WRITES = True
ENDING = ".csv"
PARAMS: dict[str, tuple[str | int, str, str]] = {}
EXPORT_PARAMS: dict[str, tuple[str | int, str, str]] = {}
_TOOL = "a table of operations"
_ESCAPED = re.compile(r"\\([\\nr])")
_ESCAPES = {"n": "\n", "r": "\r", "\\": "\\"}
_LOST = "a table of operations has no header, so it lacks the trace's origin and its recorder's losses; ops-jsonl keeps both"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line of a file has the titles of a table of operations."""
    return _is_title(head.split(b"\n", 1)[0].decode("utf-8-sig", "replace"))


def _is_title(line: str) -> bool:
    titles = [title.strip() for title in line.split(",")]
    known = set(titles) <= set(_operations.CELLS) and len(set(titles)) == len(titles)
    return known and "op" in titles and ("path" in titles or "file" in titles)


@importer
def convert(job: Import) -> Report:
    """Convert a table and close the writer (see `scmsim.trace.formats`)."""
    return _operations.convert(job, "ops-csv", _TOOL, _Table().cells)


class _Table:
    """The titles of one table, for the conversion of its lines to cells."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def cells(self, line: str, builder: TraceBuilder) -> _operations.Cells | str:
        """Return the cells of a line, or the reason why the line makes no row."""
        line = decoded(line.removesuffix("\r"))
        if not self.titles:
            line = line.removeprefix("\ufeff")
            if not _is_title(line):
                raise UsageError(
                    f"{builder.given.path!r} is not {_TOOL}: its first line has no titles such as op,path,offset,length"
                )
            self.titles = [title.strip() for title in line.split(",")]
            return "title"
        if not line.strip(" ,"):
            return BLANK
        if line.startswith("#"):
            return "comment"
        try:
            found = next(csv.reader((line,), strict=True))
        except csv.Error as error:
            raise BadLine(f"this is not a line of a table ({error})") from None
        if len(found) > len(self.titles):
            raise BadLine(f"{len(found)} cells under {len(self.titles)} titles: {clip(line)!r}")
        given = ((name, text) for name, text in zip(self.titles, found, strict=False) if text)
        return {name: _unescaped(text) if name.startswith("path") else text.strip() for name, text in given}


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda m: _ESCAPES[m[1]], text) if "\\" in text else text


def export(trace: Any, path: str | os.PathLike[str], *, progress: Progress | None = None) -> Report:
    """Write a trace as a table, files first (see `scmsim.trace.formats`)."""
    titles = [name for name in _operations.CELLS if name != "path2"]
    report = _operations.export(trace, path, ",".join(titles) + "\n", lambda cells: _line(cells, titles), progress)
    report.notes.append(_LOST)
    return report


def _line(cells: _operations.Cells, titles: list[str]) -> str:
    name = cells.get("path", "")
    if name:
        name = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([name if key == "path" else cells.get(key, "") for key in titles])
    return out.getvalue()
