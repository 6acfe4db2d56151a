"""Import the text of strace, best `strace -f -ttt -T -y -s 0 -o FILE CMD`; `conversion.py` has the rules."""

import os

from scmsim.trace.reading.input import Input
from scmsim.trace.reading.lines import Progress, byte_blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.store import TraceWriter
from scmsim.trace.syscalls.conversion import Conversion
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.text import looks_like

SUMMARY = "text of strace, best from 'strace -f -ttt -T -y -s 0 -o FILE CMD' (also .gz, .xz, .zst)"
_FORMAT = "strace output"
_BLOCK = 1 << 22
_KEEP = 1 << 16  # rows held back, so that an assumed CREATE can still be changed


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first bytes of a file look like strace output."""
    return looks_like(head)


def convert(
    path: str | os.PathLike[str] | Input,
    writer: TraceWriter,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    under: str | None = None,
    cwd: str = "",
) -> Report:
    """Convert strace output and close the writer.

    Parameters
    ----------
    path : path-like or Input
        Text, also compressed; read once, in blocks.
    writer : TraceWriter
        Receives the rows, and in its header the provenance that strace output has.
    strict : bool
        Raise an error at the first line that cannot be understood, instead of counting such lines.
    progress : callable, optional
        Called with (bytes read, bytes in all).
    under : str, optional
        Absolute path: keep only files at or below this directory.
    cwd : str
        Working directory of the first process, if known.
    """
    with Input.of(path) as given:
        conversion = Conversion(given.path, strict, Importer(Names(under), cwd))
        for block in byte_blocks(given, _FORMAT, progress, _BLOCK):
            conversion.take(block)
            rows = conversion.imp.drain(_KEEP)
            if rows is not None:
                writer.append(rows)
        return conversion.finish(writer)
