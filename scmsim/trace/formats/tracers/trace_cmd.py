"""Text of `trace-cmd report` or of ftrace's `trace` file with system-call events: the same calls as perf script's, in other words.

    trace-cmd record -e raw_syscalls CMD && trace-cmd report > run.txt

`COMM-TID [CPU] FLAGS SECONDS: sys_enter: NR n (...)` is rewritten to a line of perf script; `perf_script.py` says what
becomes of it.
"""

import os
import re
from functools import partial

from scmsim.trace.formats.tracers import perf_script
from scmsim.trace.formats.tracers.perf_script import PARAMS as PARAMS
from scmsim.trace.formats.tracers.perf_script import Dialect

SUMMARY = "text of trace-cmd report or of ftrace with raw_syscalls or syscalls events (no file names: descriptors only)"
_EVENT = re.compile(
    rb"^[^\n]*?-(\d{1,10})[ \t]+\[\d+\][ \t]+(?:[^\s\d]\S*[ \t]+)?(\d+\.\d+):[ \t]+sys_(enter|exit)(_\w+)?:[ \t]*",
    re.MULTILINE,
)
_DROPPED = re.compile(rb"^[^\n]*\[(\d*) ?EVENTS DROPPED\]", re.MULTILINE)
_TITLE = re.compile(rb"^(?:cpus=|version = |CPU \d+ is empty)", re.MULTILINE)


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Whether one of the first lines is such an event."""
    return b"\0" not in head and _EVENT.search(head) is not None


def _as_perf(block: bytes) -> bytes:
    """The same number of lines, as perf script writes them."""
    block = _EVENT.sub(_perf_event, block)
    block = _DROPPED.sub(lambda m: b"LOST %s events" % (m[1][:15] or b"1"), block)
    return _TITLE.sub(lambda m: b"# " + m[0], block)


def _perf_event(m: re.Match[bytes]) -> bytes:
    kind = b"syscalls" if m[4] else b"raw_syscalls"
    return b"%s [000] %s: %s:sys_%s%s: " % (m[1], m[2], kind, m[3], m[4] or b"")


_TRACE_CMD = Dialect("trace-cmd", "trace-cmd", "text of trace-cmd report with system calls", _as_perf)
convert = partial(perf_script.convert, dialect=_TRACE_CMD)
