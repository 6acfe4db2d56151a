"""Import key-value traces of Twitter's caches (2020): CSV without a title line.

The columns are `timestamp,key,key size,value size,client,operation,TTL` (github.com/twitter/cache-trace).
Objects have no offsets: get and gets read the whole value; set, add, replace and cas create or overwrite it; append and
prepend write after its end (a file can grow only there); incr and decr write it; delete removes the object.  The object
of a key is the file `/KEY`; a client is a thread.  A value that is read before it is written existed before the trace; a
value that shrinks when it is overwritten is truncated first.  A delete of an absent object is left out.
"""

import os
import re

from scmsim.core.records import CREATE, READ, TRUNCATE, UNLINK, WRITE
from scmsim.trace.reading.builder import BLANK, EMPTY, MOST_FILES, TraceBuilder, decoded
from scmsim.trace.reading.by_path import Names
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip, is_title, nanoseconds, rows_of, whole
from scmsim.trace.reading.report import Report

SUMMARY = "key-value trace of Twitter's caches (CSV: timestamp,key,key size,value size,client,operation,TTL)"
_TOOL = "a key-value trace of Twitter"
_READS, _SETS, _GROWS, _CHANGES = (
    ("get", "gets"),
    ("set", "add", "replace", "cas"),
    ("append", "prepend"),
    ("incr", "decr"),
)
_LINE = re.compile(rb"\d{1,12},[^\n]+,\d+,\d+,\d+,(?:gets?|set|add|replace|cas|append|prepend|delete|incr|decr),\d+\s")
_DELETED = "delete of an object that does not exist"


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line is a request in this format."""
    return b"\0" not in head and _LINE.match(rows_of(head, ",")) is not None


@importer
def convert(job: Import) -> Report:
    """Convert a trace and close the writer (see `scmsim.trace.formats`)."""
    builder = job.builder("object")
    store = _Store(builder)
    builder.lines(store.take, _TOOL)
    return builder.finish("twitter-cache", _TOOL, clock="seconds")


class _Store:
    """The existing objects and their lengths."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder, self.names = builder, Names(builder)
        self.lengths: dict[str, int] = {}

    def take(self, line: str) -> str | None:
        """Process a request; return why it makes no row, or None."""
        line = line.removesuffix("\r")
        if not line.strip():
            return BLANK
        if not self.builder.report.calls and is_title(line, ","):
            return "title"
        cells = line.rsplit(",", 5)  # a key may have commas
        seconds, comma, key = cells[0].partition(",")
        if len(cells) != 6 or not comma or not key:
            raise BadLine("fewer than 7 columns")
        ns, length, client, op = nanoseconds(seconds, 10**9), whole(cells[2], "value size"), cells[3], cells[4]
        path = "/" + decoded(key).replace("/", "_")
        if "\0" in path or path in ("/.", "/.."):
            raise BadLine(f"no key: {clip(key)!r}")
        if len(self.lengths) >= MOST_FILES and path not in self.lengths:
            raise BadLine(f"more than {MOST_FILES} objects at a time")
        thread = self.builder.thread(client)
        if op == "delete":
            return self._delete(self.builder.at(ns), path, thread)
        if op not in (*_READS, *_SETS, *_GROWS, *_CHANGES):
            raise BadLine(f"unknown operation {clip(op)!r}")
        if not length:
            return EMPTY
        return self._transfer(self.builder.at(ns), op, path, length, thread)

    def _delete(self, now: int, path: str, thread: int) -> str | None:
        if self.lengths.pop(path, None) is None:
            return _DELETED
        return self.names.emit(now, UNLINK, path, thread=thread)

    def _transfer(self, now: int, op: str, path: str, length: int, thread: int) -> str | None:
        there, names = self.lengths.get(path), self.names
        if op in _READS or (there is None and op not in _SETS):
            if there is None:
                names.add(path, length)
                self.lengths[path] = length
            code = READ if op in _READS else WRITE
            return names.emit(now, code, path, offset=0, length=min(length, self.lengths[path]), thread=thread)
        if op in _GROWS:
            self.lengths[path] = (there or 0) + length
            return names.emit(now, WRITE, path, offset=there or 0, length=length, thread=thread)
        if there is None:
            self._also(names.emit(now, CREATE, path, thread=thread))
        elif there > length and op in _SETS:
            self._also(names.emit(now, TRUNCATE, path, offset=0, thread=thread))
        self.lengths[path] = length if op in _SETS else max(there or 0, length)
        return names.emit(now, WRITE, path, offset=0, length=length, thread=thread)

    def _also(self, reason: str | None) -> None:
        """Count an extra row of a request, unless `reason` gives why that row was left out."""
        self.builder.report.extra_rows += reason is None
