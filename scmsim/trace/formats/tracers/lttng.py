r"""Import babeltrace2's text of an LTTng kernel trace: system calls with their file names.

    lttng create && lttng enable-event -k --syscall --all && lttng add-context -k -t pid -t tid && lttng start; CMD; lttng stop
    babeltrace2 lttng-traces/auto-* > run.txt

`[HH:MM:SS.NS] (+D) HOST syscall_entry_NAME: { cpu_id = 0 }, { pid = 7, tid = 7 }, { fd = 3, count = 512 }`, later
`syscall_exit_NAME` with `ret`.  An entry and the next exit of its thread are one call.  Times of day restart at midnight.
"""

import os
import re
from typing import Any

from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import as_strace
from scmsim.trace.syscalls.as_strace import NoCall

SUMMARY = "text of babeltrace2 of a kernel trace of LTTng with system calls and the contexts pid and tid"
_TOOL = "text of babeltrace2 with LTTng's system calls"
_LINE = re.compile(r"\[(?:\d{4}-\d\d-\d\d )?(\d\d):(\d\d):(\d\d)\.(\d{9})\] \(\+[\d.?]+\) (?:\S+ )?(\w+): ")
_CALL = re.compile(r"syscall_(entry|exit)_(\w+)")
_NUMBER = re.compile(r"\b(\w+) = (?:\(\s*[^()]*container = )?(-?\d{1,18})(?!\d)")
_PATH = re.compile(r'\b(\w+) = ("(?:[^"\\]|\\.)*")')
_SNIFF = re.compile(rb"\[[^\]\n]*\d\d:\d\d:\d\d\.\d{9}\][^\n]* syscall_(?:entry|exit)_\w+: \{")
_DAY_NS = 86_400 * 10**9
_MOST_WAITING = 1 << 16
_ENTRY, _LONE, _EVENT = (
    "entry of a call (its exit makes the row)",
    "exit of a call from before the trace",
    "another event",
)
_PATHS = {
    "filename": "path", "pathname": "path", "oldname": "path", "newname": "path2", "oldpath": "path", "newpath": "path2",
}  # fmt: skip
_NUMBERS = {
    "dfd": "dirfd", "olddfd": "dirfd", "newdfd": "dirfd2", "pos": "offset", "len": "length", "origin": "whence", "flag": "flags",
}  # fmt: skip


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether one of the first lines is a system call of LTTng."""
    return _SNIFF.search(head) is not None


@importer
def convert(job: Import) -> Report:
    """Convert the text and close the writer (see `scmsim.trace.formats`)."""
    return as_strace.convert(job, "lttng", _TOOL, _Text().take)


class _Text:
    """The state of one trace: entries that wait for their exits, and the clock."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[str, dict[str, Any]]] = {}
        self._last = self._days = 0

    def take(self, line: str) -> str | NoCall:
        """Convert an event to a line of strace; return the reason if it makes no line."""
        if not line.strip():
            return NoCall("blank line")
        m = _LINE.match(line)
        if m is None:
            raise BadLine("this is not a line of babeltrace2")
        event = _CALL.fullmatch(m[5])
        if event is None:
            return NoCall(_EVENT)
        numbers = {name: int(value) for name, value in _NUMBER.findall(line, m.end())}
        tid = numbers.get("tid", numbers.get("vtid"))
        if tid is None or tid < 0:
            raise BadLine("a call without its thread; record with 'lttng add-context -k -t pid -t tid'")
        if event[1] == "entry":
            if len(self._waiting) >= _MOST_WAITING and tid not in self._waiting:
                raise BadLine(f"more than {_MOST_WAITING} threads wait in a call")
            self._waiting[tid] = event[2], {**numbers, **dict(_PATH.findall(line, m.end()))}
            return NoCall(_ENTRY)
        name, given = self._waiting.pop(tid, ("", {}))
        if name != event[2]:
            return NoCall(_LONE)
        if "ret" not in numbers:
            raise BadLine(f"exit of {name} without ret")
        args: dict[str, Any] = {}
        for key, value in given.items():
            args.setdefault((_PATHS if isinstance(value, str) else _NUMBERS).get(key, key), value)
        return as_strace.call(given.get("pid", given.get("vpid", tid)), self._time(m), name, args, numbers["ret"])

    def _time(self, m: re.Match[str]) -> int:
        ns = ((int(m[1]) * 60 + int(m[2])) * 60 + int(m[3])) * 10**9 + int(m[4])
        self._days += ns < self._last - _DAY_NS // 2
        self._last = ns
        return ns + self._days * _DAY_NS
