"""Convert io_submit: one row for each read, write and sync that the call starts.

Rules
-----
- A request counts as done, at its full length, when it is submitted; a read of a file of known length ends at the end of
  the file.  io_getevents is ignored, because it shows results without their requests.
  Requests that may have moved fewer bytes (writes, and reads of files of unknown length) are counted, and reported among
  the blind spots.
- All rows of a call except the first carry the flag CONTINUES.
- A request whose offset or length is missing in the text makes no row; io_submit is then reported as a blind spot.
"""

import re
from re import Match

from scmsim.core.records import CONTINUES, DATA_ONLY, FSYNC
from scmsim.trace.syscalls.data import do_read, do_write
from scmsim.trace.syscalls.importer import BOOKKEEPING, NOT_A_FILE, RESULTS, UNKNOWN_FD, Importer
from scmsim.trace.syscalls.state import Task
from scmsim.trace.syscalls.text import FD, REST, RESULT

_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"').sub
# IOCB_CMD_PREAD; pread in strace before 4.15
_REQUEST = re.compile(
    r"\b(?:IOCB_CMD_)?(PREADV?|PWRITEV?|FSYNC|FDSYNC|POLL|NOOP|preadv?|pwritev?|fsync|fdsync|poll|noop)\b"
)
_FD = re.compile(rf"\b(?:aio_)?file?des[=:] *{FD}").search
_LENGTH = re.compile(r"\b(?:aio_)?nbytes[=:] *(\d{1,18})").search
_OFFSET = re.compile(r"\b(?:aio_)?offset[=:] *(\d{1,18})").search
_VECTOR = re.compile(r"\biov_len=(\d{1,18})").findall


def io_submit(imp: Importer, task: Task, m: Match[str]) -> str | None:
    text, count = _STRINGS('""', m[1]), int(m["result"])
    starts = [found.start() for found in _REQUEST.finditer(text)]
    parts = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=False)][:count]
    if len(parts) < count:
        imp.report.blind["io_submit"] += 1
    made = 0
    reason: str | None = BOOKKEEPING
    for part in parts:
        each = _request(imp, task, part, CONTINUES if made else 0)
        made += each is None
        reason = each if made == 0 else None
    imp.report.extra_rows += max(made - 1, 0)
    return reason


def _request(imp: Importer, task: Task, text: str, flag: int) -> str | None:
    """Handle one request; return None if it made a row, else the reason why it made none."""
    kind = text.removeprefix("IOCB_CMD_").partition(",")[0].upper()
    descriptor = _FD(text)
    if kind in ("POLL", "NOOP") or descriptor is None:
        return BOOKKEEPING
    found = imp.describe(task, descriptor[1], descriptor[2])
    if found is None or found.node is None:
        return UNKNOWN_FD if found is None else NOT_A_FILE
    if kind.endswith("SYNC"):
        return imp.emit(task, FSYNC, found.node, -1, 0, flag | (DATA_ONLY if kind == "FDSYNC" else 0))
    length, offset, vector = _LENGTH(text), _OFFSET(text), _VECTOR(text)
    lengths = vector if kind.endswith("V") else length and [length[1]]
    if offset is None or not lengths:
        imp.report.blind["io_submit"] += 1
        return BOOKKEEPING
    at, writes = int(offset[1]), kind.startswith("PWRITE")
    asked = sum(map(int, lengths))
    if asked and (writes or not found.node.exact):
        imp.report.blind[RESULTS] += 1
    if writes:
        return do_write(imp, task, found, at, asked, flag)
    here = max(min(asked, found.node.length - at), 0) if found.node.exact else asked
    return do_read(imp, task, found, at, here, here, flag)


CALLS = {"io_submit": (f"({REST})" + RESULT, io_submit)}
