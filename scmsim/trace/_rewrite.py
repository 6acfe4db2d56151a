"""Share code among the tools that derive a trace from traces: renumbering of files, provenance and writing."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from scmsim.core.atomic import protected, writable
from scmsim.core.records import Files
from scmsim.trace.reading.report import rough
from scmsim.trace.store import StoredTrace, TraceWriter

CHUNK = 1 << 16


def different(out: "str | os.PathLike[str]", *sources: "str | os.PathLike[str]") -> None:
    """Raise UsageError if the output is one of the inputs."""
    with protected(sources):
        writable(out)


def derived(step: str, traces: Iterable[StoredTrace], **parameters: Any) -> dict[str, Any]:
    """Return the header of a derived trace: the step, its parameters, the inputs' headers, blind spots and notes."""
    headers = [trace.header for trace in traces]
    out: dict[str, Any] = {"tool": f"scmsim trace {step}", "step": {"name": step, **parameters}, "inputs": headers}
    for concern in ("blind_spots", "notes"):
        found = [line for header in headers for line in header.get(concern, [])]
        if found:
            out[concern] = list(dict.fromkeys(found))
    if reason := next(filter(None, map(rough, headers)), ""):
        out["rough"] = reason
    return out


class Renumber:
    """A renumbering of files: it drops those that no kept row refers to, and keeps the order of the remaining files."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.used = np.zeros(len(files), bool)
        self._new = np.zeros(0, np.int64)

    def see(self, rows: np.ndarray) -> None:
        """Note the files of rows that will be kept."""
        for column in ("file", "file2"):
            self.used[rows[column][rows[column] >= 0]] = True

    def table(self, first_size: np.ndarray) -> Files:
        """Return the side table of the noted files; `first_size` has an entry for each row of the old table."""
        self._new = np.cumsum(self.used) - 1
        kept = np.flatnonzero(self.used)
        return Files([self.files.path[i] for i in kept], first_size[kept].astype(np.int64), self.files.is_dir[kept])

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Return a copy of the rows with the new file numbers; call `table` first."""
        rows = rows.copy()
        for column in ("file", "file2"):
            named = rows[column] >= 0
            rows[column][named] = self._new[rows[column][named]]
        return rows


def write(out: "str | os.PathLike[str]", header: dict[str, Any], rows: Iterable[np.ndarray], files: Files) -> int:
    """Write a trace that replaces `out` only when it is complete; return its number of rows."""
    with TraceWriter(out, header) as writer:
        for batch in rows:
            if len(batch):
                writer.append(np.asarray(batch))
        writer.close(files)
    return writer.rows
