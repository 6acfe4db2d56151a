"""Import the text of strace, best `strace -f -ttt -T -y -s 0 -o FILE CMD`; `conversion.py` has the rules."""

import os

from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import byte_blocks
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls.births import in_order
from scmsim.trace.syscalls.conversion import Conversion
from scmsim.trace.syscalls.importer import Importer
from scmsim.trace.syscalls.names import Names
from scmsim.trace.syscalls.text import looks_like

SUMMARY = "text of strace, best from 'strace -f -ttt -T -y -s 0 -o FILE CMD' (also .gz, .xz, .zst)"
_FORMAT = "strace output"
_BLOCK = 1 << 22


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first bytes of a file look like strace output."""
    return looks_like(head)


@importer
def convert(job: Import, cwd: str = "") -> Report:
    """Convert strace output and close the writer; `cwd` is the working directory of the first process, if known."""
    conversion = Conversion(job.given.path, job.strict, Importer(Names(job.under), cwd))
    for block in byte_blocks(job.given, _FORMAT, job.progress, _BLOCK):
        conversion.take(in_order(block))
        conversion.imp.drain(job.writer)
    return conversion.finish(job.writer)
