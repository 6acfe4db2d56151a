r"""Import text of drmemtrace's view tool: all loads and stores of a program, joined with a strace of the same run.

    strace -f -y -ttt -s 0 -o run.strace drrun -t drmemtrace -offline -outdir DIR -- CMD
    drrun -t drmemtrace -tool view -indir DIR/drmemtrace.CMD.*.dir 2> run.view

drmemtrace writes a time before and after each call of the program, in microseconds since 1601.  So strace's calls up to
that time precede the following accesses.  Threads that ran at the same time are in the order of their buffers.
Source: clients/drcachesim/tools/view.cpp and view.h of DynamoRIO (2024), and its page "Trace Format".
"""

import os
import re

from scmsim.trace.formats.addresses._accesses import LOADS, STORES
from scmsim.trace.formats.addresses._joined import USER_END, Timed
from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import importer as why

SUMMARY = "text of drmemtrace's view tool (DynamoRIO), with a strace of the same run"
PARAMS = {
    "calls": ("", "file", "text of the strace -f -y -ttt of the same run, which shows the mappings"),
    "smaps": (
        "",
        "file",
        "copy of /proc/PID/smaps of the same run; the header then lists the page sizes of each file's mappings",
    ),
}

FETCH = "instruction fetch"
MARKER = "marker"
CACHE = "prefetch or cache flush"
_TOOL = "text of drmemtrace's view tool"
_EPOCH_US = 11_644_473_600 * 10**6  # us from 1601 to 1970
_MOST_US = 1 << 54  # limit of a time, us
_LARGEST = 1 << 20  # maximum bytes of an access
_PREFIX = r"(?>\s*)\d{1,18}(?>\s+)\d{1,18}:(?>\s+)(?:W\d{1,6}\.T?|T)?(\d{1,10})(?>\s+)"
_SNIFF = re.compile(
    rb"^\s*\d+\s+\d+:\s+(?:W\d+\.T?|T)?\d+\s+(?:<marker: |(?:ifetch|read|write)\s+\d+ byte\(s\) @ 0x)", re.MULTILINE
)
_ACCESS = re.compile(_PREFIX + r"([a-zA-Z][\w-]{1,20})(?>\s+)(\d{1,7}) byte\(s\) @ 0x([0-9a-f]{1,16})(.*)")
_MARKER = re.compile(_PREFIX + r"<(.*)>")
_TIME = re.compile(r"marker: timestamp (\d{1,18})")
_MORE = re.compile(_PREFIX + r"[0-9a-f]{2}(?: [0-9a-f]{2})*\s*")  # bytes of a long instruction
_TITLES = ("Output format:", "<--record#->", "---", "View tool results:")
_KINDS = {"read": LOADS, "write": STORES}


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first lines hold records of the view tool."""
    return b"\0" not in head and _SNIFF.search(head) is not None


@importer
def convert(job: Import, calls: str = "", smaps: str = "") -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`, and PARAMS)."""
    work = _View(job, calls)
    work.read_smaps(smaps)
    work.read()
    return work.finish(["what the kernel loads and stores for the program in mapped files is not seen"])


class _View(Timed):
    """The conversion of one text, line by line."""

    def __init__(self, job: Import, calls: str) -> None:
        how = "record both in one run with 'strace -f -y -ttt -s 0 -o RUN.strace drrun ...' and name it with --set calls=FILE"
        super().__init__(job, "drmemtrace", _TOOL, how, calls)

    def take(self, line: str) -> None:
        """Process one line; raise BadLine if it is not understood."""
        if m := _ACCESS.fullmatch(line):
            self._access(m)
        elif m := _MARKER.fullmatch(line):
            if found := _TIME.fullmatch(m[2]):
                microseconds = int(found[1]) - _EPOCH_US
                if not 0 <= microseconds < _MOST_US:
                    raise BadLine("a time before 1970 or too far in the future")
                self.until(microseconds * 1000)
            self.work.leave_out(MARKER)
        elif not line.strip():
            self.work.leave_out(why.BLANK)
        elif line.startswith(_TITLES) or " : total instructions" in line:
            self.work.leave_out("title")
        elif _MORE.fullmatch(line):
            self.work.leave_out(FETCH)
        else:
            raise BadLine("this is not a record of the view tool")

    def _access(self, m: re.Match[str]) -> None:
        thread, name, length, address = m[1], m[2], int(m[3]), int(m[4], 16)
        if name == "ifetch":
            self.work.leave_out(FETCH)
        elif name not in _KINDS:
            self.work.leave_out(CACHE)
        elif not 0 < length <= _LARGEST or address >= USER_END:
            raise BadLine("an access of 0 bytes, of more than 1 MiB, or beyond the addresses of programs")
        else:
            self.access(self.task(thread), _KINDS[name], address, length)
