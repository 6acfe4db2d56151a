"""Import block traces that are tables with one request per line: each format is a declaration; devices become files."""

import os
import re
from dataclasses import dataclass

import numpy as np

from scmsim.trace.reading.builder import FAR
from scmsim.trace.reading.columns import Column, tables
from scmsim.trace.reading.importing import Import
from scmsim.trace.reading.lines import rows_of
from scmsim.trace.reading.report import Report


@dataclass(frozen=True)
class Blocks:
    """One table format.

    Attributes
    ----------
    name, tool, clock : str
        The format's name, the name of such a file in messages, and a description of its times.
    line : pattern
        Pattern of the first line.
    columns : list of Column
        The columns in use; a line has `width` columns (None: at least these), separated by `delimiter`.
    request : tuple of str
        The columns of time, kind, offset and size.
    device, path : tuple of str, str
        One or two columns that name the device (two are joined by `separator`), and its file's path with `{}` for the name.
    thread : str
        The column that names the requester; "" if the format has no such column.
    tick_ns : int
        Unit of the times, ns, if their origin is so distant that times in ns would overflow 64 bits; 0 if times are in ns.
    """

    name: str
    tool: str
    clock: str
    line: re.Pattern[bytes]
    columns: list[Column]
    width: int | None
    delimiter: str
    request: tuple[str, str, str, str]
    device: tuple[str, ...]
    path: str
    separator: str = ""
    thread: str = ""
    tick_ns: int = 0

    def sniff(self, head: bytes, path: str | os.PathLike[str]) -> bool:
        """Return whether the first row of a file has this format."""
        return b"\0" not in head and self.line.match(rows_of(head, self.delimiter)) is not None

    def convert(self, job: Import) -> Report:
        """Convert a block trace and close the writer (see `scmsim.trace.formats`)."""
        time, kind, offset, size = self.request
        builder = job.builder("block")
        start = None
        for table in tables(builder, self.columns, self.width, self.delimiter, self.tool):
            times = table[time]
            if self.tick_ns:
                start = int(times[0]) if start is None and len(times) else start
                times = np.clip(times - (start or 0), -1, FAR // self.tick_ns + 1) * self.tick_ns
            device = table[self.device[0]]
            for more in self.device[1:]:
                device = device.joined(table[more], self.separator)
            file = device.numbers(lambda name: builder.file(self.path.format(name.strip())))
            threads = [table[self.thread].numbers(builder.thread)] if self.thread else []
            builder.table(times, table[kind], file, table[offset], table[size], *threads)
        return builder.finish(self.name, self.tool, clock=self.clock)
