"""Import DIO's events as lines of JSON, from its file writer or exported from Elasticsearch (with `_source`).

`{"system_call_name": "read", "return_timestamp": NS, "pid": 7, "return_value": 512, "args": {"file_descriptor": 3,
"bytes_requested": 512}, "file_tag": "...", "fdata": {"file_path": "/a"}}` (github.com/dsrhaslab/dio, dio-tracer/pkg/event).
A file whose path DIO did not find is named after its tag, `/dio/TAG`.
"""

import os
import re
from typing import Any

from scmsim.trace.reading.importing import Import, importer
from scmsim.trace.reading.lines import BadLine, clip, json_object
from scmsim.trace.reading.report import Report
from scmsim.trace.syscalls import as_strace
from scmsim.trace.syscalls.as_strace import NoCall

SUMMARY = "DIO's events as lines of JSON (system_call_name, args, file_tag)"
_TOOL = "events of DIO"
_SNIFF = re.compile(rb'\s*\{[^\n]*"system_call_name"\s*:')


def sniff(head: bytes, path: str | os.PathLike[str]) -> bool:
    """Return whether the first line is an event."""
    return _SNIFF.match(head) is not None


@importer
def convert(job: Import) -> Report:
    """Convert the lines and close the writer (see `scmsim.trace.formats`)."""
    return as_strace.convert(job, "dio", _TOOL, _take)


def _take(line: str) -> str | NoCall:
    if not line.strip():
        return NoCall("blank line")
    event = json_object(line)
    source = event.get("_source", event)
    if not isinstance(source, dict):
        raise BadLine("an export without an event")
    name = source.get("system_call_name")
    if not isinstance(name, str):
        return NoCall("not a system call")
    args = source.get("args")
    given: dict[str, Any] = dict(args) if isinstance(args, dict) else {}
    given["fd"] = given.get("file_descriptor")
    given.setdefault("count", given.get("bytes_requested"))
    path = _path(source)
    if path:
        given["path"] = as_strace.quoted(path)
    if isinstance(given.get("newname"), str):
        given["path2"] = as_strace.quoted(given["newname"])
    ns, result, pid = source.get("return_timestamp"), source.get("return_value"), source.get("pid")
    if type(ns) is not int or type(result) is not int or type(pid) is not int or pid < 0:
        raise BadLine(f"{clip(name)} without return_timestamp, return_value or pid")
    return as_strace.call(pid, ns, name, given, result)


def _path(source: dict[str, Any]) -> str:
    fdata, tag = source.get("fdata"), source.get("file_tag")
    path = fdata.get("file_path") if isinstance(fdata, dict) else source.get("file_path")
    if isinstance(path, str) and path:
        return path
    return "/dio/" + tag.replace("/", "_") if isinstance(tag, str) and tag else ""
