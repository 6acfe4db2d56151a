"""Import the text of `trace-cmd report` or of ftrace's `trace` file with system-call events, by way of perf script's form.

    trace-cmd record -e raw_syscalls CMD && trace-cmd report > run.txt

`COMM-TID [CPU] FLAGS SECONDS: sys_enter: NR n (...)` is rewritten as a line of perf script, which `perf_script.py` imports.
So are the lines of `syscalls` events in ftrace's `trace` file, `sys_write(fd: 3, ...)` and `sys_write -> 0x4`.
"""

import os
import re
from functools import partial

from scmsim.trace.formats.tracers import perf_script
from scmsim.trace.formats.tracers.perf_script import PARAMS as PARAMS
from scmsim.trace.formats.tracers.perf_script import Dialect

SUMMARY = "text of trace-cmd report or of ftrace with raw_syscalls or syscalls events (no file names: descriptors only)"
_WHO = rb"^[^\n]*?-(\d{1,10})[ \t]+(?:\([-\d ]+\)[ \t]+)?\[\d+\][ \t]+(?:[^\s\d]\S*[ \t]+)?(\d+\.\d+):[ \t]+"
_EVENT = re.compile(_WHO + rb"sys_(enter|exit)(_\w+)?:[ \t]*", re.MULTILINE)
_ENTER = re.compile(_WHO + rb"sys_(\w+)\(([^\n]*)\)[ \t]*$", re.MULTILINE)
_EXIT = re.compile(_WHO + rb"sys_(\w+)[ \t]+->[ \t]+(0x[0-9a-f]+)", re.MULTILINE)
_ARGUMENT = re.compile(rb"(\w+): (?:0x)?([0-9a-f]+)(?=,| |$)")
_DROPPED = re.compile(rb"^[^\n]*\[(\d*) ?EVENTS DROPPED\]", re.MULTILINE)
_TITLE = re.compile(rb"^(?:cpus=|version = |CPU \d+ is empty)", re.MULTILINE)


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether one of the first lines is a system-call event of trace-cmd or ftrace."""
    return b"\0" not in head and any(form.search(head) is not None for form in (_EVENT, _ENTER, _EXIT))


def _as_perf(block: bytes) -> bytes:
    """Return the block with its lines rewritten as perf script writes them; no line is added or removed."""
    block = _EVENT.sub(_perf_event, block)
    if b" -> 0x" in block or b"(" in block:
        block = _ENTER.sub(_perf_enter, _EXIT.sub(rb"\1 [000] \2: syscalls:sys_exit_\3: \4", block))
    block = _DROPPED.sub(lambda m: b"LOST %s events" % (m[1][:15] or b"1"), block)
    return _TITLE.sub(lambda m: b"# " + m[0], block)


def _perf_event(m: re.Match[bytes]) -> bytes:
    kind = b"syscalls" if m[4] else b"raw_syscalls"
    return b"%s [000] %s: %s:sys_%s%s: " % (m[1], m[2], kind, m[3], m[4] or b"")


def _perf_enter(m: re.Match[bytes]) -> bytes:
    """Rewrite `sys_write(fd: 3, count: 1000)`, whose numbers are hexadecimal."""
    return b"%s [000] %s: syscalls:sys_enter_%s: %s" % (m[1], m[2], m[3], _ARGUMENT.sub(rb"\1: 0x\2", m[4]))


_TRACE_CMD = Dialect("trace-cmd", "trace-cmd", "text of trace-cmd report with system calls", _as_perf)
convert = partial(perf_script.convert, dialect=_TRACE_CMD)
