"""Import DFTracer's .pfw (also .pfw.gz): POSIX calls of a program, one JSON object per line.

`{"name": "read", "cat": "POSIX", "pid": 7, "tid": 7, "ts": US, "dur": US, "ph": "X", "args": {"fhash": H, "fd": 3, "count":
512, "ret": 512}}`; `{"name": "FH", "args": {"name": PATH, "value": H}}` maps a hash to its path (github.com/llnl/dftracer,
src/dftracer/core/brahma/posix.cpp).  A row has the time of the return, `ts + dur`.  Calls of STDIO and of regions that
the program marks are left out, because the POSIX calls have the bytes.

Files of 2023, when the tool was called DLIO Profiler, have numbers as strings and the path (`fname`) in each call.  If the process
number is 0 (a rank's number), the thread number replaces it.

Some calls have no `ret` in any version.  A call on an open descriptor then counts as successful and makes a row.  A stat of a path
is only counted.  A call that changes names (unlink, mkdir, rename) is counted, and its names become doubtful.
"""

import os
import re
from typing import Any

from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip, json_object
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import as_strace
from scmsim.trace.syscalls.as_strace import NoCall

SUMMARY = "DFTracer's .pfw: POSIX calls as lines of JSON (also .pfw.gz)"
_TOOL = "a trace of DFTracer"
_SNIFF = re.compile(
    rb'(?:\s|\[)*\{(?=[^\n]*"ph"\s*:)'
    rb'(?=[^\n]*(?:"cat"\s*:\s*"(?:POSIX|STDIO|dftracer)"|"cat"[^\n]*"(?:hostname|hhash)"\s*:))',
    re.IGNORECASE,
)
_MOST_PATHS = 1 << 20
_SAME = {"remove": "unlink"}
_LOOKS = frozenset("stat lstat access faccessat stat64 lstat64 __xstat __lxstat __xstat64 __lxstat64".split())
_ON_DESCRIPTORS = frozenset("__fxstat __fxstat64 ftruncate ftruncate64 fsync fdatasync close".split())


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first event is an event of DFTracer."""
    return _SNIFF.match(head) is not None


@importer
def convert(job: Import) -> Report:
    """Convert the lines and close the writer (see `scmsim.trace.formats`)."""
    paths: dict[str, str] = {}
    return as_strace.convert(job, "dftracer", _TOOL, lambda line: _take(line, paths))


def _take(line: str, paths: dict[str, str]) -> str | NoCall:
    text = line.strip().removesuffix(",")
    if text in ("", "[", "]"):
        return NoCall("begin or end of the list")
    event = json_object(text)
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    if event.get("name") == "FH":
        if not isinstance(args.get("name"), str) or len(paths) >= _MOST_PATHS:
            raise BadLine(f"a path's hash without the path, or more than {_MOST_PATHS} hashes")
        paths[str(args.get("value"))] = args["name"]
        return NoCall("hash of a path")
    if event.get("cat") != "POSIX" or event.get("ph") != "X":
        return NoCall("not a POSIX call")
    given = {key: _number(value) for key, value in args.items()}
    name = args.get("fname", paths.get(str(args.get("fhash"))))
    if isinstance(name, str) and name:
        given["path"], given["fd_path"] = as_strace.quoted(name), as_strace.shown(name)
    ts, dur, pid, tid = (_number(event.get(key, 0 if key == "dur" else None)) for key in ("ts", "dur", "pid", "tid"))
    called, result = str(event.get("name")), given.get("ret")
    if not all(type(value) is int for value in (ts, dur, pid, 0 if result is None else result)):
        raise BadLine(f"{clip(called)} without ts or pid, or with a ret that is not a number")
    called = _SAME.get(called, called)
    process, ns = (tid if pid == 0 and type(tid) is int else pid), (ts + dur) * 1000
    if result is None and called in _LOOKS:
        return NoCall(as_strace.NO_RESULT)
    line = as_strace.call(max(process, 0), ns, called, given, result or 0)
    return line if result is not None or called in _ON_DESCRIPTORS else as_strace.without_result(line)


def _number(value: Any) -> Any:
    """Return the number in a text, as some versions write numbers; return any other value unchanged."""
    is_number = isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 20
    return int(value) if is_number else value
